"""Tests of agents with a graph, on which a pull shows rewards of other arms."""

import numpy as np
import pytest
from histories import Rewards, make_policy
from numpy.random import SFC64, Generator, SeedSequence

import kibitz
from kibitz.engine.environment import make_graph
from kibitz.live.agent.agent import check_store

ARMS = list("abcde")
RANDOM = np.random.default_rng(3).random((5, 5)).round(2)
GRAPHS = {
    "star": np.maximum(np.eye(5), (np.arange(5) == 3)[:, None] | (np.arange(5) == 3)),
    "random": np.maximum(RANDOM, np.eye(5)),
    "dim": RANDOM,  # pulls may hide their own reward
    "loopless": 1.0 - np.eye(5),
}
POLICIES = {
    "ucb": make_policy("ucb"),
    "ucb_second": make_policy("ucb_second"),
    "ocucb": make_policy("ocucb"),
    "moss": make_policy("moss"),
    "imed": make_policy("imed"),
    "thompson": make_policy("thompson"),
    "kibitzer": make_policy("kibitzer"),
    "etc": make_policy("etc"),
    "ucb2": make_policy("ucb2"),
    "scout": kibitz.scout(informed=True),
    "scout, kibitzer's rule": kibitz.scout(informed=True, rule="kibitzer"),
    "max_n": kibitz.max_n(make_policy("ucb")),
}


def can_play(policy, shows):
    own = np.diagonal(shows).min()
    return own == 1 or (policy.on_graph is not None and (own > 0 or not policy.on_graph.needs_loops))


def create(url, shows=GRAPHS["star"], arms=ARMS, **arguments):
    arguments = {"rewards": "gaussian", "scale": 1.0, "policy": kibitz.ucb(), **arguments}
    return kibitz.agent(url, "a", arms=arms, shows=shows, **arguments)


@pytest.mark.parametrize("name", POLICIES)
def test_an_agent_with_a_graph_decides_as_the_policy(name, memory):
    """Histories on four graphs include looks, hidden rewards and restarts."""
    n_cases = 0
    for graph_name, shows in GRAPHS.items():
        if can_play(POLICIES[name], shows):
            n_cases += 1
            problem = find_disagreement(POLICIES[name], shows, memory / f"{graph_name}.db")
            assert problem is None, f"{graph_name}: {problem}"
    assert n_cases >= 2


def find_disagreement(policy, shows, file, seed=5):
    rng = np.random.default_rng(seed)
    rewards, player = Rewards("gaussian", 5, rng), policy.for_graph()
    params = policy.params
    if "graph" in policy.constants:
        params = params._replace(graph=make_graph(kibitz.graph(shows).shows, 5))
    state, n_decisions = player.init(params, 5), 0
    agent = create(file, shows, policy=policy, scale=2.0, seed=seed)

    def choose(function):
        stream = Generator(SFC64(SeedSequence(seed, spawn_key=(n_decisions + 1,))))
        return ARMS[int(function(params, state, stage, stream))]

    for stage in range(1, 41):
        expected, decision = choose(player.pull), agent.ask()
        n_decisions += 1
        if decision.arm != expected:
            return f"stage {stage}: {decision}, the policy {expected}"
        arm, look = ARMS.index(decision.arm), None
        if rng.random() < 0.3:
            expected, look = choose(player.look), agent.look()
            n_decisions += 1
            if look.arm != expected:
                return f"look at stage {stage}: {look}, the policy {expected}"
        if rng.random() < 0.1:
            agent.close()
            agent = kibitz.agent(file, "a")
        if rng.random() < shows[arm, arm]:
            reward = rewards(arm)
            agent.tell(decision.id, reward)
            state = player.update(params, state, stage, arm, 1, reward / 2.0, False)
        else:
            agent.forget(decision.id)
            state = player.on_graph.hide(params, state, stage, arm, 1)
        shown_arms = [j for j in range(5) if j != arm and rng.random() < shows[arm, j]]
        shown = [(ARMS[j], rewards(j)) for j in shown_arms]
        assert agent.observe(shown, shown_by=decision.id) == ["counted"] * len(shown)
        n_decisions += len(shown)
        for j, (_, reward) in zip(shown_arms, shown, strict=True):
            if policy.on_graph is None:
                state = player.update(params, state, stage, j, 1, reward / 2.0, True)
            else:
                state = player.on_graph.show(params, state, stage, arm, j, 1, reward / 2.0)
        if look is not None:
            reward = rewards(ARMS.index(look.arm))
            agent.tell(look.id, reward)
            j = ARMS.index(look.arm)
            state = player.update(params, state, stage, j, 1, reward / 2.0, True)
    problems = agent.check()
    agent.close()
    return problems or None


def test_a_reward_that_a_pull_shows_is_counted_once(url):
    with create(url) as agent:
        pull = agent.ask(among=["d"])
        assert agent.observe("b", 0.5, shown_by=pull.id) == "counted"
        assert agent.observe("b", 0.5, shown_by=pull.id) == "duplicate"
        assert agent.observe("b", 0.5, "a key", shown_by=pull.id) == "duplicate"
        assert agent.observe("c", 1.5, "panel-1", shown_by=pull.id) == "counted"
        assert agent.observe("c", 1.5, "panel-1", shown_by=pull.id) == "duplicate"
        with pytest.raises(kibitz.Conflict, match=r"decision 1 already showed reward 0\.5 of"):
            agent.observe("b", 0.7, shown_by=pull.id)
        with pytest.raises(kibitz.Conflict, match="'panel-1' belongs to decision 3 of kind 'show'"):
            agent.observe("c", 1.5, "panel-1")
        assert agent.observe([("a", 1.0), ("b", 0.5)], shown_by=pull.id) == ["counted", "duplicate"]
        assert agent.correct(2, 0.25) == "corrected"
        assert agent.observe("b", 0.25, shown_by=pull.id) == "duplicate"
        counts = [(arm.n_pulls, arm.n_looks, arm.n_shows, arm.show_sum) for arm in agent.arms()]
        assert counts[:3] == [(0, 0, 1, 1.0), (0, 0, 1, 0.25), (0, 0, 1, 1.5)]
        assert counts[3:] == [(0, 0, 0, 0.0)] * 2
        assert [event.shown_by for event in agent.events() if event.kind == "show"] == [1, 1, 1]
        assert agent.check() == []
        assert agent.report()["n_settled"].values.tolist() == [1, 1, 1, 0, 0]


def test_a_compaction_keeps_the_rewards_that_open_pulls_showed(url):
    """An open pull keeps the rewards that it showed; a removed pull cannot show more rewards."""
    with create(url) as agent:
        time = [3e9]
        agent.now = lambda: time[0]
        told_pull, open_pull = agent.ask(among=["d"], n=2)
        agent.tell(told_pull.id, 1.0)
        for pull in (told_pull, open_pull):
            agent.observe([("a", 1.0)[:2], ("b", 0.5)], shown_by=pull.id)
        agent.batch([("erase", (["nobody"],))])
        before, time[0] = agent.arms(), 3e9 + 1000
        assert agent.compact(3e9 + 500) > 0
        assert agent.arms() == before
        assert agent.observe("a", 1.0, shown_by=open_pull.id) == "duplicate"
        assert agent.observe("e", 1.0, shown_by=open_pull.id) == "counted"
        with pytest.raises(kibitz.UnknownDecision, match="was removed by a compaction"):
            agent.observe("a", 1.0, shown_by=told_pull.id)
        assert agent.check() == []
        assert agent.compact(3e9 + 1500) > 0
        assert agent.observe("a", 1.0, shown_by=open_pull.id) == "duplicate"
        assert agent.check() == []


def test_erased_keys_and_settled_counts_include_shown_rewards(memory):
    file = memory / "s.db"
    with create(file, rewards="bernoulli", scale=None, patience=10.0, silence=0.0) as agent:
        time = [3e9]
        agent.now = lambda: time[0]
        pull = agent.ask(among=["d"])
        agent.observe("a", 1.0, "visitor", shown_by=pull.id)
        assert [arm.n_settled for arm in agent.arms()] == [0] * 5
        time[0] = 3e9 + 20
        agent.ask()
        assert [arm.n_settled for arm in agent.arms()] == [1, 0, 0, 1, 0]
        assert agent.erase("visitor") == ["erased"]
        assert agent.observe("a", 1.0, shown_by=pull.id) == "duplicate"
    assert check_store(str(file)) == {"a": []}
    assert b"visitor" not in file.read_bytes()


def test_a_log_with_shows_is_exported_and_replayed(memory):
    with create(memory / "s.db") as agent:
        for _ in range(3):
            pull = agent.ask(among=["d"])
            agent.tell(pull.id, 1.0)
            agent.observe([(arm, 0.5) for arm in "abce"], shown_by=pull.id)
        for name in ("log.csv", "log.jsonl", "log.nc"):
            agent.export(memory / name)
            logged = kibitz.from_log(memory / name)
            assert logged.n_observed.tolist() == [3, 3, 3, 3, 3]
            assert logged.n_shows == 12


def test_an_agent_without_a_graph_counts_shown_rewards(memory):
    """The policy still pulls each arm once, because it does not know which arms a pull shows."""
    with create(memory / "s.db", None, ["a", "b"]) as agent:
        pull = agent.ask()
        agent.tell(pull.id, 1.0)
        agent.observe("b", 3.0, shown_by=pull.id)
        assert agent.ask().arm == "b"
        assert [(arm.n_looks, arm.n_shows) for arm in agent.arms()] == [(0, 0), (0, 1)]
        assert agent.check() == []


def test_simultaneous_requests_do_not_wait_for_lost_reports(memory):
    """A policy that knows the graph spreads simultaneous requests over arms without a report."""
    for n, policy in enumerate([kibitz.scout(informed=True), kibitz.max_n(kibitz.ucb())]):
        with create(memory / f"{n}.db", np.eye(5), policy=policy) as agent:
            assert sorted(agent.ask(n=5), key=lambda decision: decision.arm) != []
            assert {decision.arm for decision in agent.ask(n=5)} == set(ARMS)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"shows": [[1, 0], [0, 1]]}, "one row and one column for each of 5 arms, got 2"),
        ({"shows": "star"}, "shows must be a square matrix"),
        ({"shows": kibitz.graph(np.eye(5), looks=kibitz.active(0.1))}, "without looks"),
        ({"shows": kibitz.active(0.1)}, "shows must be a matrix, or kibitz"),
        ({"shows": GRAPHS["loopless"]}, r"learns about an arm by .* use scout\(informed=True\), or"),
        ({"policy": kibitz.scout()}, r"use scout\(informed=True\)"),
        ({"policy": kibitz.scout(informed=True), "shows": None}, "pass the graph as shows="),
        ({"shows": GRAPHS["dim"], "patience": 9.0, "silence": 0.0}, "silence must be 'forget'"),
    ],
)
def test_an_invalid_graph_is_rejected(memory, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        create(memory / "s.db", **arguments)


def test_an_invalid_show_is_rejected(memory):
    with create(memory / "s.db") as agent:
        pull, look = agent.ask(among=["b"]), agent.look()
        for arm, id, sentence in [
            ("c", pull.id, "a pull of arm 'b' never shows arm 'c'"),
            ("b", pull.id, "report its own reward with tell"),
            ("c", look.id, "shown_by must be the id of a pull, but decision 2 is not a pull"),
            ("d", 99, "decision 99 of agent 'a' does not exist"),
            ("d", 0, "shown_by must be"),
            ("d", "1", "shown_by must be"),
            ("z", pull.id, "arm must be one of"),
        ]:
            with pytest.raises(ValueError, match=sentence):
                agent.observe(arm, 1.0, shown_by=id)
        with pytest.raises(ValueError, match=r"each observation must be .*\(arm, reward\)"):
            agent.observe([("d", 1.0, "key")], shown_by=pull.id)
        with pytest.raises(ValueError, match="arm 'f' cannot be added: the graph"):
            agent.add("f")
        agent.pause("d")
        assert agent.ask().arm in "abce"
        assert agent.check() == []
    with pytest.raises(ValueError, match="created with shows='a graph of 5 arms with 13 entries'"):
        create(memory / "s.db", np.eye(5))
