r"""The league: all policies on the same random problems, with looks from never to always.

A *setting* is a problem and a rate ε of looks; whose arm they show is the policy's choice. All
policies meet the same worlds: differences are paired, run by run. Run r of one setting and run r of
another share their random numbers, so that standard errors are over runs, with all settings of a run
taken together.

How a policy is judged: its mean regret in a setting over that of the best policy there (a ratio of 1
or more). Of these ratios, the geometric mean over the settings, the worst, the share of settings with
a ratio of at most :math:`\tau` (its *performance profile*; Dolan and Moré 2002), and of all games
the 99 % quantile of the regret over the mean of the best policy of the setting. The best of several
noisy means is a little too good; ratios to one fixed policy, given beside them, do not
suffer from it. A mean regret below that of one pull of the second-best arm counts as that,
so that ratios are finite.
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
#: ε.
RATES = (0.0, 0.01, 0.1, 1.0)
MOST_ARMS = 30
SURE = 3.0  #: Standard errors by which a policy must be better to have won.
FACTORS = tuple(float(f"{x:.4g}") for x in np.geomspace(1, 100, 81))  #: τ of the profiles.
REFERENCE = "kibitzer"  # whom the others are compared with, if it plays
SAME = {"ucb"}  # as an active observer, UCB is UCB1-Double


def entrants() -> dict[str, Policy]:
    """Return the policies of the league: all with their defaults, and two that are better tuned."""
    usual = [make() for name, make in POLICIES.items() if name not in SAME]
    return label_policies([*usual, moss_anytime(exploration=2.0), etc_ocucb(all_info=True)])


def league_problems(n: int, seed: int) -> list[Problem]:
    """Return n random problems with 2 to 30 arms (log-uniform) and Gaussian rewards of variance 1.

    Three kinds in turn: means drawn from N(0, 1); one arm better than all others by the same gap,
    log-uniform from 0.1 to 1; means uniform in [0, 1]. The best arm may be any.

    Parameters
    ----------
    n
        How many; the first of more are the same.
    seed
        A whole number.
    """
    problems = []
    for place in range(whole(n, "problems", 1)):
        rng = np.random.default_rng([whole(seed, "seed"), place])
        n_arms = min(MOST_ARMS, int(2 * (MOST_ARMS / 2 + 1) ** rng.random()))
        means = np.zeros(n_arms)
        while np.ptp(means) == 0:  # rounded, two arms may be the same
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
    """Play all settings; a sweep over the rates for each problem, by its name.

    Parameters
    ----------
    policies
        Those that play, `entrants` unless given.
    problems, seed
        As in `league_problems`; the seed is also that of the runs.
    horizon
        The number of stages, T.
    file
        Where to save the sweep of a problem, given its name; not saved unless given.
    progress, options
        As in `kibitz.sweep`: `runs`, `threads` and so on.
    """
    own = entrants() if policies is None else label_policies(policies)
    drawn = league_problems(problems, seed)
    tell = progress if progress is not None else lambda what, share: None
    data = {}
    for n, problem in enumerate(drawn):

        def step(what: str, share: float, n: int = n) -> None:
            tell(what, (n + share) / len(drawn))

        name = f"problem {n + 1}"
        data[name] = sweep(
            problem, active, own, rate=RATES, horizon=horizon, stages=[horizon], seed=seed,
            file=None if file is None else Path(file(name.replace(" ", "-"))), progress=step,
            **options,
        )  # fmt: skip
    return data


# ----------------------------------------------------------------------------------- judgement


class Games(NamedTuple):
    """The regret of every game, and what was played."""

    policies: list[str]
    problems: list[str]  # the name of each setting's problem
    gaps: FloatArray  # setting: the smallest one
    n_arms: list[int]  # setting
    rates: FloatArray  # setting
    regret: FloatArray  # policy, setting, run
    means: FloatArray  # policy, setting: not below the smallest gap

    @property
    def best(self) -> FloatArray:
        """The mean regret of the best policy in each setting."""
        return np.asarray(self.means.min(axis=0))

    @property
    def reference(self) -> int:
        """The policy whom the others are compared with."""
        return self.policies.index(REFERENCE) if REFERENCE in self.policies else 0

    def at(self, rate: float) -> "Games":
        """Return the settings with this rate alone."""
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
    """Return the games of a league, setting by setting."""
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
    """Return the geometric mean over settings of a policy's regret over another's, and its s.e.

    `others` is a policy, or one for each setting. The error is by the delta method, over runs.
    """
    settings = np.arange(len(played.rates))
    pairs = ((policy, settings), (np.broadcast_to(others, settings.shape), settings))
    above, below = (played.means[pair] for pair in pairs)
    value = float(np.exp(np.log(above / below).mean()))
    shares = [played.regret[pair] / played.means[pair][:, np.newaxis] for pair in pairs]
    return value, value * standard_error((shares[0] - shares[1]).mean(axis=0))


def standard_error(sample: FloatArray) -> float:
    """Return the standard error of a mean; infinite for a single run."""
    return float(sample.std(ddof=1) / math.sqrt(sample.size)) if sample.size > 1 else math.inf


def standings(data: "Mapping[str, xarray.Dataset]") -> dict[str, Any]:
    """Return how the policies of a league stand, the best first, as plain data.

    - `setting`: `horizon`, `runs`, `seed`, `rates` and `problems` (the means of each, by name).
    - `reference`: whom the others are compared with: kibitzer, or the first if it does not play.
    - `policies`: for each `ratio` (to the best policy of each setting, geometric mean) and `sem`,
      `worst` (the largest ratio) and `where`, `q99`, `best` (in how many settings it is the best),
      `by_rate` (the geometric mean at each rate), `profile` (the share of settings within each of
      the `factors` of the best).
    - `paired`: for each of the others `ratio` and `sem` (its regret over the reference's, geometric
      mean), `difference` and `difference_sem` (in regret, mean over all settings), and in how many
      settings it is surely `better` or `worse`: by 3 standard errors of the paired difference.
    - `beaten`: the settings in which another is surely better than the reference: `problem`,
      `n_arms`, `rate`, `policy` (the best one), `regret`, `reference`, `difference` and `sem`. Of a
      thousand comparisons of equals, one or two would be among them by chance.
    """
    played = games(data)
    order = sorted(range(len(played.policies)), key=lambda p: _ratio_to_best(played, p)[0])
    settings = [json.loads(part.attrs["cells"])[0]["fingerprint"] for part in data.values()]
    return {
        "setting": {
            "horizon": settings[0]["horizon"],
            "runs": played.regret.shape[-1],
            "seed": settings[0]["seed"],
            "rates": sorted(set(played.rates.tolist())),
            "problems": {
                name: one["problem"]["means"] for name, one in zip(data, settings, strict=True)
            },
        },
        "factors": list(FACTORS),
        "reference": played.policies[played.reference],
        "policies": {played.policies[p]: _standing(played, p) for p in order},
        "paired": {played.policies[p]: _paired(played, p) for p in order if p != played.reference},
        "beaten": _beaten(played),
    }


def _ratio_to_best(played: Games, policy: int) -> tuple[float, float]:
    return geometric_ratio(played, policy, played.means.argmin(axis=0))


def _standing(played: Games, policy: int) -> dict[str, Any]:
    ratios = played.means[policy] / played.best
    worst = int(ratios.argmax())
    value, error = _ratio_to_best(played, policy)
    relative = played.regret[policy] / played.best[:, np.newaxis]
    rates = sorted(set(played.rates.tolist()))
    return {
        "ratio": value,
        "sem": error,
        "worst": float(ratios[worst]),
        "where": _place(played, worst),
        "q99": float(np.quantile(relative, 0.99)),
        "best": int((played.means.argmin(axis=0) == policy).sum()),
        "by_rate": {f"{rate:g}": _ratio_to_best(played.at(rate), policy)[0] for rate in rates},
        "profile": [float((ratios <= factor).mean()) for factor in FACTORS],
    }


def _place(played: Games, setting: int) -> dict[str, Any]:
    return {
        "problem": played.problems[setting],
        "n_arms": played.n_arms[setting],
        "rate": float(played.rates[setting]),
    }


def _differences(played: Games, policy: int) -> tuple[FloatArray, FloatArray]:
    """The paired difference to the reference in each setting, and its standard error."""
    each = played.regret[policy] - played.regret[played.reference]
    return each.mean(axis=-1), np.array([standard_error(one) for one in each])


def _paired(played: Games, policy: int) -> dict[str, Any]:
    value, error = geometric_ratio(played, policy, played.reference)
    each = played.regret[policy] - played.regret[played.reference]
    difference, errors = _differences(played, policy)
    return {
        "ratio": value,
        "sem": error,
        "difference": float(each.mean()),
        "difference_sem": standard_error(each.mean(axis=0)),
        "better": int((difference < -SURE * errors).sum()),
        "worse": int((difference > SURE * errors).sum()),
    }


def _beaten(played: Games) -> list[dict[str, Any]]:
    found = []
    compared = [_differences(played, policy) for policy in range(len(played.policies))]
    for setting in range(len(played.rates)):
        better = [
            policy
            for policy, (difference, errors) in enumerate(compared)
            if difference[setting] < -SURE * errors[setting]
        ]
        if better:
            policy = min(better, key=lambda p: float(played.means[p, setting]))
            difference, errors = compared[policy]
            found.append(
                {
                    **_place(played, setting),
                    "policy": played.policies[policy],
                    "regret": float(played.means[policy, setting]),
                    "reference": float(played.means[played.reference, setting]),
                    "difference": float(difference[setting]),
                    "sem": float(errors[setting]),
                }
            )
    return found


class Cost(NamedTuple):
    """What a stage takes."""

    nanoseconds: float
    kernel: str  # "generic" or "specialised"; a generic one takes two to three times as long


def stage_costs(
    policies: Policies | None = None, stages: int = 10_000, runs: int = 20
) -> dict[str, Cost]:
    """Return the processor time of a stage for each policy, here and now: the best of three tries.

    Games of five arms with looks at one stage in ten, on one core, stage by stage; drawing the
    rewards is part of it. Nothing is compiled for it that has a draft.
    """
    five, looks = gaussian([2.0, 1.8, 1.5, 1.0, 0.5]), active(0.1)
    costs = {}
    for label, policy in (entrants() if policies is None else label_policies(policies)).items():
        job = Job(label, policy, five, looks, stages, np.array([stages]), 1, 0, runs)
        seconds, loop = time_job(job)
        costs[label] = Cost(1e9 * seconds / (runs * stages), loop)
    return costs
