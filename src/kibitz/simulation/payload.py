"""Task payloads: jobs as bytes for the workers of an executor, and what they answer.

A policy travels as its spec or with its functions, by the cloudpickle that numba ships. A worker
answers with its versions and the fingerprint of the code that it played; others are rejected.
"""

import hashlib
import pickle
import platform
import time
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple

from kibitz.engine.numba_compat import cloudpickle
from kibitz.simulation.jobs import Job, Played, kernel_of, play, specialised_kernel

REMEMBERED = 64  # policies and feedbacks that a worker need not unpack again


class Payload(NamedTuple):
    """Some jobs on their way."""

    sent: bytes
    identities: tuple[str, ...]  # of what is to be played
    versions: dict[str, str]


class Answer(NamedTuple):
    """What a worker made of a payload."""

    versions: dict[str, str]  # its own
    identities: tuple[str, ...] = ()  # of what it plays
    played: tuple[Played, ...] = ()  # nothing, if any of these is another than it should be
    seconds: float = 0.0


@cache
def current_versions() -> dict[str, str]:
    """Return the versions that all who play a part of a result must have in common."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python, **{name: version(name) for name in ("kibitz", "numpy", "numba")}}


def pack(jobs: list[Job]) -> Payload:
    """Return jobs as a payload; what they share is in it once."""
    shared: dict[int, bytes] = {}
    for job in jobs:
        for part in (job.policy, job.feedback):
            if id(part) not in shared:
                shared[id(part)] = cloudpickle.dumps(part)
    plain = [_data(job, shared[id(job.policy)], shared[id(job.feedback)]) for job in jobs]
    identities = tuple(identity(job, data) for job, data in zip(jobs, plain, strict=True))
    return Payload(pickle.dumps(plain), identities, current_versions())


def play_payload(payload: Payload, attempt: int) -> Answer:
    """Play a payload; this is what workers are asked to call.

    `attempt` is not used: it tells a second try from the first where an engine knows calls by what
    they are given.
    """
    if current_versions() != payload.versions:
        return Answer(current_versions())
    sent = pickle.loads(payload.sent)
    jobs = [_job(data) for data in sent]
    identities = tuple(identity(job, data) for job, data in zip(jobs, sent, strict=True))
    if identities != payload.identities:
        return Answer(current_versions(), identities)
    for kernel in {kernel.key: kernel for kernel in map(kernel_of, jobs)}.values():
        kernel.compile()  # which does not count
    begun = time.perf_counter()
    results: Any = tuple(play(job) for job in jobs)
    return Answer(current_versions(), identities, results, time.perf_counter() - begun)


def check_answer(payload: Payload, answer: Answer) -> tuple[Played, ...]:
    """Return what was played; refuse what was played by another make."""
    if answer.versions != payload.versions:
        others = [
            f"{name} {answer.versions.get(name)} instead of {here}"
            for name, here in payload.versions.items()
            if answer.versions.get(name) != here
        ]
        raise ValueError(f"workers must have the versions of this process, got {', '.join(others)}")
    if answer.identities != payload.identities:
        raise ValueError(
            "workers must play the code of this process, got another one under the same version: "
            "is an edited file, or an older copy of one, on their path?"
        )
    return answer.played


def identity(job: Job, data: bytes) -> str:
    """Return what a job's numbers depend on: the code that plays it, and what it is given."""
    return hashlib.sha256(specialised_kernel(job).content.encode() + data).hexdigest()


def _data(job: Job, policy: bytes, feedback: bytes) -> bytes:
    """Return a job as bytes, with its policy and feedback as they are sent."""
    plain = job._replace(label=None, policy=policy, feedback=feedback)  # type: ignore[arg-type]
    return pickle.dumps(plain)


def _job(data: bytes) -> Job:
    plain: Any = pickle.loads(data)
    job: Job = plain._replace(policy=_unpickle(plain.policy), feedback=_unpickle(plain.feedback))
    return job


@lru_cache(REMEMBERED)
def _unpickle(sent: bytes) -> Any:
    return pickle.loads(sent)
