"""The page: complete, of one piece, and made of nothing but its data."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from kibitz.reproduction import plots, report
from kibitz.reproduction.experiments import EXPERIMENTS
from kibitz.reproduction.plots import Curve, Mark, Panel, Picture
from kibitz.reproduction.verdict import Check, judge

X = np.geomspace(1e-4, 1, 9)
PANEL = Panel(
    "A panel",
    "ε, looks per stage",
    "regret at T (mean of 8 runs, bars 10–90 %)",
    [
        Curve("simulated", X, 99 - 9 * np.log(X), 90 - 9 * np.log(X), 110 - 9 * np.log(X), "points"),
        Curve("band", X, 50 - 10 * np.log(X), 40 - 10 * np.log(X), 60 - 10 * np.log(X)),
        Curve("reference", X, 1 / X, kind="reference"),
    ],
    [Mark(0.01, "ε*")],
    note="first line\nsecond line",
)
PICTURE = Picture("What it shows.", [PANEL, PANEL._replace(marks=(), y_log=True)])


class Page(HTMLParser):
    """Collects elements, and sees that they are closed in order."""

    VOID = frozenset({"meta", "link", "img", "br", "line", "circle"})

    def __init__(self, text):
        super().__init__()
        self.open, self.elements = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def section(tmp_path):
    from kibitz.model.feedback import passive
    from kibitz.model.problem import gaussian
    from kibitz.policies.ucb import ucb
    from kibitz.simulator.simulate import sweep

    (tmp_path / "figures").mkdir()
    plots.save_figure(plots.figure(PICTURE), tmp_path / "figures" / "1.svg")
    data = sweep("rate", [0.01, 0.1], gaussian([1, 0]), passive, ucb(), horizon=50, runs=3, seed=9)
    verdict = judge([Check("a < b & c", True), Check("open", None)], "in short", "In a sentence.")
    words = ("A title", "Section 5", "Regret scales with 1/Δ_i.")
    return report.Section(1, *words, verdict, PICTURE, {"rates": data}, ["1-rates.nc"])


@pytest.fixture
def page(section, tmp_path):
    return report.page([section], tmp_path / "figures", "/* vega */", 9)


def test_the_page_is_well_formed_and_names_all_that_it_should(page):
    parsed = Page(page)
    assert not parsed.open
    for part in ("A title", "in short", "In a sentence.", "± depends", "1/Δ<sub>i</sub>", "seed 9"):
        assert part in page
    assert "a &lt; b &amp; c" in page
    links = [a["href"] for tag, a in parsed.elements if tag == "a"]
    assert {"#e1", "data/1-rates.nc", "figures/1.png", "figures/1.svg"} <= set(links)
    for name in ("kibitz", "numpy", "numba", "xarray", "matplotlib"):
        assert f"{name} " in page


def test_every_image_has_a_description_and_every_button_says_its_state(page):
    elements = Page(page).elements
    images = [a for tag, a in elements if tag == "img"]
    assert images
    assert all(image["alt"] == "What it shows." for image in images)
    buttons = [a for tag, a in elements if tag == "button"]
    assert [button["data-label"] for button in buttons] == PICTURE.labels()
    assert all(button["aria-pressed"] == "true" for button in buttons)
    assert ("html", {"lang": "en"}) in elements


def test_the_page_asks_no_network(page):
    for tag, attributes in Page(page).elements:
        for name in ("src", "href"):
            address = attributes.get(name, "")
            assert not re.match(r"(https?:)?//", address), (tag, address)
    assert "@import" not in page
    assert not re.search(r"url\((?!data:)", page)


def test_the_setting_is_read_from_the_data(page):
    assert "<td>1, 0</td>" in page
    assert "rate: 0.01, 0.1" in page
    assert "ucb(exploration=6, ignore_free=False)" in page
    assert "--only 1 --seed 9 --runs 3" in page


def test_the_charts_compile_without_complaint():
    vl_convert = pytest.importorskip("vl_convert")
    for panel in PICTURE.panels:
        spec = report.spec(panel, PICTURE)
        assert json.loads(json.dumps(spec, allow_nan=False)) == spec
        drawn = vl_convert.vegalite_to_svg({**spec, "width": 300})
        for text in ("0.01", "looks per stage", *(mark.label for mark in panel.marks)):
            assert text in drawn


def test_a_chart_has_the_numbers_of_its_curves():
    rows = report.spec(PANEL, PICTURE)["data"]["values"]
    assert len(rows) == 3 * X.size
    first = rows[0]
    assert (first["label"], first["x"]) == ("simulated", 1e-4)
    assert first["y"] == pytest.approx(99 - 9 * np.log(1e-4), rel=1e-3)
    assert "low" not in rows[-1]


def test_bars_that_reach_below_zero_end_at_a_logarithmic_axis():
    curve = Curve("c", [0.1, 1.0], [5.0, 2.0], [-3.0, 1.0], [9.0, 3.0], "points")
    panel = Panel("t", "x", "y", [curve], y_log=True)
    rows = report.spec(panel, Picture("", [panel]))["data"]["values"]
    assert rows[0]["low"] == 1.0


def test_colours_have_enough_contrast_for_lines():
    """3 : 1 against the page (WCAG 1.4.11), in light and in dark."""

    def luminance(colour):
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colours, back in ((plots.COLOURS, "#ffffff"), (report.DARK_COLOURS, "#1c1e21")):
        assert len(colours) == len(plots.DASHES) == len(plots.MARKERS) == 12
        for colour in colours:
            light, dark = sorted((luminance(colour), luminance(back)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 3, colour


def test_one_figure_for_both_files(tmp_path):
    drawn = plots.figure(PICTURE)
    for ending in ("png", "svg"):
        plots.save_figure(drawn, tmp_path / f"f.{ending}")
    again = tmp_path / "again.svg"
    plots.save_figure(plots.figure(PICTURE), again)
    assert again.read_bytes() == (tmp_path / "f.svg").read_bytes()


def test_unknown_experiments_are_refused(tmp_path):
    with pytest.raises(ValueError, match=f"only must be .* to {len(EXPERIMENTS)}, got 12"):
        report.reproduce(tmp_path, seed=1, only=[12])
    assert not list(tmp_path.iterdir())


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "kibitz.cli", "reproduce", *arguments], capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "0"], "only must be numbers from 1 to"),
        (["--only", "x"], "only must be a number, got 'x'"),
        (["--runs", "0"], "runs must be a whole number of at least 1, got 0"),
        (["--out", __file__], "out must be a folder, got"),
    ],
)
def test_bad_options_get_a_sentence(arguments, sentence):
    found = command(*arguments)
    assert found.returncode == 2
    assert sentence in found.stderr


@pytest.mark.slow
def test_the_command_leaves_a_folder_and_the_same_numbers_again(tmp_path):
    pytest.importorskip("vl_convert")
    options = ["--only", "5", "--runs", "2", "--seed", "7", "--out"]
    pages = []
    for folder in (tmp_path / "a", tmp_path / "a", tmp_path / "b"):
        found = command(*options, str(folder))
        assert found.returncode == 0, found.stderr
        pages.append((folder / "report.html").read_text(encoding="utf-8"))
    assert pages[0] == pages[1] == pages[2]
    assert len(pages[0]) < 5_000_000
    names = {str(file.relative_to(tmp_path / "a")) for file in (tmp_path / "a").rglob("*.*")}
    assert names == {
        "report.html", "figures/5.png", "figures/5.svg", "data/5-kept.nc", "data/5-restart.nc",
    }  # fmt: skip
    other_seed = command("--only", "5", "--runs", "2", "--seed", "8", "--out", str(tmp_path / "a"))
    assert other_seed.returncode == 2
    assert "seed = 7 instead of 8" in other_seed.stderr
