"""`kibitz agent`: make a live agent, ask it, tell it, and see what it knows."""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from kibitz.cli import parse

app = typer.Typer(no_args_is_help=True, help="Ask and tell an agent that is kept in a store.")

Store = Annotated[
    str, parse.text("PATH|URL", "A SQLite file, sqlite:///PATH or postgresql://...", "--store")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The agent's name")]
Key = Annotated[str, parse.text("TEXT", "The same key gets the same answer")]
AsJson = Annotated[bool, parse.flag("--json", "Print one JSON object")]


def opened(store: str, name: str) -> Any:
    """Open an agent that exists; it closes at the end of a `with`."""
    from kibitz.live.agent.agent import agent

    return agent(store, name)


@contextlib.contextmanager
def connected(store: str) -> Iterator[Any]:
    """Open a store that exists, and close it at the end."""
    from kibitz.live.store import connect

    found = connect(store, create=False)
    try:
        yield found
    finally:
        found.close()


def show(answer: dict[str, Any], as_json: bool) -> None:
    """Print an answer as JSON, or as words."""
    if as_json:
        from kibitz.cli.tables import print_json

        print_json(answer)
    else:
        print(" ".join(str(value) for value in answer.values() if value is not None))


@app.command()
def create(
    name: Name,
    store: Store,
    arms: Annotated[str, parse.text("NAME,...", "The arms: blue,green")],
    policy: Annotated[
        str,
        parse.text("NAME[:PARAM=VALUE,...]", "A policy and its parameters (see `kibitz policies`)"),
    ],
    scale: Annotated[
        float, parse.number("scale", "Sub-Gaussian scale of the rewards; 0.5 in [0, 1]")
    ] = 1.0,
    seed: Annotated[
        int | None, parse.whole("seed", "Seed of a randomised policy's draws", least=0)
    ] = None,
    patience: Annotated[
        float | None, parse.number("patience", "Seconds to wait for a report (default: for ever)")
    ] = None,
    silence: Annotated[
        str, parse.text("forget|NUMBER", "What no report means: nothing, or a reward")
    ] = "forget",
) -> None:
    """Make an agent."""
    from kibitz.cli.policies import policies_from
    from kibitz.live.agent.agent import agent
    from kibitz.live.store.queries import read_names

    [made] = policies_from([policy]).values()
    with contextlib.suppress(ValueError), connected(store) as there:
        if name in there.read(read_names):
            raise parse.Refused(f"name must be new to the store, got {name!r}")
    agent(
        store,
        name,
        arms=[word.strip() for word in arms.split(",")],
        policy=made,
        scale=scale,
        seed=seed,
        patience=patience,
        silence=silence if silence == "forget" else parse.read_number(silence, "silence"),
    ).close()
    print(f"made {name} in {store}")


@app.command()
def ask(
    name: Name,
    store: Store,
    key: Key = "",
    among: Annotated[str, parse.text("NAME,...", "Choose among these arms only")] = "",
    as_json: AsJson = False,
) -> None:
    """Ask which arm to pull; print the decision's id and the arm."""
    with opened(store, name) as agent:
        show_decision(agent.ask(key or None, among.split(",") if among else None), as_json)


@app.command()
def look(name: Name, store: Store, key: Key = "", as_json: AsJson = False) -> None:
    """Ask where the next free look should go; print the decision's id and the arm."""
    with opened(store, name) as agent:
        show_decision(agent.look(key or None), as_json)


def show_decision(decision: Any, as_json: bool) -> None:
    """Print a decision."""
    show(decision._asdict() if as_json else {"id": decision.id, "arm": decision.arm}, as_json)


@app.command()
def tell(
    name: Name,
    id: Annotated[int, typer.Argument(metavar="ID", help="The decision's id")],
    reward: Annotated[str, typer.Argument(metavar="REWARD", help="What it paid")],
    store: Store,
    as_json: AsJson = False,
) -> None:
    """Report what came of a decision: counted, or again."""
    value = parse.read_number(reward, "reward")
    with opened(store, name) as agent:
        show({"result": agent.tell(id, value)}, as_json)


@app.command()
def observe(
    name: Name,
    arm: Annotated[str, typer.Argument(metavar="ARM", help="The arm's name")],
    reward: Annotated[str, typer.Argument(metavar="REWARD", help="What it paid")],
    store: Store,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Report an observation that nobody asked for: counted, or again."""
    value = parse.read_number(reward, "reward")
    with opened(store, name) as agent:
        show({"result": agent.observe(arm, value, key or None)}, as_json)


@app.command()
def report(
    name: Name,
    store: Store,
    delta: Annotated[
        float, parse.number("delta", "Probability with which an interval may ever fail")
    ] = 0.05,
    as_json: AsJson = False,
) -> None:
    """Print what is known of each arm, with intervals that hold at all times, and warnings."""
    with opened(store, name) as agent:
        data = agent.report(delta)
    if as_json:
        from kibitz.cli.tables import print_json
        from kibitz.live.agent.report import to_plain

        print_json(to_plain(data))
        return
    from kibitz.cli.tables import Page
    from kibitz.live.agent.report import HEADER, format_rows, format_summary

    page = Page(120)
    page.table(f"{name}: {data.attrs['policy']}", HEADER, format_rows(data))
    for sentence in format_summary(data):
        page.text(sentence)


@app.command()
def events(
    name: Name,
    store: Store,
    after: Annotated[int, parse.whole("after", "Only what follows this number", least=0)] = 0,
    as_json: Annotated[bool, parse.flag("--json", "Print a JSON object on each line")] = False,
) -> None:
    """Print the log."""
    from kibitz.cli.tables import print_json

    with opened(store, name) as agent:
        for event in agent.events(after):
            if as_json:
                print_json(event._asdict())
            else:
                print(*("-" if part is None else part for part in event), sep="\t")


@app.command()
def export(
    name: Name,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A .csv, .jsonl or .nc file")],
    store: Store,
) -> None:
    """Write the log to a file: CSV, JSON lines or netCDF."""
    with opened(store, name) as agent:
        agent.export(file)
    print(f"written to {file}")


@app.command()
def check(
    store: Store,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="One agent (default: all)")] = "",
    as_json: AsJson = False,
) -> None:
    """Replay the log and compare; of a damaged store, say what can be read."""
    from kibitz.live.agent.agent import check_store

    found = check_store(store, name or None)
    if as_json:
        from kibitz.cli.tables import print_json

        print_json(found)
    else:
        for agent, wrong in found.items():
            for sentence in wrong:
                print(f"{agent}: {sentence}")
            if not wrong:
                print(f"{agent}: clean")
    if any(found.values()):
        raise typer.Exit(1)


@app.command("list")
def list_agents(store: Store, as_json: AsJson = False) -> None:
    """Print the names of the agents of a store."""
    from kibitz.live.store.queries import read_names

    with connected(store) as there:
        found = there.read(read_names)
    if as_json:
        from kibitz.cli.tables import print_json

        print_json({"agents": found})
    else:
        for name in found:
            print(name)
