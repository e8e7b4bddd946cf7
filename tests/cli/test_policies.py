"""`kibitz policies` lists the policies and their parameters."""

import inspect

import pytest

from kibitz.policies import POLICIES

pytestmark = pytest.mark.slow


def test_all_policies_are_listed_in_order(kibitz):
    code, output, errors = kibitz("policies")
    assert (code, errors) == (0, "")
    lines = output.splitlines()
    assert max(map(len, lines)) <= 80
    listed_names = [line.split("(")[0] for line in lines if line[0] != " "]
    assert listed_names == [*POLICIES, "max_n"]
    joined_output = " ".join(output.split())
    for name, make in POLICIES.items():
        parameters = inspect.signature(make).parameters.values()
        call = ", ".join(f"{parameter.name}={parameter.default!r}" for parameter in parameters)
        summary = " ".join(inspect.getdoc(make).splitlines()[0].removeprefix("Return ").split())
        assert f"{name}({call}) {summary}" in joined_output


def test_each_summary_names_its_place_in_the_paper():
    for make in POLICIES.values():
        summary = inspect.getdoc(make).splitlines()[0]
        assert summary.endswith(".")
        assert "section" in summary or "Algorithm" in summary or "not in the paper" in summary
