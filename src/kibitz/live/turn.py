"""One transaction of an agent: what it reads, what it decides, and what it writes at its end."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.random import SFC64, Generator, SeedSequence

from kibitz._errors import Conflict
from kibitz._validation import quoted
from kibitz.live import delay, phases
from kibitz.live.decisions import Decisions
from kibitz.live.projection import Arm, Decided, Event, projected, settle
from kibitz.live.reading import read_arms, read_events
from kibitz.live.store import Database

if TYPE_CHECKING:
    from kibitz.live.agent import Agent

SET_ARM = ", ".join(f"{name} = ?" for name in Arm.__slots__)
arm_values = attrgetter(*Arm.__slots__)


class Decision(NamedTuple):
    """What an agent decides.

    Attributes
    ----------
    id
        1, 2, 3, ... for each agent.
    kind
        "pull" or "look".
    arm
        The name of the arm.
    key
        As it was asked with, or None.
    asked_at
        When, in seconds since 1970.
    """

    id: int
    kind: str
    arm: str
    key: str | None
    asked_at: float


class Turn:
    """One transaction of an agent: what was read, and what is to be written at its end."""

    def __init__(self, agent: "Agent", database: Database) -> None:
        self.agent = agent
        self.database = database
        found = database.rows(
            "select agent, n_events, n_decisions, n_asks, latest, state from agents where name = ?"
            + database.locking,
            agent.name,
        )
        if not found:
            raise ValueError(f"agent must be one of the store's, got {agent.name!r}")
        number, n_events, n_decisions, n_asks, latest, state = found[0]
        self.number: int = number
        self.n_events: int = n_events
        self.began_with: int = n_events
        self.decisions = Decisions(database, number, n_decisions)
        self.n_asks: int = n_asks
        self.latest: float = latest
        self.state: str | None = state
        self.at = max(self.latest, agent.now())
        self.arms_read: list[Arm] | None = None
        known, agent._known = agent._known, None
        if known is not None and known[0] == self.n_events:
            self.arms_read = known[1]
        self.touched: set[int] = set()
        self.new_events: list[tuple[Any, ...]] = []

    @property
    def arms(self) -> list[Arm]:
        """What is known of the arms."""
        if self.arms_read is None:
            self.arms_read = read_arms(self.database, self.number)
        return self.arms_read

    # ------------------------------------------------------------------------------ operations

    def ask(self, keys: list[str | None], among: list[str] | None, many: bool) -> Any:
        """Decide which arms to pull."""
        places = self.candidates(among)
        if len({*keys}) < len(keys) and any(keys):
            raise ValueError("key must be a list of different keys, got one twice")
        known = [self.by_key("pull", key) for key in keys]
        decisions = [
            before or self.decide("pull", places, key)
            for key, before in zip(keys, known, strict=True)
        ]
        return decisions if many else decisions[0]

    def look(self, key: str | None) -> Decision:
        """Decide where to look."""
        places = self.candidates(None)
        return self.by_key("look", key) or self.decide("look", places, key)

    def tell(self, id: int, reward: float) -> str:
        """Count a report once."""
        decided = self.decided(id)
        if decided.status == "told":
            if reward in (decided.reward, decided.told):
                return "again"
            raise Conflict(
                f"reward of decision {id} must be {decided.reward!r} as before, got {reward!r}"
            )
        self.settle(id, decided, "told", reward)
        return "counted"

    def saw(self, name: str, reward: float, key: str | None) -> str:
        """Count an observation that nobody asked for."""
        place = self.place(name)
        if self.arms[place].status == "retired":
            raise ValueError(f"arm must not be retired, got {name!r}")
        if key is not None:
            found = self.decisions.with_key(key)
            if found is not None:
                decided = found[1]
                self.same_kind("saw", decided, key)
                if decided.arm == place and reward in (decided.reward, decided.told):
                    return "again"
                raise Conflict(
                    f"key must be new, got {key!r}, which has seen {decided.reward!r} of "
                    f"{self.arms[decided.arm].name!r}"
                )
        decided = Decided("saw", place, key, self.at, max(1, self.n_asks))
        id = self.decisions.make(decided)
        self.arms[place].decided("saw")
        self.note("saw", id, place, reward, key)
        settle(self.arms[place], decided, "told", reward)
        self.touched.add(place)
        self.learn(decided, reward)
        return "counted"

    def forget(self, id: int) -> str:
        """Give up on a decision."""
        decided = self.decided(id)
        if decided.status == "forgotten":
            return "again"
        if decided.status != "pending":
            raise Conflict(f"decision {id} must be pending to be forgotten, got {decided.status}")
        self.settle(id, decided, "forgotten", None)
        return "forgotten"

    def correct(self, id: int, reward: float) -> str:
        """Change a report."""
        decided = self.decided(id)
        if decided.reward is None:
            raise ValueError(f"decision {id} must be told before it is corrected")
        if reward == decided.reward and decided.status == "told":
            return "again"
        self.settle(id, decided, "corrected", reward)
        return "corrected"

    def change(self, kind: str, name: str) -> None:
        """Add, pause, resume or retire an arm."""
        if kind == "added":
            if any(arm.name == name for arm in self.arms):
                raise ValueError(f"arm must be new, got {name!r}")
            self.arms.append(Arm(name))
            self.database.rows(
                "insert into arms (agent, arm, name, status) values (?, ?, ?, 'active')",
                self.number,
                len(self.arms) - 1,
                name,
            )
            self.note(kind, None, len(self.arms) - 1, None, None)
            if self.state is not None:
                self.relearn()
            return
        place = self.place(name)
        arm = self.arms[place]
        status = {"paused": "paused", "resumed": "active", "retired": "retired"}[kind]
        if arm.status == status:
            return
        if arm.status == "retired":
            raise ValueError(f"arm must not be retired to be {kind}, got {name!r}")
        arm.status = status
        self.touched.add(place)
        self.note(kind, None, place, None, None)

    # ------------------------------------------------------------------------- what they share

    def place(self, name: str) -> int:
        """Return the place of an arm by its name."""
        for place, arm in enumerate(self.arms):
            if arm.name == name:
                return place
        known = ", ".join(quoted(arm.name) for arm in self.arms)
        raise ValueError(f"arm must be one of {known}, got {name!r}")

    def candidates(self, among: list[str] | None) -> list[int]:
        """Return the places of the arms to choose from."""
        places = [place for place, arm in enumerate(self.arms) if arm.status == "active"]
        if among is not None:
            asked = {self.place(name) for name in among}
            if not asked <= set(places):
                name = next(self.arms[p].name for p in sorted(asked) if p not in places)
                raise ValueError(f"among must be active arms, got {name!r}")
            places = sorted(asked)
        if not places:
            raise ValueError("arms must have an active one among them, got none")
        return places

    def decide(self, kind: str, places: list[int], key: str | None) -> Decision:
        """Make a decision, and note it."""
        agent = self.agent
        stage = self.n_asks + 1 if kind == "pull" else max(1, self.n_asks)
        id = self.decisions.count + 1
        place = self.chosen(kind, places, stage, _draws(agent, id))
        self.n_asks += kind == "pull"
        self.decisions.make(Decided(kind, place, key, self.at, stage))
        self.arms[place].decided(kind)
        self.touched.add(place)
        self.note(kind, id, place, None, key)
        return Decision(id, kind, self.arms[place].name, key, self.at)

    def chosen(self, kind: str, places: list[int], stage: int, rng: Any) -> int:
        """Return the arm that the policy chooses."""
        agent, policy = self.agent, self.agent.policy
        params = agent.params
        if agent.in_turn:
            self.wait_for_turn(kind)
            choose = policy.pull if kind == "pull" else policy.observe
            return int(choose(params, self.policy_state(), stage, rng))
        arms = [self.arms[place] for place in places]
        if kind == "pull":
            return places[delay.pull(policy, params, arms, stage, agent.unit, rng)]
        own = self.own_pull()
        own_place = places.index(own) if own in places else None
        whole = agent.keeps_state and len(places) == len(self.arms)
        memory = self.policy_state() if whole else None
        return places[delay.look(policy, params, arms, stage, agent.unit, rng, own_place, memory)]

    def own_pull(self) -> int | None:
        """Return the arm of the present stage's pull, if it is pending."""
        if not any(arm.n_pending for arm in self.arms):
            return None
        for decided in reversed(self.decisions.made()):
            if decided.kind == "pull":
                return decided.arm if decided.status == "pending" else None
        self.decisions.write()
        found = self.database.rows(
            "select arm, stage from decisions where agent = ? and status = 'pending' "
            "and kind = 'pull' order by id desc limit 1",
            self.number,
        )
        return found[0][0] if found and found[0][1] == self.n_asks else None

    def wait_for_turn(self, kind: str) -> None:
        """Refuse a question while the last one is not answered."""
        count = sum(arm.n_pending if kind == "pull" else arm.looks_pending for arm in self.arms)
        if count:
            what = "ask" if kind == "pull" else "look"
            raise ValueError(
                f"each {what} must be told or forgotten before the next, since "
                f"{self.agent.policy.name} plays strictly in turn, got {count} pending"
            )

    def by_key(self, kind: str, key: str | None) -> Decision | None:
        """Return the decision that this key got before."""
        found = None if key is None else self.decisions.with_key(key)
        if found is None:
            return None
        id, decided = found
        self.same_kind(kind, decided, key)
        return Decision(id, kind, self.arms[decided.arm].name, key, decided.asked_at)

    def same_kind(self, kind: str, decided: Decided, key: str | None) -> None:
        """Refuse a key that another kind of operation has used."""
        if decided.kind != kind:
            raise Conflict(f"key must be new for a {kind}, got {key!r}, which is of a {decided.kind}")

    def decided(self, id: int) -> Decided:
        """Return what became of a decision."""
        found = self.decisions.get(id)
        if found is None:
            raise KeyError(f"id must be that of a decision of {self.agent.name!r}, got {id}")
        return found

    def settle(self, id: int, decided: Decided, kind: str, reward: float | None) -> None:
        """Let a report, a correction or the end of waiting have its effect, and note it."""
        fresh = decided.reward is None
        settle(self.arms[decided.arm], decided, kind, reward)
        self.touched.add(decided.arm)
        self.note(kind, id, decided.arm, reward, None)
        self.decisions.changed(id)
        if fresh and reward is not None:
            self.learn(decided, reward)
        elif reward is not None and self.agent.keeps_state:
            self.relearn()

    def expire(self) -> None:
        """Wait no longer for decisions whose time is over."""
        patience = self.agent.patience
        if patience is None:
            return
        silence = self.agent.silence
        for id, decided in self.decisions.overdue(self.at - patience):
            if silence == "forget":
                self.settle(id, decided, "forgotten", None)
            else:
                self.settle(id, decided, "silent", float(silence))

    # ------------------------------------------------- the state of a policy that keeps one

    def policy_state(self) -> Any:
        """Return the state of the policy as it is kept."""
        empty = self.agent.policy.init(self.agent.params, len(self.arms))
        return empty if self.state is None else phases.from_json(self.state, empty)

    def learn(self, decided: Decided, reward: float) -> None:
        """Tell a policy that keeps a state; for all others it follows from the counts."""
        if self.agent.keeps_state:
            state = phases.told(self.agent, self.policy_state(), decided, reward)
            self.state = phases.as_json(state)

    def relearn(self) -> None:
        """Tell it all anew, because a reward has changed or an arm is new."""
        self.write_new()
        log: list[Event] = []
        while page := read_events(self.database, self.number, len(log)):
            log += page
        self.state = phases.as_json(phases.replayed(self.agent, projected(log)))

    # --------------------------------------------------------------------------------- writing

    def note(
        self, kind: str, id: int | None, place: int | None, reward: float | None, key: str | None
    ) -> None:
        """Append to the log."""
        self.n_events += 1
        self.new_events.append((self.number, self.n_events, self.at, kind, id, place, reward, key))

    def write_new(self) -> None:
        """Write the decisions and the new events."""
        self.decisions.write()
        self.database.many(
            "insert into events (agent, seq, at, kind, id, arm, reward, key) "
            "values (?, ?, ?, ?, ?, ?, ?, ?)",
            self.new_events,
        )
        self.new_events = []

    def finish(self) -> None:
        """Write what has changed."""
        if self.n_events == self.began_with:
            return
        self.latest = self.at
        self.write_new()
        self.database.many(
            f"update arms set {SET_ARM} where agent = ? and arm = ?",
            [(*arm_values(self.arms[place]), self.number, place) for place in sorted(self.touched)],
        )
        counts = (self.n_events, self.decisions.count, self.n_asks, self.latest, self.state)
        self.database.many(
            "update agents set n_events = ?, n_decisions = ?, n_asks = ?, latest = ?, state = ? "
            "where agent = ?",
            [(*counts, self.number)],
        )


def _draws(agent: "Agent", id: int) -> Any:
    """Return the generator of a decision; index policies need none."""
    if agent.policy.index is not None:
        return None
    return Generator(SFC64(SeedSequence(agent.setting["seed"], spawn_key=(id,))))
