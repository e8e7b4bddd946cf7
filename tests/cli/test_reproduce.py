"""Tests of `kibitz reproduce`: options are checked before any simulation starts.

tests/reproduction tests the results.
"""

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("args", "message_parts"),
    [
        (["--only", "x"], ["--only", "whole number", "'x'"]),
        (["--only", "1,"], ["--only", "whole number", "''"]),
        (["--only", "99"], ["--only", "99"]),
        (["--runs", "0"], ["--runs", "at least 1", "0"]),
        (["--runs", "-1"], ["--runs", "at least 1", "-1"]),
        (["--threads", "1.5"], ["--threads", "whole number", "1.5"]),
        (["--seed", "-1"], ["--seed", "at least 0", "-1"]),
        (["--out", ""], ["--out", "folder", "''"]),
        (["--out", "file"], ["--out", "folder", "'file'"]),
        (["--out", "file/child"], ["--out", "folder that can be written to", "'file/child'"]),
        (["--out", "x" * 300], ["--out", "folder that can be written to", "'xxx"]),
    ],
)
def test_error_names_the_flag_and_the_value(error_message, tmp_path, args, message_parts):
    (tmp_path / "file").touch()
    message = error_message("reproduce", "--quick", *args)
    assert message.startswith(message_parts[0])
    for message_part in message_parts:
        assert message_part in message


@pytest.mark.parametrize("package", ["matplotlib", "vl_convert"])
def test_missing_package_is_reported_first(error_message, monkeypatch, package):
    from importlib import util

    find = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == package else find(name))
    assert error_message("reproduce", "--quick") == (
        f"kibitz reproduce needs {package}, which is not installed; run: pip install '.[reproduce]'"
    )
