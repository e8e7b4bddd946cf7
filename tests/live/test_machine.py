"""Compare an agent with a model in memory over random histories, including crashes."""

import tempfile

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import kibitz

pytestmark = pytest.mark.slow

REWARDS = st.sampled_from([0.0, 0.25, 1.0])
KEYS = st.one_of(st.none(), st.sampled_from(["k1", "k2", "k3"]))
PATIENCE = 100.0


class Model:
    """A simple model of an agent, without a database."""

    def __init__(self, arms, silence):
        self.status = dict.fromkeys(arms, "active")
        self.silence = silence
        self.decisions = {}  # id: [kind, arm, key, asked_at, status, reward, told]
        self.settled = {}  # id: the reward in the settled counts, or None
        self.removed = set()  # ids of decisions that a compaction removed
        self.late = []  # ids of decisions that were told after they had settled

    def by_key(self, key):
        known = (i for i, d in self.decisions.items() if key is not None and d[2] == key)
        return next((id for id in known if id not in self.removed), None)

    def get(self, id):
        return None if id in self.removed else self.decisions.get(id)

    def add_decision(self, id, kind, arm, key, at):
        assert id == len(self.decisions) + 1
        assert self.status[arm] == "active"
        self.decisions[id] = [kind, arm, key, at, "pending", None, None]

    def expire(self, now):
        for decision in self.decisions.values():
            if decision[4] == "pending" and decision[3] <= now - PATIENCE:
                counts_as_reward = self.silence != "forget"
                decision[4] = "silent" if counts_as_reward else "forgotten"
                decision[5] = self.silence if counts_as_reward else None

    def settle(self, now):
        """Settle all decisions that are older than the patience, with the reward known now."""
        if self.silence == "forget":
            return
        for id, decision in self.decisions.items():
            if id not in self.settled and decision[3] <= now - PATIENCE:
                is_pending = decision[4] == "pending"
                self.settled[id] = self.silence if is_pending else decision[5]

    def settled_rewards(self, arm):
        """Return the settled rewards of an arm."""
        rewards = {id: decision[5] for id, decision in self.decisions.items()}
        if self.silence != "forget":
            rewards = self.settled
        arm_rewards = [reward for id, reward in rewards.items() if self.decisions[id][1] == arm]
        return [reward for reward in arm_rewards if reward is not None]

    def tell(self, id, reward):
        if (decision := self.get(id)) is None:
            return kibitz.UnknownDecision
        if decision[4] == "told":
            return "duplicate" if reward in decision[5:7] else kibitz.Conflict
        decision[4:7] = "told", reward, reward
        if id in self.settled:
            self.late.append(id)
        return "counted"

    def counts(self, arm):
        arm_decisions = [d for d in self.decisions.values() if d[1] == arm]
        told_decisions = [d for d in arm_decisions if d[5] is not None]
        return {
            "n_asked": sum(d[0] == "pull" for d in arm_decisions),
            "n_pending": sum(d[0] == "pull" and d[4] == "pending" for d in arm_decisions),
            "looks_pending": sum(d[0] == "look" and d[4] == "pending" for d in arm_decisions),
            "n_forgotten": sum(d[0] == "pull" and d[4] == "forgotten" for d in arm_decisions),
            "looks_forgotten": sum(d[0] == "look" and d[4] == "forgotten" for d in arm_decisions),
            "n_pulls": sum(d[0] == "pull" for d in told_decisions),
            "n_looks": sum(d[0] != "pull" for d in told_decisions),
            "pull_sum": sum(d[5] for d in told_decisions if d[0] == "pull"),
            "look_sum": sum(d[5] for d in told_decisions if d[0] != "pull"),
            "squares": sum(d[5] ** 2 for d in told_decisions),
            "n_settled": len(self.settled_rewards(arm)),
            "settled_sum": sum(self.settled_rewards(arm)),
            "settled_squares": sum(reward**2 for reward in self.settled_rewards(arm)),
            "n_late": sum(self.decisions[id][1] == arm for id in self.late),
            "n_unsettled": 0
            if self.silence == "forget"
            else sum(d[1] == arm and id not in self.settled for id, d in self.decisions.items()),
        }


class History(RuleBasedStateMachine):
    make_url = None  # set by the test

    @initialize(
        silence=st.sampled_from(["forget", 0.0, 0.25]),
        policy=st.integers(0, 3),
        bucket=st.sampled_from([0.0, 0.5]),
    )
    def begin(self, silence, policy, bucket):
        self.store_url = self.make_url()
        policies = kibitz.ucb(2.0), kibitz.thompson(), kibitz.ucb_second(), kibitz.kibitzer()
        arms = ["a", "b", "c"]
        arguments = {"patience": PATIENCE, "silence": silence, "seed": 1, "rewards": "bounded"}
        arguments |= {"policy": policies[policy], "bucket": bucket}
        self.now = 2e9
        self.agent = kibitz.agent(self.store_url, "s", arms=arms, **arguments)
        self.agent.now = lambda: self.now
        self.model = Model(arms, silence)

    def call(self, operation):
        try:
            return operation()
        except ValueError as error:
            return type(error)

    def check_ask(self, kind, operation, key):
        self.model.expire(self.now)
        known = self.model.by_key(key)
        active = "active" in self.model.status.values()
        answer = self.call(lambda: operation(key=key))
        if not active:
            assert answer is ValueError
            self.refused = True
        elif known is not None:
            decision = self.model.decisions[known]
            if decision[0] != kind:
                assert answer is kibitz.Conflict
            else:
                assert answer[:5] == (known, kind, decision[1], key, decision[3])
        else:
            assert answer.kind == kind
            assert answer.key == key
            assert answer.asked_at == self.now
            self.model.add_decision(answer.id, kind, answer.arm, key, self.now)
            return
        # After an error or a repeated key, overdue decisions may be pending until the next ask.
        self.settle()

    def settle(self):
        """Ask once more, because an error may have undone the expiry of overdue decisions."""
        if any(s == "active" for s in self.model.status.values()):
            decision = self.agent.ask()
            self.model.add_decision(decision.id, "pull", decision.arm, None, self.now)
        else:
            self.agent.resume(next(a for a, s in self.model.status.items() if s == "paused"))
            arm = next(a for a, s in self.model.status.items() if s == "paused")
            self.model.status[arm] = "active"
            self.settle()

    @rule(key=KEYS)
    def ask(self, key):
        self.check_ask("pull", self.agent.ask, key)

    @rule(key=KEYS)
    def look(self, key):
        self.check_ask("look", self.agent.look, key)

    @rule(n=st.integers(1, 4))
    def ask_many(self, n):
        if "active" not in self.model.status.values():
            return
        self.model.expire(self.now)
        for decision in self.agent.ask(n=n):
            self.model.add_decision(decision.id, "pull", decision.arm, None, self.now)

    @rule(id=st.integers(1, 30), reward=REWARDS)
    def tell(self, id, reward):
        expected = self.model.tell(id, reward)
        assert self.call(lambda: self.agent.tell(id, reward)) == expected

    @rule(arm=st.sampled_from(["a", "b", "c", "d"]), reward=REWARDS, key=KEYS)
    def observe(self, arm, reward, key):
        known = self.model.by_key(key)
        answer = self.call(lambda: self.agent.observe(arm, reward, key))
        if arm not in self.model.status:
            assert answer is ValueError
        elif known is not None:
            kind, seen, _, _, _, value, _ = self.model.decisions[known]
            is_duplicate = kind == "observe" and seen == arm and value == reward
            assert answer == ("duplicate" if is_duplicate else kibitz.Conflict)
        else:
            assert answer == "counted"
            id = len(self.model.decisions) + 1
            self.model.decisions[id] = ["observe", arm, key, self.now, "told", reward, reward]

    @rule(id=st.integers(1, 20))
    def forget(self, id):
        decision = self.model.get(id)
        answer = self.call(lambda: self.agent.forget(id))
        if decision is None:
            assert answer is kibitz.UnknownDecision
        elif decision[4] in {"pending", "forgotten"}:
            assert answer == ("forgotten" if decision[4] == "pending" else "duplicate")
            decision[4] = "forgotten"
        else:
            assert answer is kibitz.Conflict

    @rule(id=st.integers(1, 20), reward=REWARDS)
    def correct(self, id, reward):
        decision = self.model.get(id)
        if decision is not None and decision[0] == "observe":
            return  # the model stores only one value of an observation
        answer = self.call(lambda: self.agent.correct(id, reward))
        if decision is None:
            assert answer is kibitz.UnknownDecision
        elif decision[5] is None:
            assert answer is ValueError
        elif decision[5] == reward and decision[4] == "told":
            assert answer == "duplicate"
        else:
            assert answer == "corrected"
            decision[4:6] = "told", reward
            if self.model.settled.get(id) is not None:
                self.model.settled[id] = reward

    @rule(seconds=st.sampled_from([1.0, 50.0, 150.0]))
    def wait(self, seconds):
        self.now += seconds
        self.model.settle(self.now)

    @rule(arm=st.sampled_from(["a", "b", "c", "d"]), verb=st.sampled_from(["pause", "resume"]))
    def change(self, arm, verb):
        answer = self.call(lambda: getattr(self.agent, verb)(arm))
        if arm in self.model.status:
            self.model.status[arm] = "paused" if verb == "pause" else "active"
        else:
            assert answer is ValueError

    @rule()
    def add(self):
        answer = self.call(lambda: self.agent.add("d"))
        assert (answer is ValueError) == ("d" in self.model.status)
        self.model.status.setdefault("d", "active")

    @rule(seconds=st.sampled_from([0.0, 50.0, 150.0]))
    def compact(self, seconds):
        """Compaction changes no count, and removes no decision that waits for a report."""
        arms = self.agent.arms()
        self.agent.compact(self.now - seconds)
        assert self.agent.arms() == arms
        assert self.agent.check() == []
        rows = self.agent.store.read(lambda database: database.execute("select id from decisions"))
        stored_ids = {id for (id,) in rows}
        newly_removed = self.model.decisions.keys() - stored_ids - self.model.removed
        self.model.removed |= newly_removed
        for id in newly_removed:
            decision = self.model.decisions[id]
            assert decision[4] != "pending"
            assert decision[3] < self.now - seconds
            assert self.model.silence == "forget" or id in self.model.settled

    @rule(key=st.sampled_from(["k1", "k2", "k3"]))
    def erase(self, key):
        arms, known = self.agent.arms(), self.model.by_key(key)
        assert self.agent.erase(key) == ["unknown" if known is None else "erased"]
        assert self.agent.arms() == arms
        if known is not None:
            self.model.decisions[known][2] = None

    @rule()
    def crash(self):
        """Crash in the middle of a transaction, then open the agent again."""

        def work(database):
            database.execute("update agents set n_asks = 99")
            raise RuntimeError("killed")

        with pytest.raises(RuntimeError):
            self.agent.store.write(work)
        self.agent.close()
        self.agent = kibitz.agent(self.store_url, "s")
        self.agent.now = lambda: self.now

    @invariant()
    def the_agent_agrees_with_the_model(self):
        if not hasattr(self, "model"):
            return
        arms = self.agent.arms()
        assert {arm.name: arm.status for arm in arms} == self.model.status
        for arm in arms:
            expected = self.model.counts(arm.name)
            assert {name: getattr(arm, name) for name in expected} == expected

    def teardown(self):
        if hasattr(self, "agent"):
            assert self.agent.check() == []
            self.agent.close()


def run(make_url, n):
    machine = type("Run", (History,), {"make_url": staticmethod(make_url)})
    case = machine.TestCase
    case.settings = settings(
        max_examples=n,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    case("runTest").runTest()


def test_random_histories_agree_with_the_model_in_sqlite(memory):
    run(lambda: tempfile.mktemp(suffix=".db", dir=memory), 60)


def test_random_histories_agree_with_the_model_in_postgresql(postgresql):
    def make_url():
        postgresql_address = postgresql.get_uri()
        import psycopg

        with psycopg.connect(postgresql_address, autocommit=True) as connection:
            connection.execute("set client_min_messages to warning")
            connection.execute("drop schema if exists kibitz cascade")
        return postgresql_address

    run(make_url, 15)
