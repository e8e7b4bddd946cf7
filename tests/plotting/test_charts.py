"""Tests that the figures of `kibitz.plot` show the numbers of the dataset and return their axes."""

from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pytest
import xarray
from matplotlib import pyplot
from matplotlib.colors import to_hex

import kibitz
from kibitz import plot
from kibitz.plotting.picture import COLOURS, DARK_COLOURS, choose_dashes
from kibitz.simulation.results.summary import STATISTICS, summarise


class Runs(NamedTuple):
    regret: Any


STAGES = np.array([1, 10, 100, 1000])
RNG = np.random.default_rng(1)
REGRET = np.cumsum(RNG.exponential(size=(2, 30, 4)), axis=2)
PULLS = RNG.integers(1, 50, size=(2, 30, 3))


@pytest.fixture(autouse=True)
def close_figures():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


@pytest.fixture
def data():
    dims = ("policy", "run")
    return xarray.Dataset(
        {
            "regret": ((*dims, "stage"), REGRET.copy()),
            "final_regret": (dims, REGRET[:, :, -1]),
            "n_pulls": ((*dims, "arm"), PULLS),
            "n_looks": ((*dims, "arm"), 0 * PULLS),
        },
        {"policy": ["ucb", "ftl"], "run": range(30), "stage": STAGES, "arm": range(3)},
    )


def make_sweep(rates=(0.0, 0.01, 0.1, 1.0), name="rate", **other):
    shape = [2, len(rates), *map(len, other.values()), 30]
    regret = np.random.default_rng(2).exponential(size=shape)
    dims = ("policy", name, *other, "run")
    return xarray.Dataset(
        {"final_regret": (dims, regret)}, {"policy": ["ucb", "ftl"], name: list(rates), **other}
    )


def make_trace():
    rng = np.random.default_rng(3)
    pulled, looked = rng.integers(2, size=50), rng.integers(-1, 2, size=50)
    return xarray.Dataset(
        {
            "pull": ("stage", pulled),
            "look": ("stage", looked),
            "index": (("stage", "arm"), np.full((50, 2), np.nan)),
            "mean": (("stage", "arm"), rng.normal(size=(50, 2))),
            "n_observed": (("stage", "arm"), rng.integers(9, size=(50, 2))),
        },
        {"stage": range(1, 51), "arm": [0, 1]},
    )


def get_lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def get_errors(axes):
    """Return a dict from each label to the x, the y and the ends of the error bars of its points."""
    return {
        container.get_label(): (container.lines[0].get_xdata(), container.lines[0].get_ydata(),
                                np.array(container.lines[2][0].get_segments())[:, :, 1])
        for container in axes.containers
    }  # fmt: skip


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


# ------------------------------------------------------------------------------------------- regret


def test_regret_shows_means_and_two_standard_errors(data):
    axes = plot.regret(data)
    assert legend_of(axes) == ["ucb", "ftl"]
    error = REGRET.std(axis=1, ddof=1) / np.sqrt(30)
    for n, label in enumerate(("ucb", "ftl")):
        line = get_lines(axes)[label]
        assert line.get_xdata().tolist() == STAGES.tolist()
        assert line.get_ydata() == pytest.approx(REGRET[n].mean(axis=0))
        corners = axes.collections[n].get_paths()[0].vertices
        low, high = (REGRET[n].mean(axis=0) + sign * 2 * error[n] for sign in (-1, 1))
        for stage, *ends in zip(STAGES, low, high, strict=True):
            heights = corners[corners[:, 0] == stage, 1]
            assert (heights.min(), heights.max()) == pytest.approx(tuple(ends))
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == "stage t"
    assert axes.get_ylabel() == "regret (mean of 30 runs, band ± 2 s.e.)"
    assert axes.get_ylim()[0] == 0


def test_regret_bands_can_be_quartiles_or_absent(data):
    axes = plot.regret(data, band="quartiles")
    corners = axes.collections[0].get_paths()[0].vertices
    heights = corners[corners[:, 0] == 1000, 1]
    assert (heights.min(), heights.max()) == pytest.approx(
        tuple(np.quantile(REGRET[0, :, -1], [0.25, 0.75]))
    )
    assert "band 25–75 %" in axes.get_ylabel()
    assert not plot.regret(data, band=None).collections
    assert not plot.regret(data.isel(run=[0])).collections  # one run has no standard error


def test_a_summary_gives_the_same_curves(data):
    (values,) = summarise(Runs(np.moveaxis(REGRET, 1, 0)))
    summary = xarray.Dataset(
        {"regret": (("statistic", "policy", "stage"), values)},
        {"policy": ["ucb", "ftl"], "statistic": list(STATISTICS), "stage": STAGES},
    )
    for band in ("error", "quartiles"):
        expected, axes = plot.regret(data, band=band), plot.regret(summary, band=band)
        assert axes.get_ylabel() == expected.get_ylabel()
        for a, b in zip(axes.collections, expected.collections, strict=True):
            assert a.get_paths()[0].vertices == pytest.approx(b.get_paths()[0].vertices)


def test_bounds_are_functions_numbers_or_arrays(data):
    bounds = {
        "function": lambda stages: 2.0 * stages,
        "number": 7.0,
        "array": [0.0, np.inf, 5.0, 6.0],
    }
    axes = plot.regret(data, bounds=bounds)
    lines = get_lines(axes)
    assert lines["function"].get_ydata() == pytest.approx(2 * STAGES)
    assert lines["number"].get_ydata() == pytest.approx([7.0] * 4)
    assert lines["array"].get_xdata().tolist() == [100, 1000]  # 0 and infinity are no bounds
    assert axes.get_yscale() == "log"
    assert plot.regret(data, bounds=bounds, y_log=False).get_yscale() == "linear"
    with pytest.raises(
        ValueError, match=r"bounds\['x'\] must be a function of stages, one number or 4"
    ):
        plot.regret(data, bounds={"x": [1.0, 2.0]})


def test_a_second_call_adds_curves_in_new_colours(data):
    _, ax = pyplot.subplots()
    assert plot.regret(data.sel(policy=["ucb"]), ax=ax) is ax
    assert plot.regret(data.sel(policy="ftl"), ax=ax) is ax
    assert [line.get_color() for line in ax.get_lines()] == list(COLOURS[:2])
    plot.regret(10 * data, ax=ax)
    assert ax.get_ylim()[1] > 10 * REGRET.mean(axis=1).max()
    assert ax.get_ylim()[0] == 0
    assert legend_of(ax)[:2] == ["ucb", "ftl"]


def test_the_points_of_a_sweep_get_a_curve_each():
    values = np.ones((1, 2, 5, 4))
    swept = xarray.Dataset(
        {"regret": (("policy", "rate", "run", "stage"), values)},
        {"policy": ["ucb"], "rate": [0.001, 0.1], "stage": STAGES},
    )
    assert legend_of(plot.regret(swept)) == ["ucb, rate = 0.001", "ucb, rate = 0.1"]


def test_stages_beyond_the_horizon_are_not_drawn(data):
    data["regret"][0, :, 2:] = np.nan
    assert get_lines(plot.regret(data))["ucb"].get_xdata().tolist() == [1, 10]


def test_colours_suit_the_background(data):
    with matplotlib.rc_context({"axes.facecolor": "black"}):
        _, ax = pyplot.subplots()
    assert plot.regret(data, ax=ax).get_lines()[0].get_color() == DARK_COLOURS[0]
    with matplotlib.rc_context({"axes.facecolor": "none", "figure.facecolor": "#111111"}):
        _, ax = pyplot.subplots()
    assert plot.regret(data, ax=ax).get_lines()[0].get_color() == DARK_COLOURS[0]
    with matplotlib.rc_context({"axes.facecolor": "none", "figure.facecolor": "none"}):
        _, ax = pyplot.subplots()
    assert plot.regret(data, ax=ax).get_lines()[0].get_color() == COLOURS[0]


def test_settings_of_matplotlib_stay_unchanged(data):
    before = dict(matplotlib.rcParams)
    plot.regret(data), plot.pulls(data), plot.paired(data)
    assert dict(matplotlib.rcParams) == before


# ------------------------------------------------------------------------------------ other figures


def test_pulls_shows_the_share_of_each_arm(data):
    axes = plot.pulls(data)
    shares = 100 * PULLS.mean(axis=1) / PULLS.mean(axis=1).sum(axis=1, keepdims=True)
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == pytest.approx(shares.ravel())
    assert [to_hex(axes.patches[n].get_facecolor()) for n in (0, 3)] == [
        c.lower() for c in COLOURS[:2]
    ]
    assert axes.get_ylabel() == "share of the pulls, %\n(mean of 30 runs, ± 2 s.e.)"
    assert plot.pulls(data, y_log=True).get_yscale() == "log"
    with pytest.raises(ValueError, match="ucb made no looks"):
        plot.pulls(data, counts="n_looks")


def test_sweep_shows_means_and_puts_zero_on_a_logarithmic_axis():
    swept = make_sweep()
    axes = plot.sweep(swept)
    x, y, bars = get_errors(axes)["ucb"]
    runs = swept["final_regret"].sel(policy="ucb").to_numpy()
    error = runs.std(axis=1, ddof=1) / np.sqrt(30)
    assert x[1:] == pytest.approx([0.01, 0.1, 1])
    assert 0 < x[0] < 0.01
    assert y == pytest.approx(runs.mean(axis=1))
    assert bars == pytest.approx(runs.mean(axis=1)[:, None] + 2 * error[:, None] * [-1, 1])
    assert axes.get_xscale() == "log"
    axes.figure.draw_without_rendering()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "0.01", "0.1", "1"]
    assert axes.get_xlabel() == "rate of looks ε (looks per stage)"
    assert plot.sweep(make_sweep((1.0, 2.0, 3.0), "p")).get_xscale() == "linear"


def test_bounds_of_a_sweep_are_functions_of_the_parameter():
    data = make_sweep(rates=(0.01, 0.1, 1.0))
    axes = plot.sweep(data, bounds={"f": lambda rates: 1 / rates, "n": 5, "a": [1, 0, 3]})
    lines = get_lines(axes)
    assert lines["f"].get_ydata() == pytest.approx([100, 10, 1])
    assert lines["n"].get_ydata().tolist() == [5, 5, 5]
    assert lines["a"].get_xdata().tolist() == [0.01, 1.0]  # a bound of 0 is not drawn
    with pytest.raises(
        ValueError, match=r"bounds\['b'\] must be a function of values, one number or 3"
    ):
        plot.sweep(data, bounds={"b": [1, 2]})
    with pytest.raises(
        ValueError, match="bounds need a numeric parameter, and weights is not a number"
    ):
        plot.sweep(make_sweep(rates=("uniform", "optimal"), name="weights"), bounds={"n": 5})


def test_tail_is_the_share_of_runs_with_at_least_this_regret(data):
    axes = plot.tail(data)
    assert legend_of(axes) == ["ucb", "ftl"]
    line = get_lines(axes)["ftl"]
    for regret, percentage in zip(line.get_xdata(), line.get_ydata(), strict=True):
        assert percentage == pytest.approx(100 * (REGRET[1, :, -1] >= regret).mean())
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_ylabel() == "runs with a regret of at least x, % of 30"
    with pytest.raises(ValueError, match="simulate with keep='runs'"):
        plot.tail(data.rename(run="statistic"))


def test_plan_shows_regret_and_its_sum_with_the_cost():
    plan = kibitz.plan(100_000, baseline=0.05, lift=0.01, n_arms=5, cost=0.005)
    axes = plot.plan(plan)
    lines = get_lines(axes)
    rates, regret = np.array(plan.rates[1:]), np.array(plan.curves["kibitzer"]["mean"][1:])
    assert lines["kibitzer"].get_xdata() == pytest.approx(rates)
    assert lines["kibitzer"].get_ydata() == pytest.approx(regret)
    total = lines["kibitzer, plus the cost of looks"].get_ydata()
    assert total == pytest.approx(regret + 0.005 * 100_000 * rates)
    assert set(lines["kibitzer, no looks"].get_ydata()) == {plan.regret_without_looks}
    assert total.min() == pytest.approx(plan.regret_without_looks - plan.net, rel=0.02)
    assert [text.get_text() for text in axes.texts] == [f"{plan.n_looks:,.0f} looks"]
    free = get_lines(plot.plan(kibitz.plan(100_000, baseline=0.05, lift=0.01, n_arms=5)))
    assert set(free) >= {"kibitzer", "kibitzer, no looks"}
    assert "kibitzer, plus the cost of looks" not in free


def test_report_shows_means_and_confidence_sequences(tmp_path):
    with kibitz.agent(tmp_path / "store.db", "a", arms=["x", "y", "z"], rewards="bernoulli") as agent:
        for arm, reward in (("x", 1), ("x", 0), ("y", 0)):
            agent.observe(arm, reward)
        report = agent.report(delta=0.1)
    axes = plot.report(report)
    (container,) = axes.containers
    assert container.lines[0].get_xdata().tolist() == [0.5, 0.0]  # z has no reward
    ends = np.array(container.lines[2][0].get_segments())[:, :, 0]
    assert ends == pytest.approx(np.stack([report["low"], report["high"]], axis=1)[:2])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y", "z"]
    assert axes.get_xlabel() == "mean reward, with 90 % confidence sequences"


def test_sweep_draws_words_as_categories_and_other_parameters_as_curves():
    swept = make_sweep(weights=["uniform", "optimal"])
    assert legend_of(plot.sweep(swept))[:2] == ["ucb, weights = uniform", "ucb, weights = optimal"]
    axes = plot.sweep(swept, x="weights")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["uniform", "optimal"]
    assert legend_of(axes)[0] == "ucb, rate = 0"
    with pytest.raises(ValueError, match="x must be 'rate' or 'weights', got 'p'"):
        plot.sweep(swept, x="p")


def test_sweep_draws_points_that_differ_in_one_parameter():
    points = make_sweep((0.1, 0.2)).rename_dims(rate="point").reset_index("rate")
    assert get_errors(plot.sweep(points))["ftl"][0].tolist() == [0.1, 0.2]
    with pytest.raises(ValueError, match="differ in rate and p"):
        plot.sweep(points.assign_coords(p=("point", [1, 2])))


def test_profile_is_the_share_of_settings_within_a_factor():
    regret = np.random.default_rng(4).exponential(size=(3, 25, 8)) + 0.2
    swept = xarray.Dataset(
        {"final_regret": (("policy", "draw", "run"), regret)},
        {"policy": list("abc"), "draw": range(25)},
    )
    axes = plot.profile(swept)
    ratios = regret.mean(axis=2) / regret.mean(axis=2).min(axis=0)
    for n, label in enumerate("abc"):
        x, y = get_lines(axes)[label].get_data()
        for factor in (1.001, 1.3, 2.0):
            drawn = y[np.searchsorted(x, factor, side="right") - 1]
            assert drawn == pytest.approx(100 * (ratios[n] <= factor).mean())
    best_first = np.argsort(np.log(ratios).mean(axis=1))
    assert legend_of(axes) == ["abc"[n] for n in best_first]


def test_paired_shows_the_intervals_of_compare(data):
    axes = plot.paired(data, baseline="ftl")
    row = kibitz.compare(data, baseline="ftl").sel(policy="ucb")
    (container,) = axes.containers
    assert container.lines[0].get_xdata() == pytest.approx([float(row["difference"])])
    (segment,) = container.lines[2][0].get_segments()
    assert segment[:, 0] == pytest.approx([float(row["low"]), float(row["high"])])
    assert [text.get_text() for text in axes.texts] == [f"p = {float(row['p_mean_holm']):.2g}"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ucb"]
    assert "over 30 runs" in axes.get_xlabel()
    axes = plot.paired(data.isel(run=[0, 1, 2]), baseline="ftl")
    assert "3 runs are too few for an interval" in axes.get_xlabel()
    with pytest.raises(ValueError, match="at least two policies"):
        plot.paired(data.isel(policy=[0]))


def test_paired_shows_each_setting():
    swept = make_sweep((0.1, 0.2, 0.3))
    axes = plot.paired(swept)
    means = swept["final_regret"].mean("run")
    expected = (means.sel(policy="ftl") - means.sel(policy="ucb")).to_numpy()
    assert any(
        np.allclose(line.get_xdata(), expected)
        for line in axes.get_lines()
        if line.get_marker() == "."
    )


def test_trace_shows_pulls_and_looks():
    run = make_trace()
    lines = get_lines(plot.trace(run))
    assert lines["pull"].get_ydata().tolist() == run["pull"].to_numpy().tolist()
    has_look = run["look"].to_numpy() >= 0
    assert lines["look"].get_xdata().tolist() == run["stage"].to_numpy()[has_look].tolist()
    no_looks = run.assign(look=0 * run["look"] - 1)
    assert legend_of(plot.trace(no_looks)) == ["pull"]


def test_trace_shows_a_quantity_of_every_arm():
    run = make_trace()
    axes = plot.trace(run, variable="mean")
    assert legend_of(axes) == ["arm 0", "arm 1", "pull", "look"]
    assert get_lines(axes)["arm 1"].get_ydata() == pytest.approx(run["mean"].to_numpy()[:, 1])
    dots = [line for line in axes.get_lines() if line.get_markersize() == 3 and line.get_xdata().size]
    is_pulled = run["pull"].to_numpy() == 0
    assert dots[0].get_xdata().tolist() == run["stage"].to_numpy()[is_pulled].tolist()
    with pytest.raises(ValueError, match="this run has no index; use variable='mean'"):
        plot.trace(run, variable="index")


@pytest.mark.parametrize("name", plot.__all__)
def test_data_that_are_no_result_are_rejected(name):
    with pytest.raises(ValueError, match="data must be a result of"):
        getattr(plot, name)(xarray.Dataset({"x": 1}))
    with pytest.raises(ValueError, match="data must be a result of"):
        getattr(plot, name)([1, 2])


@pytest.mark.parametrize("make", [pyplot.figure, lambda: pyplot.subplots(1, 2)[1], lambda: "axes"])
def test_ax_must_be_one_pair_of_axes(data, make):
    with pytest.raises(ValueError, match=r"ax must be matplotlib axes, such as pyplot.gca\(\), got"):
        plot.regret(data, ax=make())


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([1, 2], r"bounds must be a dict from labels to bounds, got \[1, 2\]"),
        (lambda t: t, "bounds must be a dict from labels to bounds, got <function"),
        ({"b": "x"}, r"bounds\['b'\] must be a function of stages, one number or .* got 'x'"),
        ({"b": lambda t: t[1:]}, r"bounds\['b'\] must be a function of stages"),
    ],
)
def test_wrong_bounds_raise(data, bounds, message):
    with pytest.raises(ValueError, match=message):
        plot.regret(data, bounds=bounds)


def test_a_second_drawing_into_a_figure_of_kibitz_has_its_style(data):
    axes = plot.regret(data)
    assert not plot.regret(data, ax=axes).get_legend().get_frame_on()
    _, own_axes = pyplot.subplots()
    assert plot.regret(data, ax=own_axes).get_legend().get_frame_on()


@pytest.mark.parametrize(
    ("n_arms", "is_outside", "n_columns"), [(8, False, 1), (9, True, 1), (18, True, 1), (30, True, 2)]
)
def test_a_long_legend_is_outside_the_axes(n_arms, is_outside, n_columns):
    """The legend has a label for each arm, for pulls and for looks."""
    run = make_trace()
    mean = np.zeros((50, n_arms)) + np.arange(n_arms)
    run = xarray.Dataset(
        {"pull": run["pull"], "look": run["look"], "mean": (("stage", "arm"), mean)},
        {"stage": run["stage"], "arm": range(n_arms)},
    )
    axes = plot.trace(run, variable="mean")
    axes.figure.draw_without_rendering()
    legend = axes.get_legend()
    assert len(legend.get_texts()) == n_arms + 2
    assert (legend.get_window_extent().x0 > axes.get_window_extent().x1) == is_outside
    assert legend._ncols == n_columns
    assert legend.get_window_extent().x1 <= axes.figure.bbox.x1
    assert legend.get_window_extent().y0 >= axes.figure.bbox.y0


def test_24_curves_differ_in_colour_or_dashes():
    styles = {(COLOURS[n % len(COLOURS)], choose_dashes(n)) for n in range(24)}
    assert len(styles) == 24
