"""Tests of `kibitz.evaluate`: estimates, coverage, and logs that cannot be evaluated."""

import importlib.util
import math
import re
import time
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tests import reference

import kibitz
from kibitz.live.agent.confidence import BETS, PENALTIES, count_visits_needed, off_policy_interval
from kibitz.policies import POLICIES

MEANS = {"a": 0.2, "b": 0.5, "c": 0.6}
OPEN_BANDIT = Path(__file__).parents[2] / "benchmarks" / "open_bandit.py"


def make_log(n, seed, means=MEANS, weights=None):
    """Return a log of `n` visits as columns; the arms are chosen with the given probabilities."""
    rng = np.random.default_rng(seed)
    names = list(means)
    shares = np.full(len(names), 1 / len(names)) if weights is None else np.array(weights)
    arms = rng.choice(len(names), n, p=shares)
    rewards = rng.random(n) < np.array(list(means.values()))[arms]
    return {
        "arm": [names[arm] for arm in arms],
        "reward": rewards.astype(float),
        "probability": shares[arms],
    }


def test_the_estimates_agree_with_their_definitions():
    log = make_log(500, 1, weights=[0.5, 0.2, 0.3])
    result = kibitz.evaluate(log, {"a": 0.25, "c": 0.75}, baseline=0.25)
    target = {"a": Fraction(1, 4), "b": Fraction(0), "c": Fraction(3, 4)}
    rows = list(zip(log["arm"], log["reward"], log["probability"], strict=True))
    weights = [target[arm] / Fraction(p) for arm, _, p in rows]
    rewards = [Fraction(x) for _, x, _ in rows]
    quarter = Fraction(1, 4)
    terms = [w * (x - quarter) for w, x in zip(weights, rewards, strict=True)]
    assert result.value == pytest.approx(float(quarter + sum(terms) / 500), rel=1e-12)
    snips = sum(w * x for w, x in zip(weights, rewards, strict=True)) / sum(weights)
    assert result.self_normalised == pytest.approx(float(snips), rel=1e-12)
    matched = [x for x, w in zip(rewards, weights, strict=True) if w]
    assert (result.n_visits, result.n_matched) == (500, len(matched))
    assert result.replay == pytest.approx(float(sum(matched) / len(matched)), rel=1e-12)


@pytest.mark.parametrize("policy", ["ucb", "kl_ucb", "thompson"])
def test_a_learning_policy_is_replayed(policy):
    """In a replay, the policy learns only from the visits whose arm it has chosen."""
    log = make_log(900, 2)
    if policy == "thompson":
        results = {kibitz.evaluate(log, kibitz.thompson("bernoulli"), seed=s).value for s in (1, 2)}
        assert len(results) == 2
        seeds = 1, np.random.SeedSequence(1)
        assert (
            len({kibitz.evaluate(log, kibitz.thompson("bernoulli"), seed=s).value for s in seeds})
            == 1
        )
        with pytest.raises(ValueError, match="seed is required for thompson"):
            kibitz.evaluate(log, kibitz.thompson("bernoulli"))
        return
    scale = 0.5 if policy == "ucb" else 1.0  # rewards in [0, 1] have the sub-Gaussian scale 1/2
    slow_policy = reference.UCB(3) if policy == "ucb" else reference.KLUCB(3, "bernoulli")
    names = sorted(set(log["arm"]))
    stage, matched = 1, []
    for arm, reward in zip(log["arm"], log["reward"], strict=True):
        if names[slow_policy.pull(stage)] == arm:
            slow_policy.update(stage, names.index(arm), reward / scale, False)
            stage += 1
            matched.append(reward)
    fast_policy = kibitz.ucb() if policy == "ucb" else kibitz.kl_ucb("bernoulli")
    result = kibitz.evaluate(log, fast_policy)
    assert result.n_matched == len(matched)
    assert result.replay == pytest.approx(np.mean(matched))
    assert result.value == pytest.approx(3 * sum(matched) / 900)


@pytest.mark.parametrize("name", ["lookout", "sw_ucb", "glr_ucb"])
def test_a_policy_for_changing_means_is_replayed(name):
    """The replay agrees with a slow reference if the means change in the middle of the log."""
    halves = [make_log(1500, 5, MEANS), make_log(1500, 6, {"a": 0.9, "b": 0.2, "c": 0.1})]
    log = {column: [*halves[0][column], *halves[1][column]] for column in halves[0]}
    if name == "sw_ucb":
        fast_policy = kibitz.sw_ucb(200, rewards="bernoulli")
        slow_policy = reference.SWUCB(3, 200, rewards="bernoulli")
    elif name == "glr_ucb":
        fast_policy = kibitz.glr_ucb(horizon=1000, rewards="bernoulli")
        slow_policy = reference.GLRUCB(3, 1000, rewards="bernoulli")
    else:
        fast_policy = kibitz.lookout(rewards="bernoulli")
        slow_policy = reference.Lookout(3, rewards="bernoulli")
    stage, matched = 1, []
    for arm, reward in zip(log["arm"], log["reward"], strict=True):
        if "abc"[slow_policy.pull(stage)] == arm:
            slow_policy.update(stage, "abc".index(arm), reward, False)
            stage += 1
            matched.append(reward)
    result = kibitz.evaluate(log, fast_policy, seed=1)
    assert result.n_matched == len(matched)
    assert result.replay == pytest.approx(np.mean(matched))


def test_a_policy_for_graphs_is_rejected():
    with pytest.raises(ValueError, match="scout cannot be evaluated, because it plays on a graph"):
        kibitz.evaluate(make_log(10, 1), kibitz.scout(informed=True))


def test_the_order_of_the_arms_does_not_depend_on_the_log():
    """A policy that first pulls all arms in order matches a share of about 1/K of the visits.

    If the arms were numbered by their first appearance in the log, the policy would match more
    visits. The probability of a false alarm is 1e-6.
    """
    n_arms = 80
    log = make_log(400, 8, means={f"{k}": 0.5 for k in range(n_arms)})
    result = kibitz.evaluate(log, kibitz.ucb())
    assert stats.binomtest(result.n_matched, 400, 1 / n_arms).pvalue > 1e-6


def test_each_bet_is_a_supermartingale():
    """E exp(λ(φ-v)/R - ψ(λ)(φ-m)²/R²) ≤ 1 for binary and three-valued rewards, on a grid.

    Here φ = m + w(x - m) for a visit with weight w and reward x, v is the mean of φ, m is the
    baseline, λ is the bet, ψ(λ) is its penalty, and R is 1 + m times the largest weight.
    """
    largest = 0.0
    for probability in (0.02, 0.3, 0.9):
        max_weight = 1 / probability
        for m in (0.0, 0.3, 1.0):
            bound = 1 + m * max_weight
            for rewards, shares in [
                ([0.0, 1.0], [0.95, 0.05]),
                ([0.0, 1.0], [0.1, 0.9]),
                ([0.0, 0.5, 1.0], [0.2, 0.5, 0.3]),
            ]:
                value = np.dot(rewards, shares)
                for bet, penalty in zip(BETS, PENALTIES, strict=True):
                    expectation = 0.0
                    for p_arm, weight in ((probability, max_weight), (1 - probability, 0.0)):
                        for x, share in zip(rewards, shares, strict=True):
                            deviation = weight * (x - m)
                            exponent = bet * (m + deviation - value) / bound
                            exponent -= penalty * (deviation / bound) ** 2
                            expectation += p_arm * share * math.exp(exponent)
                    assert expectation <= 1 + 1e-12
                    largest = max(largest, expectation)
    assert largest > 0.999  # the inequality is tight for small bets


def test_the_ends_are_the_values_that_a_bet_rejects():
    """Just outside each end, the evidence of a bet reaches 48/δ; just inside, no bet reaches it."""
    rng, n = np.random.default_rng(3), 4000
    for m, max_weight in ((0.0, 3.0), (0.4, 5.0), (1.0, 80.0)):
        terms = np.where(rng.random(n) < 1 / max_weight, max_weight, 0) * (rng.random(n) - m)
        low, high = off_policy_interval(n, terms.sum(), (terms**2).sum(), max_weight, m, 0.05)

        def is_rejected(value, sign, bound, terms=terms, m=m):
            evidence = sign * BETS * (m * n + terms.sum() - n * value) / bound
            evidence -= PENALTIES * (terms**2).sum() / bound**2
            return max(evidence) >= math.log(2 * 24 / 0.05)

        for end, sign, bound in ((low, 1, 1 + m * max_weight), (high, -1, 1 + (1 - m) * max_weight)):
            if 0 < end < 1:
                assert is_rejected(end - 1e-9 * sign, sign, bound)
                assert not is_rejected(end + 1e-9 * sign, sign, bound)


@pytest.mark.parametrize(("baseline", "drift"), [(0.0, False), (0.3, False), (0.0, True)])
def test_the_interval_holds_at_all_times(baseline, drift):
    """The interval with δ = 0.1 is checked every 25 visits of 2000, in 300 runs.

    If 10 % of all runs fail, more than 46 of 300 runs fail with probability below 0.002.
    """
    n_runs, n, n_arms, delta = 300, 2000, 4, 0.1
    assert stats.binom.sf(46, n_runs, delta) < 0.002
    rng, n_failed = np.random.default_rng([4, drift]), 0
    rates = np.array([0.05, 0.3, 0.5, 0.2])
    for _ in range(n_runs):
        phase = np.sin(np.arange(n) / 200)[:, None] if drift else np.zeros((n, 1))
        means = np.clip(rates * (1 + phase), 0, 1)
        arms = rng.integers(n_arms, size=n)
        rewards = rng.random(n) < means[np.arange(n), arms]
        terms = n_arms * (arms == 2) * (rewards - baseline)
        totals, squares = np.cumsum(terms), np.cumsum(terms**2)
        values = np.cumsum(means[:, 2]) / np.arange(1, n + 1)
        for t in range(25, n + 1, 25):
            ends = off_policy_interval(t, totals[t - 1], squares[t - 1], n_arms, baseline, delta)
            if not ends[0] <= values[t - 1] <= ends[1]:
                n_failed += 1
                break
    assert n_failed <= 46


def test_the_interval_of_a_learning_policy_contains_its_value():
    """The value is the average, over the rows of the log, of the true means of the chosen arms.

    If each interval (δ = 0.1) fails with probability 0.1, the probability that more than 11 of 40
    fail is below 0.001. The mean error of the estimates must be within 4 standard errors of 0.
    """
    assert stats.binom.sf(11, 40, 0.1) < 0.001
    n_failed, errors = 0, []
    for seed in range(40):
        log = make_log(500, [9, seed])
        slow_policy, stage, means = reference.UCB(3), 1, []
        for arm, reward in zip(log["arm"], log["reward"], strict=True):
            choice = slow_policy.pull(stage)
            means.append(MEANS["abc"[choice]])
            if "abc"[choice] == arm:
                slow_policy.update(stage, choice, reward / 0.5, False)
                stage += 1
        result = kibitz.evaluate(log, kibitz.ucb(), delta=0.1)
        n_failed += not result.low <= np.mean(means) <= result.high
        errors.append(result.value - np.mean(means))
    assert n_failed <= 11
    assert abs(np.mean(errors)) < 4 * np.std(errors) / math.sqrt(40)


class Leader:
    """A Python policy that pulls the arm with the most rewards."""

    def __init__(self, n_arms):
        self.sums = [0.0] * n_arms

    def pull(self, stage, rng):
        return self.sums.index(max(self.sums))

    def update(self, arm, reward, is_look):
        self.sums[arm] += reward


def replay_slowly(policy, log):
    """Ask the policy at every visit; return the rewards of visits whose arm the policy chooses."""
    params, state, rewards = policy.params_for(len(log["arm"]) // 3), None, []
    rng, unit = np.random.default_rng(1), policy.scale_for(0.5)
    state = policy.init(params, 3)
    for arm, reward in zip(log["arm"], log["reward"], strict=True):
        stage = len(rewards) + 1
        if "abc"[policy.pull(params, state, stage, rng)] == arm:
            state = policy.update(params, state, stage, "abc".index(arm), 1, reward / unit, False)
            rewards.append(reward)
    return rewards


@pytest.mark.parametrize("policy", [make() for make in POLICIES.values()], ids=repr)
def test_every_policy_is_evaluated(policy):
    log = make_log(200, 11)
    result = kibitz.evaluate(log, policy, seed=1)
    assert 30 < result.n_matched < 110


@pytest.mark.parametrize(
    "policy",
    [
        kibitz.lookout(rewards="bernoulli"),
        kibitz.glr_ucb(rewards="bernoulli"),
        kibitz.sw_ucb(),
        kibitz.d_ucb(),
        kibitz.python_policy(Leader),
    ],
    ids=repr,
)
def test_policies_that_learn_in_order_are_evaluated_in_order(policy):
    log = make_log(300, 12)
    rewards = replay_slowly(policy, log)
    result = kibitz.evaluate(log, policy, seed=1)
    assert (result.n_matched, result.replay) == (len(rewards), pytest.approx(np.mean(rewards)))


def test_the_bucket_of_an_agent_allows_an_evaluation(memory):
    """The intervals of three agents contain the truth, each with probability at least 0.999."""
    rng = np.random.default_rng(6)
    for name, arguments in {
        "paid": {"bucket": 0.5},
        "free": {"bucket": 0.5, "bucket_is_free": True},
        "thompson": {"bucket": 0.5, "policy": kibitz.thompson("bernoulli")},
    }.items():
        with kibitz.agent(
            memory / "shop.db", name, arms=[*MEANS], rewards="bernoulli", seed=1, **arguments
        ) as agent:
            for _ in range(40):
                decisions = agent.ask(n=50)
                agent.tell([(d.id, rng.random() < MEANS[d.arm]) for d in decisions])
            agent.export(memory / "log.csv")
            for arm, mean in MEANS.items():
                result = kibitz.evaluate(memory / "log.csv", arm, delta=0.001)
                assert result.low <= mean <= result.high
                assert result.high - result.low < 0.6
                assert 900 < result.n_visits < 1100
            learner = kibitz.evaluate(agent, kibitz.kibitzer(rewards="bernoulli"))
            assert 0.2 <= learner.low < learner.value < learner.high
            assert kibitz.evaluate(agent, arm, delta=0.001) == result
            # a compaction removes the older visits
            before = list(agent.events())[-1000].at
            agent.compact(before)
            assert 0 < kibitz.evaluate(agent, "a").n_visits < 600


def test_clicks_that_are_known_before_missing_clicks_do_not_count_alone(memory, serve_store):
    """Only clicks are reported; a missing click counts as 0 after the patience of 100 s.

    Without missing clicks, the visits of the last 100 s would seem to have the mean reward 1. The
    interval contains the truth with probability at least 0.999.
    """
    url, rng, clock = str(memory / "shop.db"), np.random.default_rng(8), [time.time()]
    arguments = {"rewards": "bernoulli", "bucket": 0.5, "patience": 100.0, "silence": 0.0}
    with kibitz.agent(url, "s", arms=[*MEANS], seed=1, **arguments) as agent:
        agent.now = lambda: clock[0]
        agent.tell([(decision.id, 1) for decision in agent.ask(n=300) if rng.random() < 0.1])
        with pytest.raises(ValueError, match="no reward of its randomised visits"):
            kibitz.evaluate(agent, "b")
        for _ in range(6):
            clock[0] += 50
            agent.tell([(decision.id, 1) for decision in agent.ask(n=300) if rng.random() < 0.1])
        with serve_store(url) as address, kibitz.Client(address, agent="s") as client:
            for log in (agent, client):
                result = kibitz.evaluate(log, "a", delta=0.001)
                assert 700 < result.n_visits < 800
                assert result.low <= 0.1 <= result.high < 0.4


def test_a_log_without_randomised_visits_cannot_be_evaluated(memory):
    with kibitz.agent(memory / "shop.db", "s", arms=[*MEANS], rewards="bernoulli") as agent:
        for n in range(30):
            agent.tell(agent.ask().id, n % 2)
        with pytest.raises(
            ValueError, match=r"no randomised visits.*bucket=0\.02.* about [\d,]+ visits$"
        ):
            kibitz.evaluate(agent, "a", precision=0.05)
    log = {"arm": ["a", "b"], "reward": [0, 1], "probability": [1.0, 1.0]}
    with pytest.raises(ValueError, match="no randomised visits"):
        kibitz.evaluate(log, "a")


def test_randomised_visits_without_rewards_cannot_be_evaluated(memory):
    with kibitz.agent(
        memory / "shop.db", "s", arms=[*MEANS], rewards="bernoulli", bucket=1.0, seed=1
    ) as agent:
        for decision in agent.ask(n=3):
            agent.forget(decision.id)
        with pytest.raises(ValueError, match=r"\(3 so far\) is known; report them, or"):
            kibitz.evaluate(agent, "a")


def test_an_arm_that_the_bucket_could_not_draw_cannot_be_evaluated(memory):
    with kibitz.agent(
        memory / "shop.db", "s", arms=[*MEANS], rewards="bernoulli", bucket=1.0, seed=1
    ) as agent:
        agent.pause("b")
        agent.tell([(decision.id, 1) for decision in agent.ask(n=20)])
        with pytest.raises(ValueError, match="no randomised visit could have been given 'b'"):
            kibitz.evaluate(agent, "b")
        agent.resume("b")
        agent.tell([(decision.id, 1) for decision in agent.ask(n=30)])
        assert kibitz.evaluate(agent, "b").n_visits == 30
        assert kibitz.evaluate(agent, "a").n_visits == 50
        assert kibitz.evaluate(agent, kibitz.ftl()).n_visits == 50
        with pytest.raises(ValueError, match="etc cannot be evaluated, because the arms"):
            kibitz.evaluate(agent, kibitz.etc())


def test_the_number_of_visits_needed_gives_the_precision():
    """With the predicted number of visits, half the width is within 15 % of the precision."""
    for precision in (0.05, 0.02):
        needed = count_visits_needed(precision, 3 * 0.5, 3, 0.0, 0.05)
        log = make_log(int(needed), 7)
        result = kibitz.evaluate(log, "b")
        assert (result.high - result.value) == pytest.approx(precision, rel=0.15)
        refined = kibitz.evaluate(log, "b", precision=precision).visits_needed
        assert refined == pytest.approx(needed, rel=0.15)


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"policy": "z"}, "'z' is not an arm of the log; use one of 'a', 'b'"),
        ({}, {"policy": {"a": 0.5}}, "probabilities that sum to 1"),
        ({}, {"policy": 3}, "policy must be a policy, the name of an arm or a dict"),
        ({}, {"policy": "a", "delta": 2}, "delta must be in"),
        ({}, {"policy": "a", "baseline": 2}, "baseline must be in"),
        ({}, {"policy": "a", "probability": "p"}, "probability must be a column of the log"),
        ({"probability": [0.5, 0.0]}, {"policy": "a"}, r"probability of line 2 must be in \(0, 1\]"),
        ({"reward": [0.5, 7.0]}, {"policy": "a"}, r"log must be a log of rewards in \[0, 1\]"),
        (
            {"reward": [0.5, 7.0], "probability": [1.0, 1.0]},
            {"policy": "a"},
            r"log must be a log of rewards in \[0, 1\]",
        ),
    ],
)
def test_bad_arguments_are_rejected(change, arguments, message):
    log = {"arm": ["a", "b"], "reward": [0.0, 1.0], "probability": [0.5, 0.5], **change}
    with pytest.raises(ValueError, match=message):
        kibitz.evaluate(log, **arguments)


def test_an_asynchronous_client_is_rejected():
    client = kibitz.AsyncClient("http://127.0.0.1:8765", agent="checkout")
    with pytest.raises(ValueError, match="log must be an agent, a Client or an exported file"):
        kibitz.evaluate(client, "a")


def test_the_script_reads_the_open_bandit_sample_from_a_wheel(tmp_path, capsys):
    """The wheel of this test has the files and columns of obp; its clicks are random."""
    spec = importlib.util.spec_from_file_location("open_bandit", OPEN_BANDIT)
    open_bandit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(open_bandit)
    rng, n, expected = np.random.default_rng(12), 400, []
    with zipfile.ZipFile(tmp_path / "obp.whl", "w") as wheel:
        for campaign in ("all", "men", "women"):
            items, positions = rng.integers(3, size=(2, n)), rng.integers(1, 4, size=(2, n))
            items[1] = np.minimum(items[1], 1)  # BTS does not show the last item
            clicks = rng.random((2, n)) < 0.3
            for k, policy in enumerate(("random", "bts")):
                lines = ["item_id,position,click,propensity_score"]
                rows = zip(items[k], positions[k], clicks[k], strict=True)
                lines += [f"{item},{position},{click:d},{1 / 3}" for item, position, click in rows]
                name = f"obp/dataset/obd/{policy}/{campaign}/{campaign}.csv"
                wheel.writestr(name, "\n".join(lines))
            shares = np.zeros((3, 4))
            np.add.at(shares, (items[1], positions[1]), 1 / n)
            value = np.mean(9 * shares[items[0], positions[0]] * clicks[0])
            expected.append([100 * clicks[1].mean(), 100 * value])
    open_bandit.main(str(tmp_path / "obp.whl"))
    output = capsys.readouterr().out
    assert output.count("3 items, 400 uniform impressions") == 3
    earned = re.findall(r"BTS earned ([\d.]+) %", output)
    values = re.findall(r"shares of BTS +([\d.]+)", output)
    printed = np.array([earned, values], float).T
    np.testing.assert_allclose(printed, expected, atol=0.0051)
    assert output.count("kibitzer") == output.count("thompson") == 3
