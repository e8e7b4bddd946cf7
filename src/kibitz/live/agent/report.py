"""Report on an agent: counts, means and confidence sequences of its arms, regret, and warnings."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from kibitz.live.agent.confidence import (
    RHO,
    Floats,
    check_delta,
    intervals,
    loss_rate_evidence,
    lost_intervals,
    regret_interval,
    split_delta,
    unit_intervals,
)
from kibitz.live.agent.config import Config
from kibitz.live.agent.stopping import Verdict, decide
from kibitz.live.agent.transaction import read_arms
from kibitz.live.events import Arm, event_time
from kibitz.live.monitor import N_PROMISED, Alarm, has_changed, last_observed_at, measure_regime
from kibitz.live.store import queries
from kibitz.live.store.schema import Database, Store

if TYPE_CHECKING:
    import xarray

SAMPLE_RATIO_LEVEL = 1 / 1000  # probability of a false warning about the sample ratio
HEADER = ("arm", "asked", "told", "looks", "pending", "lost", "mean", "interval", "best?")
SIMULTANEOUS_SECONDS = 3600.0  # changes of all arms within this time suggest a fault of the tracking
# attributes that may be infinite or NaN
FLOAT_ATTRIBUTES = (
    "regret_low",
    "regret_high",
    "looks_saved",
    "loss_high",
    "loss_likely",
    "remaining",
)
SHARES_TEXT = (
    "delta_i is 0.9 delta / K for each of the K arms with which the agent was created, and "
    "0.1 delta / (m (m + 1)) for the m-th arm added later. All intervals hold simultaneously and at "
    "all times with probability 1 - delta, if the loss of a report does not depend on its reward and "
    "the mean of an arm does not change"
)
INEQUALITIES = {
    "gaussian": "|mean - mu| < (scale / n) sqrt((n + rho) (2 log(1 / delta_i) + log(1 + n / rho))), "
    f"where rho is {RHO:g}; {SHARES_TEXT}",
    "unit": "M(mu)/2 + E(mu)/4 < 1 / delta_i, where M is the Beta(1/2, 1/2) mixture of likelihood "
    f"ratios and E a mixture of 24 bets against the mean mu; {SHARES_TEXT}",
}


def report(
    store: Store, config: Config, now: float, delta: float = 0.05, saved: float | None = None
) -> "xarray.Dataset":
    r"""Return a dataset with the counts, the mean and the confidence sequence of each arm.

    Each arm has a `status` and six counts: `n_asked` counts the pulls requested, `n_pulls` the
    pulls reported, `n_looks` the looks reported, `n_shows` the rewards that pulls of other arms
    showed, `n_pending` the pulls and looks that are pending, and `n_forgotten` the pulls and looks
    that were forgotten. `oldest` is the age of the oldest pending decision in seconds. `n_settled`
    counts the settled rewards, `n_unsettled` the decisions whose reward may still change, and
    `n_late` the reports that came after their decision had settled (see `kibitz.live.events`).
    `mean` is the mean of the settled rewards, and [`low`, `high`] is a confidence sequence for the
    true mean, from the inequality in the attribute `inequality`. All intervals are valid
    simultaneously and at all times with probability 1 - delta. `best` is an anytime-valid p-value
    of the hypothesis that the arm is the best (`kibitz.live.agent.stopping`). The arm is ruled out
    if `best` is at most delta.

    The attributes `verdict`, `loss_high`, `loss_likely` and `remaining` come from `Agent.verdict`.
    `verdict` is its sentence. `remaining` is the estimated number of further observations until there
    is a winner, and NaN if `Agent.verdict` has no estimate. With probability 1 - delta, the verdict
    and `loss_high` are always valid; this statement is separate from the statement about the
    intervals. `regret_low` and `regret_high` are an interval for the regret so far. `looks_saved` is
    the planner's estimate of the regret that the looks have saved. Most of the running time is spent
    on this estimate; pass `saved` to use a known value instead. `warnings` is a list of texts.

    If the agent has a monitor, `since` is the time of the last change of an arm, or NaN if no change
    was detected. For an arm that has changed, `n_settled`, `mean`, `low`, `high`, `best` and the
    verdict use only the rewards since this change, because an interval from all rewards would be
    invalid. These values are valid only if the mean really changed at the time `since`. After a
    change, there is no interval for the regret: `regret_high` is infinite, and `looks_saved` is NaN.
    The attribute `alarms` has a dict for each alarm, and `promise` is a sentence with a bound on the
    probability of a false alarm. Without a monitor, `alarms` is [] and `promise` is "".
    """
    import xarray

    delta = check_delta(delta)
    (arms, alarms), n_asks, last_event_time, oldest_pending, last_look = store.read(
        lambda db: _read(config, now, db)
    )
    regimes = select_regimes(arms, config)
    now = event_time(now, last_event_time)
    counts = np.array([arm.n_settled for arm in regimes])
    sums, squares = (
        np.array([getattr(arm, name) for arm in regimes])
        for name in ("settled_sum", "settled_squares")
    )
    n_founding = len(config.data["arms"])
    deltas = split_delta(delta, n_founding, len(arms))
    low, high = intervals(config.rewards, counts, sums, squares, deltas, config.scale)
    verdict, p_values = decide(regimes, config.rewards, config.scale, n_founding, delta)
    n_asked = np.array([arm.n_asked for arm in arms])
    regret = (0.0, math.inf) if alarms else regret_interval(n_asked, low, high)
    if alarms:
        saved = math.nan  # the planner assumes that means do not change
    elif saved is None:
        saved = looks_saved(arms, n_asks, config.scale)
    since = {alarm.arm: alarm.since_at for alarm in alarms}
    columns: dict[str, Any] = {
        "status": [arm.status for arm in arms],
        "n_asked": n_asked,
        "n_pulls": [arm.n_pulls for arm in arms],
        "n_pending": [arm.n_pending + arm.looks_pending for arm in arms],
        "n_forgotten": [arm.n_forgotten + arm.looks_forgotten for arm in arms],
        "n_looks": [arm.n_looks for arm in arms],
        "n_shows": [arm.n_shows for arm in arms],
        "n_settled": counts,
        "n_unsettled": [arm.n_unsettled for arm in arms],
        "n_late": [arm.n_late for arm in arms],
        "oldest": [
            max(0.0, now - oldest_pending[k]) if k in oldest_pending else math.nan
            for k in range(len(arms))
        ],
        "mean": [arm.settled_mean for arm in regimes],
        "low": low,
        "high": high,
        "best": p_values,
        "since": [since.get(k, math.nan) for k in range(len(arms))],
    }
    attributes = {
        "agent": config.name,
        "policy": repr(config.policy),
        "rewards": config.rewards,
        "scale": config.scale,
        "n_asks": n_asks,
        "delta": delta,
        "inequality": INEQUALITIES["gaussian" if config.rewards == "gaussian" else "unit"],
        "verdict": verdict.sentence,
        "loss_high": verdict.loss_high,
        "loss_likely": verdict.loss_likely,
        "remaining": math.nan if verdict.remaining is None else verdict.remaining,
        "regret_low": regret[0],
        "regret_high": regret[1],
        "looks_saved": saved,
        "warnings": warnings(config, arms, n_asks, last_look)
        + _check_sample_ratio(arms)
        + _list_losses(config, arms, deltas)
        + _check_simultaneous(arms, alarms),
        "alarms": [_describe_alarm(alarm, arms, config, deltas) for alarm in alarms],
        "promise": format_promise(config),
    }
    return xarray.Dataset(
        {name: ("arm", values) for name, values in columns.items()},
        {"arm": [arm.name for arm in arms]},
        attributes,
    )


def _read(
    config: Config, now: float, database: Database
) -> tuple[tuple[list[Arm], list[Alarm]], int, float, dict[int, float], int]:
    row = queries.read_agent(database, config.name, config=config.stored)
    (arms, alarms), last_look = read_arms(database, config, now), 0
    if any(arm.n_looks or arm.looks_pending for arm in arms):
        last_look = queries.read_last_look(database, row.number)
    oldest_pending = queries.read_oldest_pending(database, row.number)
    return (arms, alarms), row.n_asks, row.latest, oldest_pending, last_look


def select_regimes(arms: list[Arm], config: Config) -> list[Arm]:
    """Return the arms with settled counts that contain only the rewards since each arm's last change.

    The monitor stores no sum of squares, so the sum of the rewards replaces it. A reward in [0, 1] is
    at least its square, so the intervals of bounded rewards become wider. Other intervals do not
    change: rewards of 0 or 1 equal their squares, and Gaussian intervals do not use squares.
    """
    regimes = []
    for arm in arms:
        if has_changed(arm.scan):
            assert config.monitor is not None
            n, total = measure_regime(arm.scan, config.monitor)
            arm = replace(arm, n_settled=n, settled_sum=total, settled_squares=total, remainders={})
        regimes.append(arm)
    return regimes


def _describe_alarm(alarm: Alarm, arms: list[Arm], config: Config, deltas: Floats) -> dict[str, Any]:
    """Return an alarm as plain data, with a sentence and intervals for the means before and after."""
    n = np.array([alarm.n_before, alarm.n_after])
    sums = n * [alarm.mean_before, alarm.mean_after]
    if config.rewards != "gaussian":
        sums = np.clip(sums, 0, n)  # the means may be off by a rounding error
    lows, highs = intervals(config.rewards, n, sums, sums, deltas[alarm.arm], config.scale)
    data = {"arm": arms[alarm.arm].name, **{key: getattr(alarm, key) for key in alarm._fields[1:]}}
    for k, name in enumerate(("before", "after")):
        data[f"low_{name}"], data[f"high_{name}"] = float(lows[k]), float(highs[k])
    return {**data, "sentence": format_alarm(data, config.rewards != "gaussian")}


def format_alarm(alarm: dict[str, Any], is_rate: bool) -> str:
    """Return a sentence with the time of a change, the means before and after, and the delay."""
    texts = {
        name: format_interval(
            alarm[f"low_{name}"], alarm[f"high_{name}"], is_rate, alarm[f"mean_{name}"]
        )
        for name in ("before", "after")
    }
    noun = "observation" if alarm["n_after"] == 1 else "observations"
    return (
        f"{alarm['arm']} pays {texts['after'][0]} ({texts['after'][1]}) instead of "
        f"{texts['before'][0]} ({texts['before'][1]}) since about {format_time(alarm['since_at'])} "
        f"(decision {alarm['since_id']:,}); detected after {alarm['n_after']:,} {noun}"
    )


def format_time(at: float) -> str:
    """Format a time to the minute, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def format_promise(config: Config) -> str:
    """Return a sentence that bounds the probability of a false alarm; "" without a monitor."""
    if config.monitor is None:
        return ""
    return (
        "If no mean ever changed, the probability that any arm raises an alarm among its first "
        f"{N_PROMISED:,} observations would be at most {config.monitor.delta:g}"
    )


def _check_simultaneous(arms: list[Arm], alarms: list[Alarm]) -> list[str]:
    """Return a warning if all observed arms changed within one hour, or [] if they did not.

    Only the last change of each arm counts. An arm that has not been observed since the latest of
    these changes, such as a retired arm, is ignored.
    """
    if not alarms:
        return []
    last_changes = {alarm.arm: alarm.since_at for alarm in alarms}
    latest = max(last_changes.values())
    observed = [k for k, arm in enumerate(arms) if last_observed_at(arm.scan) >= latest]
    changes = [last_changes.get(k, -math.inf) for k in observed]
    if len(observed) < 2 or latest - min(changes) > SIMULTANEOUS_SECONDS:
        return []
    return ["everything changed within an hour: check the tracking first"]


def looks_saved(arms: list[Arm], n_asks: int, scale: float) -> float:
    """Return the planner's estimate of the regret that the looks have saved.

    The planner assumes UCB1-Double and the current means of the arms that are not retired. The
    estimate is NaN in these cases:

    - The agent has no looks, or fewer than two pulls.
    - Fewer than two arms are not retired, or one of them has no observations.
    - All means are equal, or a gap is too large for the planner.
    - Pulls showed other arms. The planner does not support graphs.
    """
    from kibitz.bounds._checks import MAX_VALUE, MIN_VALUE
    from kibitz.planning.prediction import predict

    unretired_arms = [arm for arm in arms if arm.status != "retired"]
    n_looks = sum(arm.n_looks for arm in arms)
    if (
        not n_looks
        or any(arm.n_shows for arm in arms)
        or n_asks < 2
        or len(unretired_arms) < 2
        or not all(arm.n_observed for arm in unretired_arms)
    ):
        return math.nan
    means = np.array([arm.mean for arm in unretired_arms])
    gaps = (means.max() - means) / scale
    gaps[gaps < MIN_VALUE] = 0
    if not 0 < gaps.max() <= MAX_VALUE:
        return math.nan
    regret_without_looks, regret_with_looks = predict(
        gaps.tolist(), [0.0, min(1.0, n_looks / n_asks)], n_asks, "active"
    )
    return max(0.0, float(regret_without_looks - regret_with_looks)) * scale


def warnings(config: Config, arms: list[Arm], n_asks: int, last_look: int) -> list[str]:
    """Return warnings about missing reports, missing looks and a scale that is too small."""
    messages = []
    for arm in arms if config.silence is None else ():
        if arm.n_asked >= 10 and arm.n_observed == 0:
            messages.append(
                f"arm {arm.name!r} was chosen {arm.n_asked} times but has no reported reward"
            )
    messages += _compare_loss_rates(arms)
    n_looks = sum(arm.n_looks for arm in arms)
    n_pulls_since, pulls_per_look = n_asks - last_look, max(last_look / max(n_looks, 1), 1.0)
    if n_looks >= 3 and n_pulls_since > max(10 * pulls_per_look, 100):
        messages.append(
            f"no look during the last {n_pulls_since} pulls; before, "
            f"{1 / pulls_per_look:.2g} looks per pull"
        )
    for arm in arms:
        n, scale = arm.n_observed, config.scale
        if n < 30 or config.rewards != "gaussian" or has_changed(arm.scan):
            continue
        variance = max(0.0, arm.squares / n - arm.mean**2)
        if variance > scale**2 * (1 + 5 * math.sqrt(2 / n)):
            messages.append(
                f"rewards of {arm.name!r} have standard deviation {math.sqrt(variance):.3g}, larger "
                f"than the agent's scale {scale:g}; the intervals are too narrow"
            )
    return messages


def _compare_loss_rates(arms: list[Arm]) -> list[str]:
    """Return a warning if arms lose reports at different rates, or [] if they do not.

    If all arms lose reports at the same rate, the probability that this warning ever appears is at
    most 0.001, however often the report is made.
    """
    n_lost, n_told, n_pending = (
        np.array([getattr(arm, name) for arm in arms])
        for name in ("n_forgotten", "n_pulls", "n_pending")
    )
    if loss_rate_evidence(n_lost, n_told, n_pending) < math.log(1000):
        return []
    rates = [
        arm_counts[1] / (arm_counts[1] + arm_counts[2])
        for arm_counts in zip(arms, n_lost, n_told, strict=True)
        if sum(arm_counts[1:])
    ]
    arms = [arm for arm, n in zip(arms, n_lost + n_told, strict=True) if n]
    lowest, highest = int(np.argmin(rates)), int(np.argmax(rates))
    return [
        f"arms lose reports at different rates: {rates[highest]:.0%} of {arms[highest].name!r}, "
        f"{rates[lowest]:.0%} of {arms[lowest].name!r}; the means may be biased"
    ]


def _check_sample_ratio(arms: list[Arm]) -> list[str]:
    """Return a warning if the bucket's reports are not spread evenly over its arms, or [].

    Only settled decisions of the bucket count, because a decision without a report may not have been
    served. The evidence is a product with one factor for each set of arms from which the bucket drew.
    If the loss and the delay of a report do not depend on the arm, the probability that this warning
    ever appears is at most `SAMPLE_RATIO_LEVEL`, however often the report is made.
    """
    from kibitz.bounds.concentration import sample_ratio_evidence

    buckets = sorted({bucket for arm in arms for bucket in arm.bucket_counts})
    evidence, totals, expected_totals = 0.0, np.zeros(len(arms)), np.zeros(len(arms))
    for bucket in buckets:
        arm_indices = [int(word) for word in bucket.split()]
        counts = np.array([arms[k].bucket_counts.get(bucket, 0) for k in arm_indices])
        evidence += sample_ratio_evidence(counts)
        totals[arm_indices] += counts
        expected_totals[arm_indices] += counts.sum() / len(arm_indices)
    if evidence < -math.log(SAMPLE_RATIO_LEVEL):
        return []
    k = int(np.argmax(np.abs(totals - expected_totals)))
    return [
        f"sample-ratio mismatch: the bucket has {totals[k]:.0f} reports of {arms[k].name!r}, but "
        f"{expected_totals[k]:.0f} are expected; the reports of the arms are not comparable"
    ]


def _list_losses(config: Config, arms: list[Arm], deltas: Floats) -> list[str]:
    """Return a warning for each arm whose lost reports may matter more than its sampling error.

    The interval in the warning is valid even if the loss of a report depends on its reward. There is
    no such interval for Gaussian rewards or for an arm that has changed.
    """
    messages: list[str] = []
    if config.rewards == "gaussian":
        return messages
    for arm, delta in zip(arms, deltas, strict=True):
        n, n_lost = arm.n_settled, arm.n_forgotten + arm.looks_forgotten
        sums = arm.settled_sum, arm.settled_squares
        if not n or not n_lost or has_changed(arm.scan):
            continue
        low, high = unit_intervals(n, *sums, delta)
        if n_lost / n > (high - low) / 2:
            low, high = lost_intervals(n, *sums, n_lost, delta)
            _, interval_text = format_interval(float(low), float(high), is_rate=True)
            messages.append(
                f"{n_lost} reports of {arm.name!r} are lost and {n} are known; if the loss of a "
                f"report may depend on its reward, the mean is only known to be {interval_text}"
            )
    return messages


def to_plain(data: "xarray.Dataset") -> dict[str, Any]:
    """Convert a report to plain data for JSON.

    NaN becomes None, and an infinite number becomes "inf" or "-inf".
    """
    columns = {str(key): values.to_numpy().tolist() for key, values in data.data_vars.items()}
    alarms = [
        {key: _to_json_number(value) for key, value in alarm.items()}
        for alarm in data.attrs["alarms"]
    ]
    rows = zip(data["arm"].to_numpy().tolist(), *columns.values(), strict=True)
    arms = [dict(zip(["arm", *columns], map(_to_json_number, row), strict=True)) for row in rows]
    attributes = {key: _to_json_number(value) for key, value in data.attrs.items()}
    return {**attributes, "alarms": alarms, "arms": arms}


def from_plain(content: dict[str, Any]) -> "xarray.Dataset":
    """Convert the result of `to_plain` back to a report."""
    import xarray

    rows = content["arms"]
    columns: dict[str, Any] = {
        name: [row[name] if name == "status" else _read_number(row[name]) for row in rows]
        for name in rows[0]
        if name != "arm"
    }
    attributes = {
        name: _read_number(value) if name in FLOAT_ATTRIBUTES else value
        for name, value in content.items()
        if name != "arms"
    }
    attributes["alarms"] = [
        {
            key: value if key in ("arm", "sentence") else _read_number(value)
            for key, value in alarm.items()
        }
        for alarm in content["alarms"]
    ]
    return xarray.Dataset(
        {name: ("arm", values) for name, values in columns.items()},
        {"arm": [row["arm"] for row in rows]},
        attributes,
    )


def verdict_to_plain(verdict: Verdict) -> dict[str, Any]:
    """Convert a verdict to plain data for JSON, with the rules of `to_plain`."""
    return {
        **{key: _to_json_number(value) for key, value in vars(verdict).items()},
        "out": [*verdict.out],
    }


def verdict_from_plain(content: dict[str, Any]) -> Verdict:
    """Convert the result of `verdict_to_plain` back to a verdict."""
    losses = {name: float(_read_number(content[name])) for name in ("loss_high", "loss_likely")}
    return Verdict(**{**content, **losses, "out": tuple(content["out"])})


def _read_number(value: Any) -> Any:
    return math.nan if value is None else float(value) if isinstance(value, str) else value


def _to_json_number(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def format_report(data: "xarray.Dataset") -> str:
    """Format a report as text: the verdict, a table of the arms, a summary and warnings.

    Parameters
    ----------
    data
        The report of an agent, as `Agent.report` and `Client.report` return it.
    """
    rows = [list_columns(data), *format_rows(data)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([data.attrs["verdict"], *lines, *format_summary(data)])


def list_columns(data: "xarray.Dataset") -> tuple[str, ...]:
    """Return the headings of the table of arms, with "since" if an arm has changed."""
    return (*HEADER, "since") if data.attrs["alarms"] else HEADER


def format_rows(data: "xarray.Dataset") -> list[tuple[str, ...]]:
    """Format the arms of a report as rows of text, with the columns of `list_columns`."""
    rows: list[tuple[str, ...]] = []
    is_rate = data.attrs["rewards"] != "gaussian"
    for k, name in enumerate(data["arm"].to_numpy()):
        arm = {key: values.to_numpy()[k] for key, values in data.data_vars.items()}
        status = "" if arm["status"] == "active" else f" ({arm['status']})"
        counts = [arm[c] for c in ("n_asked", "n_pulls", "n_looks", "n_pending", "n_forgotten")]
        mean, interval = format_interval(arm["low"], arm["high"], is_rate, arm["mean"])
        is_possible = arm["best"] > data.attrs["delta"]
        rows.append(
            (
                f"{name}{status}",
                *map(str, counts),
                *(("-", "-") if math.isnan(arm["mean"]) else (mean, interval)),
                "possible" if is_possible else f"ruled out, {format_p_value(float(arm['best']))}",
            )
        )
        if data.attrs["alarms"]:
            rows[-1] += ("start" if math.isnan(arm["since"]) else format_time(arm["since"]),)
    return rows


def format_interval(
    low: float, high: float, is_rate: bool, mean: float = math.nan
) -> tuple[str, str]:
    """Return a mean and its interval as texts; the width determines the number of digits.

    One unit of the last digit is at most a twentieth of half the width. Rates are in per cent.
    """
    factor, unit_text = (100.0, " %") if is_rate else (1.0, "")
    step = factor * max(high - low, 1e-12) / 40
    digits = max(0, math.ceil(-math.log10(step))) if math.isfinite(step) else 4
    interval_text = f"{factor * low:.{digits}f} to {factor * high:.{digits}f}{unit_text}"
    return f"{factor * mean:.{digits}f}{unit_text}", interval_text


def format_p_value(p: float) -> str:
    """Format a p-value as an upper bound, rounded up to one digit, such as "p < 0.004"."""
    power = math.floor(math.log10(max(p, 1e-99)))
    return f"p < {(math.floor(p / 10.0**power) + 1) * 10.0**power:.1g}"


def format_summary(data: "xarray.Dataset") -> list[str]:
    """Format the regret, the estimated saving and the warnings as sentences."""
    attributes = data.attrs
    pull_noun = "pull" if attributes["n_asks"] == 1 else "pulls"
    level = f"{1 - attributes['delta']:g}"
    if attributes["alarms"]:
        last_alarms = {alarm["arm"]: alarm for alarm in attributes["alarms"]}.values()
        sentences = [f"{alarm['sentence']}." for alarm in last_alarms]
        if n_earlier := len(attributes["alarms"]) - len(last_alarms):
            noun = "change is" if n_earlier == 1 else "changes are"
            sentences.append(f"{n_earlier:,} earlier {noun} not shown.")
        sentences.append(
            "Means, intervals and the verdict use the rewards since the last change of each arm. All "
            f"intervals hold together at all times with probability {level}, if the means changed "
            "then. The regret is not known after a change."
        )
    else:
        sentences = [
            f"Regret after {attributes['n_asks']} {pull_noun}: {attributes['regret_low']:.4g} to "
            f"{attributes['regret_high']:.4g}. This and all intervals hold together at all times "
            f"with probability {level}."
        ]
    if attributes["promise"]:
        no_alarm = "" if attributes["alarms"] else "No change detected. "
        sentences.append(f"{no_alarm}{attributes['promise']}.")
    n_unsettled, n_late = (int(data[name].sum()) for name in ("n_unsettled", "n_late"))
    if n_unsettled:
        sentences.append(
            "1 decision is not settled and does not count yet."
            if n_unsettled == 1
            else f"{n_unsettled:,} decisions are not settled and do not count yet."
        )
    if n_late:
        sentences.append(
            "1 report came after its decision had settled and does not count."
            if n_late == 1
            else f"{n_late:,} reports came after their decisions had settled and do not count."
        )
    if n_shows := int(data["n_shows"].sum()):
        times = "once" if n_shows == 1 else f"{n_shows:,} times"
        sentences.append(
            f"Pulls showed other arms {times}. These rewards count in the means and intervals, but "
            "not as looks, and the planner does not estimate what they save."
        )
    if not math.isnan(attributes["looks_saved"]):
        saving_text = f"{attributes['looks_saved']:.3g}"
        sentences.append(
            f"Looks have reduced the regret by about {saving_text} (the planner's estimate)."
        )
    return sentences + [f"Warning: {warning}." for warning in attributes["warnings"]]
