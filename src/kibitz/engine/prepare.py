"""Before jobs are played: their loops are found, compiled, or drafted."""

import sys
from collections import Counter
from collections.abc import Callable, Hashable
from importlib import import_module
from threading import Thread

from kibitz.engine.aside import compile_at_once, is_coming, wait_for
from kibitz.engine.loop import DRAFT
from kibitz.engine.numba_compat import CAN_KEEP
from kibitz.simulation.executors import cores
from kibitz.simulation.jobs import (
    Job,
    expected_seconds,
    find_loop,
    is_drafted,
    is_final,
    loop_of,
    new_control,
)

Progress = Callable[[str, float], None]

PAYS_SECONDS = 20.0  # of work: from here on a final loop is worth its compilation


def prepared(jobs: list[Job], tell: Progress) -> dict[Hashable, Job]:
    """Find or compile the loops of some jobs; return a job of each of those that are drafts."""
    loops = {loop_of(job): job for job in jobs}
    for job in filter(is_coming, loops.values()):
        tell(f"compiling {job.policy.name}", 0.0)
        wait_for(job)
    missing = [job for job in loops.values() if _must_compile(job)]
    if len(missing) > 1 and CAN_KEEP and sys.executable:
        tell("compiling " + ", ".join(dict.fromkeys(job.policy.name for job in missing)), 0.0)
        compile_at_once(missing, cores())
    return {loop: job for loop, job in loops.items() if _prepare(job, tell) == "draft"}


def _must_compile(job: Job) -> bool:
    return (job.loop == "final" or not is_drafted(job.policy)) and not is_final(job)


def _prepare(job: Job, tell: Progress) -> str:
    """Find or compile the loop of a job; return whether it is a "draft" or "final"."""
    from numba.core.errors import NumbaError, UnsupportedBytecodeError

    name, control = job.policy.name, new_control()

    def announce() -> None:
        tell(f"compiling {name}", 0.0)
        # what puts results together is imported meanwhile
        Thread(target=import_module, args=("xarray",), daemon=True).start()

    try:
        find_loop(job, control, announce)
    except (NumbaError, UnsupportedBytecodeError) as error:
        raise ValueError(
            f"{name} must be made of functions that numba can compile, got: {_reason(str(error))}"
        ) from error
    return "draft" if control[DRAFT] else "final"


def worth_compiling(
    drafts: dict[Hashable, Job], jobs: list[Job], compilers: Callable[[], int]
) -> dict[Hashable, Job]:
    """Return those drafts with so much work before them that the final loop pays."""
    seconds: Counter[Hashable] = Counter()
    for job in jobs:
        seconds[loop_of(job)] += expected_seconds(job)  # type: ignore[assignment]
    pays = PAYS_SECONDS * compilers() if drafts else 0.0
    return {n: job for n, job in drafts.items() if job.loop == "auto" and seconds[n] >= pays}


def loops_used(
    jobs: list[Job], drafts: dict[Hashable, Job], aside: dict[Hashable, Job]
) -> dict[str, str]:
    """Return by which loops the policies were played: final ones, drafts, or both."""
    drafted = dict.fromkeys(drafts, "draft")
    for loop, job in aside.items():
        if _prepare(job, lambda what, share: None) == "final":
            drafted[loop] = "draft and final"
    return {job.label[1]: drafted.get(loop_of(job), "final") for job in jobs}


def _reason(message: str) -> str:
    """Return the line of numba's message that says what is wrong, below those that say where."""
    where = (
        "Failed in", "No implementation", ">>>", "There are", "- Of which", "Overload in",
        "With argument", "Rejected as", "During", "File ", "raised from", "TypingError: Failed",
    )  # fmt: skip
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith(where)), lines[0] if lines else "")
