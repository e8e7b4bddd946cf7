"""Files are written atomically, and invalid targets are rejected before any work starts."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kibitz._files import check_folder, check_target, write_atomic
from kibitz._validation import short_repr

posix_only = pytest.mark.skipif(os.name != "posix", reason="pipes, devices and links of POSIX")


def list_names(folder):
    return sorted(os.listdir(folder))


def make_link_loop(folder):
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    return folder / "a"


def make_pipe(folder):
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def make_path_below_file(folder):
    (folder / "file").touch()
    return folder / "file" / "child"


BAD_TARGETS = {  # the condition in the message, and a path that violates it
    "a folder": ("a file, not a folder, got ", lambda folder: folder),
    "no folder yet": ("a file, not a folder, got ", lambda folder: f"{folder}/new/"),
    "a file's child": ("", make_path_below_file),
    "a missing folder": ("in a folder that exists, got ", lambda folder: folder / "no" / "file"),
    "300 characters": ("a file that can be written, got ", lambda folder: folder / ("x" * 300)),
    "nothing": ("the name of a file, got ''", lambda folder: ""),
    "a number": ("the name of a file, got 3", lambda folder: 3),
    "bytes": ("the name of a file, got b'x'", lambda folder: b"x"),
    "a NUL": ("the name of a file, got ", lambda folder: "a\0b"),
}
BAD_TARGETS_ON_POSIX = {
    "a loop of links": ("a file that can be written, got ", make_link_loop),
    "a pipe": ("an ordinary file, not a pipe or device, got ", make_pipe),
    "/dev/full": ("an ordinary file, not a pipe or device, got ", lambda folder: "/dev/full"),
    "/dev/null": ("an ordinary file, not a pipe or device, got ", lambda folder: "/dev/null"),
    "/proc": ("in a folder that can be written to, got ", lambda folder: "/proc/file"),
}


@pytest.mark.parametrize(
    ("condition", "make_path"),
    [
        *(pytest.param(*case, id=label) for label, case in BAD_TARGETS.items()),
        *(
            pytest.param(*case, id=label, marks=posix_only)
            for label, case in BAD_TARGETS_ON_POSIX.items()
        ),
    ],
)
def test_unwritable_targets_are_rejected(tmp_path, condition, make_path):
    path = make_path(tmp_path)
    names_before = list_names(tmp_path)
    with pytest.raises(ValueError) as error:
        check_target(path, "out")
    assert str(error.value).startswith(f"out must be {condition}")
    assert list_names(tmp_path) == names_before


@posix_only
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_permissions_are_checked(tmp_path, kind):
    if os.geteuid() == 0:
        pytest.skip("root can write everywhere; run as another user to test permissions")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").touch()
    (folder if kind == "folder" else folder / "file").chmod(0o500)
    with pytest.raises(ValueError, match=r"out must be .* can be written"):
        check_target(folder / "file", "out")


def test_checking_creates_and_changes_nothing(tmp_path):
    file = tmp_path / "file"
    assert check_target(file, "out") == file.resolve()
    assert list_names(tmp_path) == []
    file.write_text("old")
    assert check_target(str(file), "out") == file.resolve()
    assert (list_names(tmp_path), file.read_text()) == (["file"], "old")


def test_a_relative_path_is_accepted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_atomic(check_target("file", "out"), b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("content", [b"new", lambda file: file.write(b"new")])
def test_a_file_is_written_and_no_temporary_file_remains(tmp_path, content):
    file = tmp_path / ("long" * 60)  # the temporary file gets a shortened name
    for _ in range(2):
        write_atomic(check_target(file, "out"), content)
        assert file.read_bytes() == b"new"
        assert list_names(tmp_path) == [file.name]


@posix_only
@pytest.mark.parametrize("target_exists", [True, False])
def test_links_are_followed(tmp_path, target_exists):
    (tmp_path / "far").mkdir()
    file, link = tmp_path / "far" / "file", tmp_path / "link"
    if target_exists:
        file.write_text("old")
    link.symlink_to(Path("far") / "file")
    assert check_target(link, "out") == file.resolve()
    write_atomic(link, b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert list_names(tmp_path) == ["far", "link"]


@posix_only
def test_permissions_of_an_existing_file_are_kept(tmp_path):
    file = tmp_path / "file"
    file.touch()
    file.chmod(0o640)
    write_atomic(file, b"new")
    assert file.stat().st_mode & 0o777 == 0o640


def make_failing_writer(error):
    def write(file):
        file.write(b"half")
        file.flush()
        raise error

    return write


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("bug")])
def test_the_old_file_is_kept_if_writing_fails(tmp_path, error):
    file = tmp_path / "file"
    file.write_text("old")
    with pytest.raises(type(error)):
        write_atomic(file, make_failing_writer(error))
    assert (list_names(tmp_path), file.read_text()) == (["file"], "old")


def test_a_system_error_is_explained(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")
    with pytest.raises(ValueError) as error:
        write_atomic(file, make_failing_writer(OSError(28, "No space left on device")), "out")
    message = f"out must be a file that can be written, got {short_repr(str(file))}"
    assert str(error.value) == f"{message} (No space left on device)"
    assert (list_names(tmp_path), file.read_text()) == (["file"], "old")


@posix_only
def test_a_full_disk_is_explained(tmp_path):
    """The test limits the file size, which makes the system call fail as on a full disk."""
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from kibitz._files import write_atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_atomic(Path(sys.argv[1]), bytes(10**6), 'out')\n"
        "except ValueError as error: print(error)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "file")]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.stderr == ""
    assert process.stdout.startswith("out must be a file that can be written, got ")
    assert process.stdout.count("\n") == 1
    assert list_names(tmp_path) == []


@posix_only
def test_temporary_files_of_killed_processes_are_removed(tmp_path):
    program = (
        "import os, signal, sys; from pathlib import Path; from kibitz._files import write_atomic\n"
        "write_atomic(Path(sys.argv[1]), lambda file: os.kill(os.getpid(), signal.SIGKILL))"
    )
    file = tmp_path / "file"
    subprocess.run([sys.executable, "-c", program, str(file)])
    assert [name.endswith(".part") for name in list_names(tmp_path)] == [True]
    kept_names = [
        f".file.{os.getppid()}.0123abcd.part",  # belongs to a running process
        ".file.nobody.0123abcd.part",  # not a temporary file of kibitz
        ".other.999999999.0123abcd.part",  # belongs to another target
        "file.999999999.0123abcd.part",
    ]
    for kept_name in kept_names:
        (tmp_path / kept_name).touch()
    (
        tmp_path / f".file.{os.getpid()}.0123abcd.part"
    ).touch()  # belonged to a dead process with the same id
    write_atomic(file, b"new")
    assert list_names(tmp_path) == sorted(["file", *kept_names])


def test_threads_use_different_temporary_files(tmp_path):
    """Eight threads write one file at once. The file gets the complete content of one thread."""
    file = tmp_path / "file"
    barrier = threading.Barrier(8, timeout=20)

    def write(k):
        def write_content(open_file):
            barrier.wait()
            open_file.write(bytes([k]) * 100_000)

        write_atomic(file, write_content)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(file.read_bytes())) == 1
    assert list_names(tmp_path) == ["file"]


def test_a_folder_need_not_exist_and_is_not_created(tmp_path):
    folder = tmp_path / "a" / "b"
    assert check_folder(folder, "out") == folder.resolve()
    assert list_names(tmp_path) == []
    folder.mkdir(parents=True)
    assert check_folder(str(folder), "out") == folder.resolve()
    assert list_names(folder) == []


def make_file(folder):
    (folder / "file").touch()
    return folder / "file"


@pytest.mark.parametrize(
    "make_path",
    [make_file, make_path_below_file, lambda folder: folder / ("x" * 300), lambda folder: "a\0b",
     pytest.param(make_link_loop, marks=posix_only)],
)  # fmt: skip
def test_a_folder_that_cannot_be_created_is_rejected(tmp_path, make_path):
    path = make_path(tmp_path)
    names_before = list_names(tmp_path)
    with pytest.raises(ValueError, match=r"^out must be (a|the name of a) folder"):
        check_folder(path, "out")
    assert list_names(tmp_path) == names_before


@posix_only
@pytest.mark.parametrize("path", ["/dev/null", "/proc", "/proc/new"])
def test_an_unwritable_folder_is_rejected(path):
    with pytest.raises(ValueError, match=r"^out must be (a|the name of a) folder"):
        check_folder(path, "out")
