"""Tests of `kibitz.race`.

It returns the same dataset as `simulate`, draws figures while it runs, and can be stopped early.
"""

import sys
import types

import matplotlib
import numpy as np
import pytest
import xarray
from matplotlib import pyplot
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

import kibitz
from kibitz.plotting import race, window as plots
from kibitz.simulation import simulate as playing

pytestmark = pytest.mark.slow

SIMULATION = (kibitz.gaussian([0.5, 0.0, 0.2]), kibitz.active(0.2), [kibitz.ucb(), kibitz.ftl()])
OPTIONS = {"horizon": 20_000, "runs": 60, "seed": 1, "threads": 1}


@pytest.fixture(autouse=True)
def prevent_windows(monkeypatch):
    """Prevent real windows, and let `race` draw a figure after every run."""
    monkeypatch.setattr(playing, "WATCH_SECONDS", 0.0)
    monkeypatch.setattr(playing, "WATCH_SHARE", 1.0)
    monkeypatch.setattr(race, "MIN_TITLE_SECONDS", 0.0)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(pyplot, "show", lambda block: None)
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")
    pyplot.switch_backend("agg")


@pytest.fixture
def titles(monkeypatch):
    """Return a list that receives the title of each figure when it is drawn."""
    drawn_titles = []
    draw_regret_curves = plots.draw_regret_curves

    def draw_and_record(data, title="", into=None):
        drawn_titles.append(title)
        return draw_regret_curves(data, title, into)

    monkeypatch.setattr(plots, "draw_regret_curves", draw_and_record)
    return drawn_titles


def stop_when(monkeypatch, condition):
    """Make `simulate` raise KeyboardInterrupt at the first progress report with condition()."""
    original_simulate = race.simulate

    def simulate(*game, progress, **setting):
        def tell(message, share):
            progress(message, share)
            if condition():
                raise KeyboardInterrupt

        return original_simulate(*game, progress=tell, **setting)

    monkeypatch.setattr(race, "simulate", simulate)


# -------------------------------------------------------------------------------------- notebooks


class Handle:
    """A fake handle of an IPython display that records each image that replaces another image."""

    def __init__(self, images):
        self.images = images

    def update(self, image):
        self.images.append(("replaced", image))


@pytest.fixture
def notebook(monkeypatch):
    """Imitate a notebook kernel, and return a list that receives the images it displays."""
    images = []

    def display(image, display_id):
        assert display_id is True
        images.append(("new", image))
        return Handle(images)

    shell = types.SimpleNamespace(kernel=object())
    ipython = types.ModuleType("IPython")
    ipython.get_ipython, ipython.version_info = lambda: shell, (9, 0)  # matplotlib reads the version
    display_module = types.ModuleType("IPython.display")
    display_module.display, display_module.Image = display, lambda data, width: data
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "IPython", ipython)
        patch.setitem(sys.modules, "IPython.display", display_module)
        yield images


def test_a_notebook_updates_one_figure_and_returns_the_numbers_of_simulate(notebook, titles):
    data = kibitz.race(*SIMULATION, **OPTIONS)
    xarray.testing.assert_identical(data, kibitz.simulate(*SIMULATION, **OPTIONS))
    assert [action for action, _ in notebook] == ["new"] + ["replaced"] * (len(titles) - 1)
    assert all(image.startswith(b"\x89PNG") for _, image in notebook)
    assert titles[-1] == "60 runs"
    counts = [title for title in titles[:-1] if title.endswith(" of 60 runs")]
    assert len(counts) > 2
    assert pyplot.get_fignums() == []


def test_a_stopped_race_returns_the_complete_runs(notebook, titles, monkeypatch):
    stop_when(monkeypatch, lambda: titles and titles[-1].endswith(" of 500 runs"))
    data = kibitz.race(*SIMULATION, **OPTIONS | {"runs": 500.0})
    n = data.sizes["run"]
    assert 0 < n < 500
    xarray.testing.assert_identical(data, kibitz.simulate(*SIMULATION, **OPTIONS | {"runs": n}))
    assert titles[-1] == f"stopped after {n} of 500 runs"


def test_a_race_stopped_before_the_first_run_raises(notebook, titles, monkeypatch):
    stop_when(monkeypatch, lambda: True)
    with pytest.raises(KeyboardInterrupt):
        kibitz.race(*SIMULATION, **OPTIONS | {"horizon": 10**7, "engine": "step"})


def test_a_race_stopped_during_the_last_figure_returns_all_runs(notebook, titles, monkeypatch):
    def png(figure):
        if titles[-1] == "60 runs":
            raise KeyboardInterrupt
        return b""

    monkeypatch.setattr(plots, "render_png", png)
    data = kibitz.race(*SIMULATION, **OPTIONS)
    assert titles[-1] == "60 runs"
    xarray.testing.assert_identical(data, kibitz.simulate(*SIMULATION, **OPTIONS))


def test_an_error_is_raised(notebook, titles, monkeypatch):
    def fail_once(figure):
        monkeypatch.setattr(plots, "render_png", lambda figure: b"")
        raise OSError("full disk")

    monkeypatch.setattr(race, "MIN_TITLE_SECONDS", 1e9)  # nothing is drawn before the first runs
    monkeypatch.setattr(plots, "render_png", fail_once)
    with pytest.raises(OSError, match="full disk"):
        kibitz.race(*SIMULATION, **OPTIONS)


def test_a_notebook_without_matplotlib_is_rejected_before_the_simulation(notebook, monkeypatch):
    monkeypatch.setattr(race, "find_spec", lambda name: None)
    monkeypatch.setattr(race, "simulate", None)
    with pytest.raises(ValueError, match=r"matplotlib is not installed; run: pip install 'kibitz\["):
        kibitz.race(*SIMULATION, **OPTIONS)


def test_ipython_in_a_terminal_is_not_a_notebook(notebook):
    assert race.is_notebook()
    shell = sys.modules["IPython"].get_ipython()
    del shell.kernel
    assert not race.is_notebook()
    sys.modules["IPython"].get_ipython = lambda: None
    assert not race.is_notebook()


class Canvas:
    """A fake canvas that records drawn data and titles, and counts the calls of `process_events`."""

    def __init__(self):
        self.drawn, self.n_events = [], 0

    def draw(self, data, title):
        self.drawn.append((data, title))

    def process_events(self):
        self.n_events += 1


def test_the_title_shows_compilation_and_progress(monkeypatch):
    canvas = Canvas()
    curves = race.Curves(lambda: canvas)
    curves.tell("compiling ucb", 0.0)
    curves.tell("compiling ucb", 0.0)
    curves.tell("compiling ftl", 0.0)
    curves.tell("simulating", 0.004)
    monkeypatch.setattr(race, "MIN_TITLE_SECONDS", 1e9)
    curves.tell("simulating", 0.5)  # not drawn, because the last title is too recent
    assert [title for _, title in canvas.drawn] == [
        "compiling ucb",
        "compiling ftl",
        "simulating: 0 %",
    ]
    monkeypatch.setattr(race, "MIN_TITLE_SECONDS", 0.0)
    curves.show("data", "3 of 9 runs")
    curves.tell("simulating", 0.6)
    assert canvas.drawn[-1] == ("data", "3 of 9 runs")
    curves.tell("compiling a faster loop", 0.7)
    assert canvas.drawn[-1] == ("data", "compiling a faster loop")  # the new title keeps the data
    assert canvas.n_events == 7


# ---------------------------------------------------------------------------------------- windows


@pytest.fixture
def windows(monkeypatch):
    """Let matplotlib open invisible windows.

    Return a list that receives a figure each time its events are processed.
    """
    processed_figures = []

    class Canvas(FigureCanvasAgg):
        required_interactive_framework = "headless"  # reported by matplotlib if there is no display
        manager_class = FigureManagerBase

        def draw_idle(self):
            self.draw()

        def flush_events(self):
            processed_figures.append(self.figure)

    backend = types.ModuleType("windows_of_a_test")
    backend.FigureCanvas, backend.FigureManager = Canvas, FigureManagerBase
    monkeypatch.setitem(sys.modules, "windows_of_a_test", backend)
    pyplot.switch_backend("module://windows_of_a_test")
    return processed_figures


def test_a_window_shows_the_curves_and_stays_responsive(windows, titles):
    data = kibitz.race(*SIMULATION, **OPTIONS)
    xarray.testing.assert_identical(data, kibitz.simulate(*SIMULATION, **OPTIONS))
    (number,) = pyplot.get_fignums()  # the window stays open
    (axes,) = pyplot.figure(number).axes
    assert axes.get_title(loc="left") == "60 runs"
    ucb, ftl = axes.get_lines()
    np.testing.assert_array_equal(ucb.get_ydata(), data["regret"].sel(policy="ucb").mean("run"))
    assert [ucb.get_label(), ftl.get_label()] == ["ucb", "ftl"]
    assert len(windows) > len(titles) > 3


def test_a_closed_window_stays_closed_and_the_simulation_continues(windows, titles, monkeypatch):
    original_draw = plots.Window.draw

    def draw(self, data, title):
        original_draw(self, data, title)
        pyplot.close(self.figure)

    monkeypatch.setattr(plots.Window, "draw", draw)
    assert kibitz.race(*SIMULATION, **OPTIONS).sizes["run"] == 60
    assert len(titles) == 1
    assert pyplot.get_fignums() == []


def test_invalid_input_opens_no_window(windows):
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 1, got 0"):
        kibitz.race(*SIMULATION, **OPTIONS | {"horizon": 0})
    assert pyplot.get_fignums() == []


def test_wait_until_closed_returns_on_ctrl_c(windows, monkeypatch):
    window = race.open_window()
    block_arguments = []

    def show(block):
        block_arguments.append(block)
        raise KeyboardInterrupt

    monkeypatch.setattr(pyplot, "show", show)
    window.wait_until_closed()
    assert block_arguments == [True]


def test_without_a_window_the_simulation_runs(monkeypatch):
    assert race.open_window() is None  # the backend agg has no windows
    assert pyplot.get_fignums() == []
    xarray.testing.assert_identical(
        kibitz.race(*SIMULATION, **OPTIONS), kibitz.simulate(*SIMULATION, **OPTIONS)
    )
    monkeypatch.setattr(plots, "Window", None)  # must not be called
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    if sys.platform == "linux":
        assert race.open_window() is None
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(race, "find_spec", lambda name: None)
    assert race.open_window() is None


def test_a_missing_backend_opens_no_window(monkeypatch):
    with matplotlib.rc_context():
        monkeypatch.setattr(pyplot, "_backend_mod", None)
        matplotlib.rcParams["backend"] = "module://nowhere_at_all"
        assert race.open_window() is None


# ------------------------------------------------------------------------------------- the figure


def test_tick_labels_use_the_usual_notation():
    data = kibitz.simulate(*SIMULATION, **OPTIONS)
    figure = plots.draw_regret_curves(data, "a title")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    tick_labels = [label.get_text() for label in axes.get_xticklabels()]
    assert {"10", "1000", "10⁴"} <= {*tick_labels}
    assert not any("$" in label for label in tick_labels)
    redrawn_figure = plots.draw_regret_curves(None, "compiling ucb", figure)
    assert redrawn_figure is figure
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "compiling ucb"
    assert not axes.get_lines()
