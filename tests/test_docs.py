"""Tests that the examples on all pages run, and that links and names on the pages exist."""

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
from kibitz.live.events import ARM_STATUS, DECISION_KINDS, DECLARATIONS, NOTES, REPORT_KINDS, Event
from kibitz.policies import POLICIES

ROOT = Path(__file__).parents[1]
GENERATED_FOLDERS = {"_build", "_generated"}
DOCS = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if not GENERATED_FOLDERS.intersection(page.parts)
]
COMMUNITY_PAGES = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")]
PAGES = [ROOT / "README.md", *COMMUNITY_PAGES, *DOCS]
DEVELOPER_PAGES = [  # pages and files that contain paths of the repository
    *COMMUNITY_PAGES,
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
PAGES_EXECUTED_ELSEWHERE = {*run.pages(), ROOT / "docs" / "live.md"}
REFERENCE_FOLDER = ROOT / "docs/reference"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PUBLIC_NAMES = sorted({*kibitz.__all__, *POLICIES} - {"bounds", "plot"})
BOUND_MODULES = ("lower", "upper", "complexity", "concentration")


def relative_path(page):
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
    "page", [page for page in PAGES if page not in PAGES_EXECUTED_ELSEWHERE], ids=relative_path
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in find_blocks(page.read_text(), "python"):
        exec(compile(block, page.name, "exec"), namespace)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs_and_prints(example, tmp_path):
    process = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, timeout=600
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip()


def test_there_are_four_examples():
    assert len(EXAMPLES) == 4


@pytest.mark.slow
def test_readme_commands_and_options_exist():
    text = (ROOT / "README.md").read_text()
    lines = [line for block in find_blocks(text, "sh") for line in block.splitlines()]
    commands = " ".join(line.split("#")[0].strip(" \\") for line in lines)
    for name, arguments in re.findall(r"kibitz (\w+)((?: (?!kibitz )\S+)*)", commands):
        help_process = subprocess.run(
            [sys.executable, "-m", "kibitz.cli", name, "--help"],
            capture_output=True, text=True, env={"COLUMNS": "200", "TERM": "dumb"},
        )  # fmt: skip
        assert help_process.returncode == 0, name
        for option in re.findall(r"--[\w-]+", arguments):
            assert option in help_process.stdout, (name, option)
    targets = re.findall(r"^make (\w+)", "\n".join(lines), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=relative_path)
def test_links_between_pages_have_a_target(page):
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_functions_in_the_table_from_paper_to_code_exist():
    page = ROOT / "docs/paper_to_code.md"
    table_lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    assert len(table_lines) > 15
    for line in table_lines[2:]:
        module = ""
        for code in re.findall(r"`([^`]+)`", line.split("|")[2]):
            path = re.sub(r"\(.*", "", code).removeprefix("kibitz.")
            path = path if "." in path or not module or hasattr(kibitz, path) else f"{module}.{path}"
            module = path.rpartition(".")[0]
            __import__("kibitz.bounds")
            public_object = kibitz
            for name in path.split("."):
                if not hasattr(public_object, name):
                    __import__(f"kibitz.{path}")
                public_object = getattr(public_object, name)


def read_reference(name):
    """Return the reference page of a public object, or the section of an error."""
    public_object = getattr(kibitz, name)
    if inspect.isclass(public_object) and issubclass(public_object, kibitz.Error):
        text = (REFERENCE_FOLDER / "errors.md").read_text()
        return re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    # `agent.md` and `Agent.md` are the same file on a case-insensitive file system.
    file = "agent_class" if name == "Agent" else name
    text = (REFERENCE_FOLDER / f"{file}.md").read_text()
    assert text.startswith(f"# {name}\n")
    return text


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_reference_describes_all_parameters(name):
    text, public_object = read_reference(name), getattr(kibitz, name)
    module, _, attribute = re.search(r"auto(?:function|class):: (\S+)", text)[1].rpartition(".")
    assert getattr(import_module(module), attribute) is public_object
    documentation = text + inspect.getdoc(public_object)
    is_error = inspect.isclass(public_object) and issubclass(public_object, Exception)
    parameters = () if is_error else inspect.signature(public_object).parameters
    assert not [name for name in parameters if not re.search(rf"\b{name}\b", documentation)]


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_reference_has_an_example(name):
    examples = "".join(find_blocks(read_reference(name), "python"))
    public_object = getattr(kibitz, name)
    default_pattern = rf"\bkibitz\.{name}\(" if callable(public_object) else rf"\b{name}\b"
    if isinstance(public_object, type) and issubclass(public_object, kibitz.Error):
        default_pattern = rf"except kibitz\.{name}\b"
    usage_patterns = {
        "Decision": r"visit\.kind", "Policy": r"policy\.params", "Problem": r"problem\.n_arms",
        "Feedback": r"feedback\.observer", "Agent": r"agent\.ask\(", "Event": r"agent\.events\(",
        "jit": r"@kibitz\.jit",
    }  # fmt: skip
    assert re.search(usage_patterns.get(name, default_pattern), examples), name


@pytest.mark.parametrize("name", kibitz.plot.__all__)
def test_every_figure_has_a_section_with_an_example(name):
    text = (REFERENCE_FOLDER / "plot.md").read_text()
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    assert f"autofunction:: kibitz.plot.{name}\n" in section
    assert f"kibitz.plot.{name}(" in "".join(find_blocks(section, "python"))
    function = getattr(kibitz.plot, name)
    documentation = inspect.getdoc(function)
    for parameter in inspect.signature(function).parameters:
        assert re.search(rf"^(\w+, )*{parameter}(, \w+)*$", documentation, re.MULTILINE), parameter


GALLERY = [page for page in DOCS if page.parent.name == "gallery" and page.stem != "index"]


@pytest.mark.parametrize("page", GALLERY, ids=relative_path)
def test_a_gallery_page_draws_at_least_500_runs_by_kibitz_plot_with_a_caption(page):
    text = page.read_text()
    code = "".join(find_blocks(text, "python"))
    (n_runs,) = {int(number) for number in re.findall(r"\bruns\"?[=:] ?(\d+)", code)}
    assert n_runs >= 500
    assert "kibitz.plot." in code
    assert "matplotlib" not in code
    caption = re.search(r"^\*\*Figure\.\*\* (.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)[1]
    assert re.search(rf"\b{n_runs}\s+runs", caption)
    assert re.search(r"standard\s+errors|middle half of the runs|percentage of", caption)


PUBLIC_MODULES = {  # the modules with a page of their own
    "kibitz",
    "kibitz.bounds",
    *(f"kibitz.bounds.{name}" for name in BOUND_MODULES),
    "kibitz.reproduction.experiments",
}


@pytest.mark.parametrize("page", [*PAGES, *(ROOT / "examples").rglob("*.py")], ids=relative_path)
def test_lessons_import_only_public_modules(page):
    text = page.read_text()
    code = text if page.suffix == ".py" else "".join(find_blocks(text, "python"))
    modules = re.findall(r"^ *(?:from|import) (kibitz[\w.]*)", code, re.MULTILINE)
    assert set(modules) <= PUBLIC_MODULES
    assert not re.search(r"\bkibitz\.(\w+\.)*_", code)
    # `kibitz.compare` and `kibitz.plot` compute standard errors
    assert not re.search(r"\.(std|sem|var)\(|\bddof\b|import (statistics|matplotlib)", code)


def test_reference_index_links_to_every_page_and_error():
    text = (REFERENCE_FOLDER / "index.md").read_text()
    linked_pages = {f"{file}.md" for file in re.findall(r"\]\((\w+)\.md\)", text)}
    assert linked_pages == {page.name for page in REFERENCE_FOLDER.glob("*.md")} - {"index.md"}
    for name in PUBLIC_NAMES:
        assert f"`{name}`" in text
    assert "](../bounds.md)" in text


@pytest.mark.parametrize("module_name", BOUND_MODULES)
def test_every_bound_has_its_place_in_the_paper_and_an_example(module_name):
    text = (ROOT / "docs/bounds" / f"{module_name}.md").read_text()
    sections = re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(sections) > 10
    for name, section in sections:
        source_line = re.search(
            r"^(?:In the paper: (.*)|Not in the paper.*)\.$", section, re.MULTILINE
        )
        assert source_line, name
        numbered_source_pattern = (
            r"(Theorem|Lemmas?|Algorithm|[Ss]ection|[Aa]ppendix) [A-B\d]|the conclusion"
        )
        assert source_line[1] is None or re.search(numbered_source_pattern, source_line[1]), name
        examples = "".join(find_blocks(section, "python"))
        assert re.search(rf"{module_name}\.{name}\(", examples) or name in {
            "Elimination",
            "GraphComplexity",
        }, name


@pytest.mark.parametrize("module_name", BOUND_MODULES)
def test_every_bound_has_a_heading_and_a_signature(module_name):
    module, page = (
        import_module(f"kibitz.bounds.{module_name}"),
        ROOT / "docs/bounds" / f"{module_name}.md",
    )
    headings = re.findall(r"^### (\w+)\n\n```{eval-rst}\n.. auto\w+:: (\S+)$", page.read_text(), re.M)
    assert [signature for _, signature in headings] == [
        f"kibitz.bounds.{module_name}.{name}" for name, _ in headings
    ]
    own_names = [
        name
        for name, member in vars(module).items()
        if getattr(member, "__module__", "") == module.__name__
    ]
    public_names = {
        name for name in getattr(module, "__all__", own_names) if not name.startswith("_")
    }
    assert {name for name, _ in headings} == public_names


def test_policies_page_links_to_every_policy():
    text = (ROOT / "docs/policies.md").read_text()
    linked_policies = re.findall(r"\[`(\w+)`\]\(reference/(\w+)\.md\)", text)
    assert all(name == file for name, file in linked_policies if name in POLICIES)
    assert {name for name, _ in linked_policies} >= set(POLICIES)


def test_the_landing_page_has_a_card_for_each_kind_of_reader():
    assert (ROOT / "docs/index.md").read_text().count("::{container} door\n") == 3


@pytest.mark.parametrize("page", PAGES, ids=relative_path)
def test_page_opens_with_its_subject(page):
    """Check that no page has the old header, which named the readers instead of the subject."""
    text = page.read_text()
    assert not re.search(r"^\*\*For\*\* ", text, re.MULTILINE)
    assert "**After it**" not in text


def find_commands():
    """Yield the page and the arguments of each kibitz command in `sh` blocks."""
    for page in PAGES:
        for block in find_blocks(page.read_text(), r"(?:{code-block} )?sh"):
            for line in block.replace("\\\n", " ").splitlines():
                for arguments in re.findall(r"(?:^|\$\()kibitz ([^#|)]*)", line):
                    yield page.name, arguments.split()


def test_commands_on_pages_have_the_options_shown():
    """Each option that a page uses is listed on the page of its command.

    cli/test_pages.py compares the pages of the commands with `--help`.
    """
    n_checked = 0
    for page, arguments in find_commands():
        if arguments[0].startswith("-"):
            continue
        command_page = ROOT / "docs/commands" / f"{arguments[0]}.md"
        subcommand_page = ROOT / "docs/commands" / f"{'-'.join(arguments[:2])}.md"
        text = (command_page if command_page.exists() else subcommand_page).read_text()
        options = {argument.partition("=")[0] for argument in arguments if argument.startswith("--")}
        for option in options - {"--help"}:
            assert f"`{option}`" in text, (page, arguments)
            n_checked += 1
    assert n_checked > 60


def test_changelog_lists_the_numbers_that_changed():
    text = (ROOT / "CHANGELOG.md").read_text()
    latest_entry = re.search(r"^## (?P<version>\S+)(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert latest_entry["version"] == version("kibitz")
    assert "\n### Numbers that changed\n" in latest_entry[2]


def test_reference_lists_everything_in_a_result():
    page = REFERENCE_FOLDER / "results.md"
    options = {"horizon": 20, "runs": 2, "seed": 1}
    data = kibitz.simulate(kibitz.gaussian([1, 0.5]), kibitz.active(0.5), kibitz.ucb(), **options)
    listed_variables = {
        name: (("policy", "run", *dimensions.split()), dtype)
        for name, dimensions, dtype, _ in read_table(page, "Variables")
    }
    assert listed_variables == {
        name: (variable.dims, str(variable.dtype)) for name, variable in data.data_vars.items()
    }
    dims = [row[0] for row in read_table(page, "Dimensions")]
    assert set(dims) == {*data.dims, "swept parameters"}
    listed_attributes = [
        name for row in read_table(page, "Attributes") for name in re.findall(r"\w+", row[0])
    ]
    assert sorted(listed_attributes) == sorted(data.attrs)


def test_reference_lists_everything_in_a_log():
    page = REFERENCE_FOLDER / "files.md"
    assert [row[0] for row in read_table(page, "The log of an agent")] == list(Event._fields)
    rows = page.read_text().partition("| `kind` | What happened |")[2].partition("\n\n")[0]
    kinds = {
        name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])
    }
    assert kinds == {*DECISION_KINDS, *ARM_STATUS, *DECLARATIONS, *REPORT_KINDS, *NOTES}


@pytest.mark.parametrize("page", DEVELOPER_PAGES, ids=relative_path)
def test_paths_on_pages_for_developers_exist(page):
    """Check that `name.py` is a file and `name/` a directory; skip names such as `<family>.py`."""
    text = page.read_text()
    names = re.findall(r"`([\w/.-]+(?:\.(?:py|md|yml|toml|cff)|/))`", text)
    names += re.findall(rf"(?<![\w/])((?:{TOP_FOLDERS})/[\w/-]+\.\w+)", text)
    base_folders = (ROOT, ROOT / "src/kibitz")
    created_names = {".cache/"}  # the tests create this folder
    missing_names = {
        name
        for name in names
        if not any((base_folder / name).exists() for base_folder in base_folders)
    }
    assert missing_names <= created_names


def test_each_row_of_the_reliability_page_names_an_existing_test_or_script():
    text = (ROOT / "docs/reliability.md").read_text()
    tables = re.split(r"\| Repeat(?: with)? \|\n\|[-|]+\|\n", text)[1:]
    rows = [row for table in tables for row in table.partition("\n\n")[0].splitlines()]
    assert len(rows) > 60
    for row in rows:
        names = re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)(?:::(\w+))?(?: [^`]*)?`", row)
        assert names, row
        for file, test in names:
            assert not test or f"def {test}(" in (ROOT / file).read_text(), row
            assert (ROOT / file).exists(), row


def test_architecture_page_lists_every_package():
    listed_packages = {
        row[0].rstrip("/") for row in read_table(ROOT / "docs/architecture.md", "Subpackages")
    }
    packages = {path.parent.name for path in (ROOT / "src/kibitz").glob("*/__init__.py")}
    assert listed_packages == packages
