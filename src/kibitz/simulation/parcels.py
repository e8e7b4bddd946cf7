"""Task payloads: jobs as bytes for the workers of an executor, and what they answer.

A policy travels as its spec or with its functions (`kibitz.policies.spec.pickled`), by the
cloudpickle that numba ships: a formula typed in a script or a notebook can be sent. A worker answers
with its versions and with the fingerprint of what it played: the code of the kernel and the bytes of
the job. Other code or versions are rejected.
"""

import hashlib
import pickle
import platform
import time
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple

from numba import cloudpickle

from kibitz.simulation.jobs import Job, Played, kernel_of, play, specialised_kernel

REMEMBERED = 64  # policies and feedbacks that a worker need not unpack again


class Parcel(NamedTuple):
    """Some jobs on their way."""

    sent: bytes
    identities: tuple[str, ...]  # of what is to be played
    versions: dict[str, str]


class Answer(NamedTuple):
    """What a worker made of a parcel."""

    versions: dict[str, str]  # its own
    identities: tuple[str, ...] = ()  # of what it plays
    played: tuple[Played, ...] = ()  # nothing, if any of these is another than it should be
    seconds: float = 0.0


@cache
def made_with() -> dict[str, str]:
    """Return the versions that all who play a part of a result must have in common."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python, **{name: version(name) for name in ("kibitz", "numpy", "numba")}}


def packed(jobs: list[Job]) -> Parcel:
    """Return jobs as a payload; what they share is in it once."""
    shared: dict[int, bytes] = {}
    for job in jobs:
        for part in (job.policy, job.feedback):
            if id(part) not in shared:
                shared[id(part)] = cloudpickle.dumps(part)
    plain = [_data(job, shared[id(job.policy)], shared[id(job.feedback)]) for job in jobs]
    identities = tuple(identity(job, data) for job, data in zip(jobs, plain, strict=True))
    return Parcel(pickle.dumps(plain), identities, made_with())


def play_parcel(parcel: Parcel, attempt: int) -> Answer:
    """Play a parcel; this is what workers are asked to call.

    `attempt` is not used: it tells a second try from the first where an engine knows calls by what
    they are given.
    """
    if made_with() != parcel.versions:
        return Answer(made_with())
    sent = pickle.loads(parcel.sent)
    jobs = [_job(data) for data in sent]
    identities = tuple(identity(job, data) for job, data in zip(jobs, sent, strict=True))
    if identities != parcel.identities:
        return Answer(made_with(), identities)
    for kernel in {kernel.key: kernel for kernel in map(kernel_of, jobs)}.values():
        kernel.compile()  # which does not count
    begun = time.perf_counter()
    results: Any = tuple(play(job) for job in jobs)
    return Answer(made_with(), identities, results, time.perf_counter() - begun)


def checked(parcel: Parcel, answer: Answer) -> tuple[Played, ...]:
    """Return what was played; refuse what was played by another make."""
    if answer.versions != parcel.versions:
        others = [
            f"{name} {answer.versions.get(name)} instead of {here}"
            for name, here in parcel.versions.items()
            if answer.versions.get(name) != here
        ]
        raise ValueError(f"workers must have the versions of this process, got {', '.join(others)}")
    if answer.identities != parcel.identities:
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
