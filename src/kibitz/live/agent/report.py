"""What a person wants to see of an agent: arms, confidence sequences, regret, and warnings."""

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
NUMBERS = ("regret_low", "regret_high", "looks_saved")  # attributes that may be infinite or none
INEQUALITY = (
    "|mean - mu| < (scale / n) sqrt((n + 10) (2 log(K / delta) + log(1 + n / 10))) for all K arms "
    "and all n at once with probability 1 - delta, if reports are lost regardless of their value"
)


def report(
    store: Store, config: Config, now: float, delta: float = 0.05, saved: float | None = None
) -> "xarray.Dataset":
    r"""Return the counts, mean and confidence sequence of each arm; of the whole, in the attributes.

    `status`; `n_asked` pulls, of which `n_pulls` were told, `n_pending` are pending (the oldest for
    `oldest` seconds), `n_forgotten` are forgotten; `n_looks`; the `mean` of all observations and a
    confidence sequence [`low`, `high`] for the true one, for all arms together with probability
    1 - delta (attribute `inequality`); `best`: if the arm is best, this is ever as small as some p
    with probability at most p. Attributes: `regret_low` and `regret_high`, an interval for the regret
    so far; `looks_saved`, the planner's estimate of what the looks have saved (it takes most of the
    time; `saved` replaces it if given); `warnings`.
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
    """Return how much less regret UCB1-Double has with these looks, by the planner, at these means.

    NaN where nothing can be said: an arm that was not seen, no look, or no gap.
    """
    from kibitz.planning.prediction import predict

    playing = [arm for arm in arms if arm.status != "retired"]
    looks = sum(arm.n_looks for arm in arms)
    if not looks or n_asks < 2 or len(playing) < 2 or not all(arm.n_observed for arm in playing):
        return math.nan
    means = np.array([arm.mean for arm in playing])
    gaps = (means.max() - means) / scale
    if not gaps.max() > 0:
        return math.nan
    without, with_looks = predict(gaps.tolist(), [0.0, min(1.0, looks / n_asks)], n_asks, "active")
    return max(0.0, float(without - with_looks)) * scale


def warnings(scale: float, arms: list[Arm], n_asks: int, last_look: int) -> list[str]:
    """Return what a person should look into, in sentences."""
    found = []
    for arm in arms:
        if arm.n_asked >= 10 and arm.n_observed == 0:
            found.append(f"arm {arm.name!r} was asked for {arm.n_asked} times and never told of")
    found += _lost_differently(arms)
    n_looks = sum(arm.n_looks for arm in arms)
    since, usual = n_asks - last_look, max(last_look / max(n_looks, 1), 1.0)
    if n_looks >= 3 and since > max(10 * usual, 100):
        found.append(f"no look for {since} asks, after one every {usual:.3g} so far")
    for arm in arms:
        n = arm.n_observed
        if n < 30:
            continue
        variance = max(0.0, arm.squares / n - arm.mean**2)
        if variance > scale**2 * (1 + 5 * math.sqrt(2 / n)):
            found.append(
                f"rewards of {arm.name!r} have a standard deviation of {math.sqrt(variance):.3g}, "
                f"more than the scale {scale:g} that was promised: intervals are too narrow"
            )
    return found


def _lost_differently(arms: list[Arm]) -> list[str]:
    """Warn if reports get lost at different rates (each pair of arms, Fisher's test, 1 in 1000)."""
    from scipy.stats import fisher_exact

    settled = [(arm, arm.n_forgotten, arm.n_pulls) for arm in arms if arm.n_forgotten + arm.n_pulls]
    settled = [one for one in settled if one[1] + one[2] >= 20]
    if len(settled) < 2:
        return []
    settled.sort(key=lambda one: one[1] / (one[1] + one[2]))
    (few, lost_few, told_few), (many, lost_many, told_many) = settled[0], settled[-1]
    chance = fisher_exact([[lost_few, told_few], [lost_many, told_many]]).pvalue
    if chance * len(settled) * (len(settled) - 1) / 2 > 0.001:
        return []
    shares = [lost_few / (lost_few + told_few), lost_many / (lost_many + told_many)]
    return [
        f"reports get lost at different rates: {shares[1]:.0%} of {many.name!r}, {shares[0]:.0%} of "
        f"{few.name!r}; means may be biased"
    ]


def to_plain(data: "xarray.Dataset") -> dict[str, Any]:
    """Return a report as plain data for JSON: NaN as None, infinite numbers as "inf" and "-inf"."""
    columns = {str(key): values.to_numpy().tolist() for key, values in data.data_vars.items()}
    rows = zip(data["arm"].to_numpy().tolist(), *columns.values(), strict=True)
    arms = [dict(zip(["arm", *columns], map(_number, row), strict=True)) for row in rows]
    return {key: _number(value) for key, value in data.attrs.items()} | {"arms": arms}


def from_plain(content: dict[str, Any]) -> "xarray.Dataset":
    """Return a report that was `plain` as it was."""
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
    """Return a report as a table of text, with its warnings."""
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
    """Return the rows of the table."""
    rows = []
    for k, name in enumerate(data["arm"].to_numpy()):
        one = {key: values.to_numpy()[k] for key, values in data.data_vars.items()}
        status = "" if one["status"] == "active" else f" ({one['status']})"
        unseen = math.isnan(one["mean"])
        best = float(one["best"])
        rows.append(
            (
                f"{name}{status}",
                *(str(one[c]) for c in ("n_asked", "n_pulls", "n_looks", "n_pending", "n_forgotten")),
                "-" if unseen else f"{one['mean']:.4g}",
                "-" if unseen else f"{one['low']:.4g} to {one['high']:.4g}",
                "may be" if best >= data.attrs["delta"] else f"p < {max(best, 1e-99):.1g}",
            )
        )
    return rows


def format_summary(data: "xarray.Dataset") -> list[str]:
    """Return what is said below the table."""
    a = data.attrs
    said = [
        f"after {a['n_asks']} asks the regret is between {a['regret_low']:.4g} and "
        f"{a['regret_high']:.4g}; this and all intervals hold at all times with probability "
        f"{1 - a['delta']:g}"
    ]
    if not math.isnan(a["looks_saved"]):
        said.append(f"looks have saved about {a['looks_saved']:.3g} of regret, by the planner")
    return said + [f"warning: {warning}" for warning in a["warnings"]]
