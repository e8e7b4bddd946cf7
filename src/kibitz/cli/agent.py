"""`kibitz agent`: create a live agent, ask it, tell it rewards, and print its report."""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

import typer

from kibitz.cli import option
from kibitz.cli.command import add_command, format_examples

Rewards = Literal["gaussian", "bernoulli", "bounded"]

CREATE_EXAMPLE = """\
kibitz agent create checkout --store shop.db --arms blue,green \\
    --rewards bernoulli
"""

app = typer.Typer(
    no_args_is_help=True,
    help="Create and use live agents, which a store remembers.",
    epilog=format_examples(CREATE_EXAMPLE + "kibitz agent ask checkout --store shop.db"),
)

Store = Annotated[
    str,
    option.text("--store", "PATH|URL", "A SQLite file, or the URL postgresql://... of a database"),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The agent's name")]
Arm = Annotated[str, typer.Argument(metavar="ARM", help="The arm's name")]
Reward = Annotated[str, typer.Argument(metavar="REWARD", help="The reward")]
Key = Annotated[
    str,
    option.text("--key", "TEXT", "Idempotency key: a repeated call with it has no further effect"),
]
Force = Annotated[bool, option.flag("--force", "Accept a reward beyond 10,000 times the scale")]
AsJson = Annotated[bool, option.flag("--json", "Print one JSON object")]


def open_agent(store: str, name: str) -> Any:
    """Return an existing agent; use it in a `with` statement, which closes the agent."""
    from kibitz.live.agent.agent import agent

    return agent(store, name)


@contextlib.contextmanager
def open_store(store: str) -> Iterator[Any]:
    """Yield an existing store; close the store at the end of the `with` statement."""
    from kibitz.live.store import connect

    opened_store = connect(store, create=False)
    try:
        yield opened_store
    finally:
        opened_store.close()


def print_values(values: dict[str, Any], as_json: bool) -> None:
    """Print values as one JSON object, or as text on one line, without the values that are None."""
    if as_json:
        from kibitz.cli.output import print_json

        print_json(values)
    else:
        print(" ".join(str(value) for value in values.values() if value is not None))


@add_command(app, CREATE_EXAMPLE)
def create(
    name: Name,
    store: Store,
    arms: Annotated[str, option.text("--arms", "NAME,...", "Names of the arms: blue,green")],
    rewards: Annotated[
        Rewards | None,
        option.choice(
            "--rewards",
            "bernoulli (0 or 1, such as clicks), bounded (in [0, 1]) or gaussian (with --scale)",
            get_args(Rewards),
        ),
    ] = None,
    policy: Annotated[
        str,
        option.policy(
            "A policy, such as ucb:exploration=2 (see `kibitz policies`; default: kibitzer for these "
            "rewards)",
            None,
        ),
    ] = "",
    scale: Annotated[
        float | None,
        option.number("--scale", "Standard deviation of Gaussian rewards; omit it for other rewards"),
    ] = None,
    seed: Annotated[
        int | None, option.integer("--seed", "Seed of a randomised policy", minimum=0)
    ] = None,
    patience: Annotated[
        float | None, option.number("--patience", "Seconds to wait for a reward (default: no limit)")
    ] = None,
    silence: Annotated[
        str,
        option.text(
            "--silence",
            "forget|NUMBER",
            "What a missing reward counts as after --patience: nothing, or this number",
        ),
    ] = "forget",
    bucket: Annotated[
        float,
        option.number(
            "--bucket",
            "Probability of a random arm instead of the policy's arm, for `kibitz evaluate`",
        ),
    ] = 0,
    bucket_is_free: Annotated[
        bool,
        option.flag("--bucket-is-free", "Count the decisions of the bucket as looks, not as pulls"),
    ] = False,
    graph: Annotated[str | None, option.graph()] = None,
    loops: Annotated[bool, option.loops()] = False,
    alarms: Annotated[
        float | None,
        option.number(
            "--alarms",
            "Watch for changes of the means, with this probability of a false alarm: 0.1 (needs "
            "--patience; default: no alarms)",
        ),
    ] = None,
) -> None:
    """Create an agent."""
    from kibitz.cli.policies import parse_policies
    from kibitz.live.agent.agent import agent
    from kibitz.live.store import hide_password
    from kibitz.live.store.queries import read_names

    policy_object = parse_policies([policy])[policy] if policy else None
    arm_names = [word.strip() for word in arms.split(",")]
    shows = option.load_shows(graph, len(arm_names), loops)
    with contextlib.suppress(ValueError), open_store(store) as opened_store:
        if name in opened_store.read(read_names):
            raise option.OptionError(
                f"NAME must be new, but {hide_password(store)} already has an agent {name!r}; "
                "choose another name"
            )
    agent(
        store,
        name,
        arms=arm_names,
        rewards=rewards,
        policy=policy_object,
        scale=scale,
        seed=seed,
        patience=patience,
        silence=option.parse_silence(silence),
        bucket=bucket,
        bucket_is_free=bucket_is_free,
        shows=shows,
        alarms=alarms,
    ).close()
    print(f"created agent {name} in {hide_password(store)}")


@add_command(app, "kibitz agent ask checkout --store shop.db --key visit-1")
def ask(
    name: Name,
    store: Store,
    key: Key = "",
    among: Annotated[
        str, option.text("--among", "NAME,...", "Choose among these arms only: blue,green")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Ask which arm to pull; print the decision's id and the arm."""
    with open_agent(store, name) as agent:
        print_decision(agent.ask(key or None, among.split(",") if among else None), as_json)


@add_command(app, "kibitz agent look checkout --store shop.db")
def look(name: Name, store: Store, key: Key = "", as_json: AsJson = False) -> None:
    """Ask which arm to look at for free; print the decision's id and the arm."""
    with open_agent(store, name) as agent:
        print_decision(agent.look(key or None), as_json)


def print_decision(decision: Any, as_json: bool) -> None:
    """Print a decision: its id and arm as text, or all its fields as JSON."""
    values = decision._asdict() if as_json else {"id": decision.id, "arm": decision.arm}
    print_values(values, as_json)


@add_command(app, "kibitz agent tell checkout 1 1.0 --store shop.db")
def tell(
    name: Name,
    id: Annotated[int, typer.Argument(metavar="ID", help="The decision's id")],
    reward: Reward,
    store: Store,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Report the reward of a decision; print "counted", or "duplicate" if it was reported before."""
    value = option.parse_number(reward, "REWARD")
    with open_agent(store, name) as agent:
        print_values({"result": agent.tell(id, value, force=force)}, as_json)


@add_command(app, "kibitz agent observe checkout green 1 --store shop.db --key panel-17")
def observe(
    name: Name,
    arm: Arm,
    reward: Reward,
    store: Store,
    key: Key = "",
    shown_by: Annotated[
        int | None,
        option.integer("--shown-by", "The id of the pull that showed this reward", minimum=1),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Report a reward that the agent did not ask for; print "counted" or "duplicate"."""
    value = option.parse_number(reward, "REWARD")
    with open_agent(store, name) as agent:
        result = agent.observe(arm, value, key or None, force=force, shown_by=shown_by)
        print_values({"result": result}, as_json)


@add_command(app, "kibitz agent import checkout history.csv --store shop.db", name="import")
def import_history(
    name: Name,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A name that ends in .csv or .jsonl (JSON lines)")
    ],
    store: Store,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Import observations from a file with the columns or fields arm, reward and key.

    The whole file is checked first. Rows are counted in transactions of 1000 rows. A row whose key
    is known is not counted again: run the same command again after an error or Ctrl-C.
    """
    from kibitz.live.agent.history import import_file

    with open_agent(store, name) as agent:
        n_counted, n_duplicates = import_file(agent.batch, file, force)
    if as_json:
        print_values({"counted": n_counted, "duplicates": n_duplicates}, as_json)
    else:
        print(f"imported {n_counted:,} rows; {n_duplicates:,} were known before")


@add_command(app, "kibitz agent declare-rewards checkout bernoulli --store shop.db")
def declare_rewards(
    name: Name,
    rewards: Annotated[str, typer.Argument(metavar="KIND", help="bernoulli or bounded")],
    store: Store,
    as_json: AsJson = False,
) -> None:
    """Declare that all rewards are 0 or 1 (bernoulli) or in [0, 1] (bounded).

    The agent then rejects other rewards and uses the intervals of this kind. Its policy stays the
    same. The declaration is final; it fails if a reported reward contradicts it.
    """
    with open_agent(store, name) as agent:
        print_values({"result": agent.declare_rewards(rewards)}, as_json)


@add_command(app, "kibitz agent report checkout --store shop.db")
def report(
    name: Name,
    store: Store,
    delta: Annotated[
        float, option.number("--delta", "Probability that any of the intervals ever fails")
    ] = 0.05,
    as_json: AsJson = False,
) -> None:
    """Print the mean and confidence sequence of each arm, the regret, and warnings."""
    with open_agent(store, name) as agent:
        data = agent.report(delta)
    if as_json:
        from kibitz.cli.output import print_json
        from kibitz.live.agent.report import to_plain

        print_json(to_plain(data))
        return
    from kibitz.cli.output import Printer
    from kibitz.live.agent.report import format_rows, format_summary, list_columns

    printer = Printer(120)
    printer.text(data.attrs["verdict"])
    title = f"{name}: {data.attrs['policy']}"
    printer.table(title, list_columns(data), format_rows(data), folded=("interval", "since"))
    for sentence in format_summary(data):
        printer.text(sentence)


@add_command(app, "kibitz agent verdict checkout --store shop.db --tolerance 0.002")
def verdict(
    name: Name,
    store: Store,
    delta: Annotated[
        float, option.number("--delta", "Probability that a winner or the loss is ever wrong")
    ] = 0.05,
    tolerance: Annotated[
        float, option.number("--tolerance", "The loss per pull that you accept, in units of reward")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Print whether there is a winner, and what you lose if you stop now."""
    with open_agent(store, name) as agent:
        agent_verdict = agent.verdict(delta, tolerance)
    if as_json:
        from kibitz.cli.output import print_json
        from kibitz.live.agent.report import verdict_to_plain

        print_json(verdict_to_plain(agent_verdict))
        return
    from kibitz.cli.output import Printer

    Printer(120).text(agent_verdict.sentence)


@add_command(app, "kibitz agent events checkout --store shop.db --after 2")
def events(
    name: Name,
    store: Store,
    after: Annotated[
        int, option.integer("--after", "Print only the events after this number", minimum=0)
    ] = 0,
    as_json: Annotated[bool, option.flag("--json", "Print one JSON object on each line")] = False,
) -> None:
    """Print the event log, separated by tabs.

    The columns are: number, Unix time, kind, decision, arm, reward, key, probability of the arm,
    the numbers of the arms of the bucket, and the pull that showed the reward.
    """
    from kibitz.cli.output import print_json

    with open_agent(store, name) as agent:
        for event in agent.events(after):
            if as_json:
                print_json(event._asdict())
            else:
                print(
                    *("-" if event_field is None else event_field for event_field in event), sep="\t"
                )


@add_command(app, "kibitz agent export checkout log.csv --store shop.db")
def export(
    name: Name,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A name that ends in .csv, .jsonl or .nc")
    ],
    store: Store,
) -> None:
    """Write the event log to a file: CSV, JSON lines or netCDF."""
    with open_agent(store, name) as agent:
        agent.export(file)
    print(f"written to {file}")


@add_command(app, "kibitz agent compact checkout --store shop.db --before 2026-01-31")
def compact(
    name: Name,
    store: Store,
    before: Annotated[
        str, option.text("--before", "DATE", "Remove the events before this date, in UTC: 2026-01-31")
    ],
    as_json: AsJson = False,
) -> None:
    """Replace old events by a checkpoint that keeps every count, sum, interval and warning.

    Decisions that wait for a report stay. All other decisions before the date are removed with their
    keys; a late report, a correction or a repeated request for them is not recognised afterwards.
    """
    with open_agent(store, name) as agent:
        n_events = agent.compact(before)
    if as_json:
        print_values({"n_events": n_events}, as_json)
    else:
        print(f"replaced {n_events:,} events by a checkpoint")


@add_command(app, "kibitz agent erase checkout --store shop.db --key visit-1")
def erase(
    name: Name,
    store: Store,
    key: Annotated[
        list[str], typer.Option("--key", metavar="TEXT", help="The key to erase; may be repeated")
    ],
    as_json: AsJson = False,
) -> None:
    """Remove a visitor's keys from the store without changing any number.

    Print "erased" or "unknown" for each key. The store's files are rewritten and no longer contain
    the keys. Backups and exported files are not changed.
    """
    with open_agent(store, name) as agent:
        results = agent.erase(key)
    if as_json:
        print_values({"results": results}, as_json)
    else:
        print("\n".join(results))


@add_command(app, "kibitz agent check --store shop.db")
def check(
    store: Store,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="One agent (default: all)")] = "",
    as_json: AsJson = False,
) -> None:
    """Replay the event log and compare it with the stored state; exit code 1 if they differ."""
    from kibitz.live.agent.agent import check_store

    problems = check_store(store, name or None)
    if as_json:
        from kibitz.cli.output import print_json

        print_json(problems)
    else:
        for agent, sentences in problems.items():
            for sentence in sentences or ["no problems found"]:
                print(f"{agent}: {sentence}")
    if any(problems.values()):
        raise typer.Exit(1)


@add_command(app, "kibitz agent list --store shop.db", name="list")
def list_agents(store: Store, as_json: AsJson = False) -> None:
    """List the agents of a store."""
    from kibitz.live.store.queries import read_names

    with open_store(store) as opened_store:
        names = opened_store.read(read_names)
    if as_json:
        from kibitz.cli.output import print_json

        print_json({"agents": names})
    else:
        for name in names:
            print(name)
