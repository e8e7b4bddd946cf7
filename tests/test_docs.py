"""What README and documentation show is run, and links and names in them exist."""

import inspect
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
import run

import kibitz
from kibitz.live.events import MADE, STATUS, Event
from kibitz.policies import POLICIES

ROOT = Path(__file__).parents[1]
DOCS = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts]
COMMUNITY = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")]
PAGES = [ROOT / "README.md", *COMMUNITY, *DOCS]
DEVELOPMENT = [  # pages and files that name files of the repository
    *COMMUNITY,
    ROOT / "Makefile",
    ROOT / ".pre-commit-config.yaml",
    *sorted((ROOT / ".github").rglob("*.*")),
    ROOT / "docs/architecture.md",
    ROOT / "docs/extending.md",
    ROOT / "docs/benchmarks.md",
    ROOT / "docs/leap.md",
    ROOT / "docs/performance.md",
    *sorted((ROOT / "docs/decisions").glob("*.md")),
]
TOP = "src|tests|docs|benchmarks|examples|requirements"  # directories of the repository
# what others run: test_site.py and live/test_page.py
ELSEWHERE = {*run.pages(), ROOT / "docs" / "live.md"}
REFERENCE = [page for page in DOCS if page.parent.name == "reference"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page not in ELSEWHERE],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs_and_prints_something(example, tmp_path):
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_there_are_four_examples():
    assert len(EXAMPLES) == 4


@pytest.mark.slow
def test_the_commands_of_the_readme_exist_with_the_options_shown():
    shown = [line for block in blocks(ROOT / "README.md", "sh") for line in block.splitlines()]
    text = " ".join(line.split("#")[0].strip(" \\") for line in shown)
    for command in re.findall(r"kibitz (\w+)((?: (?!kibitz )\S+)*)", text):
        name, rest = command
        helped = subprocess.run(
            [sys.executable, "-m", "kibitz.cli", name, "--help"],
            capture_output=True, text=True, env={"COLUMNS": "200", "TERM": "dumb"},
        )  # fmt: skip
        assert helped.returncode == 0, name
        for option in re.findall(r"--[\w-]+", rest):
            assert option in helped.stdout, (name, option)
    targets = re.findall(r"^make (\w+)", "\n".join(shown), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_the_functions_of_the_readmes_table_exist():
    table = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("|")]
    for line in table[2:]:
        module = ""
        for code in re.findall(r"`([^`]+)`", line.split("|")[2]):
            path = re.sub(r"\(.*", "", code).removeprefix("kibitz.")
            path = path if "." in path or not module or hasattr(kibitz, path) else f"{module}.{path}"
            module = path.rpartition(".")[0]
            __import__("kibitz.bounds")
            thing = kibitz
            for name in path.split("."):
                if not hasattr(thing, name):
                    __import__(f"kibitz.{path}")
                thing = getattr(thing, name)


def described(name):
    """Return what the reference says of a public name: the text below its heading."""
    for page in REFERENCE:
        found = re.search(rf"^##+ {name}\n(.*?)(?=^#|\Z)", page.read_text(), re.MULTILINE | re.DOTALL)
        if found:
            return found[1]
    raise AssertionError(f"{name} has no heading in docs/reference")


@pytest.mark.parametrize("name", sorted({*kibitz.__all__, *POLICIES} - {"bounds"}))
def test_a_public_name_is_in_the_reference_with_all_of_its_parameters(name):
    text, thing = described(name), getattr(kibitz, name)
    module, _, last = re.search(r"auto(?:function|class):: (\S+)", text)[1].rpartition(".")
    assert getattr(import_module(module), last) is thing
    words = text + inspect.getdoc(thing)
    is_error = inspect.isclass(thing) and issubclass(thing, Exception)
    parameters = () if is_error else inspect.signature(thing).parameters
    missing = [name for name in parameters if not re.search(rf"\b{name}\b", words)]
    assert not missing


@pytest.mark.parametrize("name", sorted({*kibitz.__all__, *POLICIES} - {"bounds"}))
def test_a_public_name_has_an_example_that_is_run(name):
    shown = re.findall(r"^```python\n(.*?)^```", described(name), re.MULTILINE | re.DOTALL)
    thing = getattr(kibitz, name)
    used = rf"\bkibitz\.{name}\(" if callable(thing) else rf"\b{name}\b"
    if isinstance(thing, type) and issubclass(thing, kibitz.Error):
        used = rf"except kibitz\.{name}\b"
    records = {"Decision": r"visit\.kind", "Policy": r"policy\.params", "Problem": r"problem\.n_arms",
               "Feedback": r"feedback\.observer", "Agent": r"agent\.ask\(",
               "Event": r"agent\.events\(", "jit": r"@kibitz\.jit"}  # fmt: skip
    assert re.search(records.get(name, used), "".join(shown)), name


BOUNDS = ("lower", "upper", "complexity", "concentration")


@pytest.mark.parametrize("part", BOUNDS)
def test_every_bound_has_its_place_in_the_paper_and_an_example_that_is_run(part):
    text = (ROOT / "docs/bounds" / f"{part}.md").read_text()
    sections = re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(sections) > 10
    for name, section in sections:
        place = re.search(r"^In the paper: (.*)\.$", section, re.MULTILINE)[1]
        numbered = r"(Theorem|Lemmas?|Algorithm|[Ss]ection|[Aa]ppendix) [A-B\d]"
        assert re.search(numbered, place) or place.startswith(("not there", "the ")), name
        shown = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        assert re.search(rf"{part}\.{name}\(", "".join(shown)) or name == "Elimination", name


@pytest.mark.parametrize("part", BOUNDS)
def test_every_bound_has_a_heading_and_its_signature(part):
    assert "](../bounds.md)" in (ROOT / "docs/reference/index.md").read_text()
    module, page = import_module(f"kibitz.bounds.{part}"), ROOT / "docs/bounds" / f"{part}.md"
    found = re.findall(r"^### (\w+)\n\n```{eval-rst}\n.. auto\w+:: (\S+)$", page.read_text(), re.M)
    assert [place for _, place in found] == [f"kibitz.bounds.{part}.{name}" for name, _ in found]
    own = [
        name
        for name, one in vars(module).items()
        if getattr(one, "__module__", "") == module.__name__
    ]
    public = {name for name in getattr(module, "__all__", own) if not name.startswith("_")}
    assert {name for name, _ in found} == public


def test_the_table_of_policies_has_all_of_them_with_a_place_to_go_to():
    table = (ROOT / "docs/policies.md").read_text().partition("## All of them\n")[2]
    linked = re.findall(r"\[`(\w+)`\]\(reference/policies\.md#([\w-]+)\)", table)
    assert [name for name, _ in linked] == list(POLICIES)
    assert all(place == name.replace("_", "-") for name, place in linked)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_whom_it_is_for_and_what_they_can_do_after_it(page):
    """The first page has a door for each; the text of the changelog is the repository's."""
    if page.parent.name == "decisions" or page.stem == "architecture":
        return  # for developers, which their first sentence says
    if page == ROOT / "docs/index.md":
        assert page.read_text().count("::{container} door\n") == 3
        return
    text = (ROOT / "CHANGELOG.md" if page.stem == "changelog" else page).read_text()
    assert "**For** " in text
    assert re.search(r"\*\*After it\*\*\s", text)


def shown_commands():
    """Return the pages and the lines of their blocks of `sh` that call kibitz."""
    for page in PAGES:
        text = page.read_text()
        for block in re.findall(
            r"^```(?:{code-block} )?sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL
        ):
            for line in block.replace("\\\n", " ").splitlines():
                for words in re.findall(r"(?:^|\$\()kibitz ([^#|)]*)", line):
                    yield page.name, words.split()


def test_commands_on_pages_have_the_options_shown():
    """The pages of the commands are held equal to `--help` by cli/test_pages.py."""
    seen = 0
    for page, words in shown_commands():
        if words[0].startswith("-"):
            continue
        first = ROOT / "docs/commands" / f"{words[0]}.md"
        both = ROOT / "docs/commands" / f"{'-'.join(words[:2])}.md"
        text = (first if first.exists() else both).read_text()
        for option in {word.partition("=")[0] for word in words if word.startswith("--")} - {
            "--help"
        }:
            assert f"`{option}`" in text, (page, words)
            seen += 1
    assert seen > 60


def test_the_changelog_says_which_numbers_changed():
    text = (ROOT / "CHANGELOG.md").read_text()
    latest = re.search(r"^## (?P<version>\S+)(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert latest["version"] == version("kibitz")
    assert "\n### Numbers that changed\n" in latest[2]


def table_below(page, heading):
    """Return the rows of the table below a heading, without the code marks."""
    text = page.read_text().partition(f"## {heading}\n")[2]
    rows = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0].splitlines()[2:]
    return [[cell.strip().replace("`", "") for cell in row.strip("|").split("|")] for row in rows]


def test_the_reference_names_all_that_is_in_a_result():
    page = ROOT / "docs/reference/results.md"
    setting = {"horizon": 20, "runs": 2, "seed": 1}
    data = kibitz.simulate(kibitz.gaussian([1, 0.5]), kibitz.active(0.5), kibitz.ucb(), **setting)
    lead = ("policy", "run")
    shown = {
        name: ((*lead, *further.split()), kind)
        for name, further, kind, _ in table_below(page, "Variables")
    }
    assert shown == {name: (part.dims, str(part.dtype)) for name, part in data.data_vars.items()}
    dims = [row[0] for row in table_below(page, "Dimensions")]
    assert set(dims) == {*data.dims, "what was swept"}
    assert [row[0] for row in table_below(page, "Attributes")] == list(data.attrs)


def test_the_reference_names_all_that_is_in_a_log():
    page = ROOT / "docs/reference/files.md"
    assert [row[0] for row in table_below(page, "The log of an agent")] == list(Event._fields)
    below = page.read_text().partition("| `kind` | What happened |")[2].partition("\n\n")[0]
    shown = {
        name for row in below.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])
    }
    assert shown == {*MADE, *STATUS, "told", "corrected", "forgotten", "silent"}


@pytest.mark.parametrize("page", DEVELOPMENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_on_pages_for_developers_exist(page):
    """Placeholders (`<family>.py`) aside: `name.py` is a file and `name/` a directory."""
    text = page.read_text()
    names = re.findall(r"`([\w/.-]+(?:\.(?:py|md|yml|toml|cff)|/))`", text)
    names += re.findall(rf"(?<![\w/])((?:{TOP})/[\w/-]+\.\w+)", text)
    homes = (ROOT, ROOT / "src/kibitz")
    created = {".cache/"}  # by the tests
    missing = {name for name in names if not any((home / name).exists() for home in homes)}
    assert missing <= created


def test_the_architecture_page_shows_every_room():
    """Each directory of the package is a row of the table, and each row a directory."""
    rows = {row[0].rstrip("/") for row in table_below(ROOT / "docs/architecture.md", "Subpackages")}
    rooms = {path.parent.name for path in (ROOT / "src/kibitz").glob("*/__init__.py")}
    assert rows == rooms
