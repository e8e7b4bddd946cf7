"""Report on an agent: counts, means and confidence sequences of its arms, regret, and warnings."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kibitz.live.agent.confidence import best_arm_p_values, check_delta, intervals, regret_interval
from kibitz.live.agent.config import Config
from kibitz.live.events import Arm
from kibitz.live.store import queries
from kibitz.live.store.schema import Database, Store

if TYPE_CHECKING:
    import xarray

HEADER = ("arm", "asked", "told", "looks", "pending", "lost", "mean", "interval", "best?")
NUMBERS = ("regret_low", "regret_high", "looks_saved")  # attributes that may be infinite or NaN
INEQUALITY = (
    "|mean - mu| < (scale / n) sqrt((n + 10) (2 log(K / delta) + log(1 + n / 10))) for all K arms "
    "and all n simultaneously with probability 1 - delta, if the loss of a report does not depend on "
    "its reward"
)


def report(
    store: Store, config: Config, now: float, delta: float = 0.05, saved: float | None = None
) -> "xarray.Dataset":
    r"""Return the counts, the mean and the confidence sequence of each arm; attributes hold totals.

    Each arm has a `status` and five counts: `n_asked` counts the pulls requested, `n_pulls` the pulls
    reported, `n_looks` the looks reported, `n_pending` the pulls and looks that are pending, and
    `n_forgotten` the pulls and looks that were forgotten. `oldest` is the age of the oldest pending
    decision in seconds. `mean` is the mean of all observations, and [`low`, `high`] is a confidence
    sequence for the true mean, from the inequality in the attribute `inequality`. All intervals are
    valid simultaneously and at all times with probability 1 - delta. `best` is an anytime-valid
    p-value of the hypothesis that the arm is the best: if the hypothesis is true, the probability
    that `best` is ever p or smaller is at most p.

    The attributes are `regret_low` and `regret_high`, an interval for the regret so far;
    `looks_saved`, the planner's estimate of the regret that the looks have saved; and `warnings`.
    Most of the running time is spent on `looks_saved`; pass `saved` to use a known value instead.
    """
    import xarray

    delta = check_delta(delta)
    arms, n_asks, latest, oldest, last_look = store.read(lambda db: _read(config.name, db))
    now = max(now, latest)
    counts = np.array([arm.n_observed for arm in arms])
    means = np.array([arm.mean for arm in arms])
    low, high = intervals(counts, means, delta, config.scale)
    if config.policy.rewards != "gaussian":
        low, high = np.maximum(low, 0.0), np.minimum(high, 1.0)
    asked = np.array([arm.n_asked for arm in arms])
    regret = regret_interval(asked, low, high)
    columns: dict[str, Any] = {
        "status": [arm.status for arm in arms],
        "n_asked": asked,
        "n_pulls": [arm.n_pulls for arm in arms],
        "n_pending": [arm.n_pending + arm.looks_pending for arm in arms],
        "n_forgotten": [arm.n_forgotten + arm.looks_forgotten for arm in arms],
        "n_looks": [arm.n_looks for arm in arms],
        "oldest": [now - oldest[k] if k in oldest else math.nan for k in range(len(arms))],
        "mean": means,
        "low": low,
        "high": high,
        "best": best_arm_p_values(counts, means, config.scale),
    }
    attributes = {
        "agent": config.name,
        "policy": repr(config.policy),
        "scale": config.scale,
        "n_asks": n_asks,
        "delta": delta,
        "inequality": INEQUALITY,
        "regret_low": regret[0],
        "regret_high": regret[1],
        "looks_saved": looks_saved(arms, n_asks, config.scale) if saved is None else saved,
        "warnings": warnings(config.scale, arms, n_asks, last_look),
    }
    return xarray.Dataset(
        {name: ("arm", values) for name, values in columns.items()},
        {"arm": [arm.name for arm in arms]},
        attributes,
    )


def _read(name: str, database: Database) -> tuple[list[Arm], int, float, dict[int, float], int]:
    row = queries.read_agent(database, name)
    arms, last_look = queries.read_arms(database, row.number), 0
    if any(arm.n_looks or arm.looks_pending for arm in arms):
        last_look = queries.read_last_look(database, row.number)
    oldest = queries.read_oldest_pending(database, row.number)
    return arms, row.n_asks, row.latest, oldest, last_look


def looks_saved(arms: list[Arm], n_asks: int, scale: float) -> float:
    """Return the planner's estimate of the regret that the looks have saved.

    The planner assumes UCB1-Double and the current means of the arms that are not retired. The
    estimate is NaN if there are no looks, fewer than two pulls or fewer than two of these arms, if
    one of these arms has no observations, or if all their means are equal.
    """
    from kibitz.planning.prediction import predict

    in_use = [arm for arm in arms if arm.status != "retired"]
    looks = sum(arm.n_looks for arm in arms)
    if not looks or n_asks < 2 or len(in_use) < 2 or not all(arm.n_observed for arm in in_use):
        return math.nan
    means = np.array([arm.mean for arm in in_use])
    gaps = (means.max() - means) / scale
    if not gaps.max() > 0:
        return math.nan
    without, with_looks = predict(gaps.tolist(), [0.0, min(1.0, looks / n_asks)], n_asks, "active")
    return max(0.0, float(without - with_looks)) * scale


def warnings(scale: float, arms: list[Arm], n_asks: int, last_look: int) -> list[str]:
    """Return warnings about missing reports, missing looks and a scale that is too small."""
    found = []
    for arm in arms:
        if arm.n_asked >= 10 and arm.n_observed == 0:
            found.append(
                f"arm {arm.name!r} was chosen {arm.n_asked} times but has no reported reward"
            )
    found += _compare_loss_rates(arms)
    n_looks = sum(arm.n_looks for arm in arms)
    since, usual = n_asks - last_look, max(last_look / max(n_looks, 1), 1.0)
    if n_looks >= 3 and since > max(10 * usual, 100):
        found.append(f"no look during the last {since} pulls; before, {1 / usual:.2g} looks per pull")
    for arm in arms:
        n = arm.n_observed
        if n < 30:
            continue
        variance = max(0.0, arm.squares / n - arm.mean**2)
        if variance > scale**2 * (1 + 5 * math.sqrt(2 / n)):
            found.append(
                f"rewards of {arm.name!r} have standard deviation {math.sqrt(variance):.3g}, larger "
                f"than the agent's scale {scale:g}; the intervals are too narrow"
            )
    return found


def _compare_loss_rates(arms: list[Arm]) -> list[str]:
    """Return a warning if arms lose reports at different rates, or [] if they do not.

    Among the arms with at least 20 reported or forgotten pulls, Fisher's exact test compares the
    arms with the lowest and the highest loss rate, at level 0.001 divided by the number of pairs.
    """
    from scipy.stats import fisher_exact

    settled = [(arm, arm.n_forgotten, arm.n_pulls) for arm in arms if arm.n_forgotten + arm.n_pulls]
    settled = [row for row in settled if row[1] + row[2] >= 20]
    if len(settled) < 2:
        return []
    settled.sort(key=lambda row: row[1] / (row[1] + row[2]))
    (few, lost_few, told_few), (many, lost_many, told_many) = settled[0], settled[-1]
    p_value = fisher_exact([[lost_few, told_few], [lost_many, told_many]]).pvalue
    n_pairs = len(settled) * (len(settled) - 1) / 2
    if p_value * n_pairs > 0.001:
        return []
    rates = [lost_few / (lost_few + told_few), lost_many / (lost_many + told_many)]
    return [
        f"arms lose reports at different rates: {rates[1]:.0%} of {many.name!r}, {rates[0]:.0%} of "
        f"{few.name!r}; the means may be biased"
    ]


def to_plain(data: "xarray.Dataset") -> dict[str, Any]:
    """Convert a report to plain data for JSON: NaN becomes None, infinities "inf" or "-inf"."""
    columns = {str(key): values.to_numpy().tolist() for key, values in data.data_vars.items()}
    rows = zip(data["arm"].to_numpy().tolist(), *columns.values(), strict=True)
    arms = [dict(zip(["arm", *columns], map(_number, row), strict=True)) for row in rows]
    return {key: _number(value) for key, value in data.attrs.items()} | {"arms": arms}


def from_plain(content: dict[str, Any]) -> "xarray.Dataset":
    """Convert plain data that `to_plain` returned back to a report."""
    import xarray

    rows = content["arms"]
    columns: dict[str, Any] = {
        name: [row[name] if name == "status" else _read_number(row[name]) for row in rows]
        for name in rows[0]
        if name != "arm"
    }
    attributes = {
        name: _read_number(value) if name in NUMBERS else value
        for name, value in content.items()
        if name != "arms"
    }
    return xarray.Dataset(
        {name: ("arm", values) for name, values in columns.items()},
        {"arm": [row["arm"] for row in rows]},
        attributes,
    )


def _read_number(value: Any) -> Any:
    return math.nan if value is None else float(value) if isinstance(value, str) else value


def _number(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def table(data: "xarray.Dataset") -> str:
    """Format a report as a text table with a summary and warnings."""
    rows = [HEADER, *format_rows(data)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEADER))]
    lines = [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, *format_summary(data)])


def format_rows(data: "xarray.Dataset") -> list[tuple[str, ...]]:
    """Format the arms of a report as rows of text, with the columns of HEADER."""
    rows = []
    for k, name in enumerate(data["arm"].to_numpy()):
        arm = {key: values.to_numpy()[k] for key, values in data.data_vars.items()}
        status = "" if arm["status"] == "active" else f" ({arm['status']})"
        counts = [arm[c] for c in ("n_asked", "n_pulls", "n_looks", "n_pending", "n_forgotten")]
        is_unknown = math.isnan(arm["mean"])
        is_possible = arm["best"] >= data.attrs["delta"]
        rows.append(
            (
                f"{name}{status}",
                *map(str, counts),
                "-" if is_unknown else f"{arm['mean']:.4g}",
                "-" if is_unknown else f"{arm['low']:.4g} to {arm['high']:.4g}",
                "possible" if is_possible else f"ruled out, {format_p_value(float(arm['best']))}",
            )
        )
    return rows


def format_p_value(p: float) -> str:
    """Format a p-value as an upper bound, rounded up to one digit, such as "p < 0.004"."""
    power = math.floor(math.log10(max(p, 1e-99)))
    return f"p < {(math.floor(p / 10.0**power) + 1) * 10.0**power:.1g}"


def format_summary(data: "xarray.Dataset") -> list[str]:
    """Format the regret, the estimated saving and the warnings as sentences."""
    a = data.attrs
    unit = "pull" if a["n_asks"] == 1 else "pulls"
    lines = [
        f"Regret after {a['n_asks']} {unit}: {a['regret_low']:.4g} to {a['regret_high']:.4g}. "
        f"This and all intervals are valid at all times with probability {1 - a['delta']:g}."
    ]
    if not math.isnan(a["looks_saved"]):
        saved = f"{a['looks_saved']:.3g}"
        lines.append(f"Looks have reduced the regret by about {saved} (the planner's estimate).")
    return lines + [f"Warning: {warning}." for warning in a["warnings"]]
