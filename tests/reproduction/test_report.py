"""Tests of the report: it is complete, self-contained, and computed from its data files."""

import contextlib
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
import xarray
from workers import InlineExecutor

from kibitz.evaluation.league import Cost
from kibitz.plotting import figures as plots, picture, vega
from kibitz.plotting.picture import Curve, Mark, Panel, Picture
from kibitz.reproduction import report
from kibitz.reproduction.experiments import EXPERIMENTS, league
from kibitz.reproduction.parts import PARTS, Group
from kibitz.reproduction.verdict import Claim, Parameter, Statement, Table, judge

pytestmark = pytest.mark.slow

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
    """A parser that collects the elements of a page and checks that they are closed in order."""

    VOID = frozenset({"meta", "link", "img", "br", "line", "circle"})

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.scripts, self.text = [], [], [], ""
        self.feed(text)

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        else:
            self.text += data

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
    from kibitz.simulation.sweep import sweep

    (tmp_path / "figures").mkdir()
    plots.save_figure(plots.draw_figure(PICTURE), tmp_path / "figures" / "1.svg")
    data = sweep(gaussian([1, 0]), passive, ucb(), rate=[0.01, 0.1], horizon=50, runs=3, seed=9)
    verdict = judge(
        [Statement("a < b & c", True, claim=0), Statement("open", None)], "in short", "In a sentence."
    )
    parts = {"rates": data}
    return report.Section(
        1, "A title", "Section 5", "Regret scales with 1/Δ_i.", verdict, PICTURE,
        report.describe_rewards(parts), 3, report.data_rows(parts), report.policy_rows(parts),
        ["1-rates.nc"], module="a.module", group="paper",
        claims=[Claim("A claim", "A place", "A measure"), Claim("Another", "Elsewhere", "None")],
        parameters=[Parameter("runs", "300", "3"), Parameter("ε", "0.1", "0.1")],
    )  # fmt: skip


@pytest.fixture
def page(section, tmp_path):
    return report.render_report([section], tmp_path / "figures", "/* vega */", 9)


def test_the_report_is_well_formed_and_complete(page):
    parsed_page = Page(page)
    assert not parsed_page.open
    texts = ("A title", "in short", "In a sentence.", "± partly confirmed (1 of 2)", "Seed: 9")
    for text in (*texts, "Claim tested: Regret scales with 1/Δ<sub>i</sub>", "a.module"):
        assert text in page
    assert "a &lt; b &amp; c" in page
    links = [a["href"] for tag, a in parsed_page.elements if tag == "a"]
    assert {"#e1", "data/1-rates.nc", "figures/1.png", "figures/1.svg"} <= set(links)
    for name in ("kibitz", "numpy", "numba", "xarray", "matplotlib"):
        assert f"{name} " in page


def test_images_have_descriptions_and_buttons_have_states(page):
    elements = Page(page).elements
    images = [a for tag, a in elements if tag == "img"]
    assert images
    assert all(image["alt"] == "What it shows." for image in images)
    buttons = [a for tag, a in elements if tag == "button"]
    assert [button["data-label"] for button in buttons] == PICTURE.labels()
    assert all(button["aria-pressed"] == "true" for button in buttons)
    assert ("html", {"lang": "en"}) in elements


def test_the_report_needs_no_network(page):
    for tag, attributes in Page(page).elements:
        for name in ("src", "href"):
            address = attributes.get(name, "")
            assert not re.match(r"(https?:)?//", address), (tag, address)
    assert "@import" not in page
    assert not re.search(r"url\((?!data:)", page)


def test_the_settings_are_read_from_the_data(page, section):
    (row,) = section.data_rows
    assert row == ["rates", "1, 0", "passive, uniform weights", "ε: 0.01, 0.1", "50", "3", "step"]
    assert section.policy_rows == [["ucb", "ucb", "exploration = 6, ignore_looks = no", "all"]]
    for cell in (*row, "exploration = 6, ignore_looks = no"):
        assert f"<td>{cell}</td>" in page
    assert "--only 1 --seed 9 --runs 3" in page


def test_the_report_has_no_collapsed_sections(page):
    assert not {"details", "summary"} & {tag for tag, _ in Page(page).elements}


def test_statements_have_signs(page):
    signs = [
        (a["class"], a["aria-label"]) for _, a in Page(page).elements if "sign" in a.get("class", "")
    ]
    assert signs == [("sign s✓", "holds"), ("sign s?", "undecided: too few runs")]


def test_the_paper_and_our_experiments_have_separate_headlines(section, tmp_path):
    (tmp_path / "figures" / "2.svg").write_bytes((tmp_path / "figures" / "1.svg").read_bytes())
    our_section = section._replace(number=2, group="ours", claims=(), parameters=())
    html = report.render_report([section, our_section], tmp_path / "figures", "/* vega */", 9)
    text = Page(html).text
    assert "The paper’s experiments: 1 partly confirmed" in text
    assert "Our experiments: 1 partly confirmed" in text
    ids = [a["id"] for tag, a in Page(html).elements if tag == "section" and "id" in a]
    assert ids == ["claims", "paper", "e1", "ours", "e2"]
    assert text.count("All parameters are our choice") == 1


def test_each_claim_has_a_row_with_its_result(section):
    rows = report.claim_rows(section)
    assert [(row["claim"].text, row["label"]) for row in rows] == [
        ("A claim", "confirmed"), ("Another", "– not measured"),
    ]  # fmt: skip
    undecided_verdict = judge([Statement("open", None, claim=0)], "", "")
    assert report.claim_rows(section._replace(verdict=undecided_verdict))[0]["label"].startswith(
        "? undecided"
    )
    failed_verdict = judge([Statement("", False, claim=0), Statement("", True, claim=0)], "", "")
    (row, _) = report.claim_rows(section._replace(verdict=failed_verdict))
    assert (row["outcome"], row["label"]) == ("partly confirmed", "partly confirmed (1 of 2)")


def test_parameters_that_differ_from_the_paper_are_marked(page):
    rows = [a["class"] for tag, a in Page(page).elements if tag == "tr" and "class" in a]
    assert rows == ["differs", "same"]
    assert '<td data-label="Paper">300</td><td data-label="Here">3</td>' in page


def test_text_has_subscripts_and_non_breaking_spaces():
    assert report.to_html("1/Δ_i < 5 %") == "1/Δ<sub>i</sub> &lt; 5\N{NO-BREAK SPACE}%"


def test_the_report_has_the_tables_of_a_verdict(section, tmp_path):
    table = Table("What <it> is", ["policy", "regret"], [["ucb", "1.5 ± 0.1"], ["<b>", "2"]])
    section_with_table = section._replace(verdict=section.verdict._replace(tables=[table]))
    html = report.render_report([section_with_table], tmp_path / "figures", "/* vega */", 9)
    assert "<caption>What &lt;it&gt; is</caption>" in html
    assert "<td>1.5 ± 0.1</td>" in html
    assert "<td>&lt;b&gt;</td>" in html
    assert not Page(html).open


def test_rewards_and_long_sweeps_are_summarised(section):
    from kibitz.model.feedback import bandit
    from kibitz.model.problem import bernoulli
    from kibitz.policies.ucb import ucb
    from kibitz.simulation.sweep import sweep

    def problem(draw):
        return bernoulli([0.5, draw / 100])

    data = {"x": sweep(problem, bandit(), ucb(), draw=range(30), horizon=9, runs=2, seed=1)}
    assert report.describe_rewards(data) == "Bernoulli"
    assert section.rewards == "Gaussian with variance 1"
    (row,) = report.data_rows(data)
    assert row[1:4] == ["0.5, 0 (the first of 30 problems)", "none", "pair of means: 0 to 29"]


def test_large_numbers_in_labels_are_powers_of_ten():
    assert report.format_label("paid, 1000000000000") == "paid, 10¹²"
    assert report.format_label("problem 12") == "problem 12"


def test_feedback_is_described_in_words():
    from kibitz.model.feedback import active, every, graph, passive

    def words(*feedbacks):
        return report.format_feedback([feedback.spec for feedback in feedbacks])

    assert words(active(0.1)) == "active, ε = 0.1"
    assert words(active(0.1), active(0.2)) == "active"
    assert words(active(every(10), paid=True)) == "active, every 10 stages, paid"
    assert (
        words(passive(0.5, "optimal", looks=2))
        == "passive, optimal weights, ε = 0.5, 2 looks per arrival"
    )
    star, line = graph([[1, 1, 1], [0, 1, 0], [0, 0, 1]]), graph([[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    assert words(star) == "graph with 2 edges"
    assert words(star, line) == "graphs with 1 to 2 edges"
    assert words(graph(np.eye(2), looks=active(0.1))) == "graph with 0 edges; active, ε = 0.1"


def test_policies_with_other_parameters_have_a_row_for_each_part():
    from kibitz.model.feedback import bandit
    from kibitz.model.problem import gaussian
    from kibitz.policies.ucb import ucb
    from kibitz.simulation.simulate import simulate

    data = {
        name: simulate(
            gaussian([1, 0]), bandit(), {"same": ucb(), "other": ucb(c)}, horizon=9, runs=2, seed=1
        )
        for name, c in (("a", 2.0), ("b", 3.0))
    }
    assert report.policy_rows(data) == [
        ["same", "ucb", "exploration = 6, ignore_looks = no", "all"],
        ["other", "ucb", "exploration = 2, ignore_looks = no", "a"],
        ["other", "ucb", "exploration = 3, ignore_looks = no", "b"],
    ]


def test_a_missing_folder_is_created(two_experiments, tmp_path):
    report.reproduce(tmp_path / "new" / "folder", seed=4, only=[1], runs=2)
    assert (tmp_path / "new" / "folder" / "report.html").exists()


def test_other_files_in_the_folder_are_left_alone(two_experiments, tmp_path):
    report.reproduce(tmp_path / "first", seed=4, runs=2)
    parts = {file.stem.split("-", 1)[1] for file in (tmp_path / "first" / "data").iterdir()}
    for part in parts:
        (tmp_path / "second" / part).mkdir(parents=True)
    report.reproduce(tmp_path / "second", seed=4, runs=2)
    written_names = {path.name for path in (tmp_path / "second").iterdir()}
    assert written_names == {"data", "figures", "report.html", *parts}


def test_reproduce_with_an_executor(two_experiments, tmp_path):
    inline = InlineExecutor()
    options = {"seed": 4, "only": [1], "runs": 2}
    (result_alone,) = report.reproduce(tmp_path / "alone", **options)
    (result_of_executor,) = report.reproduce(tmp_path / "distributed", **options, executor=inline)
    assert inline.calls
    assert result_alone.files == result_of_executor.files != []
    for name in result_alone.files:
        first_file, second_file = (
            xarray.load_dataset(tmp_path / folder_name / "data" / name)
            for folder_name in ("alone", "distributed")
        )
        xarray.testing.assert_identical(first_file, second_file)


MARKUP = """</script><script>alert('x')</script><!-- <b title="&amp;">"""


def test_markup_in_texts_is_escaped(section, page, tmp_path):
    curves = [PANEL.curves[0]._replace(label=MARKUP), PANEL.curves[1]]
    panel = PANEL._replace(
        title=MARKUP, x=MARKUP, y=MARKUP, note=MARKUP, curves=curves, marks=[Mark(1, MARKUP)]
    )
    verdict = judge([Statement(MARKUP, True), Statement("open", None)], MARKUP, MARKUP)
    hostile = section._replace(
        title=MARKUP, source=MARKUP, claim=MARKUP, verdict=verdict,
        picture=PICTURE._replace(alt=MARKUP, panels=[panel, panel]),
        data_rows=[[MARKUP, *section.data_rows[0][1:]]], policy_rows=[[MARKUP] * 4],
        files=[MARKUP], module=MARKUP, claims=[Claim(MARKUP, MARKUP, MARKUP)],
        parameters=[Parameter(MARKUP, MARKUP, "x"), Parameter("x", "x", MARKUP)],
    )  # fmt: skip
    plain_page = Page(page)
    hostile_page = Page(report.render_report([hostile], tmp_path / "figures", f"/* {MARKUP} */", 9))
    assert not hostile_page.open
    tags = [tag for tag, _ in plain_page.elements if tag in {"script", "b", "section"}]
    assert [tag for tag, _ in hostile_page.elements if tag in {"script", "b", "section"}] == tags
    # The text occurs twice as the title, the panel title and the panel note. It occurs once as the
    # source, claim, summary, finding, statement, legend label, data label, file and module. It occurs
    # four times in the row of the policy, and three times in the tested claim and in the parameters.
    assert hostile_page.text.count(MARKUP) == 2 + 2 + 2 + 9 + 4 + 3 + 3
    values = {value for _, attributes in hostile_page.elements for value in attributes.values()}
    # The attributes alt, data-label and aria-label contain the whole text.
    assert MARKUP in values
    charts = json.loads(hostile_page.scripts[0])
    assert charts["1"][0]["data"]["values"][0]["label"] == MARKUP


def test_scripts_cannot_end_their_element():
    code = "const end = '</script>', start = '<!-- <script>';"
    assert report.inline_script(code) == "const end = '<\\/script>', start = '<\\!-- <script>';"


def test_no_template_disables_escaping():
    templates = list(report.TEMPLATES.glob("*.html"))
    assert templates
    for template in templates:
        assert not re.search(r"\|\s*safe|autoescape", template.read_text()), template.name


def test_dollar_signs_in_labels_are_not_mathematics(tmp_path):
    panel = PANEL._replace(title="$\\frac$", curves=[PANEL.curves[0]._replace(label="$x_{$")])
    plots.save_figure(plots.draw_figure(Picture("", [panel])), tmp_path / "f.svg")


def test_the_charts_compile():
    vl_convert = pytest.importorskip("vl_convert")
    for panel in PICTURE.panels:
        spec = vega.make_chart(panel, PICTURE)
        assert json.loads(json.dumps(spec, allow_nan=False)) == spec
        svg = vl_convert.vegalite_to_svg({**spec, "width": 300})
        for text in ("0.01", "looks per stage", *(mark.label for mark in panel.marks)):
            assert text in svg


def test_a_chart_has_the_numbers_of_its_curves():
    rows = vega.make_chart(PANEL, PICTURE)["data"]["values"]
    assert len(rows) == 3 * X.size
    first_row = rows[0]
    assert (first_row["label"], first_row["x"]) == ("simulated", 1e-4)
    assert first_row["y"] == pytest.approx(99 - 9 * np.log(1e-4), rel=1e-3)
    assert "low" not in rows[-1]


def test_error_bars_below_zero_end_at_a_logarithmic_axis():
    curve = Curve("c", [0.1, 1.0], [5.0, 2.0], [-3.0, 1.0], [9.0, 3.0], "points")
    panel = Panel("t", "x", "y", [curve], y_log=True)
    rows = vega.make_chart(panel, Picture("", [panel]))["data"]["values"]
    assert rows[0]["low"] == 1.0


def test_colours_have_sufficient_contrast():
    """Check a contrast of 3 : 1 with the background (WCAG 1.4.11), in the light and dark themes."""

    def luminance(colour):
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colours, background in ((picture.COLOURS, "#ffffff"), (picture.DARK_COLOURS, "#1c1e21")):
        assert len(colours) == len(picture.DASHES) == len(plots.MARKERS) == 12
        for colour in colours:
            lighter, darker = sorted((luminance(colour), luminance(background)), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 3, colour


def test_a_figure_is_saved_reproducibly_in_two_formats(tmp_path):
    figure = plots.draw_figure(PICTURE)
    for suffix in ("png", "svg"):
        plots.save_figure(figure, tmp_path / f"f.{suffix}")
    second_file = tmp_path / "again.svg"
    plots.save_figure(plots.draw_figure(PICTURE), second_file)
    assert second_file.read_bytes() == (tmp_path / "f.svg").read_bytes()


def test_unknown_experiments_are_rejected(tmp_path):
    with pytest.raises(ValueError, match=f"only must be .* to {len(EXPERIMENTS)}, got 99"):
        report.reproduce(tmp_path, seed=1, only=[99])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"only": [True]}, "only must be a list of whole numbers from 1 to .*, got True"),
        ({"only": 4}, "only must be a list of whole numbers from 1 to .*, got 4"),
        ({"only": ["4"]}, "only must be a list of whole numbers from 1 to .*, got '4'"),
        ({"runs": 0}, "runs must be a whole number of at least 1, got 0"),
        ({"threads": 0}, "threads must be a whole number of at least 1, got 0"),
        ({"quick": 1}, "quick must be True or False, got 1"),
    ],
)
def test_invalid_options_are_rejected_before_anything_is_written(options, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        report.reproduce(tmp_path / "out", **{"seed": 1, **options})
    assert not list(tmp_path.iterdir())


def make_unwritable(folder):
    (folder / "file").write_text("")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "data-is-a-file").mkdir()
    (folder / "data-is-a-file" / "data").write_text("")
    (folder / "page-is-a-folder" / "report.html").mkdir(parents=True)
    (folder / "read-only").mkdir(mode=0o500)
    return {
        "file": "file", "child": "file/child", "loop": "loop",
        "child of a loop": "loop/child", "long": "x" * 300, "null": "a\0b",
        "data": "data-is-a-file", "page": "page-is-a-folder",
        "read-only": "read-only" if os.geteuid() else "/proc/kibitz",  # root ignores modes
    }  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    ["file", "child", "loop", "child of a loop", "long", "null", "data", "page",
     "read-only", "empty"],
)  # fmt: skip
def test_an_unwritable_folder_is_rejected_before_anything_is_computed(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(
        report, "run_experiment", lambda *_, **__: pytest.fail("something was computed")
    )
    monkeypatch.setattr(vega, "bundle_javascript", lambda: "")
    out = "" if kind == "empty" else tmp_path / make_unwritable(tmp_path)[kind]
    with pytest.raises(ValueError, match=r"^out must be .*, got ") as error:
        report.reproduce(out, seed=1)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.rglob("*.part"))


@pytest.fixture
def two_experiments(monkeypatch):
    """Replace the list of experiments by two short experiments."""
    from kibitz.model.feedback import passive
    from kibitz.model.problem import gaussian
    from kibitz.policies.ucb import ucb
    from kibitz.simulation.sweep import sweep

    def run(file, **options):
        return {
            str(horizon): sweep(
                gaussian([1, 0]), passive, ucb(), rate=[0.01, 0.1], horizon=horizon,
                file=file(str(horizon)), **options,
            )
            for horizon in (50, 60)
        }  # fmt: skip

    def verdict(data):
        regret = float(data["60"]["final_regret"].mean())
        return judge([Statement(f"regret {regret}", True)], f"{regret}", "")

    def draw(data):
        y = data["60"]["final_regret"].mean("run").to_numpy()[0]
        return Picture("", [Panel("", "x", "y", [Curve("c", [0.01, 0.1], y)])])

    common_attributes = {
        "SOURCE": "",
        "CLAIM": "",
        "RUNS": 20,
        "run": run,
        "verdict": verdict,
        "draw": draw,
    }
    common_attributes["__name__"] = "a.module"
    numbered_experiments = {
        n: SimpleNamespace(TITLE=name, **common_attributes) for n, name in ((1, "One"), (2, "Two"))
    }
    group = Group("Two experiments", "", tuple(numbered_experiments.values()))
    monkeypatch.setitem(PARTS, "paper", PARTS["paper"]._replace(groups={"ours": group}))
    monkeypatch.setattr(vega, "bundle_javascript", lambda: "")


def test_an_interrupted_reproduction_resumes(two_experiments, tmp_path):
    """Interrupt `reproduce` in the second experiment, and call it again.

    The second call reads the complete parts from files. The report equals the report of a
    reproduction without an interruption.
    """
    second_experiment = PARTS["paper"].numbered[2]
    run_completely = second_experiment.run

    def run_half(file, **options):
        def stops(name):
            if name == "60" and (tmp_path / "a" / "data" / "2-50.nc").exists():
                raise KeyboardInterrupt
            return file(name)

        return run_completely(stops, **options)

    second_experiment.run = run_half
    with pytest.raises(KeyboardInterrupt):
        report.reproduce(tmp_path / "a", seed=4, threads=1)
    second_experiment.run = run_completely
    assert not (tmp_path / "a" / "report.html").exists()
    times_before = {
        file.name: file.stat().st_mtime_ns for file in (tmp_path / "a" / "data").glob("*0.nc")
    }
    assert {"1-50.nc", "1-60.nc", "2-50.nc"} <= set(times_before)
    messages = []
    report.reproduce(
        tmp_path / "a", seed=4, threads=1, progress=lambda what, share: messages.append(what)
    )
    assert "1. One: simulating" not in messages
    assert "2. Two: simulating" in messages
    for name in ("1-50.nc", "1-60.nc", "2-50.nc"):
        assert (tmp_path / "a" / "data" / name).stat().st_mtime_ns == times_before[name]
    report.reproduce(tmp_path / "b", seed=4, threads=1)
    first_report, second_report = ((tmp_path / name / "report.html").read_bytes() for name in "ab")
    assert first_report == second_report


def test_measured_costs_are_in_the_report(two_experiments, tmp_path):
    costs_table = Table("on this machine", ["policy", "ns"], [["ucb", "27"]])
    PARTS["paper"].numbered[2].measure_costs = lambda: [costs_table]
    first_section, second_section = report.reproduce(tmp_path, seed=4, runs=3)
    assert (list(first_section.verdict.tables), list(second_section.verdict.tables)) == (
        [],
        [costs_table],
    )
    assert "on this machine" in (tmp_path / "report.html").read_text("utf-8")


def test_the_league_measures_the_cost_of_a_stage(monkeypatch):
    costs = {"slow": Cost(250.4, "generic"), "fast": Cost(27.6, "specialised")}
    monkeypatch.setattr(league, "stage_costs", lambda: costs)
    (table,) = league.measure_costs()
    assert table.rows == [["fast", "28", "specialised"], ["slow", "250", "generic"]]


def test_files_and_links_have_the_number_of_the_experiment(two_experiments, tmp_path):
    sections = report.reproduce(tmp_path, seed=4, only=[2, 2], runs=3)
    assert [(section.number, section.title) for section in sections] == [(2, "Two")]
    assert sections[0].files == ["2-50.nc", "2-60.nc"]
    names = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.*")}
    assert names == {
        "report.html", "figures/2.png", "figures/2.svg", "data/2-50.nc", "data/2-60.nc",
    }  # fmt: skip
    links = {
        a["href"] for tag, a in Page((tmp_path / "report.html").read_text()).elements if tag == "a"
    }
    assert links == {"#e2", "data/2-50.nc", "data/2-60.nc", "figures/2.png", "figures/2.svg"}


def run_command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "kibitz.cli", "reproduce", *arguments], capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "0"], "only must be a whole number of at least 1, got 0"),
        (["--only", "x"], "only must be a whole number, got 'x'"),
        (["--runs", "0"], "runs must be a whole number of at least 1, got 0"),
        (["--out", "x" * 300], "out must be a folder that can be written to, got 'xxx"),
        (["--out", __file__], "out must be a folder, got"),
    ],
)
def test_bad_options_are_reported(arguments, sentence):
    process = run_command(*arguments)
    assert process.returncode == 2
    assert sentence in process.stderr


@pytest.mark.slow
def test_the_command_writes_the_same_report_again(tmp_path):
    pytest.importorskip("vl_convert")
    options = ["--only", "5", "--runs", "2", "--seed", "7", "--out"]
    pages = []
    for folder in (tmp_path / "a", tmp_path / "a", tmp_path / "b"):
        process = run_command(*options, str(folder))
        assert process.returncode == 0, process.stderr
        pages.append((folder / "report.html").read_text(encoding="utf-8"))
    assert pages[0] == pages[1] == pages[2]
    assert len(pages[0]) < 5_000_000
    names = {str(file.relative_to(tmp_path / "a")) for file in (tmp_path / "a").rglob("*.*")}
    assert names == {
        "report.html", "figures/5.png", "figures/5.svg", "data/5-kept.nc", "data/5-restart.nc",
    }  # fmt: skip
    other_seed = run_command(
        "--only", "5", "--runs", "2", "--seed", "8", "--out", str(tmp_path / "a")
    )
    assert other_seed.returncode == 2
    assert "seed = 7 instead of 8" in other_seed.stderr


def test_each_part_has_its_own_report(monkeypatch, tmp_path):
    module = PARTS["graphs"].numbered[1]
    monkeypatch.setattr(vega, "bundle_javascript", lambda: "")
    seen = []

    def run_experiment(part, number, folder, **options):
        seen.append((part, number))
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "run_experiment", run_experiment)
    monkeypatch.setattr(report, "compile_for", lambda run_all: contextlib.nullcontext())
    with pytest.raises(KeyboardInterrupt):
        report.reproduce(tmp_path, seed=1, part="graphs", runs=2)
    assert seen == [("graphs", 1)]
    assert PARTS["graphs"].find_group(module) == "graphs"
    with pytest.raises(ValueError, match=r"^part must be 'paper', 'graphs' or 'changes', got 'x'$"):
        report.reproduce(tmp_path, seed=1, part="x")
    with pytest.raises(ValueError, match=r"^only must be"):
        report.reproduce(tmp_path, seed=1, part="graphs", only=[99])


def test_the_command_offers_all_parts(section, tmp_path):
    from kibitz.cli import reproduce

    assert tuple(PARTS) == reproduce.PARTS
    graph_section = section._replace(group="graphs", claims=(), parameters=())
    html = report.render_report([graph_section], tmp_path / "figures", "", 9, part="graphs")
    assert "Experiments on graphs: 1 partly confirmed" in Page(html).text
    assert "kibitz reproduce --part graphs --only 1 --seed 9 --runs 3" in html
    assert "the paper gives none" not in html
