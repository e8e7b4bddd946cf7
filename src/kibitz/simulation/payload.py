"""Task payloads: jobs serialised for the workers of an executor, and the workers' answers.

numba's copy of cloudpickle serialises a policy, as its spec or with its functions. A worker answers
with its library versions and with fingerprints of the jobs; an answer whose versions or fingerprints
differ from those of this process is rejected.
"""

import hashlib
import pickle
import platform
import time
import traceback
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple

from kibitz.engine.numba_compat import cloudpickle
from kibitz.simulation.jobs import Job, Outcome, choose_kernel, play, specialised_kernel

MAX_UNPICKLED = 64  # policies and feedbacks in the cache of a worker


class Payload(NamedTuple):
    """Jobs serialised for a worker."""

    content: bytes
    fingerprints: tuple[str, ...]  # one per job
    versions: dict[str, str]


class Answer(NamedTuple):
    """The answer of a worker to a payload."""

    versions: dict[str, str]  # the library versions of the worker
    fingerprints: tuple[str, ...] = ()  # the fingerprints of the jobs, as the worker computes them
    outcomes: tuple[Outcome, ...] = ()  # empty if versions or fingerprints differ
    seconds: float = 0.0  # the duration of all jobs
    error: Exception | None = None  # the error that the object of a Python policy raised


@cache
def current_versions() -> dict[str, str]:
    """Return the library versions of this process, which must be the same on all workers."""
    python_version = ".".join(platform.python_version_tuple()[:2])
    return {
        "Python": python_version,
        **{name: version(name) for name in ("kibitz", "numpy", "numba")},
    }


def pack(jobs: list[Job]) -> Payload:
    """Serialise jobs; a policy or feedback that several jobs share is pickled once."""
    pickles: dict[int, bytes] = {}
    for job in jobs:
        for shared_object in (job.policy, job.feedback):
            if id(shared_object) not in pickles:
                pickles[id(shared_object)] = cloudpickle.dumps(shared_object)
    job_data = [
        _job_to_bytes(job, pickles[id(job.policy)], pickles[id(job.feedback)]) for job in jobs
    ]
    fingerprints = tuple(fingerprint_job(job, data) for job, data in zip(jobs, job_data, strict=True))
    return Payload(pickle.dumps(job_data), fingerprints, current_versions())


def play_payload(payload: Payload, attempt: int) -> Answer:
    """Play a payload; workers call this function.

    `attempt` is not used. It gives each retry different arguments, because some executors run calls
    with equal arguments only once.
    """
    if current_versions() != payload.versions:
        return Answer(current_versions())
    job_data = pickle.loads(payload.content)
    jobs = [_job_from_bytes(job_bytes) for job_bytes in job_data]
    fingerprints = tuple(
        fingerprint_job(job, job_bytes) for job, job_bytes in zip(jobs, job_data, strict=True)
    )
    if fingerprints != payload.fingerprints:
        return Answer(current_versions(), fingerprints)
    for kernel in {kernel.key: kernel for kernel in map(choose_kernel, jobs)}.values():
        kernel.compile()  # before the clock starts
    start = time.perf_counter()
    try:
        results: Any = tuple(play(job) for job in jobs)
    except Exception as error:
        if not any(job.policy.is_python for job in jobs):
            raise
        return Answer(current_versions(), fingerprints, error=_make_picklable(error))
    return Answer(current_versions(), fingerprints, results, time.perf_counter() - start)


def _make_picklable(error: Exception) -> Exception:
    """Return an error that can be sent to the main process, with the traceback in a note."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))


def check_answer(payload: Payload, answer: Answer) -> tuple[Outcome, ...]:
    """Return the outcomes of an answer; raise ValueError if the worker ran different code.

    If the object of a Python policy raised an error, raise the same error.
    """
    if answer.versions != payload.versions:
        differences = [
            f"{name} {answer.versions.get(name)} instead of {own_version}"
            for name, own_version in payload.versions.items()
            if answer.versions.get(name) != own_version
        ]
        raise ValueError(
            f"workers must have the same versions as this process, got {', '.join(differences)}; "
            "install the same versions"
        )
    if answer.fingerprints != payload.fingerprints:
        raise ValueError(
            "workers run different code under the same version; check for edited or outdated files "
            "on their path"
        )
    if answer.error is not None:
        raise answer.error
    return answer.outcomes


def fingerprint_job(job: Job, data: bytes) -> str:
    """Return a hash of the code and the data that the numbers of a job depend on."""
    return hashlib.sha256(specialised_kernel(job).code_hash.encode() + data).hexdigest()


def _job_to_bytes(job: Job, policy: bytes, feedback: bytes) -> bytes:
    """Return a job as bytes; `policy` and `feedback` are the job's policy and feedback, pickled."""
    pickled_job = job._replace(label=None, policy=policy, feedback=feedback)  # type: ignore[arg-type]
    return pickle.dumps(pickled_job)


def _job_from_bytes(data: bytes) -> Job:
    pickled_job: Any = pickle.loads(data)
    job: Job = pickled_job._replace(
        policy=_unpickle(pickled_job.policy), feedback=_unpickle(pickled_job.feedback)
    )
    return job


@lru_cache(MAX_UNPICKLED)
def _unpickle(content: bytes) -> Any:
    return pickle.loads(content)
