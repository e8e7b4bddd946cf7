r"""The league: a comparison of all policies on random problems, at rates of looks from 0 to 1.

A *setting* consists of a problem and a rate ε of looks; the policy chooses the arm of each look. All
policies get the same random numbers (common random numbers), so differences between policies are
paired run by run. Run r of one setting and run r of another setting also share their random numbers.
Standard errors are therefore computed over runs, after the settings of each run are combined.

The score of a policy in a setting is the ratio of its mean regret to the mean regret of the best
policy in this setting; the score is at least 1. For each policy the league reports four numbers: the
geometric mean of the scores over the settings; the worst score; the share of settings with a score
of at most :math:`\tau` (the *performance profile*; Dolan and Moré 2002); and the 99 % quantile, over
all runs of all settings, of the regret divided by the mean regret of the best policy. The smallest
of several noisy means is biased downwards. Ratios to one fixed reference policy do not have this
bias. A mean regret below the gap of the second-best arm (the cost of one pull of this arm) is raised
to this gap, which keeps the ratios finite.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz._validation import whole
from kibitz.model.feedback import active
from kibitz.model.problem import Problem, gaussian
from kibitz.policies import POLICIES
from kibitz.policies.etc_ocucb import etc_ocucb
from kibitz.policies.moss import moss_anytime
from kibitz.policies.policy import Policy
from kibitz.simulation.jobs import Job
from kibitz.simulation.kernels import time_job
from kibitz.simulation.schedule import Policies, label_policies
from kibitz.simulation.sweep import sweep

if TYPE_CHECKING:
    import xarray

FloatArray = NDArray[np.float64]

N_PROBLEMS = 12
RUNS = 32
HORIZON = 5_000
#: The rates ε of looks.
RATES = (0.0, 0.01, 0.1, 1.0)
MAX_ARMS = 30
SURE = 3.0  #: A difference is significant if it exceeds this number of standard errors.
FACTORS = tuple(
    float(f"{x:.4g}") for x in np.geomspace(1, 100, 81)
)  #: The factors τ of the profiles.
REFERENCE = "kibitzer"  # the other policies are compared with this policy, if it takes part
EXCLUDED = {"ucb"}  # as an active observer, UCB is the same as UCB1-Double


def entrants() -> dict[str, Policy]:
    """Return the policies of the league: the default policies and two tuned variants."""
    default = [make() for name, make in POLICIES.items() if name not in EXCLUDED]
    return label_policies([*default, moss_anytime(exploration=2.0), etc_ocucb(all_info=True)])


def league_problems(n: int, seed: int) -> list[Problem]:
    """Return n random problems with 2 to 30 arms (log-uniform) and Gaussian rewards of variance 1.

    The problems alternate between three kinds: means drawn from N(0, 1); one best arm, with equal
    means for all other arms and a gap that is log-uniform from 0.1 to 1; and means drawn uniformly
    from [0, 1]. Any arm can be the best arm.

    Parameters
    ----------
    n
        The number of problems. With a larger n, the first problems stay the same.
    seed
        The seed, a whole number.
    """
    problems = []
    for place in range(whole(n, "problems", 1)):
        rng = np.random.default_rng([whole(seed, "seed"), place])
        n_arms = min(MAX_ARMS, int(2 * (MAX_ARMS / 2 + 1) ** rng.random()))
        means = np.zeros(n_arms)
        while np.ptp(means) == 0:  # after rounding, all arms can be equal
            means = _random_means(place % 3, n_arms, rng).round(3)
        problems.append(gaussian(means.tolist()))
    return problems


def _random_means(kind: int, n_arms: int, rng: np.random.Generator) -> FloatArray:
    if kind == 0:
        return rng.normal(0.0, 1.0, n_arms)
    if kind == 2:
        return rng.random(n_arms)
    means = np.zeros(n_arms)
    means[rng.integers(n_arms)] = 0.1 * 10 ** rng.random()
    return means


def play_league(
    policies: Policies | None = None,
    *,
    problems: int = N_PROBLEMS,
    horizon: int = HORIZON,
    seed: int,
    file: Callable[[str], str | os.PathLike[str]] | None = None,
    progress: Callable[[str, float], None] | None = None,
    **options: Any,
) -> "dict[str, xarray.Dataset]":
    """Simulate all settings; return a dict from the name of each problem to its sweep over rates.

    Parameters
    ----------
    policies
        The policies to compare; the default is `entrants()`.
    problems, seed
        As in `league_problems`; the runs use the same seed.
    horizon
        The number of stages, T.
    file
        A function that maps the name of a problem to the file for its sweep; None saves nothing.
    progress, options
        As in `kibitz.sweep`: `runs`, `threads` and so on.
    """
    players = entrants() if policies is None else label_policies(policies)
    problem_list = league_problems(problems, seed)
    report = progress if progress is not None else lambda label, share: None
    data = {}
    for n, problem in enumerate(problem_list):

        def step(label: str, share: float, n: int = n) -> None:
            report(label, (n + share) / len(problem_list))

        name = f"problem {n + 1}"
        data[name] = sweep(
            problem, active, players, rate=RATES, horizon=horizon, stages=[horizon], seed=seed,
            file=None if file is None else Path(file(name.replace(" ", "-"))), progress=step,
            **options,
        )  # fmt: skip
    return data


# ----------------------------------------------------------------------------------- standings


class Games(NamedTuple):
    """The regret of every run in every setting. The comments name the axes of each array."""

    policies: list[str]
    problems: list[str]  # setting: the name of its problem
    gaps: FloatArray  # setting: the smallest gap
    n_arms: list[int]  # setting
    rates: FloatArray  # setting
    regret: FloatArray  # policy, setting, run
    means: FloatArray  # policy, setting: the mean regret, at least the smallest gap

    @property
    def best(self) -> FloatArray:
        """The mean regret of the best policy in each setting."""
        return np.asarray(self.means.min(axis=0))

    @property
    def reference(self) -> int:
        """The index of the reference policy."""
        return self.policies.index(REFERENCE) if REFERENCE in self.policies else 0

    def at(self, rate: float) -> "Games":
        """Return only the settings with this rate."""
        here = np.flatnonzero(self.rates == rate)
        return Games(
            self.policies,
            [self.problems[s] for s in here],
            self.gaps[here],
            [self.n_arms[s] for s in here],
            self.rates[here],
            self.regret[:, here],
            self.means[:, here],
        )


def games(data: "Mapping[str, xarray.Dataset]") -> Games:
    """Return the runs of a league, grouped by setting."""
    problems, gaps, n_arms, rates, regret = [], [], [], [], []
    for name, part in data.items():
        means = np.array(json.loads(part.attrs["cells"])[0]["fingerprint"]["problem"]["means"])
        own = means.max() - means
        for rate in part["rate"].to_numpy():
            problems.append(name)
            n_arms.append(int(means.size))
            gaps.append(own[own > 0].min())
            rates.append(float(rate))
            regret.append(part["final_regret"].sel(rate=rate).to_numpy())
    policies = [str(label) for label in next(iter(data.values()))["policy"].to_numpy()]
    all_games, least = np.stack(regret, axis=1), np.array(gaps)
    means = np.maximum(all_games.mean(axis=-1), least)
    return Games(policies, problems, least, n_arms, np.array(rates), all_games, means)


def geometric_ratio(played: Games, policy: int, others: Any) -> tuple[float, float]:
    """Return the geometric mean over settings of a ratio of mean regrets, and its standard error.

    `policy` and `others` are indices of policies; `others` can be one index per setting. The standard
    error is computed over runs, by the delta method.
    """
    settings = np.arange(len(played.rates))
    pairs = ((policy, settings), (np.broadcast_to(others, settings.shape), settings))
    above, below = (played.means[pair] for pair in pairs)
    value = float(np.exp(np.log(above / below).mean()))
    shares = [played.regret[pair] / played.means[pair][:, np.newaxis] for pair in pairs]
    return value, value * standard_error((shares[0] - shares[1]).mean(axis=0))


def standard_error(sample: FloatArray) -> float:
    """Return the standard error of the sample mean; infinite for a single run."""
    return float(sample.std(ddof=1) / math.sqrt(sample.size)) if sample.size > 1 else math.inf


def standings(data: "Mapping[str, xarray.Dataset]") -> dict[str, Any]:
    """Return the standings of a league as plain data, with the best policy first.

    - `setting`: `horizon`, `runs`, `seed`, `rates`, and `problems` (the means of each problem, by
      name).
    - `factors`: the factors τ of the performance profiles.
    - `reference`: the policy with which all other policies are compared: kibitzer, or the first
      policy if kibitzer does not take part.
    - `policies`: for each policy, `ratio` (the geometric mean of its regret relative to the best
      policy of each setting) and its standard error `sem`; `worst` (the largest ratio) and `where`
      (the setting with this ratio); `q99` (the 99 % quantile, over all runs of all settings, of the
      regret divided by the mean regret of the best policy); `best` (the number of settings in which
      the policy is the best); `by_rate` (the geometric mean at each rate); and `profile` (for each of
      the `factors`, the share of settings with a ratio of at most this factor).
    - `paired`: for each policy except the reference, `ratio` and `sem` (the geometric mean of its
      regret relative to the reference, and the standard error); `difference` and `difference_sem`
      (the mean difference in regret over all settings, and its standard error); and `better` and
      `worse` (the numbers of settings in which the policy is better or worse than the reference by
      more than 3 standard errors of the paired difference).
    - `beaten`: the settings in which another policy is better than the reference by more than 3
      standard errors. Each entry has `problem`, `n_arms`, `rate`, `policy` (the best of the better
      policies), `regret`, `reference`, `difference` and `sem`. Of a thousand comparisons between
      equally good policies, one or two would appear here by chance.
    """
    played = games(data)
    order = sorted(range(len(played.policies)), key=lambda p: _compute_ratio_to_best(played, p)[0])
    settings = [json.loads(part.attrs["cells"])[0]["fingerprint"] for part in data.values()]
    return {
        "setting": {
            "horizon": settings[0]["horizon"],
            "runs": played.regret.shape[-1],
            "seed": settings[0]["seed"],
            "rates": sorted(set(played.rates.tolist())),
            "problems": {
                name: spec["problem"]["means"] for name, spec in zip(data, settings, strict=True)
            },
        },
        "factors": list(FACTORS),
        "reference": played.policies[played.reference],
        "policies": {played.policies[p]: _rate_policy(played, p) for p in order},
        "paired": {
            played.policies[p]: _compare_to_reference(played, p)
            for p in order
            if p != played.reference
        },
        "beaten": _list_losses(played),
    }


def _compute_ratio_to_best(played: Games, policy: int) -> tuple[float, float]:
    return geometric_ratio(played, policy, played.means.argmin(axis=0))


def _rate_policy(played: Games, policy: int) -> dict[str, Any]:
    ratios = played.means[policy] / played.best
    worst = int(ratios.argmax())
    value, error = _compute_ratio_to_best(played, policy)
    relative = played.regret[policy] / played.best[:, np.newaxis]
    rates = sorted(set(played.rates.tolist()))
    return {
        "ratio": value,
        "sem": error,
        "worst": float(ratios[worst]),
        "where": _describe_setting(played, worst),
        "q99": float(np.quantile(relative, 0.99)),
        "best": int((played.means.argmin(axis=0) == policy).sum()),
        "by_rate": {
            f"{rate:g}": _compute_ratio_to_best(played.at(rate), policy)[0] for rate in rates
        },
        "profile": [float((ratios <= factor).mean()) for factor in FACTORS],
    }


def _describe_setting(played: Games, setting: int) -> dict[str, Any]:
    return {
        "problem": played.problems[setting],
        "n_arms": played.n_arms[setting],
        "rate": float(played.rates[setting]),
    }


def _compute_differences(played: Games, policy: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean paired difference to the reference in each setting, and its standard error."""
    each = played.regret[policy] - played.regret[played.reference]
    return each.mean(axis=-1), np.array([standard_error(sample) for sample in each])


def _compare_to_reference(played: Games, policy: int) -> dict[str, Any]:
    value, error = geometric_ratio(played, policy, played.reference)
    each = played.regret[policy] - played.regret[played.reference]
    difference, errors = _compute_differences(played, policy)
    return {
        "ratio": value,
        "sem": error,
        "difference": float(each.mean()),
        "difference_sem": standard_error(each.mean(axis=0)),
        "better": int((difference < -SURE * errors).sum()),
        "worse": int((difference > SURE * errors).sum()),
    }


def _list_losses(played: Games) -> list[dict[str, Any]]:
    losses = []
    compared = [_compute_differences(played, policy) for policy in range(len(played.policies))]
    for setting in range(len(played.rates)):
        better = [
            policy
            for policy, (difference, errors) in enumerate(compared)
            if difference[setting] < -SURE * errors[setting]
        ]
        if better:
            policy = min(better, key=lambda p: float(played.means[p, setting]))
            difference, errors = compared[policy]
            losses.append(
                {
                    **_describe_setting(played, setting),
                    "policy": played.policies[policy],
                    "regret": float(played.means[policy, setting]),
                    "reference": float(played.means[played.reference, setting]),
                    "difference": float(difference[setting]),
                    "sem": float(errors[setting]),
                }
            )
    return losses


class Cost(NamedTuple):
    """The processor time of one stage, and the kind of kernel that was measured."""

    nanoseconds: float
    kernel: str  # "generic" or "specialised"; generic kernels are two to three times slower


def stage_costs(
    policies: Policies | None = None, stages: int = 10_000, runs: int = 20
) -> dict[str, Cost]:
    """Return the processor time of one stage for each policy, as the best of three measurements.

    The runs have five arms and looks at one stage in ten. They use one core and proceed stage by
    stage. The time includes drawing the rewards. If the engine chooses the generic kernel for a
    policy, no specialised kernel is compiled for the measurement.
    """
    five, looks = gaussian([2.0, 1.8, 1.5, 1.0, 0.5]), active(0.1)
    costs = {}
    for label, policy in (entrants() if policies is None else label_policies(policies)).items():
        job = Job(label, policy, five, looks, stages, np.array([stages]), 1, 0, runs)
        seconds, kernel = time_job(job)
        costs[label] = Cost(1e9 * seconds / (runs * stages), kernel)
    return costs
