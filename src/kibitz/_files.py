"""Files that are written whole or not at all, and refused before the work if that cannot succeed.

A file is written beside its target, as `.<name>.<process>.<random>.part`, and renamed when it is
complete. Links are followed, not replaced.
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

LONGEST = 50  # characters of the target's name in that of its part; systems allow 255 bytes
PART = re.compile(r"(\..+\.)(\d+)\.[0-9a-f]+\.part")

_writing: set[Path] = set()  # the parts of this process


def check_target(path: str | os.PathLike[str], name: str) -> Path:
    """Return the file that writing to `path` would change; refuse what cannot be written.

    `name` is what the user calls it. The file need not exist, its folder must.
    """
    given = _given(path, name, "the name of a file")
    try:
        mode = os.stat(given).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG  # not there yet, or a link to what is not
    except OSError as error:  # a file's child, a loop of links, too long a name
        raise _invalid(name, "a file that can be written", given, error) from None
    if stat.S_ISDIR(mode) or given.endswith(("/", os.sep)):
        raise invalid(name, "a file, not a folder", given)
    if not stat.S_ISREG(mode):
        raise invalid(name, "an ordinary file, no pipe or device", given)
    target = Path(os.path.realpath(given))
    if not os.path.isdir(target.parent):
        raise invalid(name, "in a folder that exists", given)
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise invalid(name, "a file that can be written", given)
    try:
        with _part(target):
            pass
    except OSError as error:
        raise _invalid(name, "in a folder that can be written to", given, error) from None
    return target


def check_folder(path: str | os.PathLike[str], name: str) -> Path:
    """Return a folder in which files can be written once it is made; refuse any other.

    Neither it nor the folders above it need exist.
    """
    given = _given(path, name, "the name of a folder")
    try:
        with suppress(FileNotFoundError):
            os.stat(given)  # a file's child, a loop of links, too long a name
        folder = above = Path(os.path.realpath(given))
        while not os.path.lexists(above):
            above = above.parent
        if not os.path.isdir(above):
            raise invalid(name, "a folder", given)
        with _part(above / "trial"):
            pass
    except OSError as error:
        raise _invalid(name, "a folder that can be written to", given, error) from None
    return folder


def write_atomic(
    target: Path,
    content: bytes | Callable[[BinaryIO], object],
    name: str = "file",
    *,
    best_effort: bool = False,
) -> None:
    """Write a file, whole or not at all; `content` may be a function that writes to an open file.

    If it fails, what was there before is still there, and the parts are gone. So are parts that
    processes left behind when they were killed. For one of many thousand files neither are those
    looked for, nor is it waited until the disk has it: after a power cut it may be empty.
    """
    target = Path(os.path.realpath(target))
    if not best_effort:
        remove_stale_temp_files(target.parent, _beginning(target))
    try:
        with _part(target) as file:
            content(file) if callable(content) else file.write(content)
            file.flush()
            if not best_effort:
                os.fsync(file.fileno())
            file.close()
            if os.path.exists(target):
                shutil.copymode(target, file.name)
            os.replace(file.name, target)
    except OSError as error:
        raise _invalid(name, "a file that can be written", str(target), error) from None


def _given(path: str | os.PathLike[str], name: str, condition: str) -> str:
    if not isinstance(path, str | os.PathLike) or not (given := os.fspath(path)):
        raise invalid(name, condition, path)
    if not isinstance(given, str) or "\0" in given:
        raise invalid(name, condition, path)
    return given


def _invalid(name: str, condition: str, given: str, error: Exception) -> ValueError:
    reason = getattr(error, "strerror", None) or str(error)
    return ValueError(f"{invalid(name, condition, given)} ({reason})")


def _beginning(target: Path) -> str:
    return f".{target.name[:LONGEST]}."


@contextmanager
def _part(target: Path) -> Iterator[BinaryIO]:
    """Open a new file beside the target; it is gone in the end, unless it was renamed."""
    part = target.with_name(f"{_beginning(target)}{os.getpid()}.{os.urandom(4).hex()}.part")
    _writing.add(part)
    try:
        with open(part, "xb") as file:
            yield file
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        _writing.discard(part)


def remove_stale_temp_files(folder: Path, beginning: str | None = None) -> None:
    """Remove the parts in a folder whose processes are gone, or only those that begin like this."""
    with suppress(OSError):  # such as a folder that cannot be listed
        for file in folder.iterdir():
            found = PART.fullmatch(file.name)
            ours = found is not None and beginning in {None, found[1]}
            if found and ours and not _alive(int(found[2]), file):
                with suppress(OSError):  # Windows: a file that a process has open
                    file.unlink()


def _alive(process: int, part: Path) -> bool:
    """Return whether the process that writes a part is still there."""
    if process == os.getpid():
        return part in _writing  # else it had the same number, in a container for instance
    if os.name == "nt":  # where `kill` would end it, but what is open cannot be removed
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        return True
    return True
