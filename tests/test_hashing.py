"""Tests of source hashes, which identify saved results for all versions of Python."""

import importlib
import subprocess
import sys

import pytest

import kibitz as kb
from kibitz import _hashing
from kibitz._hashing import collect_functions, source_hash
from kibitz.policies import POLICIES

pytestmark = pytest.mark.slow

FORMULA = """
def index(params, stage, counts, arm, mean):
    return mean + math.sqrt(math.log(stage) / counts[arm]) + np.float64(0.0)
"""


@pytest.mark.parametrize("name", POLICIES)
def test_built_in_policies_are_identified_by_their_source(name):
    """A hash of bytecode would prevent resuming a result with another version of Python."""
    functions = [function for function in POLICIES[name]().functions if function is not None]
    for function in collect_functions(functions):
        assert _hashing._read_tokens(function) is not None, function.__qualname__


def hash_without_bytecode(monkeypatch, function):
    def reject_bytecode(hasher, code):
        raise AssertionError(f"{code.co_name} is known by its bytecode")

    with monkeypatch.context() as patch:
        patch.setattr(_hashing._Hasher, "feed_code", reject_bytecode)
        return source_hash(function)


@pytest.mark.parametrize("imports", ["import math\nimport numpy as np\n", "pass  # below\n"])
def test_a_formula_is_identified_by_its_source_despite_imports(tmp_path, monkeypatch, imports):
    """Check that the hash ignores imports, although they may change the bytecode.

    Some versions of Python compile `math.log(...)` differently if the file imports `math`.
    """
    monkeypatch.syspath_prepend(tmp_path)
    name = f"formula_{len(imports)}"
    (tmp_path / f"{name}.py").write_text(f"{imports}{FORMULA}")
    module = importlib.import_module(name)
    import math

    import numpy as np

    module.math, module.np = math, np
    formula_hash = hash_without_bytecode(monkeypatch, module.index)
    assert formula_hash == hash_without_bytecode(
        monkeypatch, kb.index_policy("x", module.index).index
    )
    (tmp_path / "other.py").write_text(f"import math\nimport numpy as np\n\n\n{FORMULA}")
    sys.modules.pop("other", None)
    assert formula_hash == source_hash(importlib.import_module("other").index)


def test_the_source_of_an_edited_file_is_not_used(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "edited.py"
    file.write_text("def index(params, stage, counts, arm, mean):\n    return mean\n")
    index = importlib.import_module("edited").index
    hash_before = source_hash(index)
    file.write_text("def index(params, stage, counts, arm, mean):\n    return -mean\n")
    assert _hashing._read_tokens(index) is None
    assert source_hash(index) != hash_before


def test_executed_text_has_no_source():
    code = "def rate(t):\n    return 1 / t\n"
    script = f"from kibitz import _hashing\nexec({code!r})\nprint(_hashing._read_tokens(rate))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (process.stdout, process.stderr) == ("None\n", "")
