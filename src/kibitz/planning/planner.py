r"""Plan how many looks to buy, and predict the regret with and without looks.

The predictions are approximations: formulas whose constants were fitted to simulations
(`kibitz.planning.bernoulli` for clicks, `kibitz.planning.prediction` for Gaussian rewards). No number
in a plan is a bound; for bounds see `kibitz.bounds`. Plans do not cover graphs, on which a pull also
shows other arms; use simulations for graphs.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kibitz._progress import Progress
from kibitz._validation import EXECUTOR, between, flag, invalid, number, numbers, seed_number, whole
from kibitz.bounds._checks import (
    MAX_VALUE,
    MIN_VALUE,
    check_array,
    check_gaps,
    check_nonnegative,
    check_scale,
)
from kibitz.model.click_rates import draw_rates
from kibitz.planning.clicks import plan_clicks
from kibitz.planning.fluid import FloatArray
from kibitz.planning.gaussian import plan_gaussian
from kibitz.planning.prediction import check_single_horizon
from kibitz.planning.result import Plan

if TYPE_CHECKING:
    from kibitz.simulation.options import Executors

N_GAPS = 9  # the number of problems for a gap range
N_DRAWS = 200  # the number of draws from the posterior distribution of the rates
DRAWS_SEED = 1  # a fixed seed, so the same views and clicks give the same plan
MAX_ARMS = 1_000_000
CLICKS = ("baseline", "rates", "clicks")  # the arguments that describe clicks
GAUSSIAN = ("gap", "gap_range", "gaps")  # the arguments that describe Gaussian rewards


def plan(
    horizon: int,
    *,
    n_arms: int | None = None,
    baseline: float | None = None,
    lift: float | str | None = None,
    rates: Sequence[float] | None = None,
    clicks: Sequence[int] | None = None,
    views: Sequence[int] | None = None,
    gap: float | None = None,
    gap_range: Sequence[float] | None = None,
    gaps: Sequence[float] | None = None,
    scale: float = 1.0,
    at: float | None = None,
    cost: float | None = None,
    randomized: float | None = None,
    exploration: float = 6.0,
    simulate: bool = False,
    runs: int = 200,
    seed: "int | np.random.SeedSequence | None" = None,
    progress: Progress | bool | None = None,
    executor: "Executors | None" = None,
) -> Plan:
    r"""Return a plan: how many looks to buy, which policy to use, and the predicted regret.

    Describe the arms by exactly one of `baseline`, `rates` and `clicks` if rewards are 0 or 1, such
    as clicks, or by one of `gap`, `gap_range` and `gaps` if rewards are Gaussian.

    Parameters
    ----------
    horizon
        The number of stages T, such as the number of visitors, from 1 to 2⁵³.
    n_arms
        The number of arms K, from 2 to a million, including the best arm. The default is 2 with
        `baseline`. Required with `gap` and `gap_range`.
    baseline, lift
        The rate of every arm but the best, such as 0.05 for a click rate of 5 %, and the lift of the
        best arm. A number is an absolute lift: with 0.01 the best arm has rate 0.06. A string such as
        "20%" is a lift relative to the baseline, which also gives the rate 0.06.
    rates
        The rate of each arm.
    clicks, views
        The numbers of clicks and views of each arm in recorded data. The plan averages over 200
        draws from the posterior distribution of the rates (`kibitz.model.click_rates`), because the
        observed rates overstate the lift of the best arm.
    gap
        The gap of every sub-optimal arm, from 1e-50 to 1e50.
    gap_range
        The smallest and the largest plausible gap of the sub-optimal arms, if all of them have the
        same gap. The plan averages over nine log-spaced gaps in this range.
    gaps
        The gap of each sub-optimal arm. The list may include a 0 for the best arm.
    scale
        The standard deviation of Gaussian rewards. Gaps, costs and regret are in units of reward.
    at
        The rate of looks ε to predict for, in [0, 1]. By default the plan recommends a rate.
    cost
        The cost of one look, in units of reward: for clicks, a number of clicks.
    randomized
        The share of visitors that get a random arm, such as 0.05, up to 0.5; only for clicks. The
        plan then says what these visitors cost, and what kibitzer saves by learning from them. The
        other predictions of the plan ignore these visitors.
    exploration
        The constant c of UCB's index; only for Gaussian rewards.
    simulate
        Whether to simulate some of the settings and compare with the predictions; needs a `seed`.
    runs, seed
        The number of runs of each simulated setting, and the seed of the runs.
    progress, executor
        As in `kibitz.simulate`.

    Returns
    -------
    Plan
        The plan. `regret` is the predicted regret of kibitzer at the rate of looks `at`, or at the
        recommended rate; `kibitz.planning.result.Plan` describes all attributes.
    """
    horizon, exploration = check_single_horizon(horizon), check_scale("exploration", exploration)
    arguments = {
        "baseline": baseline, "rates": rates, "clicks": clicks,
        "gap": gap, "gap_range": gap_range, "gaps": gaps,
    }  # fmt: skip
    arms_argument = _find_source(arguments, {"lift": lift, "views": views})
    scale, at = check_scale("scale", scale), None if at is None else between(at, "at", 0, 1)
    if at is not None and at < MIN_VALUE:
        at = 0.0  # there will be no look
    cost = None if cost is None else check_nonnegative("cost", cost)
    simulate, runs = flag(simulate, "simulate"), whole(runs, "runs", 1)
    seed = None if seed is None else seed_number(seed)
    if not (executor is None or isinstance(executor, Executor) or callable(executor)):
        raise invalid("executor", EXECUTOR, executor)
    if not (progress is None or progress is False or callable(progress)):
        raise invalid("progress", "a function, False or None", progress)
    if simulate and seed is None:
        raise ValueError("simulate=True needs a seed; pass any whole number, such as seed=1")
    if arms_argument in CLICKS:
        for name, value, default_value in (("scale", scale, 1.0), ("exploration", exploration, 6.0)):
            if value != default_value:
                raise invalid(
                    name, f"left out with {arms_argument}, because rewards are clicks", value
                )
        randomized_share = None if randomized is None else _check_share(randomized)
        problems = _make_click_problems(n_arms, baseline, lift, rates, clicks, views)
    else:
        if randomized is not None:
            raise invalid(
                "randomized",
                f"left out with {arms_argument}; it needs clicks (see baseline)",
                randomized,
            )
        problems = _make_gaussian_problems(n_arms, gap, gap_range, gaps)
        check_array(
            arms_argument, problems / scale, "0, or from 1e-50 to 1e50 times scale", _is_allowed
        )

    def make_plan(options: dict[str, Any] | None) -> Plan:
        if arms_argument in CLICKS:
            return plan_clicks(problems, horizon, at, cost, randomized_share, options)
        return plan_gaussian(problems, horizon, at, cost, scale, exploration, options)

    if not simulate:
        return make_plan(None)
    from kibitz.simulation.executors import open_executor

    with open_executor(executor) as pool:
        return make_plan({"runs": runs, "seed": seed, "progress": progress, "executor": pool})


def _find_source(arguments: dict[str, Any], partners: dict[str, Any]) -> str:
    """Return the name of the argument that describes the arms.

    Raise ValueError unless there is exactly one such argument, with the partner that it requires.
    `partners` holds "lift", which "baseline" requires, and "views", which "clicks" requires.
    """
    names = [name for name, value in arguments.items() if value is not None]
    if len(names) != 1:
        given_names = " and ".join(names) or "none"
        raise ValueError(
            f"give exactly one of {', '.join(CLICKS)} (for clicks), {', '.join(GAUSSIAN)} "
            f"(for Gaussian rewards), got {given_names}"
        )
    for name, required_argument in (("lift", "baseline"), ("views", "clicks")):
        if (partners[name] is not None) != (names[0] == required_argument):
            if names[0] == required_argument:
                raise ValueError(f"{required_argument} needs {name}")
            raise ValueError(f"{name} needs {required_argument}; leave it out with {names[0]}")
    return names[0]


def _make_click_problems(
    n_arms: int | None,
    baseline: float | None,
    lift: Any,
    rates: Sequence[float] | None,
    clicks: Sequence[int] | None,
    views: Sequence[int] | None,
) -> FloatArray:
    """Return the rates of the arms as an array (problem, arm)."""
    if baseline is not None:
        low = _check_rate("baseline", baseline)
        high = low + _check_lift(lift, low)
        if not low < high < 1:
            condition = f"such that {low:g} plus the lift is above {low:g} and below 1"
            raise invalid("lift", condition, lift)
        n = 2 if n_arms is None else whole(n_arms, "n_arms", 2, MAX_ARMS)
        return np.array([[high] + [low] * (n - 1)])
    if rates is not None:
        values = numbers(rates, "rates", 2)
        if not ((values > 0) & (values < 1)).all():
            raise invalid("rates", "between 0 and 1, exclusive", rates)
        _check_n_arms(n_arms, values.size, "rates")
        return values[np.newaxis]
    counts, n_views = _check_counts("clicks", clicks, 0), _check_counts("views", views, 1)
    if counts.shape != n_views.shape:
        raise invalid("views", f"a list of {counts.size} numbers, one per arm", views)
    if (counts > n_views).any():
        raise invalid("clicks", "at most the views of each arm", clicks)
    _check_n_arms(n_arms, counts.size, "clicks")
    if counts.sum() == 0:
        raise ValueError(
            "a plan needs at least one click; collect some clicks, or use baseline and lift"
        )
    if counts.sum() == n_views.sum():
        raise ValueError("a plan needs at least one view without a click; use baseline and lift")
    rate_draws = draw_rates(n_views, counts, N_DRAWS, DRAWS_SEED)
    return np.clip(rate_draws, np.finfo(float).tiny, 1 - np.finfo(float).epsneg)


def _check_rate(name: str, value: Any) -> float:
    condition = "between 0 and 1, exclusive"
    if not 0 < (x := number(value, name, condition)) < 1:
        raise invalid(name, condition, value)
    return x


def _check_lift(lift: Any, baseline: float) -> float:
    """Return the absolute lift. A string such as "20%" is a lift relative to the baseline."""
    condition = 'a positive number such as 0.01, or a relative lift such as "20%"'
    if not isinstance(lift, str):
        if not 0 < (x := number(lift, "lift", condition)) < 1:
            raise invalid("lift", condition, lift)
        return x
    try:
        share = float(lift.strip().removesuffix("%")) / 100 if "%" in lift else 0.0
    except ValueError:
        share = 0.0
    if not 0 < share < np.inf:
        raise invalid("lift", condition, lift)
    return share * baseline


def _check_share(randomized: float) -> float:
    condition = "positive and at most 0.5"
    if not 0 < (x := number(randomized, "randomized", condition)) <= 0.5:
        raise invalid("randomized", condition, randomized)
    return x


def _check_counts(name: str, values: Any, minimum: int) -> NDArray[np.int64]:
    """Return a list of whole numbers, one per arm."""
    condition = f"a list of whole numbers of at least {minimum}, one per arm"
    array = check_array(
        name,
        values,
        condition,
        lambda x: (x >= minimum) & (x < 2**53) & (x == np.floor(x)),
        min_size=2,
    )
    if array.ndim != 1:
        raise invalid(name, condition, values)
    return array.astype(np.int64)


def _check_n_arms(n_arms: int | None, n: int, name: str) -> None:
    if n_arms is not None and whole(n_arms, "n_arms", 2) != n:
        raise invalid("n_arms", f"{n} to match {name}, or left out", n_arms)


def _make_gaussian_problems(
    n_arms: int | None, gap: float | None, gap_range: Any, gaps: Sequence[float] | None
) -> FloatArray:
    """Return the gaps as an array (problem, arm), with the best arm first."""
    if gaps is not None:
        return np.array([_check_gap_list(gaps, n_arms)])
    if n_arms is None:
        raise ValueError(f"{'gap_range' if gap is None else 'gap'} needs n_arms, the number of arms")
    n_arms = whole(n_arms, "n_arms", 2, MAX_ARMS)
    if gap is not None:
        values = [check_scale("gap", gap)]
    else:
        condition = "two increasing gaps between 1e-50 and 1e50"
        range_ends = check_array("gap_range", gap_range, condition, _is_allowed)
        if (range_ends == 0).any() or range_ends.shape != (2,) or not range_ends[0] < range_ends[1]:
            raise invalid("gap_range", condition, gap_range)
        values = np.geomspace(range_ends[0], range_ends[1], N_GAPS).tolist()
    return np.array([[0.0] + [value] * (n_arms - 1) for value in values])


def _check_gap_list(gaps: Sequence[float], n_arms: int | None) -> list[float]:
    """Return the gaps of all arms in increasing order; raise ValueError if they are invalid."""
    values: list[float] = numbers(gaps, "gaps").tolist()
    ordered_gaps = sorted(values if 0.0 in values else [0.0, *values])
    if len(ordered_gaps) < 2 or ordered_gaps[1] == 0:
        raise invalid("gaps", "positive for every arm but the best", values)
    _check_n_arms(n_arms, len(ordered_gaps), "gaps")
    check_gaps(ordered_gaps)
    return ordered_gaps


def _is_allowed(gaps: FloatArray) -> NDArray[np.bool_]:
    return np.asarray((gaps == 0) | (gaps >= MIN_VALUE) & (gaps <= MAX_VALUE))
