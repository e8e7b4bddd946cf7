"""Options of `simulate` are declared once and used everywhere."""

import inspect
import subprocess
import sys

import pytest
import typer

import kibitz as kb
from kibitz.cli import app
from kibitz.simulation.jobs import Job
from kibitz.simulation.options import OPTIONS, REQUIRED, Options, check_options
from kibitz.simulation.schedule import Point, fingerprint, make_cells, resolve_stages

VALID_OPTIONS = {"horizon": 20, "runs": 3, "seed": 5}
MISSING_OPTIONS = {kb.simulate: set(), kb.race: {"progress", "keep", "watch"}, kb.sweep: {"watch"}}


@pytest.mark.parametrize("function", MISSING_OPTIONS)
def test_a_signature_shows_all_options_with_their_defaults(function):
    parameters = inspect.signature(function).parameters
    for name, option in OPTIONS.items():
        if name in MISSING_OPTIONS[function]:
            assert name not in parameters
        else:
            assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
            assert parameters[name].default is option.default
    assert "options" not in parameters


def test_every_option_is_documented():
    for name in OPTIONS:
        for words in (Options.__doc__, kb.simulate.__doc__):
            assert inspect.cleandoc(words).count(f"\n{name}\n    ") == 1, name
    assert "{" not in kb.simulate.__doc__ + kb.race.__doc__


def test_every_option_with_help_has_a_flag():
    flags = {p.name: p for p in typer.main.get_command(app).commands["simulate"].params}
    for name, option in OPTIONS.items():
        if option.help:
            assert flags[name].help == option.help
            assert flags[name].opts == [(option.flag or f"--{name}").split()[0]]
        else:
            assert name not in flags or name == "watch"  # the flag --watch opens a window


def test_jobs_and_fingerprints_have_the_options_they_need():
    checked_options = check_options(
        {**VALID_OPTIONS, "engine": "leap", "error": 1e-6, "kernel": "generic"}
    )
    point = Point(kb.gaussian([1, 0]), kb.bandit(), {"ucb": kb.ucb()}, 20)
    (job,) = make_cells({(): point}, resolve_stages(None, [20]), checked_options, lambda: 1).values()
    for name in set(OPTIONS) & set(Job._fields) - {"stages"}:
        assert getattr(job, name) == checked_options[name], name
    fingerprint_options = {name for name, option in OPTIONS.items() if option.fingerprint}
    assert fingerprint_options == set(OPTIONS) & fingerprint(job).keys()


def test_options_are_checked_and_completed():
    checked_options = check_options(VALID_OPTIONS)
    assert checked_options == {**{n: o.default for n, o in OPTIONS.items()}, **VALID_OPTIONS}
    assert check_options({**VALID_OPTIONS, "threads": 2.0})["threads"] == 2
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'run'"):
        check_options({**VALID_OPTIONS, "run": 1})
    for name, option in OPTIONS.items():
        if option.default is REQUIRED:
            with pytest.raises(TypeError, match=f"missing a required .*argument: '{name}'"):
                check_options({n: v for n, v in VALID_OPTIONS.items() if n != name})


def test_options_import_neither_numpy_nor_numba():
    script = (
        "import sys, kibitz.simulation.options; print({'numpy', 'numba', 'xarray'} & {*sys.modules})"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert process.stdout == "set()\n"


def test_options_work_without_docstrings():
    script = "import kibitz, inspect; print('seed' in inspect.signature(kibitz.sweep).parameters)"
    command = [sys.executable, "-OO", "-W", "ignore", "-c", script]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout == "True\n"


def test_a_misspelt_option_or_value_gets_a_suggestion():
    arguments = {"horizon": 10, "runs": 1, "seed": 1}
    with pytest.raises(
        TypeError, match=r"unexpected keyword argument 'thread'; did you mean 'threads'\?"
    ):
        check_options({**arguments, "thread": 1})
    with pytest.raises(ValueError, match=r"got 'stepp'; did you mean 'step'\?$"):
        check_options({**arguments, "engine": "stepp"})
    with pytest.raises(ValueError, match=r"got 'warp'$"):
        check_options({**arguments, "engine": "warp"})
