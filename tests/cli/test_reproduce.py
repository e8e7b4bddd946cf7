"""`kibitz reproduce`: what it refuses, before anything is computed. Its work is tested beside it."""

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "x"], "only must be a whole number, got 'x'"),
        (["--only", "1,"], "only must be a whole number, got ''"),
        (["--only", "99"], "only must be "),
        (["--runs", "0"], "runs must be a whole number of at least 1, got 0"),
        (["--runs", "-1"], "runs must be a whole number of at least 1, got -1"),
        (["--threads", "1.5"], "threads must be a whole number, got 1.5"),
        (["--seed", "-1"], "seed must be a whole number of at least 0, got -1"),
        (["--out", ""], "out must be the name of a folder, got ''"),
        (["--out", "file"], "out must be a folder, got 'file'"),
        (["--out", "file/child"], "out must be a folder that can be written to, got 'file/child'"),
        (["--out", "x" * 300], "out must be a folder that can be written to, got 'xxx"),
    ],
)
def test_bad_input_gets_one_sentence(refused, tmp_path, words, sentence):
    (tmp_path / "file").touch()
    assert refused("reproduce", "--quick", *words).startswith(sentence)


@pytest.mark.parametrize("package", ["matplotlib", "vl_convert"])
def test_what_is_not_installed_is_said_first(refused, monkeypatch, package):
    from importlib import util

    find = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == package else find(name))
    sentence = f"{package} must be installed (pip install 'kibitz[reproduce]'), got nothing"
    assert refused("reproduce", "--quick") == sentence
