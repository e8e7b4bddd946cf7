"""Tests of the contract of an agent, with SQLite and with PostgreSQL."""

import math
import threading

import numpy as np
import pytest

import kibitz
from kibitz.live.store.queries import read_names

pytestmark = pytest.mark.slow

ARMS = ["blue", "green", "red"]


def create_agent(url, name="checkout", **arguments):
    arguments = {
        "arms": ARMS,
        "policy": kibitz.ucb(2.0),
        "rewards": "gaussian",
        "scale": 0.5,
        "seed": 1,
        **arguments,
    }
    return kibitz.agent(url, name, **arguments)


class Clock:
    """A clock whose time is set by the test."""

    def __init__(self, agent, at=2e9):
        self.at = at
        agent.now = lambda: self.at


def get_counts(agent, *names):
    return [tuple(getattr(arm, name) for name in names) for arm in agent.arms()]


def test_a_decision_has_an_id_a_kind_an_arm_a_key_a_time_and_a_probability(url):
    with create_agent(url) as agent:
        Clock(agent)
        assert agent.ask(key="visit-1") == (1, "pull", "blue", "visit-1", 2e9, 1.0, False)
        assert agent.look() == (2, "look", "green", None, 2e9, 1.0, False)
        assert isinstance(agent.ask(), kibitz.Decision)


def test_a_report_counts_once_and_a_different_value_is_a_conflict(url):
    with create_agent(url) as agent:
        id = agent.ask().id
        assert agent.tell(id, 1.0) == "counted"
        assert agent.tell(id, 1) == "duplicate"
        sentence = r"decision 1 was already told reward 1\.0 and cannot be told 0\.0; use correct\(\)"
        with pytest.raises(kibitz.Conflict, match=sentence):
            agent.tell(id, 0.0)
        with pytest.raises(
            kibitz.UnknownDecision, match="decision 2 of agent 'checkout' does not exist"
        ):
            agent.tell(2, 1.0)
        assert get_counts(agent, "n_pulls", "pull_sum") == [(1, 1.0), (0, 0.0), (0, 0.0)]
        assert agent.check() == []


def test_a_key_gets_the_same_decision_after_a_restart(url):
    with create_agent(url) as agent:
        decision, look = agent.ask(key="a"), agent.look(key="b")
        agent.tell(decision.id, 1.0)
        assert agent.ask(key="a") == decision
    with kibitz.agent(url, "checkout") as agent:
        assert agent.ask(key="a") == decision
        assert agent.look(key="b") == look
        assert len(list(agent.events())) == 6


def test_a_key_counts_once_within_one_transaction(url):
    with create_agent(url) as agent:
        operations = [("ask", ("a", None, None)), ("look", ("b",)), ("observe", ("red", 1.0, "c"))]
        answers = agent.batch([operation for operation in operations for _ in range(2)])
        assert answers[0] == answers[1]
        assert answers[2] == answers[3]
        assert answers[4:] == ["counted", "duplicate"]
        assert [event.id for event in agent.events(3)] == [1, 2, 3]
        assert agent.check() == []


def test_a_key_is_for_one_kind_of_operation(url):
    with create_agent(url) as agent:
        agent.ask(key="a")
        agent.observe("red", 0.5, key="b")
        for key, operation, sentence in [
            ("a", agent.look, "key 'a' belongs to decision 1 of kind 'pull' and .* for 'look'"),
            ("b", agent.ask, "key 'b' belongs to decision 2 of kind 'observe' and .* for 'pull'"),
        ]:
            with pytest.raises(kibitz.Conflict, match=sentence):
                operation(key=key)
        with pytest.raises(kibitz.Conflict, match=r"key 'a' belongs to decision 1 .* for 'observe'"):
            agent.observe("red", 0.5, key="a")
        with pytest.raises(
            kibitz.Conflict, match=r"key 'b' was already used to report reward 0\.5 of arm 'red'"
        ):
            agent.observe("red", 0.25, key="b")
        assert agent.observe("red", 0.5, key="b") == "duplicate"


def test_looks_and_observations_are_not_counted_as_pulls(url):
    with create_agent(url) as agent:
        look = agent.look()
        assert get_counts(agent, "looks_pending", "n_pending") == [(0, 0), (1, 0), (0, 0)]
        assert agent.tell(look.id, 0.25) == "counted"
        assert agent.observe("red", 1.0) == "counted"
        assert agent.observe("red", 1.0) == "counted"
        assert get_counts(agent, "n_looks", "look_sum", "squares", "n_asked") == [
            (0, 0.0, 0.0, 0), (1, 0.25, 0.0625, 0), (2, 2.0, 2.0, 0),
        ]  # fmt: skip
        assert agent.check() == []


def test_a_list_of_reports_is_counted_completely_or_not_at_all(url):
    with create_agent(url) as agent:
        decisions = agent.ask(n=30)
        assert [decision.id for decision in decisions] == list(range(1, 31))
        agent.tell(3, 1.0)
        with pytest.raises(kibitz.Conflict):
            agent.tell([(1, 1.0), (2, 0.0), (3, 0.0)])
        assert sum(n for (n,) in get_counts(agent, "n_pulls")) == 1
        assert agent.tell([(1, 1.0), (2, 0.0), (3, 1.0)]) == ["counted", "counted", "duplicate"]
        keys = [f"visit-{n}" for n in range(5)]
        assert agent.ask(n=5, key=keys) == agent.ask(n=5, key=keys)
        assert agent.check() == []


def test_a_batch_can_return_an_answer_or_error_for_each_operation(url):
    with create_agent(url) as agent:
        answers = agent.batch(
            [
                ("ask", ("a", None, None)),
                ("tell", (1, 1.0)),
                ("tell", (1, 0.0)),
                ("tell", (7, 0.0)),
                ("tell", (1, math.nan)),
                ("look", (None,)),
                ("observe", ("pink", 1.0, None)),
            ],
            return_errors=True,
        )
        kinds = [type(answer) for answer in answers]
        assert kinds == [
            kibitz.Decision, str, kibitz.Conflict, kibitz.UnknownDecision, ValueError,
            kibitz.Decision, ValueError,
        ]  # fmt: skip
        assert agent.check() == []
        assert get_counts(agent, "n_pulls", "looks_pending") == [(1, 0), (0, 0), (0, 1)]


def test_a_forgotten_decision_still_counts_when_told_late(url):
    with create_agent(url) as agent:
        id = agent.ask().id
        assert agent.forget(id) == "forgotten"
        assert agent.forget(id) == "duplicate"
        assert get_counts(agent, "n_pending", "n_forgotten")[0] == (0, 1)
        assert agent.tell(id, 1.0) == "counted"
        assert get_counts(agent, "n_pending", "n_forgotten", "n_pulls")[0] == (0, 0, 1)
        with pytest.raises(kibitz.Conflict, match=r"decision 1 cannot be forgotten: .* but told"):
            agent.forget(id)
        assert agent.check() == []


def test_pending_decisions_expire_after_the_patience(url):
    with create_agent(url, patience=60) as agent:
        clock = Clock(agent)
        agent.ask()
        clock.at += 59
        agent.ask()
        assert sum(n for (n,) in get_counts(agent, "n_pending")) == 2
        clock.at += 2
        agent.ask()
        assert get_counts(agent, "n_pending", "n_forgotten") == [(0, 1), (1, 0), (1, 0)]
        assert agent.tell(1, 0.5) == "counted"
        assert [event.kind for event in agent.events(3)] == [
            "pull", "pull", "forgotten", "pull", "told",
        ]  # fmt: skip
        assert agent.check() == []


def test_silence_counts_as_a_reward_until_a_late_report(url):
    with create_agent(url, patience=60, silence=0.0) as agent:
        clock = Clock(agent)
        agent.ask()
        agent.look()
        clock.at += 61
        agent.ask()
        assert get_counts(agent, "n_pulls", "pull_sum", "n_looks")[:2] == [(1, 0.0, 0), (0, 0.0, 1)]
        assert agent.tell(1, 1.0) == "counted"
        assert agent.tell(1, 1.0) == "duplicate"
        assert get_counts(agent, "n_pulls", "pull_sum", "squares")[0] == (1, 1.0, 1.0)
        assert agent.tell(2, 0.0) == "counted"
        assert agent.check() == []


def test_a_correction_is_logged(url):
    with create_agent(url) as agent:
        id = agent.ask().id
        with pytest.raises(ValueError, match=r"decision 1 has no reward to correct; use tell\(\)"):
            agent.correct(id, 1.0)
        agent.tell(id, 1.0)
        assert agent.correct(id, 0.25) == "corrected"
        assert agent.correct(id, 0.25) == "duplicate"
        assert get_counts(agent, "n_pulls", "pull_sum", "squares")[0] == (1, 0.25, 0.0625)
        assert agent.tell(id, 1.0) == "duplicate"  # repeats the original report
        assert agent.tell(id, 0.25) == "duplicate"
        with pytest.raises(kibitz.Conflict):
            agent.tell(id, 0.5)
        last_event = list(agent.events())[-1]
        assert (last_event.kind, last_event.id, last_event.arm, last_event.reward) == (
            "corrected",
            1,
            "blue",
            0.25,
        )
        assert agent.check() == []


def test_arms_change_while_the_agent_runs(url):
    with create_agent(url) as agent:
        agent.pause("blue")
        agent.pause("blue")
        agent.retire("green")
        assert [agent.ask().arm for _ in range(3)] == ["red"] * 3
        agent.add("pink")
        agent.resume("blue")
        asked_arms = [agent.ask().arm for _ in range(8)]  # the arms with the fewest asks come first
        assert asked_arms == ["blue", "pink", "blue", "pink", "blue", "pink", "blue", "red"]
        with pytest.raises(ValueError, match="arm 'green' is retired and cannot be resumed"):
            agent.resume("green")
        with pytest.raises(ValueError, match="arm 'green' already exists"):
            agent.add("green")
        with pytest.raises(ValueError, match="arm must be one of 'blue', 'green', 'red', 'pink'"):
            agent.pause("black")
        for arm in ("blue", "red", "pink"):
            agent.pause(arm)
        with pytest.raises(ValueError, match="no active arms"):
            agent.ask()
        assert agent.check() == []
    with kibitz.agent(
        url, "checkout", arms=ARMS, policy=kibitz.ucb(2.0), rewards="gaussian", scale=0.5
    ) as agent:
        # The argument `arms` is compared with the arms at creation, not with the present arms.
        assert len(agent.arms()) == 4


def test_an_arm_is_added_to_a_policy_with_a_stored_state(url):
    """After an arm is added, the stored state equals a replay of the log with all arms."""
    with create_agent(url, policy=kibitz.kibitzer()) as agent:
        agent.add("pink")  # before any report
        assert agent.check() == []
        for n in range(12):
            agent.tell(agent.ask().id, n % 3 / 2)
            agent.tell(agent.look().id, n % 2)
            if n == 6:
                agent.add("black")
                assert agent.check() == []
        agent.correct(1, 1.0)
        assert agent.check() == []
        assert get_counts(agent, "n_pulls")[4] > (0,)


def test_a_retired_arm_counts_late_reports_but_no_new_observations(url):
    with create_agent(url) as agent:
        id = agent.ask().id
        agent.retire("blue")
        assert agent.tell(id, 1.0) == "counted"
        with pytest.raises(ValueError, match="arm 'blue' is retired"):
            agent.observe("blue", 1.0)


def test_ask_chooses_among_the_given_arms(url):
    with create_agent(url) as agent:
        assert agent.ask(among=["red"]).arm == "red"
        assert {agent.ask(among=["red", "green"]).arm for _ in range(4)} == {"red", "green"}
        agent.pause("red")
        with pytest.raises(
            ValueError, match="among must contain active arms only, but 'red' is paused"
        ):
            agent.ask(among=["red", "green"])
        with pytest.raises(ValueError, match="arm must be one of"):
            agent.ask(among=["pink"])
        for among in ([], "red", 3):
            with pytest.raises(ValueError, match="among must be a list of names of arms"):
                agent.ask(among=among)


@pytest.mark.parametrize(
    ("reward", "sentence"),
    [
        (math.nan, "reward must be a finite number, got nan"),
        (math.inf, "reward must be a finite number, got inf"),
        ("1", "reward must be a finite number, got '1'"),
        (None, "reward must be a finite number, got None"),
        (1e200, r"reward must be between -1e\+100 and 1e\+100"),
    ],
)
def test_an_invalid_reward_raises_value_error_and_nothing_is_written(url, reward, sentence):
    with create_agent(url) as agent:
        id = agent.ask().id
        events_before = list(agent.events())
        for operation in (
            lambda: agent.tell(id, reward),
            lambda: agent.observe("blue", reward),
            lambda: agent.correct(id, reward),
            lambda: agent.tell([(id, 1.0), (id, reward)]),
        ):
            with pytest.raises(ValueError, match=sentence):
                operation()
        assert list(agent.events()) == events_before
        assert agent.tell(id, 1.0) == "counted"


def test_an_agent_rejects_rewards_of_another_kind(url):
    """The kind of rewards comes from the argument `rewards`, or from the policy."""
    bernoulli = {"rewards": None, "policy": kibitz.kl_ucb(rewards="bernoulli"), "scale": None}
    bounded = {"rewards": "bounded", "policy": kibitz.ucb(), "scale": None}
    for name, arguments, wrong_reward, right_reward, sentence in [
        ("clicks", bernoulli, 0.5, True, "0 or 1 for an agent with bernoulli rewards"),
        ("ratings", bounded, 1.5, 0.75, r"in \[0, 1\] for an agent with bounded rewards"),
    ]:
        with create_agent(url, name, **arguments) as agent:
            id = agent.ask().id
            for operation in (
                lambda id=id, agent=agent, wrong_reward=wrong_reward: agent.tell(id, wrong_reward),
                lambda agent=agent, wrong_reward=wrong_reward: agent.observe("blue", wrong_reward),
            ):
                with pytest.raises(
                    ValueError, match=f"reward must be {sentence}, got {wrong_reward}"
                ):
                    operation()
            assert agent.tell(id, right_reward) == "counted"
            assert agent.check() == []


def test_the_default_policy_is_kibitzer_for_the_rewards(url):
    for rewards in ("bernoulli", "bounded", "gaussian"):
        scale = 2.0 if rewards == "gaussian" else None
        with kibitz.agent(url, rewards, arms=ARMS, rewards=rewards, scale=scale) as agent:
            assert agent.policy == kibitz.kibitzer(rewards=rewards)
            assert agent.config.scale == (scale or 0.5)
        with kibitz.agent(url, rewards, arms=ARMS, rewards=rewards, scale=scale) as agent:
            assert agent.config.rewards == rewards


def test_a_gaussian_policy_uses_scale_one_half_for_rewards_in_the_unit_interval(url):
    """The policy sees rewards divided by 1/2, which is a valid scale for all rewards in [0, 1]."""
    for rewards in ("bernoulli", "bounded"):
        with create_agent(url, rewards, rewards=rewards, scale=None) as agent:
            assert (agent.config.unit, agent.config.scale) == (0.5, 0.5)
    with create_agent(
        url, "own", rewards="bernoulli", policy=kibitz.ucb(scale=0.2), scale=None
    ) as agent:
        assert (agent.config.unit, agent.config.scale) == (0.2, 0.5)


@pytest.mark.parametrize(
    ("operation", "sentence"),
    [
        (lambda agent: agent.tell("1", 1.0), r"id must be a whole number.* got '1'"),
        (lambda agent: agent.tell(0, 1.0), "id must be a whole number of at least 1, got 0"),
        (lambda agent: agent.tell(True, 1.0), "id must be a whole number"),
        (lambda agent: agent.tell([1, 2]), r"reports must be a list of \(id, reward\) pairs, got 1"),
        (lambda agent: agent.ask(key=""), "key must be a text of 1 to 500 printable characters"),
        (lambda agent: agent.ask(key="a\0b"), "key must be a text"),
        (lambda agent: agent.ask(key=7), "key must be a text"),
        (lambda agent: agent.ask(n=0), "n must be a whole number of at least 1, got 0"),
        (lambda agent: agent.ask(n=2, key="a"), "key must be a list of 2 keys, got 'a'"),
        (lambda agent: agent.ask(n=2, key=["a", "a"]), "key must be a list of different keys"),
        (lambda agent: agent.observe("pink", 1.0), "arm must be one of 'blue', 'green', 'red', got"),
        (lambda agent: agent.add("a\nb"), "arm must be a text of 1 to 500 printable characters"),
        (lambda agent: next(agent.events(-1)), "after must be a whole number of at least 0"),
    ],
)
def test_invalid_operations_raise_value_error(url, operation, sentence):
    with create_agent(url) as agent:
        events_before = list(agent.events())
        with pytest.raises(ValueError, match=sentence):
            operation(agent)
        assert list(agent.events()) == events_before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"arms": ["blue"]}, "arms must be a list of at least 2 names, got"),
        ({"arms": "blue,green"}, "arms must be a list of at least 2 names, got"),
        ({"arms": ["blue", "blue"]}, "arms must be different names, got"),
        ({"arms": ["blue", 3]}, "arms must be a text"),
        ({"rewards": None}, "rewards is required to create an agent: use bernoulli if"),
        ({"rewards": "clicks"}, r"rewards must be .*'bernoulli'.*, got 'clicks'"),
        ({"scale": None}, "scale is required for gaussian rewards: use the standard"),
        ({"rewards": "bernoulli"}, r"bernoulli rewards take no scale, got scale=0\.5; omit it"),
        (
            {"policy": kibitz.kibitzer(rewards="bernoulli")},
            "kibitzer is for bernoulli rewards and cannot be the policy of an agent with gaussian",
        ),
        (
            {"policy": kibitz.kibitzer(rewards="bernoulli"), "rewards": "bounded", "scale": None},
            "kibitzer is for bernoulli rewards and cannot be the policy of an agent with bounded",
        ),
        (
            {"rewards": "bernoulli", "scale": None, "patience": 1, "silence": 0.5},
            r"silence must be 0 or 1 for an agent with bernoulli rewards, got 0\.5",
        ),
        ({"policy": "ucb"}, r"policy must be a Policy such as ucb\(\), got 'ucb'"),
        ({"policy": kibitz.moss()}, r"an agent needs moss with a horizon: moss\(horizon=\.\.\.\)"),
        ({"scale": 0.0}, r"scale must be positive and finite, got 0\.0"),
        ({"scale": 1e-51}, r"scale must be between 1e-50 and 1e\+50, got 1e-51"),
        ({"policy": kibitz.ucb(scale=1e51)}, r"scale must be between 1e-50 and 1e\+50, got 1e\+51"),
        (
            {"patience": 1, "silence": -5001.0},
            r"silence must be at most 10,000 times the scale 0\.5, got -5001\.0",
        ),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"patience": 0}, "patience must be positive and finite, got 0"),
        ({"silence": "no"}, "silence must be 'forget' or a reward, got 'no'"),
        ({"silence": math.nan, "patience": 1}, "silence must be a finite number, got nan"),
        ({"silence": 0.0}, "patience is required when silence is a reward"),
        ({"name": ""}, "name must be a text"),
    ],
)
def test_an_invalid_agent_is_not_created(url, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        create_agent(url, **arguments)
    with pytest.raises(
        ValueError, match=r"store .* (does not exist|is empty); create an agent first"
    ):
        kibitz.agent(url, "checkout")


def test_opening_an_agent_with_another_configuration_raises_value_error(url):
    create_agent(url, patience=9.0).close()
    for arguments, sentence in [
        (
            {"arms": ["blue", "black"]},
            r"arms=\['blue', 'green', 'red'\] and .* arms=\['blue', 'black'",
        ),
        ({"policy": kibitz.ucb(3.0)}, r"policy=.*exploration=2\.0.* and .*exploration=3\.0"),
        ({"scale": 1.0}, r"scale=0\.5 and cannot be opened with scale=1\.0"),
        ({"seed": 2}, "seed=1 and cannot be opened with seed=2"),
        ({"patience": None}, r"patience=9\.0 and cannot be opened with patience=None"),
        ({"silence": 1.0}, r"silence='forget' and cannot be opened with silence=1\.0"),
    ]:
        with pytest.raises(ValueError, match=f"agent 'checkout' was created with {sentence}"):
            create_agent(url, **{"patience": 9.0, **arguments})
    same_seed = {"arms": ARMS, "rewards": "gaussian", "scale": 0.5, "patience": 9.0}
    same_seed["seed"] = np.random.SeedSequence(1)
    same = ({"policy": kibitz.ucb(2.0)}, {"scale": 0.5}, {"patience": 9.0}, same_seed, {})
    for arguments in same:
        kibitz.agent(url, "checkout", **arguments).close()
    with pytest.raises(ValueError, match=r"agent 'checkout' was created with scale=0\.5"):
        kibitz.agent(url, "checkout", scale=0.25)


def test_an_unknown_agent_raises_an_error_that_lists_the_known_agents(url):
    create_agent(url, "one").close()
    with create_agent(url, "two") as agent:
        assert agent.store.read(read_names) == ["one", "two"]
    with pytest.raises(
        kibitz.UnknownAgent, match="agent 'three' does not exist; the store has 'one', 'two'"
    ):
        kibitz.agent(url, "three")


def test_agents_of_one_store_are_independent(url):
    with create_agent(url, "one") as first_agent, create_agent(url, "two") as second_agent:
        assert [first_agent.ask(key="a").id, second_agent.ask(key="a").id, first_agent.ask().id] == [
            1,
            1,
            2,
        ]
        first_agent.tell(1, 1.0)
        assert get_counts(second_agent, "n_pulls") == [(0,), (0,), (0,)]
        assert first_agent.check() == second_agent.check() == []


def test_several_threads_use_one_agent(url):
    with create_agent(url) as agent:
        ids, errors = [], []

        def work():
            try:
                for _ in range(25):
                    id = agent.ask().id
                    agent.tell(id, 1.0)
                    ids.append(id)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert sorted(ids) == list(range(1, 101))
        assert agent.check() == []


def test_two_handles_of_one_agent_share_its_state(url):
    with create_agent(url) as first_handle, kibitz.agent(url, "checkout") as second_handle:
        first_decision = first_handle.ask(key="a")
        assert second_handle.ask(key="a") == first_decision
        assert second_handle.tell(first_decision.id, 1.0) == "counted"
        assert first_handle.tell(first_decision.id, 1.0) == "duplicate"
        assert first_handle.ask().arm != first_decision.arm
        assert first_handle.arms() == second_handle.arms()


def test_the_log_is_read_from_any_event(url, monkeypatch):
    monkeypatch.setattr("kibitz.live.store.queries.PAGE_SIZE", 7)
    with create_agent(url) as agent:
        agent.ask(n=20)
        events = list(agent.events())
        assert [event.seq for event in events] == list(range(1, 24))
        assert list(agent.events(after=20)) == events[20:]
        assert list(agent.events(after=23)) == []


def test_times_in_the_log_never_decrease(url):
    with create_agent(url) as agent:
        clock = Clock(agent)
        agent.ask()
        clock.at -= 1000
        agent.ask()
        assert [event.at for event in agent.events(3)] == [2e9, 2e9]


def test_a_closed_store_reopens_on_use(url):
    agent = create_agent(url)
    agent.ask()
    store = agent.store
    agent.close()
    assert store.read(read_names) == ["checkout"]
    store.close()
    with kibitz.agent(url, "checkout") as agent:
        assert agent.ask().id == 2


def test_a_closed_agent_raises_value_error(url):
    agent = create_agent(url)
    id = agent.ask().id
    agent.close()
    agent.close()
    verbs = [
        agent.ask, agent.look, lambda: agent.tell(id, 1.0), lambda: agent.tell([(id, 1.0)]),
        lambda: agent.observe("blue", 1.0), lambda: agent.forget(id), lambda: agent.correct(id, 1.0),
        lambda: agent.add("x"), lambda: agent.pause("blue"), agent.arms, agent.report,
        lambda: list(agent.events()), lambda: agent.export("log.csv"), agent.check,
    ]  # fmt: skip
    for verb in verbs:
        with pytest.raises(ValueError, match="agent 'checkout' is closed; open it again"):
            verb()
    with kibitz.agent(url, "checkout") as agent:
        assert len(list(agent.events())) == 4


def test_true_counts_as_one_and_false_as_zero(url):
    with create_agent(url) as agent:
        ids = [decision.id for decision in agent.ask(n=4)]
        assert agent.tell(ids[0], True) == "counted"
        assert agent.tell([(ids[1], False), (ids[2], np.True_)]) == ["counted", "counted"]
        assert agent.observe("blue", True) == "counted"
        assert agent.tell(ids[3], 0.5) == "counted"
        assert agent.correct(ids[3], True) == "corrected"
        assert agent.tell(ids[0], 1.0) == "duplicate"
        rewards = [event.reward for event in agent.events() if event.reward is not None]
        assert rewards == [1.0, 0.0, 1.0, 1.0, 0.5, 1.0]
        assert all(type(reward) is float for reward in rewards)


def infinite_index(params, stage, counts, arm, mean):
    return mean + (math.inf if counts[arm] < 50 else 0.0)


def undefined_index(params, stage, counts, arm, mean):
    return mean + (math.nan if stage > 1000 else 0.0)


@pytest.mark.parametrize("index", [infinite_index, undefined_index])
def test_an_agent_rejects_an_index_that_simulate_rejects(tmp_path, index):
    policy = kibitz.index_policy("own", index)
    problem, feedback = kibitz.gaussian([1.0, 0.0]), kibitz.bandit()
    for call in [
        lambda: kibitz.simulate(problem, feedback, policy, horizon=10, runs=1, seed=1),
        lambda: create_agent(tmp_path / "shop.db", policy=policy),
    ]:
        with pytest.raises(ValueError, match=r"index of own must be finite, got (inf|nan) at stage"):
            call()
    assert not (tmp_path / "shop.db").exists()
