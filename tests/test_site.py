"""Tests of the built site: code runs, links work, and pages open offline on all screen widths.

Outputs and pages are cached in `docs/_generated` and `docs/_build`, and rebuilt after a change.
Tests are skipped without the extra `docs`, which builds the pages, or without Chromium.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import docstrings
import pytest
import run

from kibitz.plotting.picture import COLOURS, DARK_COLOURS

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[1] / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS = (1280, 390)
# JavaScript that returns the elements outside of the screen that a reader cannot scroll to
FIND_HIDDEN_SCRIPT = """
    [...document.querySelectorAll('article :is(p, li, td, dd, math, a, code, img)')].filter(e => {
        if (e.getBoundingClientRect().right <= innerWidth + 1) return false
        for (let up = e; up.tagName != 'ARTICLE'; up = up.parentElement)
            if (['auto', 'scroll'].includes(getComputedStyle(up).overflowX)) return false
        return true
    }).map(e => e.textContent)"""
# JavaScript that returns the code blocks and formulas wider than their box
FIND_CUT_CODE_SCRIPT = """
    [...document.querySelectorAll('pre, .math-block')].filter(e => e.scrollWidth > e.clientWidth + 1)
        .map(e => e.textContent)"""
BUILD_SECONDS = 600  # a build on a new machine compiles all policies
NOTEBOOK_PAGES = [
    page
    for folder in run.NOTEBOOK_FOLDERS
    for page in sorted((DOCS / folder).glob("*.md"))
    if run.BLOCK.search(page.read_text(encoding="utf-8"))
]


def relative_path(page):
    """Return the path of a page in the documentation."""
    return str(page.relative_to(DOCS))


@pytest.fixture(scope="module")
def errors():
    """Execute all outdated pages and return the error messages.

    Pages run one after the other, because other tests use the other cores.
    """
    return run.execute_outdated(workers=1)


@pytest.mark.parametrize("page", run.pages(), ids=relative_path)
def test_code_of_page_runs(page, errors):
    assert run.load_outputs(page) is not None, errors


@pytest.mark.parametrize(
    "page", sorted((DOCS / "tutorials").glob("*.md")), ids=lambda page: page.stem
)
def test_tutorial_draws_a_figure(page, errors):
    assert any(output.figures for output in run.load_outputs(page) or []), errors


def test_code_of_page_is_a_valid_script():
    text = (DOCS / "tutorials" / "own_policy.md").read_text(encoding="utf-8")
    assert "kibitz.index_policy(" in run.as_script(text)
    for page in run.pages():
        compile(run.as_script(page.read_text(encoding="utf-8")), page.name, "exec")


@pytest.fixture(scope="module")
def site(errors):
    """Return the folder of the built pages."""
    pytest.importorskip("furo", reason="the extra `docs` is not installed: no pages are built")
    folder = DOCS / "_build"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", DOCS, folder]
    process = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert process.returncode == 0, process.stderr
    return folder


class ParsedPage(HTMLParser):
    """A parser that collects the links, loaded files, anchors and text of a page."""

    def __init__(self, path):
        super().__init__()
        self.loaded_urls, self.links, self.anchors, self.texts = [], [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        if tag == "a":
            self.links.append(attributes.get("href") or "")
        elif attributes.get("rel") != "edit":
            self.loaded_urls += [
                attributes[name] for name in ("src", "href", "data") if attributes.get(name)
            ]

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def parsed_pages(site):
    """Return a dict from each path to the parsed page."""
    return {path: ParsedPage(path) for path in sorted(site.rglob("*.html"))}


def test_pages_load_nothing_from_other_hosts(site, parsed_pages):
    assert len(parsed_pages) > 40
    for path, page in parsed_pages.items():
        assert not [url for url in page.loaded_urls if re.match(r"(\w+:)?//", url)], path.name
    for stylesheet in site.rglob("*.css"):
        foreign_addresses = re.findall(
            r"url\(\s*[\"']?(?:https?:)?//[^)]*|@import[^;]*//[^;]*", stylesheet.read_text()
        )
        assert not foreign_addresses, stylesheet.name


def test_links_lead_to_a_page_and_an_anchor(parsed_pages):
    for path, page in parsed_pages.items():
        for link in page.links:
            if re.match(r"\w+:", link) or not link:
                continue
            path_text, _, anchor = unquote(link).partition("#")
            target = (path.parent / path_text).resolve() if path_text else path
            assert target.exists(), (path.name, link)
            if anchor and target in parsed_pages:
                assert anchor in parsed_pages[target].anchors, (path.name, link)


def test_every_page_links_to_the_repository_the_issues_and_the_paper(parsed_pages):
    for path, page in parsed_pages.items():
        links = " ".join(page.links)
        assert re.search(r"https://github\.com/[\w-]+/kibitz ", links), path.name
        assert re.search(r"https://github\.com/[\w-]+/kibitz/issues\b", links), path.name
        assert "https://arxiv.org/abs/" in links, path.name


def test_formulas_are_rendered(parsed_pages):
    assert sum("math" in path.read_text(encoding="utf-8") for path in parsed_pages) > 10
    for path, page in parsed_pages.items():
        text = " ".join(page.texts)
        assert not re.search(r"\\(frac|sum|sqrt|Delta|varepsilon|log)\b", text), path.name


@pytest.mark.parametrize("name", ["simulate", "race", "sweep"])
def test_signature_shows_the_public_name(site, name):
    html = (site / f"reference/{name}.html").read_text(encoding="utf-8")
    assert f"kibitz.{name}(problem, feedback, " in re.sub("<[^>]*>", "", html)


@pytest.mark.parametrize("page", NOTEBOOK_PAGES, ids=relative_path)
def test_page_can_be_downloaded_as_executed_notebook(site, parsed_pages, page):
    nbformat = pytest.importorskip("nbformat")
    html_file = site / page.relative_to(DOCS).with_suffix(".html")
    notebook_name = f"{run.page_id(page)}.ipynb"
    link = next(link for link in parsed_pages[html_file].links if link.endswith(f"/{notebook_name}"))
    notebook = nbformat.read(html_file.parent / link, as_version=4)
    nbformat.validate(notebook)
    blocks = run.BLOCK.findall(page.read_text(encoding="utf-8"))
    has_server = any(run.SERVER.search(code) for _, code in blocks)
    expected_sources = [
        ("%%bash\n" if language == "sh" else "") + code.rstrip("\n")
        for language, code in blocks
        if language == "python" or not has_server
    ]
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.source for cell in cells] == expected_sources
    shown_outputs = [output for output in run.load_outputs(page) if output.text or output.figures]
    if shown_outputs and not has_server:
        assert len([cell for cell in cells if cell.outputs]) == len(shown_outputs)
    assert shown_outputs == [] or any(cell.outputs for cell in cells)
    markdown = " ".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert not re.search(r"\]\((?!https?:|#|mailto:)", markdown)


@pytest.fixture(scope="module")
def browser():
    playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no Chromium on this machine: pages were NOT opened in a browser")
    with playwright_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def test_pages_open_from_a_folder_and_fit_the_screen(parsed_pages, browser):
    context = browser.new_context(offline=True)
    page = context.new_page()
    requests, script_errors, wide_pages, cut_texts, hidden_elements = [], [], [], [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: script_errors.append(str(error)))
    for path in parsed_pages:
        page.goto(path.as_uri())
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page_width = page.evaluate("document.documentElement.scrollWidth")
            wide_pages += [(path.name, page_width)] if page_width > width else []
            if width > 1000:  # on a wide screen, code and formulas fit without scrolling
                cut_texts += [(path.name, code) for code in page.evaluate(FIND_CUT_CODE_SCRIPT)]
            hidden_elements += [(path.name, text) for text in page.evaluate(FIND_HIDDEN_SCRIPT)]
    assert not wide_pages
    assert not hidden_elements
    assert not cut_texts
    assert not [url for url in requests if not url.startswith(("file:", "data:"))]
    assert not script_errors
    context.close()


def test_punctuation_stays_on_the_line_of_its_formula(parsed_pages):
    for path in parsed_pages:
        html = path.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
        breaks = re.findall(r"</math>(?:</span>)?[.,;:?!)\]]+(?![.,;:?!)\]]|</span>).*", html)
        assert not breaks, path.name


def test_code_has_a_copy_button_and_output_has_none(site, browser):
    page = browser.new_page()
    page.goto((site / "tutorials/first.html").as_uri())
    page.wait_for_selector("div.highlight-python button.copybtn", state="attached")
    assert page.locator("div.highlight-python").count() == page.locator("button.copybtn").count()
    assert page.locator("div.printed").count() > 0
    assert page.locator("div.printed button.copybtn").count() == 0
    page.close()


def test_search_works_offline(site, browser):
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto((site / "search.html").as_uri() + "?q=leaping")
    page.wait_for_selector("#search-results li a")
    result_links = page.eval_on_selector_all(
        "#search-results li a", "links => links.map(l => l.href)"
    )
    assert any("leap.html" in link for link in result_links)
    context.close()


def test_math_font_is_loaded_and_dark_mode_is_dark(site, browser):
    for scheme, min_brightness, max_brightness in (("light", 600, 765), ("dark", 0, 150)):
        context = browser.new_context(offline=True, color_scheme=scheme)
        page = context.new_page()
        page.goto((site / "kibitzer.html").as_uri())
        page.wait_for_function("document.fonts.status == 'loaded'")
        find_font = "[...document.fonts].find(f => f.family.includes('STIX Two Math of kibitz'))"
        assert page.evaluate(f"{find_font}.status") == "loaded"
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert min_brightness <= sum(map(int, re.findall(r"\d+", background)[:3])) <= max_brightness
        context.close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make the build use an empty folder in place of `docs`; return the folder."""
    monkeypatch.setattr(run, "GENERATED", tmp_path / "generated")
    monkeypatch.setattr(run, "DOCS", tmp_path)
    return tmp_path


def test_output_of_failing_page_is_not_stored(folder):
    page = folder / "broken.md"
    page.write_text("```python\nprint(6 * 7)\n```\n\n```python\nraise ValueError('no')\n```\n")
    assert run.main([str(page)])
    assert run.load_outputs(page) is None
    page.write_text("```python\nprint(6 * 7)\n```\n")
    assert not run.main([str(page)])
    assert run.load_outputs(page) == [run.Output("42", [])]
    page.write_text("```python\nprint(6 * 8)\n```\n")
    assert run.load_outputs(page) is None


def test_pages_of_one_process_do_not_share_figures(folder):
    pytest.importorskip("matplotlib")
    drawing_code = (
        "import matplotlib.pyplot as plt\nplt.plot([1, 2], [1, 2])\nplt.savefig('line.svg')\n"
    )
    counting_code = "print(len(plt.gca().lines))\n"
    pages = [folder / "one.md", folder / "two.md"]
    for page in pages:
        page.write_text(f"```python\n{drawing_code}```\n\n```python\n{counting_code}```\n")
    assert not run.main([*map(str, pages)])
    for page in pages:
        assert run.load_outputs(page) == [run.Output("", [f"{page.stem}-line"]), run.Output("1", [])]
        light_svg, dark_svg = (
            (folder / "generated" / f"{page.stem}-line-{scheme}.svg").read_text()
            for scheme in ("light", "dark")
        )
        assert run.LIGHT_INK in light_svg
        assert run.DARK_INK in dark_svg
        first_colour, dark_first_colour = COLOURS[0].lower(), DARK_COLOURS[0]
        assert dark_svg == light_svg.replace(run.LIGHT_INK, run.DARK_INK).replace(
            first_colour, dark_first_colour
        )


def test_page_with_a_warning_fails(folder, capsys):
    page = folder / "warns.md"
    page.write_text("```python\nimport warnings\nwarnings.warn('careful')\n```\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pytest would raise warnings as errors
        assert run.main([str(page)])
    assert "UserWarning: careful" in capsys.readouterr().err


needs_shell = pytest.mark.skipif(
    not (shutil.which("bash") and shutil.which("curl")), reason="needs bash and curl"
)


@needs_shell
def test_sh_blocks_share_one_shell_and_a_failing_command_fails_the_page(folder, capsys):
    page = folder / "shell.md"
    page.write_text("```sh\nNAME=world\n```\n\n```sh\npip install nothing\necho hello $NAME\n```\n")
    assert not run.main([str(page)])
    assert [output.text for output in run.load_outputs(page)] == ["", "hello world"]
    page.write_text("```sh\nkibitz simulate --no-such-option\n```\n")
    assert run.main([str(page)])
    assert "--no-such-option" in capsys.readouterr().err


@needs_shell
def test_server_of_a_page_answers_and_is_stopped_at_its_end(folder):
    """The server starts slowly, so the next block fails unless the build waits for the server."""
    (folder / "serve.py").write_text(
        "import http.server, os, sys, time\n"
        "open('pid', 'w').write(str(os.getpid()))\n"
        "time.sleep(1)\n"
        "http.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[1]))\n"
    )
    page = folder / "server.md"
    page.write_text(
        f"```sh\nkibitz() {{ {sys.executable} {folder}/serve.py 8765 > /dev/null; }}\n"
        f"cd {folder}\nkibitz serve &\n```\n\n"
        "```python\nfrom urllib.request import urlopen\n"
        "print(urlopen('http://127.0.0.1:8765/server.md').status)\n```\n\n"
        "```sh\ncurl --silent http://127.0.0.1:8765/pid\n```\n"
    )
    assert not run.main([str(page)])
    outputs = [output.text for output in run.load_outputs(page)]
    assert outputs[1] == "200"
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and Path(f"/proc/{outputs[2]}").exists():
        time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(int(outputs[2]), 0)


def test_notebook_has_plain_links_and_no_directives(folder):
    nbformat = pytest.importorskip("nbformat")
    page = folder / "tutorials" / "one.md"
    page.parent.mkdir()
    text = (
        "# One\n\nSee [two](../howto/two.md#here).\n\n```{image} a.svg\n:alt: a\n```\n\n"
        "```python\nprint(1)\n```\n\n:::{note}\nThe end.\n:::\n"
    )
    notebook = nbformat.reads(run.as_notebook(page, text, [run.Output("1", [])]), 4)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code", "markdown"]
    assert f"[two]({run.REPOSITORY}howto/two.md#here)" in notebook.cells[0].source
    assert "image" not in notebook.cells[0].source
    assert notebook.cells[1].outputs[0].text == "1\n"
    assert notebook.cells[2].source == "The end."


@pytest.mark.parametrize(
    ("formula", "expected_mathml"),
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
def test_formula_is_spaced_as_in_tex(formula, expected_mathml):
    pytest.importorskip("ziamath", reason="the extra `docs` is not installed")
    import mathml

    assert expected_mathml in mathml.to_mathml(formula, "block")


@pytest.mark.parametrize(
    ("annotation", "short_annotation"),
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
def test_type_is_shortened(annotation, short_annotation):
    assert docstrings.shorten_type(annotation) == short_annotation


@pytest.mark.parametrize(
    ("line", "typeset_line"),
    [
        ("h_i(t) and Δ_min", r":math:`h_i(t)`\  and :math:`Δ_{\text{min}}`" + "\\ "),
        ("(1 + c)Δ_i", r"(1 + c)\ :math:`Δ_i`" + "\\ "),
        ("t*_i is 1/Δ_i²", r":math:`t^*_i`\  is 1/\ :math:`Δ_i^2`" + "\\ "),
        ("Σ_{s≤t} ε_s", r":math:`Σ_{s≤t}`\  :math:`ε_s`" + "\\ "),
        ("`O_i` of n_pulls, C_UCB1", "`O_i` of n_pulls, C_UCB1"),
        (":param C_0: see D5", ":param C_0: see `D5 <../errata/definition-1.html#d5>`__\\ "),
        ("docs/errata.md", "errata"),
        ("docs/errata/index.md", "errata"),
        ("C_Δ, max_j μ_j", r":math:`C_Δ`\ , :math:`\max_j`\  :math:`μ_j`" + "\\ "),
        ("⌊εp_i t⌋ of Z̄_t", r"⌊\ :math:`εp_i`\  t⌋ of :math:`\bar Z_t`" + "\\ "),
        ("⌈p^(p^m)⌉, H^{(m)}", r"⌈\ :math:`p^{p^m}`\ ⌉, :math:`H^{(m)}`" + "\\ "),
    ],
)
def test_docstring_is_typeset(line, typeset_line):
    assert docstrings.typeset(line, "../") == typeset_line


def test_formula_across_two_lines_is_unchanged():
    class App:
        class env:
            docname = "bounds/upper"

    lines = ["at most :math:`a_i \\le", "e^{-x^2} b_i` for Δ_i,", "and t^2."]
    docstrings.process_docstring(App, "function", "f", None, None, lines)
    assert lines == [
        "at most :math:`a_i \\le",
        "e^{-x^2} b_i` for :math:`Δ_i`\\ ,",
        "and :math:`t^2`\\ .",
    ]
