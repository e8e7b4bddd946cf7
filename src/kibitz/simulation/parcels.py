"""Parcels: some jobs as bytes, for a worker of somebody else's engine, and what it answers.

A policy of kibitz's goes by its name and parameters, any other with the code of its functions, by the
cloudpickle that numba ships: a formula typed in a script or a notebook can be sent. The worker finds
or compiles the loops by their content, and answers with its versions and with the identity of what it
played: the content of the loop and the bytes of the job. Numbers of another make are refused.
"""

import hashlib
import pickle
import platform
import time
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple

from numba import cloudpickle

from kibitz.engine.content import content_hash
from kibitz.engine.jit import jit_again
from kibitz.engine.loop import loop_content
from kibitz.policies import POLICIES
from kibitz.policies.policy import Policy
from kibitz.simulation.jobs import Job, Played, final_policy, find_loop, loop_of, play

#: Of a policy.
FUNCTIONS = ("init", "pull", "observe", "update", "index", "view", "turns", "hold", "due")
REMEMBERED = 64  # policies that a worker need not unpack again


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
    """Return jobs as a parcel; all that they share is in it once."""
    policies: dict[int, bytes] = {}
    feedbacks: dict[int, bytes] = {}
    plain = []
    for job in jobs:
        policy, feedback = id(job.policy), id(job.feedback)
        if policy not in policies:
            policies[policy] = _policy_bytes(job.policy)
        if feedback not in feedbacks:
            feedbacks[feedback] = cloudpickle.dumps(job.feedback)
        plain.append(_data(job, policies[policy], feedbacks[feedback]))
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
    for job in {loop_of(job): job for job in jobs}.values():
        find_loop(job)  # compiles, which does not count
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
    code = loop_content(final_policy(job), job.feedback, job.leap)
    return hashlib.sha256(code.encode() + data).hexdigest()


def _data(job: Job, policy: bytes, feedback: bytes) -> bytes:
    """Return a job as bytes, with its policy and feedback as they are sent."""
    plain = job._replace(label=None, policy=policy, feedback=feedback)  # type: ignore[arg-type]
    return pickle.dumps(plain)


def _job(data: bytes) -> Job:
    plain: Any = pickle.loads(data)
    policy, feedback = _policy(plain.policy), _feedback(plain.feedback)
    job: Job = plain._replace(policy=policy, feedback=feedback)
    return job


def _policy_bytes(policy: Policy) -> bytes:
    """Return a policy by its name and parameters, or else as it is."""
    recipe = (policy.name, policy.setting, policy.scale)
    with suppress(KeyError, TypeError, ValueError):  # not one of ours, whatever its name is
        again = _made(*recipe)
        if again.functions == policy.functions and again.numbers == policy.numbers:
            return pickle.dumps(recipe)
    sent: bytes = cloudpickle.dumps(policy)
    return sent


def _made(name: str, setting: dict[str, Any], scale: float | None) -> Policy:
    return POLICIES[name](**setting, **({} if scale is None else {"scale": scale}))


@lru_cache(REMEMBERED)
def _policy(sent: bytes) -> Policy:
    """Unpack a policy. Functions of the same content are the same ones, so that loops are found."""
    thing = pickle.loads(sent)
    if isinstance(thing, tuple):
        return _made(*thing)
    policy: Policy = thing
    functions = _known_functions.setdefault(content_hash(policy.functions), policy.functions)
    jit_again(functions)
    return replace(policy, **dict(zip(FUNCTIONS, functions, strict=False)))


_known_functions: dict[str, tuple[Any, ...]] = {}


@lru_cache(REMEMBERED)
def _feedback(sent: bytes) -> Any:
    feedback = pickle.loads(sent)
    for part in (feedback.rate, feedback.weights):
        jit_again(part)
    return feedback
