"""Writes docs/commands/: a page for each command, from the command's own help. A test compares.

Whom a page is for and its example are below; examples are run when the pages are built (run.py).

python docs/commands.py
"""

import inspect
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

import typer

from kibitz.cli import app
from kibitz.policies import POLICIES

FOLDER = Path(__file__).parent / "commands"
WIDTH, INDENT = 78, " " * 4

MAKE = """\
kibitz agent create checkout --store shop.db --arms blue,green \\
    --policy ucb_double:exploration=2 --scale 0.5
"""


class Shown(NamedTuple):
    """What a page adds to the help of its command."""

    reader: str  # whom it is for
    after: str  # what they can do after it
    example: str
    further: str = ""  # where to read on
    is_run: bool = True


SHOWN = {
    "simulate": Shown(
        "those who want a number without writing Python",
        "you can play any policy against any problem from a terminal",
        """\
kibitz simulate --policy ucb_double --policy kibitzer --means 2,1.8,0.5,0.2 \\
    --observer active --rate 0.1 --runs 100 --out result.nc
""",
        "The same call with more `--runs` plays only the new ones. In Python: "
        "[`simulate`](../reference/simulate.md).",
    ),
    "policies": Shown(
        "those who look for a name",
        "you know what `--policy` takes: a name and its parameters, "
        "as in `ucb:exploration=2`",
        "",
        "With formulas and theorems: [policies](../policies.md).",
    ),
    "reproduce": Shown(
        "readers of the paper",
        "you have its figures, each with a verdict from your own run",
        "kibitz reproduce --only 1 --quick --out figure\n",
        "`figure/report.html` is the page to open. What each experiment plays: "
        "[experiments](../experiments.md).",
    ),
    "bounds": Shown(
        "readers of theorems",
        "you know what is proved in your setting, and what is only printed",
        "kibitz bounds --means 2,1.8,0.5,0.2 --rate 0.001 --horizon 10000\n",
        'A bound that says nothing is "vacuous". Each as a function: '
        "[bounds](../bounds.md).",
    ),
    "plan": Shown(
        "practitioners who can buy looks",
        "you know how many to buy, and what they save",
        "kibitz plan --arms 5 --gap 0.2 --horizon 100000 --cost 0.05\n",
        "As a story: [how large a bucket](../tutorials/bucket.md).",
    ),
    "league": Shown(
        "those who choose a policy, or have made one",
        "you know how it does on problems that you did not choose",
        """\
kibitz league --policy kibitzer --policy ucb_double --problems 2 \\
    --horizon 1000 --runs 8
""",
        "Without options all policies play 12 problems, for some minutes. One of your "
        "own: [in Python](../tutorials/own_policy.md#the-league).",
    ),
    "optimal": Shown(
        "those who ask how much better a policy could be",
        "you can hold any policy against the Bayes optimum of two Bernoulli arms",
        "kibitz optimal --horizon 60 --every 10 --policy kibitzer:law=bernoulli --runs 200\n",
        "In Python: [`optimal`](../reference/plan.md#optimal).",
    ),
    "rehearse": Shown(
        "practitioners, before they go live",
        "you know whether late and lost reports hurt",
        """\
kibitz rehearse --means 0.1,0.3 --law bernoulli --policy ucb_double:exploration=1 \\
    --horizon 200 --runs 2 --rate 0.1 --delay 20 --loss 0.1 --duplicates 0.1
""",
        "As a story: [from simulation to live traffic](../tutorials/live.md).",
    ),
    "agent-create": Shown(
        "those who run an agent",
        "you have one, in a file that survives restarts",
        MAKE,
        "All that an agent promises: [live](../live.md).",
    ),
    "agent-ask": Shown(
        "programs that call a command for each visit",
        "you get a decision, and can report on it by its number",
        MAKE + "kibitz agent ask checkout --store shop.db --key visit-1\n",
        "A key makes it safe to ask again: the same key gets the same decision.",
    ),
    "agent-look": Shown(
        "those who can show an arm to a panel or a probe",
        "you know which arm a free look should go to",
        MAKE + "kibitz agent look checkout --store shop.db\n",
        "Report what was seen with [`agent tell`](agent-tell.md).",
    ),
    "agent-tell": Shown(
        "programs that learn a reward, at once or days later",
        "it is counted, once",
        MAKE
        + """\
kibitz agent ask checkout --store shop.db
kibitz agent tell checkout 1 1.0 --store shop.db
kibitz agent tell checkout 1 1.0 --store shop.db
""",
        "Another reward for the same decision is refused.",
    ),
    "agent-saw": Shown(
        "those who see rewards that the agent did not ask for",
        "it learns from them, too",
        MAKE + "kibitz agent saw checkout green 1 --store shop.db --key panel-17\n",
        "The same key is counted once.",
    ),
    "agent-report": Shown(
        "people who want to know which arm is best so far",
        "you can read off means, intervals, and what is still waited for",
        MAKE
        + """\
kibitz agent saw checkout green 1 --store shop.db
kibitz agent saw checkout blue 0 --store shop.db
kibitz agent report checkout --store shop.db
""",
        "The intervals hold at all times: look as often as you like. In a browser: "
        "[the page](../page.md).",
    ),
    "agent-events": Shown(
        "those who ask what happened, and when",
        "you can read the log, or follow it from a number on",
        MAKE
        + """\
kibitz agent ask checkout --store shop.db --key visit-1
kibitz agent events checkout --store shop.db --after 2
""",
        "Number, time, kind, decision, arm, reward, key: "
        "[file formats](../reference/files.md#the-log-of-an-agent).",
    ),
    "agent-export": Shown(
        "those who plan the next bucket from real traffic",
        "the log is a file that `kibitz plan --log` and pandas read",
        MAKE
        + """\
kibitz agent saw checkout green 1 --store shop.db
kibitz agent export checkout log.csv --store shop.db
""",
        "Its columns: [file formats](../reference/files.md#the-log-of-an-agent).",
    ),
    "agent-check": Shown(
        "those who restored a back-up, or distrust a disk",
        "you know whether the store is whole",
        MAKE + "kibitz agent check --store shop.db\n",
        "Exit code 1 says that something is wrong.",
    ),
    "agent-list": Shown(
        "those who found a store",
        "you know which agents are in it",
        MAKE + "kibitz agent list --store shop.db\n",
    ),
    "serve": Shown(
        "those whose programs are not written in Python",
        "they ask and tell over HTTP, and people watch in a browser",
        MAKE + "kibitz serve --store shop.db --port 8765\n",
        "Addresses, roles, deployment: [serve](../serve.md).",
        is_run=False,
    ),
    "token-create": Shown(
        "those who let a program in",
        "it has a token that allows what its role does, and no more",
        MAKE + "kibitz token create --store shop.db --role play --agent checkout\n",
        "The store keeps a hash of it, so it is shown this once.",
    ),
    "token-list": Shown(
        "those who ask who may do what",
        "you see all tokens of a store",
        MAKE
        + """\
kibitz token create --store shop.db --role read
kibitz token list --store shop.db
""",
    ),
    "token-revoke": Shown(
        "those who lost a token",
        "it opens nothing any more",
        MAKE
        + """\
kibitz token create --store shop.db --role read
kibitz token revoke 1 --store shop.db
""",
    ),
}


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its command."""
    found = {}
    for name, command in typer.main.get_command(app).commands.items():
        for inner, one in getattr(command, "commands", {"": command}).items():
            full = f"{name}-{inner}" if inner else name
            found[full] = page(full, one)
    return found


def page(name: str, command) -> str:
    """Return the page of a command."""
    shown = SHOWN[name]
    purpose = f"**For** {shown.reader}. **After it** {shown.after}."
    lines = [
        f"# kibitz {name.replace('-', ' ')}",
        "",
        command.help.strip(),
        "",
        purpose,
        "",
    ]
    options = [option for option in command.params if option.name != "help"]
    if options:
        lines += [":::{container} options", ""]
        lines += ["| option | takes | meaning | default |", "|---|---|---|---|"]
        lines += [*map(row, options), "", ":::", ""]
    if name == "policies":
        lines += ["```text", *map(listing, POLICIES.values()), "```"]
    else:
        fence = "```sh" if shown.is_run else "```{code-block} sh"
        lines += ["## Example", "", fence, shown.example.rstrip(), "```"]
    lines += ["", shown.further] if shown.further else []
    return "\n".join(lines) + "\n"


def listing(make) -> str:
    """Return how a policy is called and what it is, on lines that fit on the page."""
    parameters = inspect.signature(make).parameters.values()
    call = f"{make.__name__}({', '.join(f'{p.name}={p.default!r}' for p in parameters)})"
    lines = wrap(call, WIDTH, subsequent_indent=" " * (len(make.__name__) + 1))
    sentence = inspect.getdoc(make).splitlines()[0]
    return "\n".join(
        [
            *lines,
            *wrap(sentence, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT),
        ]
    )


def row(option) -> str:
    """Return the row of an option."""
    default = "required" if option.required else option.default
    is_flag = getattr(option, "is_flag", False)  # an argument is none
    if is_flag or default is None or default == "":
        default = ""
    takes = "" if is_flag else option.metavar
    cells = (
        ", ".join(f"`{word}`" for word in option.opts),
        takes and f"`{takes}`",
        option.help,
        default if option.required or default == "" else f"`{default}`",
    )
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")
