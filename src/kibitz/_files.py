"""Write files atomically, and check before a long computation that a file can be written.

A file is first written to `.<name>.<process>.<random>.part` beside its target and renamed when it is
complete. Symbolic links are followed, not replaced.
"""

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from kibitz._validation import invalid

MAX_PREFIX = 50  # characters of the target's name that the temporary file's name repeats
TEMP_NAME = re.compile(r"(\..+\.)(\d+)\.[0-9a-f]+\.part")

_open_temp_files: set[Path] = set()  # the temporary files that this process is writing


def check_target(path: str | os.PathLike[str], name: str) -> Path:
    """Return the file at `path`, after following links; raise ValueError if it cannot be written.

    `name` is the name of the argument in error messages. The folder must exist; the file need not.
    """
    path_text = _check_path(path, name, "the name of a file")
    try:
        mode = os.stat(path_text).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG  # a new file, or a dangling link
    except OSError as error:  # a path below a file, a loop of links or a name that is too long
        raise _invalid_path(name, "a file that can be written", path_text, error) from None
    if stat.S_ISDIR(mode) or path_text.endswith(("/", os.sep)):
        raise invalid(name, "a file, not a folder", path_text)
    if not stat.S_ISREG(mode):
        raise invalid(name, "an ordinary file, not a pipe or device", path_text)
    target = Path(os.path.realpath(path_text))
    if not os.path.isdir(target.parent):
        raise invalid(name, "in a folder that exists", path_text)
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise invalid(name, "a file that can be written", path_text)
    try:
        with _temp_file(target):
            pass
    except OSError as error:
        raise _invalid_path(name, "in a folder that can be written to", path_text, error) from None
    return target


def check_folder(path: str | os.PathLike[str], name: str) -> Path:
    """Return the folder at `path`; raise ValueError if it cannot be created or written to.

    The folder and its parents need not exist.
    """
    path_text = _check_path(path, name, "the name of a folder")
    try:
        with suppress(FileNotFoundError):
            os.stat(path_text)  # raises for a path below a file, a loop of links or a long name
        folder = parent = Path(os.path.realpath(path_text))
        while not os.path.lexists(parent):
            parent = parent.parent
        if not os.path.isdir(parent):
            raise invalid(name, "a folder", path_text)
        with _temp_file(parent / "trial"):
            pass
    except OSError as error:
        raise _invalid_path(name, "a folder that can be written to", path_text, error) from None
    return folder


def write_atomic(
    target: Path,
    content: bytes | Callable[[BinaryIO], object],
    name: str = "file",
    *,
    best_effort: bool = False,
) -> None:
    """Write a file atomically; `content` is bytes, or a function that writes to an open file.

    If writing fails, the old file is unchanged and the temporary file is removed. Temporary files of
    killed processes are removed too. Set `best_effort` to write many thousands of files faster: the
    temporary files of killed processes then stay, and the new file is not flushed to the disk, so it
    may be empty after a power failure.
    """
    target = Path(os.path.realpath(target))
    if not best_effort:
        remove_stale_temp_files(target.parent, _temp_prefix(target))
    try:
        with _temp_file(target) as file:
            content(file) if callable(content) else file.write(content)
            file.flush()
            if not best_effort:
                os.fsync(file.fileno())
            file.close()
            if os.path.exists(target):
                shutil.copymode(target, file.name)
            os.replace(file.name, target)
    except OSError as error:
        raise _invalid_path(name, "a file that can be written", str(target), error) from None


def _check_path(path: str | os.PathLike[str], name: str, condition: str) -> str:
    if not isinstance(path, str | os.PathLike) or not (path_text := os.fspath(path)):
        raise invalid(name, condition, path)
    if not isinstance(path_text, str) or "\0" in path_text:
        raise invalid(name, condition, path)
    return path_text


def _invalid_path(name: str, condition: str, path_text: str, error: Exception) -> ValueError:
    reason = getattr(error, "strerror", None) or str(error)
    return ValueError(f"{invalid(name, condition, path_text)} ({reason})")


def _temp_prefix(target: Path) -> str:
    return f".{target.name[:MAX_PREFIX]}."


@contextmanager
def _temp_file(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside the target; at the end, remove it unless it was renamed."""
    temp_path = target.with_name(f"{_temp_prefix(target)}{os.getpid()}.{os.urandom(4).hex()}.part")
    _open_temp_files.add(temp_path)
    try:
        with open(temp_path, "xb") as file:
            yield file
    finally:
        with suppress(OSError):
            temp_path.unlink(missing_ok=True)
        _open_temp_files.discard(temp_path)


def remove_stale_temp_files(folder: Path, prefix: str | None = None) -> None:
    """Remove the temporary files that dead processes left in a folder.

    If `prefix` is not None, remove only temporary files with this prefix (see `_temp_prefix`).
    """
    with suppress(OSError):  # for example, the folder cannot be listed
        for file in folder.iterdir():
            match = TEMP_NAME.fullmatch(file.name)
            if match and prefix in {None, match[1]} and not _is_being_written(int(match[2]), file):
                with suppress(OSError):  # on Windows, a process may have the file open
                    file.unlink()


def _is_being_written(process_id: int, temp_path: Path) -> bool:
    """Return whether process `process_id`, which created a temporary file, still writes it."""
    if process_id == os.getpid():
        return (
            temp_path in _open_temp_files
        )  # a dead process may have had the same id, for example in a container
    if os.name == "nt":  # `os.kill` would end the process; Windows does not remove open files anyway
        return False
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # a process of another user
        return True
    return True
