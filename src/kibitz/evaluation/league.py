r"""The league: a comparison of all policies on random problems, with fair and unfair looks.

Each problem has five *settings*. In four settings the policy chooses the arm of each look, and looks
arrive at the rates ε = 0, 0.01, 0.1 and 1. In the fifth setting looks arrive at the rate 0.1 and are
*unfair*: they are passive, and the best arm has little or no weight (`unfair_weights`).

All policies get the same random numbers (common random numbers), so differences between policies are
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

from kibitz._progress import Progress, show_progress
from kibitz._validation import invalid, one_of, seed_number, whole
from kibitz.model.feedback import Feedback, active, named_weights, passive
from kibitz.model.problem import Problem, gaussian
from kibitz.policies import POLICIES
from kibitz.policies.etc_ocucb import etc_ocucb
from kibitz.policies.moss import moss_anytime
from kibitz.policies.policy import Policy
from kibitz.simulation.jobs import Job
from kibitz.simulation.kernels import time_job
from kibitz.simulation.options import check_options
from kibitz.simulation.results.dataset import FINAL_REGRET_NAME, variable_attributes
from kibitz.simulation.schedule import Policies, label_policies
from kibitz.simulation.sweep import sweep

if TYPE_CHECKING:
    import xarray

FloatArray = NDArray[np.float64]
Seed = int | np.random.SeedSequence

N_PROBLEMS = 12
RUNS = 32
HORIZON = 5_000
#: The rates ε of active looks.
RATES = (0.0, 0.01, 0.1, 1.0)
UNFAIR_RATE = 0.1  #: The rate ε of unfair looks.
#: The kinds of unfair weights. Problem n has kind n modulo 4.
UNFAIR = ("never the best", "only the worst", "rarely the best", "1/gap²")
RARE_WEIGHT = 1e-3  #: The weight of the best arms for looks that rarely show them.
ACTIVE = "active"  # the name of looks at arms that the policy chooses
MAX_ARMS = 30
SURE = 3.0  #: A difference is significant if it exceeds this number of standard errors.
FACTORS = tuple(
    float(f"{x:.4g}") for x in np.geomspace(1, 100, 81)
)  #: The factors τ of the profiles.
REFERENCE = "kibitzer"  # the other policies are compared with this policy, if it takes part
# With one observer, UCB is the same as UCB1-Double. scout is for graphs, and the policies of the last
# line are for means that change. This league has neither graphs nor means that change.
EXCLUDED = {
    "ucb", "scout",
    "lookout", "sw_ucb", "d_ucb", "glr_ucb",
}  # fmt: skip


def entrants() -> dict[str, Policy]:
    """Return the policies of the league: the default policies and two tuned variants."""
    default_policies = [
        make_policy() for name, make_policy in POLICIES.items() if name not in EXCLUDED
    ]
    return label_policies(
        [*default_policies, moss_anytime(exploration=2.0), etc_ocucb(all_info=True)]
    )


def league_problems(n: int, seed: Seed) -> list[Problem]:
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
    for position in range(whole(n, "problems", 1)):
        rng = np.random.default_rng([seed_number(seed), position])
        n_arms = min(MAX_ARMS, int(2 * (MAX_ARMS / 2 + 1) ** rng.random()))
        means = np.zeros(n_arms)
        while np.ptp(means) == 0:  # after rounding, all arms can be equal
            means = _random_means(position % 3, n_arms, rng).round(3)
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


def unfair_weights(kind: str, gaps: FloatArray) -> FloatArray:
    """Return weights of passive looks that show the best arms rarely or never.

    Parameters
    ----------
    kind
        "never the best": weight 0 on the best arms, equal weights on the other arms. "only the
        worst": all weight on the arms with the largest gap. "rarely the best": weight 0.001 on the
        best arms, equal weights on the other arms. "1/gap²": weights proportional to 1/Δ², and 0 on
        the best arms.
    gaps
        The gaps Δ of the arms, not all 0.
    """
    if one_of(kind, "kind", UNFAIR) == "1/gap²":
        return named_weights("suboptimal", gaps)
    is_best = gaps == 0
    is_shown = gaps == gaps.max() if kind == "only the worst" else ~is_best
    weight = RARE_WEIGHT if kind == "rarely the best" else 0.0
    weights: FloatArray = weight * is_best / is_best.sum() + (1 - weight) * is_shown / is_shown.sum()
    return weights


def league(
    policies: Policies | None = None,
    *,
    problems: int = N_PROBLEMS,
    horizon: int = HORIZON,
    runs: int = RUNS,
    seed: Seed,
    **options: Any,
) -> "xarray.Dataset":
    """Rank policies by their regret on random problems, each with five kinds of looks.

    Each problem has five settings. In four settings the policy chooses the arm of each look, and
    looks arrive at the rates 0, 0.01, 0.1 and 1. In the fifth setting looks arrive at the rate 0.1
    and show the best arm rarely or never. Pass the result to `compare` for paired differences over
    problems, and to `kibitz.plot.profile` for performance profiles.

    Parameters
    ----------
    policies
        A list of policies, or a dict from labels to policies. Default: all policies of kibitz, with
        two tuned variants.
    problems
        The number of random problems, with 2 to 30 arms and Gaussian rewards of variance 1. With more
        problems, the first problems stay the same.
    horizon, runs
        The number of stages, and the number of runs of each policy in each setting.
    seed
        The seed of the problems and of the runs.
    options
        As in `simulate`: `threads`, `engine`, `error`, `executor`, `kernel` and `progress`. `file` is
        a function that maps the name of a problem to the file for its results.

    Returns
    -------
    xarray.Dataset
        `final_regret` (policy, setting, run), with the best policy first and the coordinates
        `problem`, `rate`, `looks`, `n_arms` and `smallest_gap` of each setting. For each policy:
        `ratio` and `ratio_error` (the regret relative to the best policy of each setting, geometric
        mean over settings, and its standard error over runs), `worst` (the largest ratio), `q99` (the
        99 % quantile of the regret of a run, relative to the mean regret of the best policy) and
        `n_best` (the number of settings in which the policy is the best).
    """
    return collect(
        play_league(policies, problems=problems, horizon=horizon, runs=runs, seed=seed, **options)
    )


def collect(data: "Mapping[str, xarray.Dataset]") -> "xarray.Dataset":
    """Return the results of `play_league` as one dataset, with the scores of each policy."""
    import xarray

    results = games(data)
    scores = [_rate_policy(results, policy) for policy in range(len(results.policies))]
    columns = {
        "ratio": ("ratio", "regret / regret of the best policy, geometric mean over settings"),
        "ratio_error": ("sem", "standard error of the ratio, over runs"),
        "worst": ("worst", "largest regret / regret of the best policy in a setting"),
        "q99": ("q99", "99 % quantile of the regret of a run / mean regret of the best policy"),
        "n_best": ("best", "number of settings in which the policy is the best"),
    }
    ranking = xarray.Dataset(
        {
            "final_regret": (("policy", "setting", "run"), results.regret),
            **{
                name: ("policy", [score[key] for score in scores], {"long_name": long_name})
                for name, (key, long_name) in columns.items()
            },
        },
        {
            "policy": results.policies,
            "problem": ("setting", results.problems),
            "rate": ("setting", results.rates),
            "looks": ("setting", results.looks),
            "n_arms": ("setting", results.n_arms),
            "smallest_gap": ("setting", results.gaps),
        },
    )
    ranking["final_regret"].attrs = variable_attributes("final_regret", FINAL_REGRET_NAME)
    coordinate_names = {
        "policy": "label of the policy",
        "problem": "number of the problem",
        "looks": "who chooses the arms of looks",
        "n_arms": "number of arms",
    }
    for name, long_name in coordinate_names.items():
        ranking[name].attrs["long_name"] = long_name
    ranking["rate"].attrs = {"long_name": "rate of looks", "units": "looks per stage"}
    ranking["smallest_gap"].attrs = {"long_name": "smallest positive gap", "units": "reward"}
    first_attrs, *other_attrs = [problem_data.attrs for problem_data in data.values()]
    ranking.attrs = {
        name: value
        for name, value in first_attrs.items()
        if name in {"horizon", "seed", "policies", "engine", "versions"}
        and all(attrs.get(name) == value for attrs in other_attrs)
    }
    return ranking.isel(policy=np.argsort(ranking["ratio"].to_numpy(), kind="stable"))


def play_league(
    policies: Policies | None = None,
    *,
    problems: int = N_PROBLEMS,
    horizon: int = HORIZON,
    seed: Seed,
    file: Callable[[str], str | os.PathLike[str]] | None = None,
    progress: Progress | bool | None = None,
    **options: Any,
) -> "dict[str, xarray.Dataset]":
    """Simulate all settings; return a dict from the name of each problem to its sweep over looks.

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
    checked = {"horizon": horizon, "seed": seed, "progress": progress, **options}
    check_options(checked, without=("stages", "keep", "file", "watch"))
    if file is not None and not callable(file):
        raise invalid("file", "a function that maps the name of a problem to a file", file)
    labelled_policies = entrants() if policies is None else label_policies(policies)
    problem_list = league_problems(problems, seed)
    data: dict[str, xarray.Dataset] = {}
    with show_progress(progress) as report_progress:
        for n, problem in enumerate(problem_list):

            def report_problem(label: str, share: float, n: int = n) -> None:
                report_progress(label, (n + share) / len(problem_list))

            def make_feedback(rate: float, looks: str, gaps: FloatArray = problem.gaps) -> Feedback:
                if looks == ACTIVE:
                    return active(rate)
                return passive(rate, unfair_weights(looks, gaps))

            name = f"problem {n + 1}"
            points = [
                *({"rate": rate, "looks": ACTIVE} for rate in RATES),
                {"rate": UNFAIR_RATE, "looks": UNFAIR[n % len(UNFAIR)]},
            ]
            data[name] = sweep(
                problem, make_feedback, labelled_policies, points=points, horizon=horizon,
                stages=[horizon], seed=seed,
                file=None if file is None else Path(file(name.replace(" ", "-"))),
                progress=report_problem, **options,
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
    looks: list[str]  # setting: "active", the kind of the unfair weights, or the graph
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

    def by_looks(self) -> "dict[str, Games]":
        """Return the settings, grouped by active looks at each rate, unfair looks, and each graph.

        The keys are the rates as text, "unfair", and the names of the graphs.
        """
        looks = np.array(self.looks)
        is_active, is_unfair = looks == ACTIVE, np.isin(looks, UNFAIR)
        groups = {
            f"{rate:g}": self._select(is_active & (self.rates == rate))
            for rate in sorted(set(self.rates[is_active].tolist()))
        }
        if is_unfair.any():
            groups["unfair"] = self._select(is_unfair)
        names = dict.fromkeys(looks[~is_active & ~is_unfair].tolist())
        return {**groups, **{name: self._select(looks == name) for name in names}}

    def _select(self, is_selected: NDArray[np.bool_]) -> "Games":
        """Return the games of the selected settings."""
        settings = np.flatnonzero(is_selected)
        return Games(
            self.policies,
            [self.problems[s] for s in settings],
            self.gaps[settings],
            [self.n_arms[s] for s in settings],
            self.rates[settings],
            [self.looks[s] for s in settings],
            self.regret[:, settings],
            self.means[:, settings],
        )


def games(data: "Mapping[str, xarray.Dataset]") -> Games:
    """Return the runs of a league, grouped by setting."""
    problems, gaps, n_arms, rates, looks, regret = [], [], [], [], [], []
    for name, problem_data in data.items():
        means = np.array(
            json.loads(problem_data.attrs["cells"])[0]["fingerprint"]["problem"]["means"]
        )
        problem_gaps = means.max() - means
        for point in range(problem_data.sizes["point"]):
            point_data = problem_data.isel(point=point)
            problems.append(name)
            n_arms.append(int(means.size))
            gaps.append(problem_gaps[problem_gaps > 0].min())
            rates.append(float(point_data["rate"]))
            looks.append(str(point_data["looks"].item()))
            regret.append(point_data["final_regret"].to_numpy())
    policies = [str(label) for label in next(iter(data.values()))["policy"].to_numpy()]
    run_regret, smallest_gaps = np.stack(regret, axis=1), np.array(gaps)
    means = np.maximum(run_regret.mean(axis=-1), smallest_gaps)
    return Games(policies, problems, smallest_gaps, n_arms, np.array(rates), looks, run_regret, means)


def geometric_ratio(results: Games, policy: int, other_policies: Any) -> tuple[float, float]:
    """Return the geometric mean over settings of a ratio of mean regrets, and its standard error.

    `policy` and `other_policies` are indices of policies; `other_policies` can be one index per
    setting. The standard error is computed over runs, by the delta method.
    """
    settings = np.arange(len(results.rates))
    indices = ((policy, settings), (np.broadcast_to(other_policies, settings.shape), settings))
    numerators, denominators = (results.means[policy_and_settings] for policy_and_settings in indices)
    mean_ratio = float(np.exp(np.log(numerators / denominators).mean()))
    relative_regrets = [
        results.regret[policy_and_settings] / results.means[policy_and_settings][:, np.newaxis]
        for policy_and_settings in indices
    ]
    return mean_ratio, mean_ratio * standard_error(
        (relative_regrets[0] - relative_regrets[1]).mean(axis=0)
    )


def standard_error(sample: FloatArray) -> float:
    """Return the standard error of the sample mean; infinite for a single run."""
    return float(sample.std(ddof=1) / math.sqrt(sample.size)) if sample.size > 1 else math.inf


def standings(data: "Mapping[str, xarray.Dataset]") -> dict[str, Any]:
    """Return the standings of a league as plain data, with the best policy first.

    - `setting`: `horizon` and `min_horizon` (the largest and the smallest), `runs`, `seed`, `rates`
      (of active looks), `settings` (their number), `problems` (the means of each problem, by name)
      and `unfair` (the kind of the unfair weights of each problem, by name).
    - `factors`: the factors τ of the performance profiles.
    - `reference`: the policy with which all other policies are compared: kibitzer, or the first
      policy if kibitzer does not take part.
    - `policies`: for each policy, `ratio` (the geometric mean of its regret relative to the best
      policy of each setting) and its standard error `sem`; `worst` (the largest ratio) and `where`
      (the setting with this ratio); `q99` (the 99 % quantile, over all runs of all settings, of the
      regret divided by the mean regret of the best policy); `best` (the number of settings in which
      the policy is the best); `by_looks` (the geometric mean with active looks at each rate, with
      unfair looks, and on each graph); and `profile` (for each of the `factors`, the share of
      settings with a ratio of at most this factor).
    - `paired`: for each policy except the reference, `ratio` and `sem` (the geometric mean of its
      regret relative to the reference, and the standard error); `difference` and `difference_sem`
      (the mean difference in regret over all settings, and its standard error); and `better` and
      `worse` (the numbers of settings in which the policy is better or worse than the reference by
      more than 3 standard errors of the paired difference).
    - `beaten`: the settings in which another policy is better than the reference by more than 3
      standard errors. Each entry has `problem`, `n_arms`, `rate`, `looks`, `policy` (the best of the
      better policies), `regret`, `reference`, `difference` and `sem`. Of a thousand comparisons
      between equally good policies, one or two would appear here by chance.
    """
    results = games(data)
    order = sorted(range(len(results.policies)), key=lambda p: _compute_ratio_to_best(results, p)[0])
    fingerprints = [
        json.loads(problem_data.attrs["cells"])[0]["fingerprint"] for problem_data in data.values()
    ]
    return {
        "setting": {
            "horizon": max(fingerprint["horizon"] for fingerprint in fingerprints),
            "min_horizon": min(fingerprint["horizon"] for fingerprint in fingerprints),
            "runs": results.regret.shape[-1],
            "seed": fingerprints[0]["seed"],
            "rates": sorted(
                {
                    float(rate)
                    for rate, looks in zip(results.rates, results.looks, strict=True)
                    if looks == ACTIVE
                }
            ),
            "settings": len(results.looks),
            "problems": {
                name: fingerprint["problem"]["means"]
                for name, fingerprint in zip(data, fingerprints, strict=True)
            },
            "unfair": {
                name: looks
                for name, looks in zip(results.problems, results.looks, strict=True)
                if looks in UNFAIR
            },
        },
        "factors": list(FACTORS),
        "reference": results.policies[results.reference],
        "policies": {results.policies[p]: _rate_policy(results, p) for p in order},
        "paired": {
            results.policies[p]: _compare_to_reference(results, p)
            for p in order
            if p != results.reference
        },
        "beaten": _list_losses(results),
    }


def _compute_ratio_to_best(results: Games, policy: int) -> tuple[float, float]:
    return geometric_ratio(results, policy, results.means.argmin(axis=0))


def _rate_policy(results: Games, policy: int) -> dict[str, Any]:
    ratios = results.means[policy] / results.best
    worst_setting = int(ratios.argmax())
    value, error = _compute_ratio_to_best(results, policy)
    relative_regret = results.regret[policy] / results.best[:, np.newaxis]
    return {
        "ratio": value,
        "sem": error,
        "worst": float(ratios[worst_setting]),
        "where": _describe_setting(results, worst_setting),
        "q99": float(np.quantile(relative_regret, 0.99)),
        "best": int((results.means.argmin(axis=0) == policy).sum()),
        "by_looks": {
            looks: _compute_ratio_to_best(group, policy)[0]
            for looks, group in results.by_looks().items()
        },
        "profile": [float((ratios <= factor).mean()) for factor in FACTORS],
    }


def _describe_setting(results: Games, setting: int) -> dict[str, Any]:
    return {
        "problem": results.problems[setting],
        "n_arms": results.n_arms[setting],
        "rate": float(results.rates[setting]),
        "looks": results.looks[setting],
    }


def _compute_differences(results: Games, policy: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean paired difference to the reference in each setting, and its standard error."""
    differences = results.regret[policy] - results.regret[results.reference]
    return differences.mean(axis=-1), np.array([standard_error(sample) for sample in differences])


def _compare_to_reference(results: Games, policy: int) -> dict[str, Any]:
    value, error = geometric_ratio(results, policy, results.reference)
    differences = results.regret[policy] - results.regret[results.reference]
    difference, errors = _compute_differences(results, policy)
    return {
        "ratio": value,
        "sem": error,
        "difference": float(differences.mean()),
        "difference_sem": standard_error(differences.mean(axis=0)),
        "better": int((difference < -SURE * errors).sum()),
        "worse": int((difference > SURE * errors).sum()),
    }


def _list_losses(results: Games) -> list[dict[str, Any]]:
    losses = []
    differences = [_compute_differences(results, policy) for policy in range(len(results.policies))]
    for setting in range(len(results.rates)):
        better_policies = [
            policy
            for policy, (difference, errors) in enumerate(differences)
            if difference[setting] < -SURE * errors[setting]
        ]
        if better_policies:
            policy = min(better_policies, key=lambda p: float(results.means[p, setting]))
            difference, errors = differences[policy]
            losses.append(
                {
                    **_describe_setting(results, setting),
                    "policy": results.policies[policy],
                    "regret": float(results.means[policy, setting]),
                    "reference": float(results.means[results.reference, setting]),
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
    policies: Policies | None = None,
    stages: int = 10_000,
    runs: int = 20,
    feedback: Feedback | None = None,
) -> dict[str, Cost]:
    """Return the processor time of one stage for each policy, as the best of three measurements.

    The runs have five arms and, unless `feedback` is given, looks at one stage in ten. They use one
    core and proceed stage by stage. The time includes drawing the rewards. If the engine chooses the
    generic kernel for a policy, no specialised kernel is compiled for the measurement.
    """
    five_arms = gaussian([2.0, 1.8, 1.5, 1.0, 0.5])
    looks = active(0.1) if feedback is None else feedback
    costs = {}
    for label, policy in (entrants() if policies is None else label_policies(policies)).items():
        job = Job(label, policy, five_arms, looks, stages, np.array([stages]), 1, 0, runs)
        seconds, kernel = time_job(job)
        costs[label] = Cost(1e9 * seconds / (runs * stages), kernel)
    return costs
