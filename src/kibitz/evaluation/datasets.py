r"""Compare policies on recorded A/B tests.

A recorded test gives the impressions and the clicks of each arm. The observed click rates differ more
than the true rates, because of chance. The true rates of a simulated test are therefore drawn from
their posterior distribution (`kibitz.model.click_rates`), with one relative variance for all tests of
the file. Each test is one bandit problem with Bernoulli rewards. All policies get the same random
numbers. The policies play with active looks at each rate in `RATES`; rate 0 means no looks.

The score of a policy is its regret, summed over all tests, as a share of the regret of an even split,
which shows every arm equally often. Intervals are percentile intervals of a bootstrap over
tests. For the ratio of two policies, each resample has the same tests for both policies (paired).
"""

import csv
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz._validation import seed_number, short_repr, whole
from kibitz.bounds.concentration import sample_ratio_p_value
from kibitz.evaluation.league import EXCLUDED
from kibitz.model.click_rates import pooled_variance, rate_posterior
from kibitz.model.feedback import active
from kibitz.model.problem import Problem, bernoulli
from kibitz.policies import POLICIES
from kibitz.policies.imed import imed
from kibitz.policies.kibitzer import kibitzer
from kibitz.policies.kl_ucb import kl_ucb
from kibitz.policies.moss import moss_anytime
from kibitz.policies.policy import Policy
from kibitz.policies.thompson import thompson
from kibitz.policies.top_two_thompson import top_two_thompson
from kibitz.simulation.schedule import Policies, label_policies
from kibitz.simulation.sweep import sweep

if TYPE_CHECKING:
    import xarray

FloatArray = NDArray[np.float64]

N_TESTS = 300
MIN_CLICKS = 20  # a test with fewer clicks says little about its rates
HORIZON = 20_000
RUNS = 4
RATES = (0.0, 0.01, 0.1)  #: The rates ε of looks.
REFERENCE = "kibitzer:rewards=bernoulli"
N_RESAMPLES = 2_000
SELECTION_SEED, DRAW_SEED, RESAMPLE_SEED = 2026, 7, 1
UNEVEN_LEVEL = 1e-3  # an even split fails the sample-ratio check with at most this probability
COLUMNS = ("test", "arm", "impressions", "clicks")


class RecordedTest(NamedTuple):
    """The counts of the arms of one recorded A/B test."""

    name: str
    impressions: NDArray[np.int64]
    clicks: NDArray[np.int64]


def read_tests(path: str | os.PathLike[str]) -> list[RecordedTest]:
    """Read A/B tests from a CSV file with the columns test, arm, impressions and clicks.

    Each row holds the counts of one arm. Other columns are ignored. Tests with a single arm are left
    out. Raise ValueError with the line number if a row is invalid.
    """
    rows: dict[str, dict[str, tuple[int, int]]] = {}
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing_columns = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing_columns:
            raise ValueError(
                f"{Path(path).name} has no column {missing_columns[0]!r}; it needs {COLUMNS}"
            )
        for row in reader:
            line_text = f"line {reader.line_num} of {Path(path).name}"
            counts = [_parse_count(row, name, line_text) for name in ("impressions", "clicks")]
            if not counts[1] <= counts[0] or counts[0] == 0:
                raise ValueError(
                    f"{line_text}: clicks must be at most impressions, and impressions at least 1, "
                    f"got {counts[1]} clicks and {counts[0]} impressions"
                )
            arms = rows.setdefault(row["test"], {})
            if row["arm"] in arms:
                raise ValueError(
                    f"{line_text}: arm {row['arm']!r} of test {row['test']!r} occurs twice"
                )
            arms[row["arm"]] = (counts[0], counts[1])
    tests = []
    for name, arms in rows.items():
        if len(arms) > 1:
            impressions, clicks = np.array(list(arms.values())).T
            tests.append(RecordedTest(name, impressions, clicks))
    return tests


def _parse_count(row: dict[str, str], column: str, line_text: str) -> int:
    try:
        return whole(int(row[column]), column)
    except (TypeError, ValueError):
        raise ValueError(
            f"{line_text}: {column} must be a whole number, got {short_repr(row[column])}"
        ) from None


def find_uneven_tests(tests: list[RecordedTest]) -> list[str]:
    """Return the names of tests whose impressions contradict an even split (`UNEVEN_LEVEL`)."""
    return [t.name for t in tests if sample_ratio_p_value(t.impressions) <= UNEVEN_LEVEL]


def overall_rate(tests: list[RecordedTest]) -> float:
    """Return the click rate of all tests together."""
    return float(sum(t.clicks.sum() for t in tests) / sum(t.impressions.sum() for t in tests))


def draw_problems(tests: list[RecordedTest], n: int = N_TESTS) -> dict[str, Problem]:
    """Return one problem with Bernoulli rewards for each of n randomly selected tests.

    Only tests with at least `MIN_CLICKS` clicks are selected. The rates are drawn from their
    posterior distribution. The draw for a test depends only on its name, its counts and the pooled
    variance of all tests.
    """
    eligible_tests = {test.name: test for test in tests if test.clicks.sum() >= MIN_CLICKS}
    if not eligible_tests:
        raise ValueError(f"no test has {MIN_CLICKS} clicks or more; use a file with larger tests")
    variance = pooled_variance((test.impressions, test.clicks) for test in eligible_tests.values())
    names = sorted(eligible_tests, key=_sort_key)
    positions = np.random.default_rng(SELECTION_SEED).permutation(len(names))[
        : whole(n, "problems", 1)
    ]
    problems = {}
    for position in positions:
        test = eligible_tests[names[position]]
        alpha, beta = rate_posterior(test.impressions, test.clicks, variance)
        rng = np.random.default_rng([DRAW_SEED, *test.name.encode()])
        problems[test.name] = bernoulli(rng.beta(alpha, beta))
    return problems


def _sort_key(name: str) -> tuple[int, str]:
    """Return a sort key that orders numbers by value and puts other names after all numbers."""
    return (int(name), "") if name.isdigit() else (10**18, name)


def click_entrants(rate: float) -> dict[str, Policy]:
    """Return the policies to compare on tests with this overall click rate.

    The result contains all policies with their default parameters, which assume scale 1/2 for rewards
    in [0, 1]; policies made for Bernoulli rewards; and kibitzer and MOSS-anytime with the scale √(p(1
    - p)).
    """
    scale = float(f"{math.sqrt(rate * (1 - rate)):.2g}")
    default_policies = [
        make_policy() for name, make_policy in POLICIES.items() if name not in EXCLUDED
    ]
    return label_policies(
        [
            kibitzer(rewards="bernoulli"), thompson("bernoulli"), kl_ucb("bernoulli"),
            imed("bernoulli"), top_two_thompson("bernoulli"),
            kibitzer(scale=scale), moss_anytime(2.0, scale=scale), moss_anytime(2.0),
            *default_policies,
        ]
    )  # fmt: skip


def play_tests(
    problems: Mapping[str, Problem],
    policies: Policies,
    *,
    horizon: int = HORIZON,
    runs: int = RUNS,
    seed: int,
    progress: Callable[[str, float], None] | None = None,
    **options: Any,
) -> "dict[str, xarray.Dataset]":
    """Simulate the policies on each problem; return a dict from test to its sweep over `RATES`.

    Parameters
    ----------
    problems
        The problem of each test, as `draw_problems` returns them.
    policies
        The policies to compare.
    horizon
        The number of visitors of each test.
    seed
        The seed, a whole number. Every test has its own random numbers, which depend on the seed and
        the name of the test.
    runs, progress, options
        As in `kibitz.sweep`.
    """
    report_progress = progress if progress is not None else lambda label, share: None
    data = {}
    for position, (name, problem) in enumerate(problems.items()):

        def report_test(label: str, share: float, position: int = position, name: str = name) -> None:
            report_progress(f"test {name}", (position + share) / len(problems))

        test_seed = np.random.SeedSequence([seed_number(seed), *name.encode()]).generate_state(1)
        data[name] = sweep(
            problem, active, policies, rate=RATES, horizon=horizon, stages=[horizon], runs=runs,
            seed=int(test_seed[0]), progress=report_test, **options,
        )  # fmt: skip
    return data


def score_policies(
    data: "Mapping[str, xarray.Dataset]", problems: Mapping[str, Problem]
) -> dict[str, Any]:
    """Return the scores of a comparison as plain data, with the best policy first.

    - `setting`: `tests`, `horizon`, `runs`, `rates`, and `even_split`, the mean regret per test of an
      even split.
    - `reference`: the policy with which the other policies are compared: kibitzer for Bernoulli
      rewards, or the first policy if this kibitzer does not take part.
    - `policies`: for each policy and each rate, `share` (its regret divided by the regret of an even
      split) with the bootstrap interval `share_low` to `share_high`, and `ratio` (its regret divided
      by the regret of the reference) with `ratio_low` to `ratio_high`. All intervals are 95 %
      intervals over tests.
    """
    test_data = list(data.values())
    labels = [str(label) for label in test_data[0]["policy"].to_numpy()]
    regret = np.stack(
        [
            one_test["final_regret"].mean("run").transpose("policy", "rate").to_numpy()
            for one_test in test_data
        ]
    )  # test, policy, rate
    horizon = int(test_data[0]["stage"][-1])
    even_split = horizon * np.array([problems[name].gaps.mean() for name in data])
    rng = np.random.default_rng(RESAMPLE_SEED)
    weights = rng.multinomial(
        len(even_split), np.full(len(even_split), 1 / len(even_split)), N_RESAMPLES
    )
    regret_totals = np.concatenate([regret.sum(axis=0)[np.newaxis], np.tensordot(weights, regret, 1)])
    even_split_totals = np.concatenate([[even_split.sum()], weights @ even_split])[
        :, np.newaxis, np.newaxis
    ]
    reference_index = labels.index(REFERENCE) if REFERENCE in labels else 0
    shares, ratios = (
        regret_totals / even_split_totals,
        regret_totals / regret_totals[:, reference_index : reference_index + 1],
    )
    policy_order = np.argsort(shares[0].mean(axis=-1))
    return {
        "setting": {
            "tests": len(even_split),
            "horizon": horizon,
            "runs": int(test_data[0].sizes["run"]),
            "rates": list(RATES),
            "even_split": float(even_split.mean()),
        },
        "reference": labels[reference_index],
        "policies": {
            labels[p]: {
                f"{rate:g}": _summarise(shares[:, p, r], "share")
                | _summarise(ratios[:, p, r], "ratio")
                for r, rate in enumerate(RATES)
            }
            for p in policy_order
        },
    }


def _summarise(values: FloatArray, name: str) -> dict[str, float]:
    """Return the first value, and the 95 % percentile interval of the remaining values."""
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return {name: float(values[0]), f"{name}_low": float(low), f"{name}_high": float(high)}
