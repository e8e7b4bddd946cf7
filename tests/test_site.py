"""The pages as they are built: run, whole, at home in a folder without a network, on any screen.

What was run and built is kept in `docs/_made` and `docs/_build`, and done again where something has
changed. Without the extra `docs` there is nothing to build, and without Chromium nothing to open:
those tests are then skipped.
"""

import re
import shutil
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import docstrings
import pytest
import run

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[1] / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS = (1280, 390)
# what reaches beyond the edge of the screen and cannot be scrolled to
HIDDEN = """
    [...document.querySelectorAll('article :is(p, li, td, dd, math, a, code, img)')].filter(e => {
        if (e.getBoundingClientRect().right <= innerWidth + 1) return false
        for (let up = e; up.tagName != 'ARTICLE'; up = up.parentElement)
            if (['auto', 'scroll'].includes(getComputedStyle(up).overflowX)) return false
        return true
    }).map(e => e.textContent)"""
LIMIT = 600  # seconds; on a new machine all policies that pages play are compiled


@pytest.fixture(scope="module")
def wrong():
    """What went wrong when pages were run: one after the other, as the cores have other tests."""
    return run.run_all(workers=1)


@pytest.mark.parametrize("page", run.pages(), ids=lambda page: str(page.relative_to(DOCS)))
def test_the_code_of_a_page_runs(page, wrong):
    assert run.record(page) is not None, wrong


@pytest.mark.parametrize(
    "page", sorted((DOCS / "tutorials").glob("*.md")), ids=lambda page: page.stem
)
def test_a_tutorial_draws_a_figure(page, wrong):
    assert any(shown.figures for shown in run.record(page) or []), wrong


def test_the_code_of_a_page_is_a_program():
    text = (DOCS / "tutorials" / "own_policy.md").read_text(encoding="utf-8")
    assert "kibitz.index_policy(" in run.as_script(text)
    for page in run.pages():
        compile(run.as_script(page.read_text(encoding="utf-8")), page.name, "exec")


@pytest.fixture(scope="module")
def site(wrong):
    """The folder of the built pages."""
    pytest.importorskip("furo", reason="the extra `docs` is not installed: no pages are built")
    folder = DOCS / "_build"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", DOCS, folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return folder


class Page(HTMLParser):
    """What a page loads, where it leads, and the places in it that can be led to."""

    def __init__(self, path):
        super().__init__()
        self.loaded, self.links, self.places, self.texts = [], [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.places.update(filter(None, (given.get("id"), given.get("name"))))
        if tag == "a":
            self.links.append(given.get("href") or "")
        else:
            self.loaded += [given[name] for name in ("src", "href", "data") if given.get(name)]

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def read(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_no_page_loads_anything_from_elsewhere(site, read):
    assert len(read) > 40
    for path, page in read.items():
        assert not [one for one in page.loaded if re.match(r"(\w+:)?//", one)], path.name
    for sheet in site.rglob("*.css"):
        foreign = re.findall(
            r"url\(\s*[\"']?(?:https?:)?//[^)]*|@import[^;]*//[^;]*", sheet.read_text()
        )
        assert not foreign, sheet.name


def test_every_link_leads_to_a_page_and_to_a_place_in_it(read):
    for path, page in read.items():
        for link in page.links:
            if re.match(r"\w+:", link) or not link:
                continue
            name, _, place = unquote(link).partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.exists(), (path.name, link)
            if place and target in read:
                assert place in read[target].places, (path.name, link)


def test_formulas_are_set_and_none_is_left_as_tex(read):
    assert sum("math" in path.read_text(encoding="utf-8") for path in read) > 10
    for path, page in read.items():
        text = " ".join(page.texts)
        assert not re.search(r"\\(frac|sum|sqrt|Delta|varepsilon|log)\b", text), path.name


def test_a_public_name_is_shown_as_users_write_it(site):
    page = (site / "reference/simulate.html").read_text(encoding="utf-8")
    text = re.sub("<[^>]*>", "", page)
    for name in ("simulate(problem, feedback", "race(problem, feedback", "sweep(problem, feedback"):
        assert f"kibitz.{name}, " in text


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no Chromium on this machine: pages were NOT opened in a browser")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_opens_from_its_folder_and_fits_the_screen(site, read, browser, width):
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    page = context.new_page()
    asked, wrong, wide, pushed, hidden = [], [], [], [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for path in read:
        page.goto(path.as_uri())
        across = page.evaluate("document.documentElement.scrollWidth")
        wide += [(path.name, across)] if across > width else []
        cut = "[...document.querySelectorAll('pre')].filter(e => e.scrollWidth > e.clientWidth + 1)"
        pushed += [(path.name, code) for code in page.evaluate(f"{cut}.map(e => e.textContent)")]
        hidden += [(path.name, text) for text in page.evaluate(HIDDEN)]
    assert not wide
    assert not hidden
    if width > 1000:  # code can be read without being pushed about
        assert not pushed
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]
    assert not wrong
    context.close()


def test_the_search_finds_a_page_without_a_network(site, browser):
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto((site / "search.html").as_uri() + "?q=leaping")
    page.wait_for_selector("#search-results li a")
    found = page.eval_on_selector_all("#search-results li a", "links => links.map(l => l.href)")
    assert any("leap.html" in link for link in found)
    context.close()


def test_the_font_of_formulas_is_used_and_night_is_dark(site, browser):
    for scheme, least, most in (("light", 600, 765), ("dark", 0, 150)):
        context = browser.new_context(offline=True, color_scheme=scheme)
        page = context.new_page()
        page.goto((site / "kibitzer.html").as_uri())
        page.wait_for_function("document.fonts.status == 'loaded'")
        font = "[...document.fonts].find(f => f.family.includes('STIX Two Math of kibitz'))"
        assert page.evaluate(f"{font}.status") == "loaded"
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert least <= sum(map(int, re.findall(r"\d+", paper)[:3])) <= most
        context.close()


def test_a_page_that_fails_is_named_and_nothing_of_it_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "MADE", tmp_path / "made")
    monkeypatch.setattr(run, "DOCS", tmp_path)
    page = tmp_path / "broken.md"
    page.write_text("```python\nprint(6 * 7)\n```\n\n```python\nraise ValueError('no')\n```\n")
    assert run.main([str(page)])
    assert run.record(page) is None
    page.write_text("```python\nprint(6 * 7)\n```\n")
    assert not run.main([str(page)])
    assert run.record(page) == [run.Shown("42", [])]
    page.write_text("```python\nprint(6 * 8)\n```\n")
    assert run.record(page) is None


def test_each_page_draws_on_paper_of_its_own(tmp_path, monkeypatch):
    """Though one process runs many."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(run, "MADE", tmp_path / "made")
    monkeypatch.setattr(run, "DOCS", tmp_path)
    drawn = "import matplotlib.pyplot as plt\nplt.plot([1, 2], [1, 2])\nplt.savefig('line.svg')\n"
    count = "print(len(plt.gca().lines))\n"
    pages = [tmp_path / "one.md", tmp_path / "two.md"]
    for page in pages:
        page.write_text(f"```python\n{drawn}```\n\n```python\n{count}```\n")
    assert not run.main([*map(str, pages)])
    for page in pages:
        assert run.record(page) == [run.Shown("", [f"{page.stem}-line"]), run.Shown("1", [])]
        light, dark = (
            (tmp_path / "made" / f"{page.stem}-line-{scheme}.svg").read_text()
            for scheme in ("light", "dark")
        )
        assert run.INK in light
        assert run.PAPER in dark
        assert dark == light.replace(run.INK, run.PAPER)


def test_a_page_that_would_warn_its_reader_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "MADE", tmp_path / "made")
    monkeypatch.setattr(run, "DOCS", tmp_path)
    page = tmp_path / "warns.md"
    page.write_text("```python\nimport warnings\nwarnings.warn('careful')\n```\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as outside of tests
        assert run.main([str(page)])
    assert "UserWarning: careful" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("formula", "part"),
    [
        (r"\beta\log x", '<mspace width="0.167em" /><mi>log</mi><mspace width="0.167em" />'),
        (r"\log(x)", '<mi>log</mi><mo stretchy="false" form="prefix">(</mo>'),
        (r"\Delta_i", '<mi mathvariant="normal">Δ</mi>'),
        (r"\le\infty", "<mi>∞</mi>"),
        (r"\big\{a\big\}", '>{</mo><mi>a</mi><mo minsize="1.2em"'),
        (r"t/F", '<mo lspace="0" rspace="0">/</mo>'),
        (r"\max_i x", "<munder><mi>max</mi><mi>i</mi></munder>"),
        (r"(-x)", '<mo form="prefix">−</mo>'),
    ],
)
def test_a_formula_is_spaced_as_tex_does(formula, part):
    pytest.importorskip("ziamath", reason="the extra `docs` is not installed")
    import mathml

    assert part in mathml.markup(formula, "block")


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (
            "str | ~numpy._typing._array_like._Buffer | ~numpy._typing._array_like._SupportsArray"
            "[~numpy.dtype[~typing.Any]] | ~numpy._typing._nested_sequence._NestedSequence"
            "[~numpy._typing._array_like._SupportsArray[~numpy.dtype[~typing.Any]]] | complex | bytes"
            " | ~numpy._typing._nested_sequence._NestedSequence[complex | bytes | str] | None",
            "str | array_like | None",
        ),
        ("numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.float64]]", "array"),
        ("str | ~os.PathLike[str] | None", "str | ~os.PathLike[str] | None"),
    ],
)
def test_a_type_is_short(annotation, said):
    assert docstrings.short(annotation) == said


@pytest.mark.parametrize(
    ("line", "set_as"),
    [
        ("h_i(t) and Δ_min", r":math:`h_i(t)`\  and :math:`Δ_{\text{min}}`" + "\\ "),
        ("(1 + c)Δ_i", r"(1 + c)\ :math:`Δ_i`" + "\\ "),
        ("t*_i is 1/Δ_i²", r":math:`t^*_i`\  is 1/\ :math:`Δ_i^2`" + "\\ "),
        ("Σ_{s≤t} ε_s", r":math:`Σ_{s≤t}`\  :math:`ε_s`" + "\\ "),
        ("`O_i` of n_pulls, C_UCB1", "`O_i` of n_pulls, C_UCB1"),
        (":param C_0: see D5", ":param C_0: see `D5 <e.html#d5>`__\\ "),
        ("docs/errata.md", "errata"),
        ("C_Δ, max_j μ_j", r":math:`C_Δ`\ , :math:`\max_j`\  :math:`μ_j`" + "\\ "),
        ("⌊εp_i t⌋ of Z̄_t", r"⌊\ :math:`εp_i`\  t⌋ of :math:`\bar Z_t`" + "\\ "),
        ("⌈p^(p^m)⌉, H^{(m)}", r"⌈\ :math:`p^{p^m}`\ ⌉, :math:`H^{(m)}`" + "\\ "),
    ],
)
def test_a_docstring_is_typeset(line, set_as):
    assert docstrings.typeset(line, "e.html") == set_as


def test_a_formula_that_goes_on_in_the_next_line_is_left_alone():
    class App:
        class env:
            docname = "bounds/upper"

    lines = ["at most :math:`a_i \\le", "e^{-x^2} b_i` for Δ_i,", "and t^2."]
    docstrings.process(App, "function", "f", None, None, lines)
    assert lines == [
        "at most :math:`a_i \\le",
        "e^{-x^2} b_i` for :math:`Δ_i`\\ ,",
        "and :math:`t^2`\\ .",
    ]
