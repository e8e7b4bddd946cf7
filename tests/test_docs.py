"""The examples in the README and the documentation run; the links and names in them exist."""

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
from kibitz.live.events import ARM_STATUS, DECISION_KINDS, Event
from kibitz.policies import POLICIES

ROOT = Path(__file__).parents[1]
GENERATED_FOLDERS = {"_build", "_generated"}
DOCS = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if not GENERATED_FOLDERS.intersection(page.parts)
]
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
TOP_FOLDERS = "src|tests|docs|benchmarks|examples|requirements"
# test_site.py and live/test_live_docs.py execute these pages.
EXECUTED_ELSEWHERE = {*run.pages(), ROOT / "docs" / "live.md"}
REFERENCE = ROOT / "docs/reference"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PUBLIC = sorted({*kibitz.__all__, *POLICIES} - {"bounds"})
BOUNDS = ("lower", "upper", "complexity", "concentration")


def relative(page):
    """Return the path of a page in the repository."""
    return str(page.relative_to(ROOT))


def find_blocks(text, language):
    """Return the code blocks of a text in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def read_table(page, heading):
    """Return the rows of the table below a heading, without backticks."""
    text = page.read_text().partition(f"## {heading}\n")[2]
    rows = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0].splitlines()[2:]
    return [[cell.strip().replace("`", "") for cell in row.strip("|").split("|")] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in EXECUTED_ELSEWHERE], ids=relative
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in find_blocks(page.read_text(), "python"):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs_and_prints(example, tmp_path):
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_there_are_four_examples():
    assert len(EXAMPLES) == 4


@pytest.mark.slow
def test_readme_commands_and_options_exist():
    text = (ROOT / "README.md").read_text()
    lines = [line for block in find_blocks(text, "sh") for line in block.splitlines()]
    commands = " ".join(line.split("#")[0].strip(" \\") for line in lines)
    for name, arguments in re.findall(r"kibitz (\w+)((?: (?!kibitz )\S+)*)", commands):
        shown = subprocess.run(
            [sys.executable, "-m", "kibitz.cli", name, "--help"],
            capture_output=True, text=True, env={"COLUMNS": "200", "TERM": "dumb"},
        )  # fmt: skip
        assert shown.returncode == 0, name
        for option in re.findall(r"--[\w-]+", arguments):
            assert option in shown.stdout, (name, option)
    targets = re.findall(r"^make (\w+)", "\n".join(lines), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_between_pages_have_a_target(page):
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_functions_in_the_table_from_paper_to_code_exist():
    page = ROOT / "docs/paper_to_code.md"
    table = [line for line in page.read_text().splitlines() if line.startswith("|")]
    assert len(table) > 15
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


def read_reference(name):
    """Return the reference text of a public object: its page, or its section of the errors page."""
    thing = getattr(kibitz, name)
    if inspect.isclass(thing) and issubclass(thing, kibitz.Error):
        text = (REFERENCE / "errors.md").read_text()
        return re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    # `agent.md` and `Agent.md` are the same file on a case-insensitive file system.
    file = "agent_class" if name == "Agent" else name
    text = (REFERENCE / f"{file}.md").read_text()
    assert text.startswith(f"# {name}\n")
    return text


@pytest.mark.parametrize("name", PUBLIC)
def test_reference_describes_all_parameters(name):
    text, thing = read_reference(name), getattr(kibitz, name)
    module, _, attribute = re.search(r"auto(?:function|class):: (\S+)", text)[1].rpartition(".")
    assert getattr(import_module(module), attribute) is thing
    words = text + inspect.getdoc(thing)
    is_error = inspect.isclass(thing) and issubclass(thing, Exception)
    parameters = () if is_error else inspect.signature(thing).parameters
    assert not [name for name in parameters if not re.search(rf"\b{name}\b", words)]


@pytest.mark.parametrize("name", PUBLIC)
def test_reference_has_an_example(name):
    examples = "".join(find_blocks(read_reference(name), "python"))
    thing = getattr(kibitz, name)
    used = rf"\bkibitz\.{name}\(" if callable(thing) else rf"\b{name}\b"
    if isinstance(thing, type) and issubclass(thing, kibitz.Error):
        used = rf"except kibitz\.{name}\b"
    records = {"Decision": r"visit\.kind", "Policy": r"policy\.params", "Problem": r"problem\.n_arms",
               "Feedback": r"feedback\.observer", "Agent": r"agent\.ask\(",
               "Event": r"agent\.events\(", "jit": r"@kibitz\.jit"}  # fmt: skip
    assert re.search(records.get(name, used), examples), name


def test_reference_index_links_to_every_page_and_error():
    text = (REFERENCE / "index.md").read_text()
    linked = {f"{file}.md" for file in re.findall(r"\]\((\w+)\.md\)", text)}
    assert linked == {page.name for page in REFERENCE.glob("*.md")} - {"index.md"}
    for name in PUBLIC:
        assert f"`{name}`" in text
    assert "](../bounds.md)" in text


@pytest.mark.parametrize("part", BOUNDS)
def test_every_bound_has_its_place_in_the_paper_and_an_example(part):
    text = (ROOT / "docs/bounds" / f"{part}.md").read_text()
    sections = re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(sections) > 10
    for name, section in sections:
        place = re.search(r"^(?:In the paper: (.*)|Not in the paper.*)\.$", section, re.MULTILINE)
        assert place, name
        numbered = r"(Theorem|Lemmas?|Algorithm|[Ss]ection|[Aa]ppendix) [A-B\d]|the conclusion"
        assert place[1] is None or re.search(numbered, place[1]), name
        examples = "".join(find_blocks(section, "python"))
        assert re.search(rf"{part}\.{name}\(", examples) or name == "Elimination", name


@pytest.mark.parametrize("part", BOUNDS)
def test_every_bound_has_a_heading_and_a_signature(part):
    module, page = import_module(f"kibitz.bounds.{part}"), ROOT / "docs/bounds" / f"{part}.md"
    found = re.findall(r"^### (\w+)\n\n```{eval-rst}\n.. auto\w+:: (\S+)$", page.read_text(), re.M)
    assert [place for _, place in found] == [f"kibitz.bounds.{part}.{name}" for name, _ in found]
    own = [
        name
        for name, thing in vars(module).items()
        if getattr(thing, "__module__", "") == module.__name__
    ]
    public = {name for name in getattr(module, "__all__", own) if not name.startswith("_")}
    assert {name for name, _ in found} == public


def test_policies_page_links_to_every_policy():
    text = (ROOT / "docs/policies.md").read_text()
    linked = re.findall(r"\[`(\w+)`\]\(reference/(\w+)\.md\)", text)
    assert all(name == file for name, file in linked if name in POLICIES)
    assert {name for name, _ in linked} >= set(POLICIES)


def test_the_landing_page_has_a_card_for_each_kind_of_reader():
    assert (ROOT / "docs/index.md").read_text().count("::{container} door\n") == 3


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_page_opens_with_its_subject(page):
    """Check that no page has the old header, which named its readers instead of its subject."""
    text = page.read_text()
    assert not re.search(r"^\*\*For\*\* ", text, re.MULTILINE)
    assert "**After it**" not in text


def find_commands():
    """Yield the page and the arguments of each kibitz command in `sh` blocks."""
    for page in PAGES:
        for block in find_blocks(page.read_text(), r"(?:{code-block} )?sh"):
            for line in block.replace("\\\n", " ").splitlines():
                for words in re.findall(r"(?:^|\$\()kibitz ([^#|)]*)", line):
                    yield page.name, words.split()


def test_commands_on_pages_have_the_options_shown():
    """Each option used on a page is on the page of its command.

    cli/test_pages.py compares the pages of the commands with `--help`.
    """
    checked = 0
    for page, words in find_commands():
        if words[0].startswith("-"):
            continue
        command = ROOT / "docs/commands" / f"{words[0]}.md"
        subcommand = ROOT / "docs/commands" / f"{'-'.join(words[:2])}.md"
        text = (command if command.exists() else subcommand).read_text()
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        for option in options - {"--help"}:
            assert f"`{option}`" in text, (page, words)
            checked += 1
    assert checked > 60


def test_changelog_lists_the_numbers_that_changed():
    text = (ROOT / "CHANGELOG.md").read_text()
    latest = re.search(r"^## (?P<version>\S+)(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert latest["version"] == version("kibitz")
    assert "\n### Numbers that changed\n" in latest[2]


def test_reference_lists_everything_in_a_result():
    page = REFERENCE / "results.md"
    play = {"horizon": 20, "runs": 2, "seed": 1}
    data = kibitz.simulate(kibitz.gaussian([1, 0.5]), kibitz.active(0.5), kibitz.ucb(), **play)
    listed = {
        name: (("policy", "run", *further.split()), kind)
        for name, further, kind, _ in read_table(page, "Variables")
    }
    assert listed == {name: (part.dims, str(part.dtype)) for name, part in data.data_vars.items()}
    dims = [row[0] for row in read_table(page, "Dimensions")]
    assert set(dims) == {*data.dims, "swept parameters"}
    assert [row[0] for row in read_table(page, "Attributes")] == list(data.attrs)


def test_reference_lists_everything_in_a_log():
    page = REFERENCE / "files.md"
    assert [row[0] for row in read_table(page, "The log of an agent")] == list(Event._fields)
    rows = page.read_text().partition("| `kind` | What happened |")[2].partition("\n\n")[0]
    kinds = {
        name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])
    }
    assert kinds == {*DECISION_KINDS, *ARM_STATUS, "told", "corrected", "forgotten", "silent"}


@pytest.mark.parametrize("page", DEVELOPMENT, ids=relative)
def test_paths_on_pages_for_developers_exist(page):
    """Check that `name.py` is a file and `name/` a directory; skip names such as `<family>.py`."""
    text = page.read_text()
    names = re.findall(r"`([\w/.-]+(?:\.(?:py|md|yml|toml|cff)|/))`", text)
    names += re.findall(rf"(?<![\w/])((?:{TOP_FOLDERS})/[\w/-]+\.\w+)", text)
    homes = (ROOT, ROOT / "src/kibitz")
    created = {".cache/"}  # the tests create this folder
    missing = {name for name in names if not any((home / name).exists() for home in homes)}
    assert missing <= created


def test_architecture_page_lists_every_package():
    rows = {row[0].rstrip("/") for row in read_table(ROOT / "docs/architecture.md", "Subpackages")}
    packages = {path.parent.name for path in (ROOT / "src/kibitz").glob("*/__init__.py")}
    assert rows == packages
