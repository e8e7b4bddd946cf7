"""Tests that the Makefile, the workflow and the package agree on versions and commands."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOWS = {path.stem: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}
WORKFLOW = WORKFLOWS["test"]


def find_lower_bounds(extras):
    """Return a dict from each required package to the lowest version that pyproject.toml allows."""
    requirements = [*PROJECT["dependencies"]]
    for extra in extras:
        requirements += PROJECT["optional-dependencies"][extra]
    bounds = {}
    for requirement in requirements:
        name, bound = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)(?:;.*)?", requirement).groups()
        assert bounds.setdefault(name, bound) == bound, f"{name} has two lower bounds"
    return bounds


def pad_version(version):
    """Return a version with three numbers: 2.0 becomes 2.0.0."""
    return ".".join([*version.split("."), "0", "0"][:3])


def find_make_commands(target):
    """Return the commands of a Makefile target in the form in which the workflow contains them."""
    makefile = MAKEFILE.replace("\\\n\t\t", "")
    variables = dict(re.findall(r"^(\w+) :?\??= (.*)$", makefile, re.MULTILINE))
    recipe = re.search(rf"^{re.escape(target)}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    commands = []
    for command in recipe.splitlines():
        for name, value in variables.items():
            command = command.replace(f"$({name})", value)
        command = re.sub(r"\.venv(-oldest)?/bin/", "", command.strip())
        options = r" --quiet --disable-pip-version-check( --no-compile)?"
        commands.append(re.sub(options, "", command))
    return commands


def find_workflow_commands(workflow="test"):
    return re.findall(r"^ +- run: (.*)$", WORKFLOWS[workflow], re.MULTILINE)


def test_the_oldest_versions_are_the_lowest_that_are_allowed():
    (extras,) = re.findall(
        r"editable '\.\[([\w,]+)\]'", "\n".join(find_make_commands(".venv-oldest/installed"))
    )
    pinned_versions = re.findall(
        r"^([\w-]+)==([\d.]+)$", (ROOT / "requirements/oldest.txt").read_text(), re.M
    )
    allowed_versions = find_lower_bounds(extras.split(","))
    assert dict(pinned_versions) == {
        name: pad_version(bound) for name, bound in allowed_versions.items()
    }


@pytest.mark.parametrize("target", [".venv/installed", "lint", "docs", "test", "test-oldest"])
def test_the_workflow_runs_what_make_runs(target):
    commands = find_workflow_commands()
    for command in find_make_commands(target):
        if not command.startswith(("python3 -m venv", "touch")):
            assert command in commands, command


def test_the_workflow_installs_the_oldest_as_make_does():
    assert find_make_commands(".venv-oldest/installed")[1] in find_workflow_commands()


def test_the_workflow_runs_policies_of_other_libraries():
    """Without the extra `peers`, the tests in tests/examples are skipped."""
    commands = find_workflow_commands()
    install = commands.index("python -m pip install --editable '.[test,peers]'")
    assert commands[install + 1] == "python -m pytest -q tests/examples"
    assert (ROOT / "tests/examples/test_peers.py").exists()


def test_the_job_with_the_next_numba_runs_all_tests():
    commands = find_workflow_commands("prerelease")
    assert any("--pre numba" in command for command in commands)
    assert commands[-1] == find_make_commands("test")[-1]
    assert re.search(r'cron: "[\d* ]+"', WORKFLOWS["prerelease"])


def test_a_release_is_published_after_all_tests_without_a_stored_token():
    release = WORKFLOWS["release"]
    assert "uses: ./.github/workflows/test.yml" in release
    assert "  workflow_call:" in WORKFLOW
    assert "needs: [test, build]" in release
    assert "id-token: write" in release
    assert "secrets." not in release
    assert "python -m twine check --strict dist/*" in find_workflow_commands("release")


def test_coverage_shows_live_agents_and_policies():
    assert PYPROJECT["tool"]["coverage"]["run"]["source"] == ["kibitz.live", "kibitz.policies"]
    assert all(" --cov" in command for command in find_make_commands("coverage"))


def test_the_repository_has_one_address():
    source = PROJECT["urls"]["Source"]
    assert all(url.startswith(source) for url in PROJECT["urls"].values())
    assert f'repository-code: "{source}"' in (ROOT / "CITATION.cff").read_text()
    assert f"<{source}/security/advisories/new>" in (ROOT / "SECURITY.md").read_text()


def test_the_workflow_covers_the_supported_pythons():
    workflow_pythons = re.search(r"python: \[(.*)\]", WORKFLOW)[1]
    pythons = re.findall(r'"(3\.\d+)"', workflow_pythons)
    classifier_pythons = [
        line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: Python :: 3." in line
    ]
    assert pythons == classifier_pythons
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    assert f"OLDEST ?= python{pythons[0]}" in MAKEFILE
    assert f"Python {pythons[0]} or later" in (ROOT / "README.md").read_text()
    assert '"3.x"' in workflow_pythons
    for system in ("ubuntu", "macos", "windows"):
        assert re.search(rf"os: \[.*{system}-latest", WORKFLOW)


@pytest.mark.slow
def test_the_commands_that_test_the_wheel_work(tmp_path):
    commands = [command for command in find_workflow_commands() if command.startswith("kibitz ")]
    assert "kibitz --help" in commands
    for command in commands:
        arguments = [sys.executable, "-m", "kibitz.cli", *shlex.split(command)[1:]]
        process = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path)
        assert process.returncode == 0, (command, process.stderr)
        assert process.stdout.strip(), command


def test_pre_commit_uses_the_ruff_of_make():
    (ruff,) = [line for line in PROJECT["optional-dependencies"]["lint"] if line.startswith("ruff")]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r'additional_dependencies: \["(.*)"\]', hooks) == [ruff, ruff]


@pytest.mark.parametrize("template", ["bug", "feature"])
def test_issue_templates_ask_for_versions(template):
    text = (ROOT / f".github/ISSUE_TEMPLATE/{template}.yml").read_text()
    (command,) = re.findall(r"`(python -c .*)`$", text, re.MULTILINE)
    process = subprocess.run(
        [sys.executable, *shlex.split(command)[1:]], capture_output=True, text=True, check=True
    )
    assert re.search(r"^numba \d", process.stdout, re.MULTILINE)
    assert re.search(r"^numpy \d", process.stdout, re.MULTILINE)
    assert "`kibitz --version`" in text


def test_the_version_is_consistent():
    version = PROJECT["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    newest_version = re.search(r"^## (\S+) — ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert newest_version == version


def test_the_tests_have_their_own_cache():
    script = "from kibitz.engine.cache import cache_folder; print(cache_folder())"
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    if sys.platform == "linux":
        assert Path(process.stdout.strip()) == ROOT / ".cache" / "kibitz" / "compiled"


def test_check_skips_slow_tests_and_test_does_not():
    assert find_make_commands("check") == [
        "python -m pytest -q -n auto --dist worksteal -m 'not slow'"
    ]
    assert "python -m pytest -q -n auto --dist loadfile" in find_make_commands("test")
