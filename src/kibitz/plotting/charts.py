"""The functions of `kibitz.plot`: each draws one figure from a dataset.

Every function takes matplotlib axes (`ax`) and returns them. Without `ax`, it draws in a new pyplot
figure, in a style for publications. Axes that are passed keep their own style. Colours are safe for
colour-blind readers and suit the background of the axes. Curves also differ in dashes and markers.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._validation import invalid, one_of
from kibitz.evaluation.compare import compare, ratios_to_best, settings_of
from kibitz.plotting.figures import choose_colour, draw_panel, make_plan_panel, open_axes, scale_axis
from kibitz.plotting.picture import Curve, Panel, profile_curve, typeset
from kibitz.simulation.results.summary import mean_and_error

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

    from kibitz.planning.result import Plan

Bound = ArrayLike | Callable[[NDArray[np.int64]], ArrayLike]

MAX_BOUND_POINTS = 40  # a bound given as a function is computed at this many stages
MIN_LOG_SPAN = 20.0  # an axis whose largest value is this multiple of its smallest is logarithmic
MAX_LINEAR_STAGES = 1000  # a longer trace has a logarithmic axis
MAX_VECTOR_POINTS = 5000  # more points than this are stored as pixels in a vector file
MAX_INSIDE_LABELS = 10  # a legend with more labels is outside the axes
MAX_LABELS_PER_COLUMN = 20
MAX_CHANGE_LINES = 50  # a figure of a problem with more changes has no lines at the changes
ROWS = {"run", "statistic"}
AXIS_LABELS = {
    "rate": "rate of looks ε (looks per stage)",
    "horizon": "horizon T (stages)",
    "stage": "stage t",
    "draw": "number of the random problem",
}
TRACE_LABELS = {
    "index": "index of the arm",
    "mean": "mean observed reward of the arm",
    "n_observed": "number of observations of the arm",
}


def regret(
    data: "xarray.Dataset",
    *,
    bounds: Mapping[str, Bound] | None = None,
    band: str | None = "error",
    y_log: bool | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the mean regret of each policy against the stage, with a band.

    Parameters
    ----------
    data
        A result of `simulate`, `race`, `sweep` or `rehearse`. A sweep gives one curve for each policy
        and point.
    bounds
        Bounds on the regret by label. A bound is a function of an array of stages, such as
        `lambda stages: upper.kibitzer(problem.gaps, 0.1, stages)`, an array of values at
        `data.stage`, or one number.
    band
        "error": the mean ± 2 standard errors. "quartiles": the 25 % to 75 % quantiles of the runs.
        None: no band.
    y_log
        Whether the axis of the regret is logarithmic. The default is True if there are bounds.
    ax
        The axes to draw into. Curves that are already there keep their colours. Default: a new
        figure.
    """
    regrets = get_variable(data, "regret", "a result of simulate").compute()
    if band is not None:
        one_of(band, "band", ("error", "quartiles"))
    curves = []
    for label, values in split_by_label(regrets, {"stage"}):
        mean, error = (quantity.to_numpy() for quantity in mean_and_error(values))
        is_played = np.isfinite(mean)
        stages, mean = values["stage"].to_numpy()[is_played], mean[is_played]
        low, high = _find_band(values, mean, error[is_played], band, is_played)
        curves.append(Curve(label, stages, mean, low, high))
    all_stages = data["stage"].to_numpy()
    curves += _make_bound_curves(bounds, all_stages, "stages")
    band_text = {"error": ", band ± 2 s.e.", "quartiles": ", band 25–75 %", None: ""}[band]
    y = f"regret (mean of {count_runs(regrets):,} runs{band_text})"
    is_log = bool(bounds) if y_log is None else y_log
    axes = _draw(ax, Panel("", AXIS_LABELS["stage"], y, curves, y_log=is_log))
    _draw_changes(axes, data)
    return axes


def _draw_changes(axes: "Axes", data: "xarray.Dataset") -> None:
    """Draw a dotted line at each stage at which the problem changes, unless there are too many."""
    problem = json.loads(data.attrs.get("fingerprint", "{}")).get("problem", {})
    changes = [s for s in problem.get("starts", [])[1:] if s <= data["stage"].max()]
    if len(changes) <= MAX_CHANGE_LINES:
        for start in changes:
            axes.axvline(start, color=axes.xaxis.label.get_color(), linewidth=0.8, linestyle=":")


def pulls(
    data: "xarray.Dataset", *, counts: str = "n_pulls", y_log: bool = False, ax: "Axes | None" = None
) -> "Axes":
    """Draw each arm's share of the pulls, or of the looks, for each policy.

    Parameters
    ----------
    data
        A result of `simulate`.
    counts
        "n_pulls" or "n_looks".
    y_log
        Whether the axis of the shares is logarithmic, which shows rarely pulled arms.
    ax
        The axes to draw into. Default: a new figure.
    """
    one_of(counts, "counts", ("n_pulls", "n_looks"))
    values = get_variable(data, counts, "a result of simulate").compute()
    values = values.where(values >= 0)  # -1 means that the run has not been played
    shares = {}
    for label, arm_counts in split_by_label(values, {"arm"}):
        mean, error = (quantity.to_numpy() for quantity in mean_and_error(arm_counts))
        if not mean.sum() > 0:
            raise ValueError(
                f"{label} made no {counts.removeprefix('n_')}; choose another feedback or count"
            )
        shares[label] = (100 * mean / mean.sum(), 200 * np.nan_to_num(error) / mean.sum())
    arms = values["arm"].to_numpy()
    width = 0.8 / len(shares)
    with open_axes(ax) as axes:
        for position, (label, (share, error)) in enumerate(shares.items()):
            axes.bar(
                arms + width * (position - (len(shares) - 1) / 2), share, 0.9 * width, yerr=error,
                color=choose_colour(axes, position), label=label, capsize=2,
                error_kw={"elinewidth": 0.8, "ecolor": axes.xaxis.label.get_color()},
            )  # fmt: skip
        axes.locator_params("x", integer=True)
        axes.grid(False, axis="x")
        axes.set_xlabel("arm")
        name = counts.removeprefix("n_")
        axes.set_ylabel(f"share of the {name}, %\n(mean of {count_runs(values):,} runs, ± 2 s.e.)")
        if y_log:
            scale_axis(axes.yaxis, axes.set_yscale, is_log=True)
        else:
            axes.set_ylim(bottom=0)
        _add_legend(axes)
    return axes


def sweep(
    data: "xarray.Dataset",
    *,
    x: str | None = None,
    bounds: Mapping[str, Bound] | None = None,
    y_log: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the final regret of each policy against a swept parameter, with error bars of ± 2 s.e.

    The axis of a parameter that spans a factor of 20 or more is logarithmic. A logarithmic axis shows
    the value 0 at its left end.

    Parameters
    ----------
    data
        A result of `sweep`.
    x
        The parameter on the horizontal axis; default: the first swept parameter. Each value of the
        other parameters gets its own curve.
    bounds
        Bounds on the regret by label. A bound is a function of an array of values of the parameter,
        such as `lambda rates: lower.active_maximum(problem.gaps, rates, 10_000)`, an array with one
        number per swept value, or one number.
    y_log
        Whether the axis of the regret is logarithmic.
    ax
        The axes to draw into. Default: a new figure.
    """
    values = get_variable(data, "final_regret", "a result of sweep").compute()
    swept_names = [
        str(name)
        for name, coordinate in values.coords.items()
        if name not in {"policy", *ROWS} and coordinate.ndim == 1
    ]
    if not swept_names:
        raise ValueError("data has no swept parameter; pass a result of sweep")
    x = swept_names[0] if x is None else one_of(x, "x", tuple(swept_names))
    (dim,) = values[x].dims
    if dim != x:  # a list of points
        if len(swept_names) > 1:
            raise ValueError(
                f"the points of this sweep differ in {' and '.join(swept_names)}; sweep a grid, or "
                "select points that differ in one parameter"
            )
        values = values.swap_dims({dim: x})
    x_values = values[x].to_numpy()
    positions, is_log = _place_values(x_values)
    curves = []
    for label, samples in split_by_label(values, {x}):
        mean, error = (quantity.to_numpy() for quantity in mean_and_error(samples))
        error = 2 * np.nan_to_num(error)
        kind = "points" if x_values.dtype.kind in "iuf" else "dots"
        curves.append(Curve(label, positions, mean, mean - error, mean + error, kind))
    if bounds and x_values.dtype.kind not in "iuf":
        raise ValueError(f"bounds need a numeric parameter, and {x} is not a number; omit bounds")
    curves += _make_bound_curves(bounds, positions, "values")
    y = f"final regret (mean of {count_runs(values):,} runs, bars ± 2 s.e.)"
    panel = Panel("", AXIS_LABELS.get(x, x), y, curves, (), is_log, y_log)
    with open_axes(ax) as axes:
        _draw(axes, panel)
        if x_values.dtype.kind not in "iuf":
            axes.set_xticks(positions, [str(value) for value in x_values])
            axes.margins(x=0.15)
        elif is_log and (x_values == 0).any():
            start, end = positions[x_values > 0].min(), axes.get_xlim()[1]
            ticks = [tick for tick in axes.get_xticks() if 0.999 * start <= tick <= end]
            axes.set_xticks([positions.min(), *ticks], ["0", *map(typeset, ticks)])
    return axes


def tail(data: "xarray.Dataset", *, ax: "Axes | None" = None) -> "Axes":
    """Draw the tail of the regret: the percentage of the runs whose final regret is at least x.

    A mean can hide a few runs with a very large regret; the right end of a curve shows them. Both
    axes are logarithmic.

    Parameters
    ----------
    data
        A result of `simulate`, `race`, `sweep` or `rehearse` that keeps every run.
    ax
        The axes to draw into. Curves that are already there keep their colours. Default: a new
        figure.
    """
    values = get_variable(data, "final_regret", "a result of simulate").compute()
    if "run" not in values.dims:
        raise ValueError("data contains a summary, not the runs; simulate with keep='runs'")
    curves = []
    for label, regrets in split_by_label(values, set()):
        sorted_regrets = np.sort(regrets.to_numpy())
        sorted_regrets = sorted_regrets[np.isfinite(sorted_regrets)]
        percentages = 100 * (1 - np.arange(sorted_regrets.size) / sorted_regrets.size)
        is_shown = sorted_regrets > 0
        curves.append(Curve(label, sorted_regrets[is_shown], percentages[is_shown]))
    y = f"runs with a regret of at least x, % of {count_runs(values):,}"
    return _draw(ax, Panel("", "final regret x", y, curves, y_log=True))


def profile(data: "xarray.Dataset", *, ax: "Axes | None" = None) -> "Axes":
    """Draw performance profiles: the share of settings in which a policy is close to the best policy.

    The curve of a policy at τ is the percentage of the settings in which its mean regret is at most τ
    times the mean regret of the best policy (Dolan and Moré 2002). Higher is better.

    Parameters
    ----------
    data
        A result of `league` or of `sweep`; each problem, or each point of a sweep, is a setting.
    ax
        The axes to draw into. Default: a new figure.
    """
    ratios = ratios_to_best(data)
    finite_ratios = ratios[np.isfinite(ratios)]
    end = max(1.5, min(100.0, 1.05 * float(finite_ratios.max())))
    labels = [str(label) for label in data["policy"].to_numpy()]
    order = np.argsort(np.log(ratios).mean(axis=1), kind="stable")
    curves = [profile_curve(labels[p], ratios[p], end) for p in order]
    x, y = "regret / regret of the best policy, τ", f"settings within τ, % of {ratios.shape[1]}"
    return _draw(ax, Panel("", x, y, curves))


def paired(
    data: "xarray.Dataset", *, baseline: str | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw the paired difference in regret between each policy and a baseline, with 95 % intervals.

    The intervals come from `compare`. With several settings (`sweep`, `league`), small dots show the
    mean difference in each setting. The right margin shows the p-value of each mean difference,
    adjusted by Holm's method.

    Parameters
    ----------
    data, baseline
        As in `compare`.
    ax
        The axes to draw into. Default: a new figure.
    """
    table = compare(data, baseline=baseline)
    baseline_name = str(table.attrs["baseline"])
    compared = [str(label) for label in table["policy"].to_numpy() if label != baseline_name]
    if not compared:
        raise ValueError(f"{baseline_name} is the only policy; simulate at least two policies")
    means = settings_of(data).mean("run")
    differences = means - means.sel(policy=baseline_name)
    with open_axes(ax) as axes:
        ink = axes.xaxis.label.get_color()
        axes.axvline(0, color=ink, linewidth=0.9, zorder=2)
        for row, label in enumerate(compared):
            colour, results = choose_colour(axes, row), table.sel(policy=label)
            if differences.sizes["setting"] > 1:
                dots = differences.sel(policy=label).to_numpy()
                offsets = row + 0.22 + 0.12 * np.linspace(-1, 1, dots.size)
                axes.plot(dots, offsets, ".", color=colour, alpha=0.45, markersize=4, zorder=3)
            value = float(results["difference"])
            axes.errorbar(
                value, row, xerr=[[value - float(results["low"])], [float(results["high"]) - value]],
                color=colour, marker="o", markersize=5, capsize=3, linewidth=1.8, zorder=4,
            )  # fmt: skip
            axes.annotate(
                format_p_value(float(results["p_mean_holm"])), (1.0, row), (4, 0),
                xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
                fontsize=8, color=ink, annotation_clip=False,
            )  # fmt: skip
        axes.set_yticks(range(len(compared)), compared)
        axes.set_ylim(len(compared) - 0.5, -0.5)
        axes.grid(False, axis="y")
        unit = {"draw": "problem"}.get(table.attrs["unit"], table.attrs["unit"])
        units = f"{int(table.attrs['n_units']):,} {unit}s"
        interval = f"95 % bootstrap interval over {units}"
        if np.isinf(table["high"]).any():
            interval = f"{units} are too few for an interval"
        axes.set_xlabel(
            f"regret minus the regret of {baseline_name}\n(paired mean, {interval}; left is better)"
        )
    return axes


def trace(data: "xarray.Dataset", *, variable: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw one run stage by stage.

    Parameters
    ----------
    data
        A result of `trace`.
    variable
        None: the arms that the run pulled and looked at. "index", "mean" or "n_observed": this
        quantity for every arm, with dots where the arm was pulled and circles where it was looked at.
    ax
        The axes to draw into. Default: a new figure.
    """
    pulled_arms = get_variable(data, "pull", "a result of trace").to_numpy()
    looked_arms = get_variable(data, "look", "a result of trace").to_numpy()
    stages = data["stage"].to_numpy()
    is_long = stages.size > MAX_LINEAR_STAGES
    has_look = looked_arms >= 0
    if variable is None:
        return _draw_decisions(ax, stages, pulled_arms, looked_arms, is_long)
    one_of(variable, "variable", tuple(TRACE_LABELS))
    values = get_variable(data, variable, "a result of trace").transpose("stage", "arm").to_numpy()
    if not np.isfinite(values).any():
        raise ValueError(f"this run has no {variable}; use variable='mean' or variable='n_observed'")
    shown_values = np.where(np.isfinite(values), values, np.nan)
    labels = [f"arm {arm}" for arm in data["arm"].to_numpy()]
    curves = [Curve(label, stages, shown_values[:, arm]) for arm, label in enumerate(labels)]
    panel = Panel("", AXIS_LABELS["stage"], TRACE_LABELS[variable], curves, x_log=is_long)
    with open_axes(ax) as axes:
        positions = {label: position for position, label in enumerate(labels)}
        handles = draw_panel(axes, panel, positions)
        if not (shown_values[np.isfinite(shown_values)] < 0).any():
            axes.set_ylim(bottom=0)
        is_rasterized = stages.size > MAX_VECTOR_POINTS
        for arm in range(len(labels)):
            colour = choose_colour(axes, arm)
            styles: Any = (
                (pulled_arms == arm, {"markersize": 3}),
                (looked_arms == arm, {"markersize": 6, "markerfacecolor": "none"}),
            )
            for is_chosen, style in styles:
                axes.plot(
                    stages[is_chosen], shown_values[is_chosen, arm], "o", color=colour, zorder=5,
                    rasterized=is_rasterized, **style,
                )  # fmt: skip
        ink = axes.xaxis.label.get_color()
        (pull_dot,) = axes.plot([], [], "o", color=ink, markersize=3)
        (look_circle,) = axes.plot([], [], "o", color=ink, markersize=6, markerfacecolor="none")
        handles |= {"pull": pull_dot} | ({"look": look_circle} if has_look.any() else {})
        _add_legend(axes, handles)
    return axes


def _draw_decisions(
    ax: "Axes | None",
    stages: NDArray[np.int64],
    pulled_arms: NDArray[np.int64],
    looked_arms: NDArray[np.int64],
    is_long: bool,
) -> "Axes":
    """Draw the arm of each pull and each look against the stage."""
    has_look = looked_arms >= 0
    n_arms = 1 + int(max(pulled_arms.max(), looked_arms.max()))
    panel = Panel("", AXIS_LABELS["stage"], "arm", [], x_log=is_long)
    with open_axes(ax) as axes:
        style: Any = {"linestyle": "none", "rasterized": stages.size > MAX_VECTOR_POINTS}
        axes.plot(
            stages, pulled_arms, "|", color=choose_colour(axes, 0), markersize=8, label="pull",
            **style,
        )  # fmt: skip
        if has_look.any():
            axes.plot(
                stages[has_look], looked_arms[has_look] + 0.3, "o", color=choose_colour(axes, 1),
                markersize=4, markerfacecolor="none", label="look", **style,
            )  # fmt: skip
        draw_panel(axes, panel, {})
        axes.set_ylim(-0.6, n_arms - 0.3)
        axes.set_yticks(range(n_arms))
        axes.grid(False, axis="y")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    return axes


def plan(data: "Plan", *, ax: "Axes | None" = None) -> "Axes":
    """Draw the regret that a plan predicts against the rate of looks.

    If looks have a cost, the figure also shows the regret plus this cost, and marks the recommended
    number of looks. If the plan covers several problems, a band extends from the mean to the largest
    regret of these problems.

    Parameters
    ----------
    data
        A result of `kibitz.plan`.
    ax
        The axes to draw into. Default: a new figure.
    """
    from kibitz.planning.result import Plan

    if not isinstance(data, Plan):
        raise ValueError(f"data must be a result of plan, got {type(data)}")
    observers = ["kibitzer"] + (["active"] if data.policy == "ucb_double" else [])
    panel = make_plan_panel(data.to_dict(), observers)
    return _draw(ax, panel._replace(marks=[mark for mark in panel.marks if mark.label != "ε*"]))


def report(data: "xarray.Dataset", *, ax: "Axes | None" = None) -> "Axes":
    """Draw the mean reward of each arm of an agent, with its confidence sequence.

    Arms without a settled reward have no mark.

    Parameters
    ----------
    data
        A result of `Agent.report`.
    ax
        The axes to draw into. Default: a new figure.
    """
    mean, low, high = (
        get_variable(data, name, "a result of Agent.report").to_numpy()
        for name in ("mean", "low", "high")
    )
    labels = [str(label) for label in data["arm"].to_numpy()]
    rows = np.flatnonzero(np.isfinite(mean) & np.isfinite(low) & np.isfinite(high))
    with open_axes(ax) as axes:
        axes.errorbar(
            mean[rows], rows, xerr=[mean[rows] - low[rows], high[rows] - mean[rows]],
            color=choose_colour(axes, 0), linestyle="none", marker="o", markersize=5, capsize=3,
            label="report",
        )  # fmt: skip
        axes.set_yticks(range(len(labels)), labels)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.grid(False, axis="y")
        coverage = 100 * (1 - data.attrs["delta"])
        axes.set_xlabel(f"mean reward, with {coverage:g} % confidence sequences")
    return axes


# ------------------------------------------------------------------------------------------ curves


def _draw(ax: "Axes | None", panel: Panel) -> "Axes":
    """Draw a panel and a legend, with colours that follow the curves already in the axes."""
    with open_axes(ax) as axes:
        n_existing = len(axes.get_legend_handles_labels()[1])
        if n_existing:
            axes.set_autoscaley_on(True)  # the new curves may be higher than the old curves
        labels = dict.fromkeys(curve.label for curve in panel.curves)
        positions = {label: n_existing + position for position, label in enumerate(labels)}
        draw_panel(axes, panel, positions)
        _add_legend(axes)
    return axes


def _add_legend(axes: "Axes", handles: Mapping[str, Any] | None = None) -> None:
    """Add a legend of `handles`, or of all curves; a long legend is to the right of the axes."""
    if handles is None:
        artists, labels = axes.get_legend_handles_labels()
    else:
        artists, labels = list(handles.values()), list(handles)
    position: Any = {}
    if len(labels) > MAX_INSIDE_LABELS:
        n_columns = -(-len(labels) // MAX_LABELS_PER_COLUMN)
        position = {"loc": "upper left", "bbox_to_anchor": (1, 1), "ncols": n_columns}
        position |= {"fontsize": "small", "handlelength": 2.5}
    axes.legend(artists, labels, **position)


def get_variable(data: Any, name: str, source: str) -> "xarray.DataArray":
    """Return a variable of a dataset; raise ValueError if the dataset has no such variable."""
    import xarray

    if not isinstance(data, xarray.Dataset) or name not in data:
        variables = ", ".join(map(str, data)) if isinstance(data, xarray.Dataset) else type(data)
        raise ValueError(f"data must be {source} with the variable {name!r}, got {variables}")
    return data[name]


def split_by_label(
    values: "xarray.DataArray", dims: set[str]
) -> "Iterator[tuple[str, xarray.DataArray]]":
    """Yield the label and the values of each curve: one for each policy and point of a sweep.

    The values keep only `dims` and the dimension of the runs.
    """
    if "policy" in values.coords and "policy" not in values.dims:
        values = values.expand_dims("policy")
    other_dims = [str(dim) for dim in values.dims if dim not in {*dims, *ROWS}]
    for indices in product(*(range(values.sizes[dim]) for dim in other_dims)):
        selected = values.isel(dict(zip(other_dims, indices, strict=True)))
        names = [
            str(name)
            for dim in other_dims
            for name, coordinate in values.coords.items()
            if coordinate.dims == (dim,)
        ]
        yield ", ".join(_format_coordinate(name, selected[name].item()) for name in names), selected


def _format_coordinate(name: str, value: Any) -> str:
    if name == "policy":
        return str(value)
    return f"{name} = {typeset(value) if isinstance(value, int | float) else value}"


def count_runs(values: "xarray.DataArray") -> int:
    """Return the number of runs in a variable of a result."""
    if "statistic" in values.dims:
        return int(values.sel(statistic="count").max())
    return values.sizes["run"]


def _find_band(
    values: "xarray.DataArray",
    mean: NDArray[np.float64],
    error: NDArray[np.float64],
    band: str | None,
    is_played: NDArray[np.bool_],
) -> tuple[Any, Any]:
    """Return the lower and upper edges of a band, or (None, None) if there is no band."""
    if band is None:
        return None, None
    if band == "error":
        return (None, None) if np.isnan(error).all() else (mean - 2 * error, mean + 2 * error)
    if "statistic" in values.dims:
        low, high = (values.sel(statistic=name).to_numpy() for name in ("q25", "q75"))
    else:
        low, high = values.quantile([0.25, 0.75], "run").to_numpy()
    return low[is_played], high[is_played]


def _make_bound_curves(
    bounds: Mapping[str, Bound] | None, x: NDArray[Any], x_name: str
) -> list[Curve]:
    """Return the curves of the bounds by label."""
    if not isinstance(bounds, Mapping | None):
        raise invalid("bounds", "a dict from labels to bounds", bounds)
    return [_make_bound_curve(label, bound, x, x_name) for label, bound in (bounds or {}).items()]


def _make_bound_curve(label: str, bound: Bound, x: NDArray[Any], x_name: str) -> Curve:
    """Return the curve of a bound, without the points at which the bound is 0 or infinite."""
    result: Any = bound
    if callable(bound):
        positions = np.unique(np.linspace(0, x.size - 1, MAX_BOUND_POINTS).round().astype(int))
        x = x[positions]
        result = bound(x)
    try:
        values = np.broadcast_to(np.asarray(result, float), x.shape)
    except (TypeError, ValueError):
        condition = f"a function of {x_name}, one number or {x.size} numbers"
        raise invalid(f"bounds[{label!r}]", condition, bound) from None
    is_shown = np.isfinite(values) & (values > 0)
    return Curve(label, x[is_shown], values[is_shown], kind="reference")


def _place_values(values: NDArray[Any]) -> tuple[NDArray[np.float64], bool]:
    """Return the position of each value on the axis, and whether the axis is logarithmic."""
    if values.dtype.kind not in "iuf":
        return np.arange(values.size, dtype=float), False
    positions = values.astype(float)
    positive = np.sort(positions[positions > 0])
    if positive.size < 2 or positions.min() < 0 or positive[-1] < MIN_LOG_SPAN * positive[0]:
        return positions, False
    zero_position = positive[0] / max(3.0, positive[1] / positive[0])
    return np.where(positions == 0, zero_position, positions), True


def format_p_value(p: float) -> str:
    """Format a p-value, as in "p = 0.03" and "p < 0.001"."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
