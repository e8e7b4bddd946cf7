"""Agents and logs reject junk with an error that names the argument, and without warnings."""

import inspect
import random

import pytest
from junk import JUNK, call_or_reject

import kibitz as kb
from kibitz.live.agent.agent import Agent

pytestmark = pytest.mark.slow

AGENT_ARGUMENTS = {
    "arms": ["blue", "green"],
    "policy": kb.ucb(),
    "rewards": "gaussian",
    "scale": 0.5,
    "seed": 1,
}
LOG_COLUMNS = ("seq", "at", "id", "key", "kind", "arm", "reward")
# Only `retire` gets an unknown arm, because retiring cannot be undone.
VALID_ARGUMENTS = {
    "ask": {}, "look": {}, "tell": {"id": 1, "reward": 1.0},
    "observe": {"arm": "blue", "reward": 1.0},
    "forget": {"id": 1}, "correct": {"id": 1, "reward": 0.5},
    "add": {"arm": "red"}, "pause": {"arm": "blue"}, "resume": {"arm": "blue"},
    "retire": {"arm": "nobody"}, "declare_rewards": {"rewards": "bounded"},
    "compact": {"before": 0.0}, "erase": {"key": "visit-1"},
    "report": {}, "verdict": {}, "events": {}, "export": {"file": "log.csv"},
}  # fmt: skip
UNTESTED_METHODS = {"batch", "close", "arms", "alarms", "check"}  # internal, or without arguments


@pytest.fixture
def agent(memory, monkeypatch):
    """Return an agent with one decision and its reward."""
    monkeypatch.chdir(memory)
    with kb.agent("shop.db", "checkout", **AGENT_ARGUMENTS) as agent:
        agent.tell(agent.ask().id, 1.0)
        yield agent


def replace_each_by_junk(function, valid_arguments):
    """Yield the valid arguments with one argument replaced, for each argument and each junk value."""
    for parameter in inspect.signature(function).parameters:
        for junk in JUNK:
            yield {**valid_arguments, parameter: junk}


def test_creating_an_agent_rejects_junk(memory, monkeypatch):
    monkeypatch.chdir(memory)
    for n, arguments in enumerate(
        replace_each_by_junk(kb.agent, {"url": "a.db", "name": "a", **AGENT_ARGUMENTS})
    ):
        if isinstance(arguments["name"], str) and arguments["name"]:  # each agent needs a new name
            arguments["name"] += f" {n}"
        agent = call_or_reject(kb.agent, **arguments)
        if agent is not None:
            agent.close()


def test_every_method_is_tested():
    methods = {n for n, f in vars(Agent).items() if inspect.isfunction(f) and not n.startswith("_")}
    assert methods - UNTESTED_METHODS == VALID_ARGUMENTS.keys()


@pytest.mark.parametrize("name", VALID_ARGUMENTS)
def test_methods_of_an_agent_reject_junk(agent, name):
    method = getattr(agent, name)
    for arguments in replace_each_by_junk(method, VALID_ARGUMENTS[name]):
        result = call_or_reject(method, **arguments)
        if name == "events" and result is not None:
            call_or_reject(lambda result=result, after=None: list(result), after=None)
    agent.ask()


def test_from_log_rejects_junk(memory):
    log = {"arm": ["a", "b"], "reward": [1.0, 0.0]}
    for arguments in replace_each_by_junk(kb.from_log, {"source": log}):
        source = arguments["source"]
        if not (isinstance(source, str) and (memory / source).exists()):
            call_or_reject(kb.from_log, **arguments)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ({"arm": ["a", "b"], "reward": [10**400, 1]}, r"reward of line 1 must be a number, got 1000"),
        ({"arm": ["a", "b"], "reward": [1]}, r"log must have columns of equal length, got \{'arm'"),
        ({"arm": 3, "reward": 4}, r"log must have columns of equal length, got \{'arm': 3"),
        ({name: ["x", "y"] for name in LOG_COLUMNS}, r"log .* cannot be replayed \(.*'x'\)"),
        ({name: [None, None] for name in LOG_COLUMNS}, r"log .* cannot be replayed \(.*'NoneType'\)"),
    ],
    ids=["large", "short", "no lists", "words", "nothing"],
)
def test_a_log_that_contains_junk_raises_value_error(log, message):
    with pytest.raises(ValueError, match=message):
        kb.from_log(log)


def test_a_netcdf_log_with_a_flipped_bit_is_rejected(agent, memory):
    agent.observe("blue", 1.0)
    agent.observe("green", 0.0)
    agent.export("log.nc")
    assert kb.from_log("log.nc").arms == ("blue", "green")
    original_bytes = (memory / "log.nc").read_bytes()
    rng = random.Random(1)
    # tests/simulation/test_results.py covers the last line, which is shorter than 100 bytes.
    for position in rng.sample(range(len(original_bytes) - 100), 30):
        damaged_bytes = bytearray(original_bytes)
        damaged_bytes[position] ^= 1 << rng.randrange(8)
        (memory / "damaged.nc").write_bytes(damaged_bytes)
        with pytest.raises(ValueError, match=r"log file 'damaged\.nc' is damaged or not netCDF"):
            kb.from_log("damaged.nc")


def test_a_netcdf_log_without_a_checksum_is_read(agent, memory):
    agent.observe("blue", 1.0)
    agent.observe("green", 0.0)
    agent.export("log.nc")
    original_bytes = (memory / "log.nc").read_bytes()
    (memory / "old.nc").write_bytes(original_bytes[: original_bytes.rindex(b"\nkibitz format")])
    assert kb.from_log("old.nc").arms == ("blue", "green")
