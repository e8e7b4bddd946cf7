"""A progress line for Python users, on a terminal or in a notebook."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

Progress = Callable[[str, float], Any]

DELAY_SECONDS = 0.5  # shorter work shows no line
REFRESH_SECONDS = 0.25


@contextmanager
def show_progress(
    progress: Progress | bool | None, activity: str = "preparing"
) -> Iterator[Progress]:
    """Yield the function that reports progress as `report(activity, share)`.

    If `progress` is a function, it is yielded. If `progress` is None, the yielded function shows a
    line below the cell of a notebook, or on standard error if standard error is a terminal. The line
    disappears at the end of the `with` block. The yielded function shows nothing if there is neither
    a notebook nor a terminal, if `progress` is False, or while another line is shown.
    """
    if callable(progress):
        yield progress
        return
    screen = None if progress is False else _find_screen()
    if screen is None or not _line_lock.acquire(blocking=False):
        yield lambda activity, share: None
        return
    line = Line(screen, activity)
    try:
        yield line.report
    finally:
        line.close()
        _line_lock.release()


_line_lock = threading.Lock()  # one line at a time


class Line:
    """A progress line with the elapsed time, which a thread updates even during a compilation."""

    def __init__(self, write: Callable[[str], None], activity: str) -> None:
        self.write = write
        self.start_time = time.monotonic()
        self.activity, self.share = activity, 0.0
        self.is_closed = threading.Event()
        self.is_shown = False
        self.thread = threading.Thread(target=self._refresh, daemon=True)
        self.thread.start()

    def report(self, activity: str, share: float) -> None:
        """Set the activity, and the share of the work that is complete."""
        self.activity, self.share = activity, share

    def close(self) -> None:
        """Erase the line."""
        self.is_closed.set()
        self.thread.join()
        if self.is_shown:
            with suppress(Exception):
                self.write("")

    def _refresh(self) -> None:
        pause = DELAY_SECONDS
        while not self.is_closed.wait(pause):
            share = f" {100 * self.share:.0f} %," if self.share > 0 else ""
            seconds = time.monotonic() - self.start_time
            try:
                self.write(f"{self.activity}:{share} {seconds:.0f} s")
            except Exception:  # a broken display must not disturb the work
                return
            self.is_shown, pause = True, REFRESH_SECONDS


def _find_screen() -> Callable[[str], None] | None:
    """Return a function that shows a text as the progress line.

    Return None if there is neither a terminal nor a notebook.
    """
    if is_notebook():
        return _notebook_writer()
    try:
        is_terminal = sys.stderr.isatty()
    except (AttributeError, ValueError):  # no standard error, or a closed one
        return None
    return _terminal_writer(sys.stderr) if is_terminal else None


def is_notebook() -> bool:
    """Return whether this process is a notebook kernel."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def _terminal_writer(stream: Any) -> Callable[[str], None]:
    width = 0

    def write(text: str) -> None:
        nonlocal width
        end = "" if text else "\r"
        stream.write(f"\r{text.ljust(width)}{end}")
        stream.flush()
        width = len(text)

    return write


def _notebook_writer() -> Callable[[str], None]:
    from IPython.display import display

    handle: Any = None

    def write(text: str) -> None:
        nonlocal handle
        content = {"text/plain": text}
        if handle is None:
            handle = display(content, raw=True, display_id=True)
        else:
            handle.update(content, raw=True)

    return write
