"""The HTTP operations that create, list, describe and delete agents and import their history."""

import asyncio
import functools
import io
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import convert, structs

from kibitz._errors import Error
from kibitz._validation import one_of
from kibitz.live.agent.agent import Agent, open_agent
from kibitz.live.agent.config import check_config
from kibitz.live.agent.history import BATCH_SIZE, Row, count_rows, read_history
from kibitz.live.service import schemas
from kibitz.live.service.auth import RequestError
from kibitz.live.service.http import Call, operation
from kibitz.live.store import queries
from kibitz.policies import POLICIES
from kibitz.policies.policy import Policy
from kibitz.policies.spec import from_spec

MAX_IMPORT_BYTES = 8 * 1024 * 1024
FORMATS = {"text/csv": "csv", "application/x-ndjson": "jsonl"}  # history formats by media type


@operation("POST", "/v1/agents", "admin", schemas.CREATE_AGENT, errors=(409,), status=201)
async def create_agent(call: Call, body: schemas.NewAgent) -> schemas.AgentDescription:
    """Create an agent. A repeated request with the same arguments gets the same answer.

    `arms` and `rewards` are required; Gaussian rewards also need `scale`.
    """
    if call.access.agent is not None:
        raise RequestError(403, "creating an agent needs an admin token for all agents")
    arguments = structs.asdict(body)
    policy = None if body.policy is None else make_policy(body.policy)
    data = check_config(**{**arguments, "policy": policy})

    def create() -> Agent:
        try:
            return open_agent(call.state.store, body.name, data)
        except Error:
            raise
        except ValueError as error:  # an agent with this name and another configuration exists
            raise RequestError(409, str(error)) from None

    agent = await call.state.writer.submit_function(create)
    return await asyncio.to_thread(describe, agent)


def make_policy(spec: schemas.PolicySpec) -> Policy:
    """Return the policy of kibitz that a request names; a request can never import code."""
    one_of(spec.name, "policy", list(POLICIES))
    parameters = dict(spec.parameters)
    try:
        return from_spec(
            {"name": spec.name, "parameters": parameters, "scale": parameters.pop("scale", None)}
        )
    except TypeError as error:  # an unknown parameter
        raise ValueError(f"policy {spec.name!r} is invalid: {error}") from None


def describe(agent: Agent) -> schemas.AgentDescription:
    """Return the configuration of an agent and its arms."""
    arms = [{"arm": arm.name, "state": arm.status} for arm in agent.arms()]
    data, spec = agent.config.data, agent.config.data["policy"]
    values: dict[str, Any] = {
        name: data[name] for name in schemas.AgentDescription.__struct_fields__ if name in data
    }
    values |= {"name": agent.name, "arms": arms, "rewards": agent.config.rewards}
    values["shows"] = None if agent.config.shows is None else agent.config.shows.tolist()
    values["policy"] = {"name": spec["name"], "parameters": spec["parameters"]}
    return convert(values, schemas.AgentDescription)


@operation("GET", "/v1/agents", "read", schemas.AGENTS)
async def agents(call: Call, query: schemas.AgentsQuery) -> schemas.Agents:
    """List at most `limit` names of agents in alphabetical order, starting after the name `after`."""
    names = await asyncio.to_thread(
        call.state.store.read,
        lambda database: queries.read_names_after(
            database, query.after, query.limit + 1, call.access.agent
        ),
    )
    return schemas.Agents(names[: query.limit], len(names) > query.limit)


@operation("GET", "/v1/agents/{name}/config", "read", schemas.CONFIG)
async def config(call: Call) -> schemas.AgentDescription:
    """Return the configuration of an agent and its arms."""
    return await asyncio.to_thread(describe, call.agent)


@operation("DELETE", "/v1/agents/{name}", "admin", schemas.DELETE_AGENT)
async def delete_agent(call: Call) -> schemas.Deleted:
    """Delete an agent with its log, and revoke the tokens that are limited to this agent."""
    name, state = call.agent.name, call.state

    def delete() -> None:
        state.store.write(lambda database: queries.delete_agent(database, name, time.time()))

    await state.writer.submit_function(delete)
    state.agents.pop(name, None)
    state.feeds.pop(name, None)
    return schemas.Deleted("deleted")


@operation(
    "POST",
    "/v1/agents/{name}/import",
    "play",
    schemas.IMPORT,
    errors=(409,),
    media=tuple(FORMATS),
    max_bytes=MAX_IMPORT_BYTES,
)
async def import_history(call: Call, content: str, media_type: str) -> schemas.Imported:
    """Import a history of observations: CSV or JSON lines with the fields arm, reward and key.

    The rows are counted in transactions of 1000 rows. A row whose key is known is a duplicate and is
    not counted again, so a request can be repeated.
    """
    file_format = FORMATS[media_type]
    # The history is parsed twice, because its rows would take twenty times the memory of its text.
    check = functools.partial(count_valid_rows, content, file_format)
    n_rows = await call.state.imports.get(object(), check)
    if isinstance(n_rows, str):
        raise ValueError(n_rows)
    batches = count_rows(call.agent.batch, read_text(content, file_format))
    n_results: Counter[str] = Counter()
    for start in range(0, n_rows, BATCH_SIZE):
        size = min(BATCH_SIZE, n_rows - start)
        _, results = await call.state.writer.submit_function(lambda: next(batches), size=size)
        n_results.update(results)
        for result in results:
            call.state.metrics.count_result(call.agent.name, result)
    return schemas.Imported(n_results["counted"], n_results["duplicate"])


def read_text(content: str, file_format: str) -> Iterator[Row]:
    """Yield the rows of a history, as `read_history` does."""
    lines = io.StringIO(content, newline="" if file_format == "csv" else "\n")
    return read_history(lines, file_format)


def count_valid_rows(content: str, file_format: str) -> int | str:
    """Return the number of rows of a history, or the message of an error in it.

    The error is not raised, because its traceback would keep the history in memory.
    """
    try:
        return sum(1 for _ in read_text(content, file_format))
    except ValueError as error:
        return str(error)


ROUTES = [create_agent, agents, config, delete_agent, import_history]
