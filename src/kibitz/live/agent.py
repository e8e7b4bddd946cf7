"""An agent: it is asked which arm to pull, is told what that paid, and loses nothing.

Every operation is one transaction on the agent's store, answered when it is committed: it appends to
the log of events and brings what follows from it up to date (`kibitz.live.projection`). An agent
keeps nothing else, so that any number of threads, processes and, on PostgreSQL, machines may use the
same one at a time, be killed, and start again.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from kibitz._validation import finite, refused, text, whole
from kibitz.live import delay, making, recipe
from kibitz.live.projection import Arm, Event
from kibitz.live.reading import PAGE, read_arms, read_events
from kibitz.live.store import Database, Store, connect
from kibitz.live.turn import Decision, Turn
from kibitz.model.problem import LARGEST
from kibitz.policies.policy import Policy

if TYPE_CHECKING:
    import xarray


def agent(
    url: str | os.PathLike[str],
    name: str,
    *,
    arms: Sequence[str] | None = None,
    policy: Policy | None = None,
    scale: float = 1.0,
    seed: int | None = None,
    patience: float | None = None,
    silence: str | float = "forget",
) -> "Agent":
    """Open an agent, or make it if there is none of this name and `arms` are given.

    Parameters
    ----------
    url
        Where it is kept: the path of a SQLite file, `sqlite:///...` or `postgresql://...`.
    name
        Its name there.
    arms
        The names of at least two arms. Without them the agent must exist; with them, it must be the
        same if it does.
    policy
        Who decides: a policy of kibitz, or one that `index_policy` makes of a function at the top
        level of a module or a file.
    scale
        The sub-Gaussian scale of the rewards, for one in [0, 1] at most 1/2. The policy sees rewards
        in units of it.
    seed
        Of the draws of randomised policies, with the decision's id; made up unless given.
    patience
        After how many seconds a decision that was not told is no longer waited for; for ever unless
        given. A late report still counts.
    silence
        What it then means: "forget", or a reward, such as 0 for no click.
    """
    given = making.checked(name, arms, policy, scale, seed, patience, silence)
    store = connect(url, create=arms is not None)
    try:
        if arms is not None:
            store.write(lambda database: making.make(database, given))
        setting = store.read(lambda database: making.setting(database, given["name"]))
        making.compare(setting, given, named=arms is not None)
        return Agent(store, given["name"], setting)
    except BaseException:
        store.close()
        raise


def names(store: Store) -> list[str]:
    """Return the names of the agents of a store."""
    found = store.read(lambda database: database.rows("select name from agents order by name"))
    return [name for (name,) in found]


class Agent:
    """A named decision maker; made or opened by `kibitz.agent`."""

    def __init__(self, store: Store, name: str, setting: dict[str, Any]) -> None:
        self.store = store
        self.name = name
        self.setting = setting
        self.policy = recipe.made(setting["policy"])
        self.params = self.policy.params
        self.scale: float = setting["scale"]
        self.unit = self.policy.scale_for(self.scale)  # in which the policy sees rewards
        self.patience: float | None = setting["patience"]
        self.silence: str | float = setting["silence"]
        self.now: Callable[[], float] = time.time
        self.in_turn = delay.in_turn(self.policy, self.params)
        self.keeps_state = self.in_turn or self.policy.hold is not None
        self._known: tuple[int, list[Arm]] | None = None  # the arms after so many events

    def __repr__(self) -> str:
        return f"agent({self.store.url!r}, {self.name!r})"

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; nothing is lost without it."""
        self.store.close()

    # ------------------------------------------------------------------------------- deciding

    @overload
    def ask(self, key: str | None = None, among: Sequence[str] | None = None) -> Decision: ...

    @overload
    def ask(
        self, key: Sequence[str] | None = None, among: Sequence[str] | None = None, *, n: int
    ) -> list[Decision]: ...

    def ask(self, key: Any = None, among: Sequence[str] | None = None, n: int | None = None) -> Any:
        """Return the `Decision` which arm to pull; a list of `n` of them if that is given.

        Parameters
        ----------
        key
            The same key gets the same decision, however often it asks. With `n`, a list of keys.
        among
            The names of some active arms, to choose among these.
        n
            How many decisions to make, in one transaction.
        """
        return self.together([("ask", (key, among, n))])[0]

    def look(self, key: str | None = None) -> Decision:
        """Return the `Decision` where the next free look should go."""
        found: Decision = self.together([("look", (key,))])[0]
        return found

    @overload
    def tell(self, id: int, reward: float) -> str: ...

    @overload
    def tell(self, id: Sequence[tuple[int, float]]) -> list[str]: ...

    def tell(self, id: Any, reward: Any = None) -> Any:
        """Report what came of a decision; return "counted", or "again" for a repetition.

        Another reward than before is a `Conflict`, an unknown decision a KeyError. Many are told at
        once, all or none, as a list of (id, reward).
        """
        if isinstance(id, list | tuple) and reward is None:
            return self.together([("tell", _pair(pair)) for pair in id])
        return self.together([("tell", (id, reward))])[0]

    def saw(self, arm: str, reward: float, key: str | None = None) -> str:
        """Report an observation that nobody asked for; return "counted" or "again", by the key."""
        return str(self.together([("saw", (arm, reward, key))])[0])

    def forget(self, id: int) -> str:
        """Give up on a decision; return "forgotten" or "again". A late report still counts."""
        return str(self.together([("forget", (id,))])[0])

    def correct(self, id: int, reward: float) -> str:
        """Change the reward of a decision that was told; return "corrected" or "again"."""
        return str(self.together([("correct", (id, reward))])[0])

    def together(
        self, operations: Sequence[tuple[str, tuple[Any, ...]]], *, each: bool = False
    ) -> list[Any]:
        """Do several operations in one transaction: ask, look, tell, saw, forget, correct.

        All are done or, if one is refused, none. With `each`, a refusal takes the place of its
        answer (a ValueError or KeyError), and the others are done.
        """
        checked = [self._checked(name, values, each) for name, values in operations]

        def work(database: Database) -> tuple[list[Any], Turn]:
            turn = Turn(self, database)
            if any(name in {"ask", "look"} for name, _ in operations):
                turn.expire()
            if len(checked) > 1:
                turn.decisions.read_ahead(checked)
            answers: list[Any] = []
            for operation in checked:
                before = turn.n_events
                try:
                    if isinstance(operation, Exception):
                        raise operation
                    name, values = operation
                    answers.append(getattr(turn, name)(*values))
                except (ValueError, KeyError) as error:
                    if not each or turn.n_events > before:  # nothing is done by half
                        raise
                    answers.append(error)
            turn.finish()
            return answers, turn

        answers, turn = self.store.write(work)
        if turn.arms_read is not None:
            self._known = (turn.n_events, turn.arms_read)
        return answers

    def _checked(self, name: str, values: tuple[Any, ...], each: bool) -> Any:
        """Return an operation with its values made sure of; with `each`, or what is wrong."""
        try:
            return name, getattr(self, f"_{name}_values")(*values)
        except (ValueError, KeyError) as error:
            if not each:
                raise
            return error

    def _ask_values(self, key: Any, among: Any, n: Any) -> tuple[Any, ...]:
        if among is not None:
            if isinstance(among, str) or not isinstance(among, Sequence) or not among:
                raise refused("among", "a list of names of arms", among)
            among = [text(name, "among") for name in among]
            if self.in_turn:
                raise ValueError(f"among must be left out for {self.policy.name}, got {among!r}")
        if n is None:
            return ([None if key is None else text(key, "key")], among, False)
        n = whole(n, "n", 1, 100_000)
        if self.in_turn and n > 1:
            raise refused("n", f"1 for {self.policy.name}, which plays strictly in turn", n)
        if key is None:
            return ([None] * n, among, True)
        if isinstance(key, str) or not isinstance(key, Sequence) or len(key) != n:
            raise refused("key", f"a list of {n} keys", key)
        return ([text(one, "key") for one in key], among, True)

    def _look_values(self, key: Any) -> tuple[Any, ...]:
        return (None if key is None else text(key, "key"),)

    def _tell_values(self, id: Any, reward: Any) -> tuple[Any, ...]:
        return whole(id, "id", 1), self._reward(reward)

    def _saw_values(self, arm: Any, reward: Any, key: Any) -> tuple[Any, ...]:
        return text(arm, "arm"), self._reward(reward), *self._look_values(key)

    def _forget_values(self, id: Any) -> tuple[Any, ...]:
        return (whole(id, "id", 1),)

    _correct_values = _tell_values

    def _reward(self, reward: Any) -> float:
        value = finite(reward, "reward")
        if self.policy.unit_rewards and not 0 <= value <= 1:
            raise refused("reward", f"in [0, 1] for {self.policy.name}", reward)
        if abs(value) > LARGEST:
            raise refused("reward", f"between -{LARGEST:g} and {LARGEST:g}", reward)
        return value

    # ----------------------------------------------------------------------------------- arms

    def add(self, arm: str) -> None:
        """Add an arm."""
        self._change("added", arm)

    def pause(self, arm: str) -> None:
        """Pull an arm no more, until it is resumed."""
        self._change("paused", arm)

    def resume(self, arm: str) -> None:
        """Pull a paused arm again."""
        self._change("resumed", arm)

    def retire(self, arm: str) -> None:
        """Pull an arm no more, for ever; reports on it still count."""
        self._change("retired", arm)

    def _change(self, kind: str, arm: str) -> None:
        name = text(arm, "arm")
        if self.in_turn:
            raise ValueError(f"arms must stay the same for {self.policy.name}, got {kind} {name!r}")

        def work(database: Database) -> None:
            turn = Turn(self, database)
            turn.change(kind, name)
            turn.finish()

        self.store.write(work)

    def arms(self) -> list[Arm]:
        """Return what is known of each arm, in the order in which they were added."""
        return self.store.read(lambda database: read_arms(database, self._number(database)))

    # --------------------------------------------------------------------------------- seeing

    def report(self, delta: float = 0.05) -> "xarray.Dataset":
        """Return what a person wants to see of each arm; see `kibitz.live.report`."""
        from kibitz.live.report import report

        return report(self, delta)

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the log, from the event that follows number `after` on."""
        seq = whole(after, "after")
        while True:
            page = self.store.read(
                lambda database, seq=seq: read_events(database, self._number(database), seq)  # type: ignore[misc]
            )
            yield from page
            if len(page) < PAGE:
                return
            seq = page[-1].seq

    def export(self, file: str | os.PathLike[str]) -> None:
        """Write the log to a file: .csv, .jsonl (JSON lines) or .nc (netCDF)."""
        from kibitz.live.export import export

        export(self.events(), file)

    def check(self) -> list[str]:
        """Make everything anew from the log; return, in sentences, what the store has otherwise."""
        from kibitz.live.check import check

        return check(self)

    def _number(self, database: Database) -> int:
        found = database.rows("select agent from agents where name = ?", self.name)
        if not found:
            raise ValueError(f"agent must be one of the store's, got {self.name!r}")
        return int(found[0][0])


def _pair(pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise refused("reports", "a list of (id, reward)", pair)
    return pair[0], pair[1]
