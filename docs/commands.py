"""Write docs/commands/: a page for each command, from the command's own help.

A test checks that the pages agree with the help. `run.py` executes the examples.

python docs/commands.py
"""

from pathlib import Path
from typing import NamedTuple

import typer

from kibitz.cli import app

FOLDER = Path(__file__).parent / "commands"
GROUPS = ("agent", "store", "token")  # commands with subcommands

CREATE = """\
kibitz agent create checkout --store shop.db --arms blue,green --rewards bernoulli
"""


class Extra(NamedTuple):
    """The example and the note that a page adds to the help text of a command."""

    example: str
    note: str = ""


EXTRAS = {
    "simulate": Extra(
        """\
kibitz simulate --policy ucb_double --policy kibitzer --means 2,1.8,0.5,0.2 \\
    --observer active --rate 0.1 --runs 100 --out result.nc
""",
        "If you run the same command again with more `--runs`, kibitz simulates only "
        "the new runs. The Python function is "
        "[`kibitz.simulate`](../reference/simulate.md).",
    ),
    "trace": Extra(
        """\
kibitz trace --policy ucb --means 2,1.8,0.5 --observer active --rate 0.3 \\
    --horizon 12
""",
        "The run is run number `--run` of `kibitz simulate` with the same seed. The table shows the "
        "index of each arm before the pull; without an index, it shows the mean. The Python function "
        "is [`kibitz.trace`](../reference/trace.md).",
    ),
    "policies": Extra(
        "kibitz policies\n",
        "`--policy` takes a name and parameters from this list, as in "
        "`ucb:exploration=2`. See [Policies](../policies.md) for formulas and theorems.",
    ),
    "reproduce": Extra(
        "kibitz reproduce --only 1 --quick --out figure\n",
        "Open `figure/report.html` in a browser. See [Experiments](../experiments.md) "
        "for what each experiment simulates. `--part graphs` runs the "
        "[experiments on graphs](../experiments_graphs.md) instead, and `--part changes` the "
        "[experiments with changes](../experiments_changes.md).",
    ),
    "bounds": Extra(
        "kibitz bounds --means 2,1.8,0.5,0.2 --rate 0.001 --horizon 10000\n"
        "kibitz bounds --means 2,1.8,1.5,1,0.5 --graph star:2 --horizon 1000000\n",
        "A lower bound of 0 and an upper bound of infinity say nothing; such a bound is "
        "called vacuous. With `--graph`, the bounds are for a [graph](../model.md#graphs). See "
        "[Bounds](../bounds.md) for the Python functions.",
    ),
    "plan": Extra(
        "kibitz plan --horizon 100000 --baseline 5% --lift 1% --arms 5\n",
        "Describe the arms in exactly one way. For clicks, use `--baseline` with a lift, "
        "`--rates` or `--log`; for Gaussian rewards, use `--gap`, `--gap-range`, `--gaps` or "
        "`--log`. A rate or share is a percentage such as `5%`, a number such as `0.05` or a "
        "fraction such as `1/20`. `--lift 1%` is one percentage point; for a lift "
        "relative to the baseline use `--relative-lift 20%`. For a guided example, see the "
        "tutorial [How large a bucket?](../tutorials/bucket.md)",
    ),
    "league": Extra(
        """\
kibitz league --policy kibitzer --policy ucb_double --problems 2 \\
    --horizon 1000 --runs 8
""",
        "Without options, the command simulates all policies on 12 problems, which takes "
        "several minutes. To include a policy of your own, use "
        "[Python](../tutorials/own_policy.md#the-league). With `--tests`, the problems are "
        "recorded A/B tests; see [Evidence on real tests](../real_tests.md). With `--graph`, a pull "
        "also shows other arms: `--graph ring --graph star:2` compares policies on named graphs, "
        "`--graph random` on random graphs of ten kinds, and `--graph hidden` on graphs in which "
        "pulls can hide their own reward; see [Policies on graphs](../policies.md#on-graphs).",
    ),
    "bayes-optimal": Extra(
        """\
kibitz bayes-optimal --horizon 60 --every 10 \\
    --policy kibitzer:rewards=bernoulli --runs 200
""",
        "The Python function is [`kibitz.bayes_optimal`](../reference/bayes_optimal.md).",
    ),
    "rehearse": Extra(
        """\
kibitz rehearse --means 0.1,0.3 --rewards bernoulli \\
    --horizon 200 --runs 2 --rate 0.1 --delay 20 --loss 0.1 --duplicates 0.1
""",
        "For a guided example, see the tutorial "
        "[From simulation to live traffic](../tutorials/live.md).",
    ),
    "agent-create": Extra(
        CREATE, "See [Live agents](../live.md) for what an agent guarantees."
    ),
    "agent-ask": Extra(
        CREATE + "kibitz agent ask checkout --store shop.db --key visit-1\n",
        "A key makes retries safe: a repeated call with the same key returns the same "
        "decision.",
    ),
    "agent-look": Extra(
        CREATE + "kibitz agent look checkout --store shop.db\n",
        "Report the reward of a look with [`agent tell`](agent-tell.md).",
    ),
    "agent-tell": Extra(
        CREATE
        + """\
kibitz agent ask checkout --store shop.db
kibitz agent tell checkout 1 1.0 --store shop.db
kibitz agent tell checkout 1 1.0 --store shop.db
""",
        "A repeated report is a duplicate and is not counted again. A different reward "
        "for the same decision is an error.",
    ),
    "agent-observe": Extra(
        CREATE
        + "kibitz agent observe checkout green 1 --store shop.db --key panel-17\n",
        "A second report with the same key is a duplicate and is not counted again.",
    ),
    "agent-import": Extra(
        CREATE
        + """\
printf 'arm,reward,key\\nblue,1,visitor-1\\ngreen,0,visitor-2\\n' > history.csv
kibitz agent import checkout history.csv --store shop.db
kibitz agent import checkout history.csv --store shop.db
""",
        "A line of a .jsonl file is an object with the same fields: "
        '`{"arm": "blue", "reward": 1, "key": "visitor-1"}`. The rows count as observations, not as '
        "pulls. An invalid row ends the import with its line number; the transactions before it are "
        "counted. The command needs about 200 MB of memory for a million rows, to find keys that "
        "occur twice. The HTTP service has [`POST /import`](../serve.md#the-api).",
    ),
    "agent-declare-rewards": Extra(
        """\
kibitz agent create checkout --store shop.db --arms blue,green --rewards gaussian --scale 0.5
kibitz agent declare-rewards checkout bernoulli --store shop.db
""",
        "Use it for an agent that was created by a version of kibitz without `--rewards`. See "
        "[Live agents](../live.md#declare-the-rewards-of-an-old-agent).",
    ),
    "agent-report": Extra(
        CREATE
        + """\
kibitz agent observe checkout green 1 --store shop.db
kibitz agent observe checkout blue 0 --store shop.db
kibitz agent report checkout --store shop.db
""",
        "The intervals are confidence sequences: they stay valid however often you check"
        " them. The [dashboard](../dashboard.md) shows the same report in a browser.",
    ),
    "agent-verdict": Extra(
        CREATE
        + """\
kibitz agent observe checkout green 1 --store shop.db
kibitz agent observe checkout blue 0 --store shop.db
kibitz agent verdict checkout --store shop.db --tolerance 0.002
""",
        "`--json` prints the winner, the arms that are ruled out, the loss and the estimated "
        "number of further observations. See [Verdict and loss](../live.md#verdict-and-loss).",
    ),
    "agent-events": Extra(
        CREATE
        + """\
kibitz agent ask checkout --store shop.db --key visit-1
kibitz agent events checkout --store shop.db --after 2
""",
        "See [File formats](../reference/files.md#the-log-of-an-agent) for the kinds of events.",
    ),
    "agent-export": Extra(
        CREATE
        + """\
kibitz agent observe checkout green 1 --store shop.db
kibitz agent export checkout log.csv --store shop.db
""",
        "`kibitz plan --log` and pandas can read the file. See "
        "[File formats](../reference/files.md#the-log-of-an-agent) for its columns.",
    ),
    "agent-compact": Extra(
        CREATE
        + """\
kibitz agent observe checkout green 1 --store shop.db
kibitz agent compact checkout --store shop.db --before 2100-01-01
kibitz agent events checkout --store shop.db
""",
        "See [Retention and erasure](../live.md#retention-and-erasure) for what a checkpoint keeps.",
    ),
    "agent-erase": Extra(
        CREATE
        + """\
kibitz agent ask checkout --store shop.db --key visit-1
kibitz agent erase checkout --store shop.db --key visit-1 --key visit-2
""",
        "The command takes time in proportion to the size of the store, so erase several keys "
        "at once. See [Retention and erasure](../live.md#retention-and-erasure).",
    ),
    "agent-check": Extra(
        CREATE + "kibitz agent check --store shop.db\n",
        "The exit code is 1 if the store is damaged or inconsistent.",
    ),
    "agent-list": Extra(CREATE + "kibitz agent list --store shop.db\n"),
    "evaluate": Extra(
        """\
kibitz agent create checkout --store shop.db --arms blue,green --rewards bernoulli \\
    --bucket 1 --seed 1
kibitz agent ask checkout --store shop.db
kibitz agent tell checkout 1 1 --store shop.db
kibitz agent export checkout log.csv --store shop.db
kibitz evaluate log.csv --arm green
kibitz evaluate log.csv --policy thompson:rewards=bernoulli --precision 0.05
""",
        "A single visit says nothing, as the intervals show. For a longer log and the meaning of "
        "the numbers, see [Evaluate a policy from a log](../howto/evaluate.md). The Python function "
        "is [`kibitz.evaluate`](../reference/evaluate.md).",
    ),
    "store-backup": Extra(
        CREATE + "kibitz store backup shop-backup.db --store shop.db\n",
        "The store may be in use. See [Retention and erasure](../live.md#retention-and-erasure): "
        "erased keys stay in older backups.",
    ),
    "store-restore": Extra(
        CREATE
        + """\
kibitz store backup shop-backup.db --store shop.db
kibitz store restore shop-backup.db --store shop-copy.db
""",
        "If a running service uses the store, the command fails and changes nothing.",
    ),
    "store-migrate": Extra(
        CREATE + "kibitz store migrate --store shop.db\n",
        "Run it before you start a new version of the service on several machines.",
    ),
    "serve": Extra(
        CREATE
        + """\
kibitz serve --store shop.db --port 8765 &
curl --retry 10 --retry-connrefused --silent http://127.0.0.1:8765/healthz
""",
        "See [Serve agents over HTTP](../serve.md) for the API, tokens and deployment.",
    ),
    "token-create": Extra(
        CREATE
        + "kibitz token create --store shop.db --role play --agent checkout\n",
        "The token is shown only once, because the store keeps only its hash.",
    ),
    "token-list": Extra(
        CREATE
        + """\
kibitz token create --store shop.db --role read
kibitz token list --store shop.db
"""
    ),
    "token-revoke": Extra(
        CREATE
        + """\
kibitz token create --store shop.db --role read
kibitz token revoke 1 --store shop.db
"""
    ),
}


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    texts = {}
    for name, command in typer.main.get_command(app).commands.items():
        if name in GROUPS:
            for subcommand_name, subcommand in command.commands.items():
                texts[f"{name}-{subcommand_name}"] = make_page(
                    f"{name}-{subcommand_name}", subcommand
                )
        else:
            texts[name] = make_page(name, command)
    return texts


def split_words(name: str) -> list[str]:
    """Return the words of a command from the name of its page."""
    group, _, subcommand_name = name.partition("-")
    return [group, subcommand_name] if group in GROUPS else [name]


def make_page(name: str, command) -> str:
    """Return the page of a command."""
    extra = EXTRAS[name]
    lines = [
        f"# kibitz {' '.join(split_words(name))}",
        "",
        command.help.strip(),
        "",
    ]
    lines += ["## Example", "", "```sh", extra.example.rstrip(), "```", ""]
    lines += [extra.note, ""] if extra.note else []
    options = [option for option in command.params if option.name != "help"]
    if options:
        lines += ["## Options", "", ":::{container} options", ""]
        lines += ["| option | takes | meaning | default |", "|---|---|---|---|"]
        lines += [*map(make_row, options), "", ":::", ""]
    return "\n".join(lines).rstrip() + "\n"


def make_row(option) -> str:
    """Return the table row of an option."""
    is_flag = getattr(option, "is_flag", False)  # only options have `is_flag`
    metavar = "" if is_flag else option.metavar
    if option.required:
        default = "required"
    elif is_flag or option.default in (None, ""):
        default = ""
    else:
        default = f"`{option.default}`"
    variable = getattr(option, "envvar", None)
    meaning = f"{option.help} [env var: {variable}]" if variable else option.help
    cells = (
        ", ".join(f"`{name}`" for name in option.opts),
        metavar and f"`{metavar}`",
        meaning,
        default,
    )
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")
