"""Agents, what they are told, and logs: junk gets one sentence of ours, and no call warns."""

import inspect
import random

import pytest
from junk import JUNK, call_or_reject

import kibitz as kb
from kibitz.live.agent.agent import Agent

pytestmark = pytest.mark.slow

NEW = {"arms": ["blue", "green"], "policy": kb.ucb(), "scale": 0.5, "seed": 1}
OF_OURS = ("seq", "at", "id", "key", "kind", "arm", "reward")
RIGHT = {  # arguments that are right; what ends or changes an agent for good is told an unknown arm
    "ask": {}, "look": {}, "tell": {"id": 1, "reward": 1.0},
    "observe": {"arm": "blue", "reward": 1.0},
    "forget": {"id": 1}, "correct": {"id": 1, "reward": 0.5},
    "add": {"arm": "red"}, "pause": {"arm": "blue"}, "resume": {"arm": "blue"},
    "retire": {"arm": "nobody"}, "report": {}, "events": {}, "export": {"file": "log.csv"},
}  # fmt: skip
UNTRIED = {"batch", "close", "arms", "check"}  # the service's own, and what takes nothing


@pytest.fixture
def agent(memory, monkeypatch):
    """Return an agent that has decided once, and was told."""
    monkeypatch.chdir(memory)
    with kb.agent("shop.db", "checkout", **NEW) as made:
        made.tell(made.ask().id, 1.0)
        yield made


def all_junk(function, right):
    for parameter in inspect.signature(function).parameters:
        for junk in JUNK:
            yield {**right, parameter: junk}


def test_creating_an_agent_rejects_junk(memory, monkeypatch):
    monkeypatch.chdir(memory)
    for n, arguments in enumerate(all_junk(kb.agent, {"url": "a.db", "name": "a", **NEW})):
        if isinstance(arguments["name"], str) and arguments["name"]:  # a new one for each
            arguments["name"] += f" {n}"
        made = call_or_reject(kb.agent, **arguments)
        if made is not None:
            made.close()


def test_every_method_is_tried():
    methods = {n for n, f in vars(Agent).items() if inspect.isfunction(f) and not n.startswith("_")}
    assert methods - UNTRIED == RIGHT.keys()


@pytest.mark.parametrize("name", RIGHT)
def test_methods_of_an_agent_reject_junk(agent, name):
    method = getattr(agent, name)
    for arguments in all_junk(method, RIGHT[name]):
        given = call_or_reject(method, **arguments)
        if name == "events" and given is not None:
            call_or_reject(lambda given=given: list(given))
    agent.ask()


def test_from_log_rejects_junk(memory):
    log = {"arm": ["a", "b"], "reward": [1.0, 0.0]}
    for arguments in all_junk(kb.from_log, {"source": log}):
        source = arguments["source"]
        if not (isinstance(source, str) and (memory / source).exists()):
            call_or_reject(kb.from_log, **arguments)


@pytest.mark.parametrize(
    "log",
    [
        {"arm": ["a", "b"], "reward": [10**400, 1]},
        {"arm": ["a", "b"], "reward": [1]},
        {"arm": 3, "reward": 4},
        {name: ["x", "y"] for name in OF_OURS},
        {name: [None, None] for name in OF_OURS},
    ],
    ids=["large", "short", "no lists", "words", "nothing"],
)
def test_a_log_that_contains_junk_raises_value_error(log):
    with pytest.raises(ValueError, match=r"must be .*, got "):
        kb.from_log(log)


def test_a_netcdf_log_with_a_flipped_bit_is_rejected(agent, memory):
    agent.observe("blue", 1.0)
    agent.observe("green", 0.0)
    agent.export("log.nc")
    assert kb.from_log("log.nc").arms == ("blue", "green")
    whole = (memory / "log.nc").read_bytes()
    rng = random.Random(1)
    for place in rng.sample(range(len(whole) - 100), 30):  # the last line: see test_results.py
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        (memory / "damaged.nc").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"log must be a netCDF file that is whole, got 'dam"):
            kb.from_log("damaged.nc")


def test_a_netcdf_log_without_a_checksum_is_read(agent, memory):
    agent.observe("blue", 1.0)
    agent.observe("green", 0.0)
    agent.export("log.nc")
    whole = (memory / "log.nc").read_bytes()
    (memory / "old.nc").write_bytes(whole[: whole.rindex(b"\nkibitz format")])
    assert kb.from_log("old.nc").arms == ("blue", "green")
