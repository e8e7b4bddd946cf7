"""Tests of the bucket: probabilities of decisions, random numbers, and sample-ratio warnings."""

import csv
import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

import kibitz
from kibitz.bounds.concentration import sample_ratio_evidence
from kibitz.live.agent import report
from kibitz.live.agent.transaction import Transaction

ARMS = ["a", "b", "c"]


def create_agent(url, name="s", **arguments):
    return kibitz.agent(url, name, **{"arms": ARMS, "rewards": "bernoulli", "seed": 3, **arguments})


def record_choices(monkeypatch):
    """Return a list that collects the arms that the policy itself chooses."""
    choices, choose = [], Transaction._choose

    def choose_and_record(*arguments):
        choices.append(choose(*arguments))
        return choices[-1]

    monkeypatch.setattr(Transaction, "_choose", choose_and_record)
    return choices


def test_without_a_bucket_a_deterministic_policy_chooses_with_probability_1(url):
    with create_agent(url) as agent:
        decision = agent.ask()
        assert (decision.probability, decision.bucket) == (1.0, False)
        assert agent.look().probability == 1.0
        assert [e.probability for e in agent.events() if e.kind in {"pull", "look"}] == [1.0, 1.0]
        agent.observe("a", 1.0)
        assert list(agent.events())[-1].probability is None


def test_the_probability_is_the_probability_of_the_mixture(url, monkeypatch):
    """Check each probability against the arm that the policy would have pulled."""
    choices = record_choices(monkeypatch)
    with create_agent(url, bucket=0.4) as agent:
        decisions = []
        for n in range(200):
            among = ["a", "c"] if n % 10 == 9 else None
            decisions.append((agent.ask(key=f"k{n}", among=among), 2 if among else 3))
            agent.tell(decisions[-1][0].id, n % 2)
        for (decision, n_arms), choice in zip(decisions, choices, strict=True):
            is_chosen_by_policy = decision.arm == ARMS[choice]
            assert decision.probability == 0.4 / n_arms + 0.6 * is_chosen_by_policy
            assert decision.bucket or is_chosen_by_policy
        assert agent.ask(key="k17") == decisions[17][0]
        assert agent.check() == []
        events = [event for event in agent.events() if event.kind == "pull"]
    assert {event.bucket for event in events if event.bucket} == {"0 1 2", "0 2"}
    for event, (decision, _) in zip(events, decisions, strict=True):
        assert event.probability == decision.probability
        assert (event.bucket is not None) == decision.bucket
    assert any(d.bucket and d.probability > 0.5 for d, _ in decisions)  # both chose the same arm


def test_the_bucket_has_the_promised_rate_and_is_uniform(memory):
    """Each of the two assertions fails by chance with probability at most 1e-4."""
    with create_agent(memory / "shop.db", bucket=0.3) as agent:
        decisions = [d for _ in range(20) for d in agent.ask(n=200)]
    drawn = [decision.arm for decision in decisions if decision.bucket]
    assert stats.binomtest(len(drawn), len(decisions), 0.3).pvalue > 1e-4
    assert stats.chisquare([drawn.count(arm) for arm in ARMS]).pvalue > 1e-4


def test_the_bucket_follows_from_the_seed(memory):
    """The random numbers of a decision depend only on the seed and the id of the decision."""

    def play(name, seed, step):
        with create_agent(memory / "shop.db", name, bucket=0.5, seed=seed) as agent:
            return [d[2:3] + d[5:] for _ in range(60 // step) for d in agent.ask(n=step)]

    first = play("one", 7, 1)
    assert play("two", 7, 20) == first
    assert play("three", 8, 1) != first


def test_thompson_sampling_records_a_probability_only_if_the_bucket_determines_it(url):
    with create_agent(url, policy=kibitz.thompson("bernoulli"), bucket=0.5) as agent:
        for n in range(60):
            decision = agent.ask()
            agent.tell(decision.id, n % 2)
            if n < 3 and not decision.bucket:  # the policy pulls each arm once first, in order
                assert decision.probability == 0.5 + 0.5 / 3
            if n > 10:
                assert decision.probability == (0.5 / 3 if decision.bucket else None)


def test_decisions_of_a_free_bucket_are_looks(url):
    with create_agent(url, bucket=0.5, bucket_is_free=True) as agent:
        decisions = [agent.ask(key=f"k{n}") for n in range(60)]
        looks = [decision for decision in decisions if decision.kind == "look"]
        assert looks == [decision for decision in decisions if decision.bucket]
        assert 0 < len(looks) < 60
        assert agent.ask(key=looks[0].key) == looks[0]
        with pytest.raises(kibitz.Conflict, match="belongs to decision"):
            agent.look(key=looks[0].key)
        agent.tell(looks[0].id, 1)
        assert sum(arm.n_looks for arm in agent.arms()) == 1
        assert sum(arm.n_asked for arm in agent.arms()) == 60 - len(looks)
        assert agent.check() == []


def test_invalid_buckets_are_rejected(tmp_path):
    file = tmp_path / "shop.db"
    with pytest.raises(ValueError, match=r"bucket must be in \[0, 1\], got 2"):
        create_agent(file, bucket=2)
    with pytest.raises(ValueError, match="bucket must be 0 for etc, which must choose every arm"):
        create_agent(file, bucket=0.1, policy=kibitz.etc(horizon=100))
    with pytest.raises(ValueError, match="bucket is required if bucket_is_free is True"):
        create_agent(file, bucket_is_free=True)
    create_agent(file, bucket=0.1).close()
    with pytest.raises(ValueError, match=r"created with bucket=0\.1 and cannot be opened with"):
        create_agent(file, bucket=0.2)
    kibitz.agent(file, "s").close()


def test_the_export_has_probabilities_and_buckets(tmp_path):
    import xarray

    with create_agent(tmp_path / "shop.db", bucket=0.5) as agent:
        agent.ask(n=20)
        events = list(agent.events())
        for suffix in ("csv", "jsonl", "nc"):
            agent.export(tmp_path / f"log.{suffix}")
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["bucket"] or None for row in rows] == [event.bucket for event in events]
    probabilities = [float(row["probability"] or "nan") for row in rows]
    expected = [math.nan if e.probability is None else e.probability for e in events]
    np.testing.assert_array_equal(probabilities, expected)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["probability"] for line in lines] == [event.probability for event in events]
    with xarray.open_dataset(tmp_path / "log.nc") as data:
        np.testing.assert_array_equal(data["probability"], expected)


# ------------------------------------------------------------------------------- the sample ratio


def test_the_evidence_is_a_martingale():
    """The expectation of exp(evidence) over all sequences of 6 visitors is 1."""
    for shares in ([0.5, 0.5], [0.2, 0.3, 0.5]):
        total = 0.0
        for visitors in itertools.product(range(len(shares)), repeat=6):
            counts = np.bincount(visitors, minlength=len(shares))
            total += math.exp(sample_ratio_evidence(counts, shares)) * math.prod(
                shares[v] for v in visitors
            )
        assert total == pytest.approx(1.0, abs=1e-12)


def test_lost_reports_of_one_arm_give_a_warning(url):
    with create_agent(url, bucket=1.0, patience=10.0) as agent:
        now = 2e9
        agent.now = lambda: now
        for n in range(120):
            agent.pause("b") if n == 60 else None
            now += 1
            decision = agent.ask()
            if decision.arm != "c" or n % 4 == 0:
                agent.tell(decision.id, 1)
        warnings = agent.report().attrs["warnings"]
        assert any(w.startswith("sample-ratio mismatch: the bucket has ") for w in warnings)
        counts = [arm.bucket_counts for arm in agent.arms()]
        assert {bucket for arm_counts in counts for bucket in arm_counts} == {"0 1 2", "0 2"}
        assert agent.check() == []


def test_a_fair_bucket_gives_no_warning_at_any_time(memory):
    """A fair bucket gives no warning, even if clicks are known before missing clicks.

    Only settled decisions count. For each of the two agents, the probability that a warning appears
    at any time is at most 1/1000.
    """
    for silence in ("forget", 0.0):
        arguments = {"bucket": 1.0, "patience": 20.0, "silence": silence}
        with create_agent(memory / "shop.db", str(silence), **arguments) as agent:
            rng = np.random.default_rng(5)
            for second in range(150):
                agent.now = lambda second=second: 2e9 + second
                decisions = agent.ask(n=4)
                clicks = [rng.random() < {"a": 0.1, "b": 0.5, "c": 0.9}[d.arm] for d in decisions]
                told = [(d.id, c) for d, c in zip(decisions, clicks, strict=True)]
                agent.tell([pair for pair in told if silence == "forget" or pair[1]] or told[:1])
                assert report._check_sample_ratio(agent.arms()) == []
            assert agent.check() == []
