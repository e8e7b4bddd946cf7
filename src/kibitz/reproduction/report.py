"""The folder that `kibitz reproduce` leaves behind: data, figures, and a page that needs no network.

The page is one file, made from `templates/`. Each figure is in it twice: as drawn by matplotlib (for
print, and where no script runs), and as Vega-Lite, whose JavaScript stands in the page, for hovering
and for switching curves off. All numbers come from the data that the page was made from.
"""

import base64
import json
import os
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from kibitz._files import check_folder, check_target, write_atomic
from kibitz._validation import flag, invalid
from kibitz.plotting import vega
from kibitz.plotting.figures import figure, save_figure
from kibitz.plotting.picture import COLOURS, DARK_COLOURS, DASHES, Picture, typeset
from kibitz.reproduction import Data
from kibitz.reproduction.experiments import NUMBERED
from kibitz.reproduction.verdict import SURE, Verdict
from kibitz.simulation.executors import open_executor
from kibitz.simulation.options import Executors, check_option
from kibitz.simulation.results.dataset import versions
from kibitz.simulation.simulate import compile_for

TEMPLATES = Path(__file__).parent / "templates"
PAPER = (
    "Rémy Degenne, Evrard Garcelon and Vianney Perchet, “Bandits with Side Observations: Bounded vs. "
    "Logarithmic Regret”, UAI 2018"
)
QUICK = 25  # how many times fewer runs a rough version has
LEAST_RUNS = 3
SIGNS = {True: ("✓", "holds"), False: ("✗", "does not hold"), None: ("?", "open: too few runs")}
LAWS = {"gaussian": "Gaussian rewards of variance 1", "bernoulli": "Bernoulli rewards"}
MOST_LISTED = 20  # values of a sweep that are listed
SETTING_COLUMNS = ("data", "means", "looks", "policies", "swept", "T", "runs", "engine")


class Section(NamedTuple):
    """An experiment, done."""

    number: int
    title: str
    paper: str
    claim: str
    verdict: Verdict
    picture: Picture
    settings: list[list[str]]  # what made the data: a row for each part, see `SETTING_COLUMNS`
    rewards: str
    runs: int
    files: list[str]  # in the folder's data/


# ---------------------------------------------------------------------------------- the command


def reproduce(
    folder: str | os.PathLike[str],
    *,
    seed: int,
    only: Sequence[int] = (),
    runs: int | None = None,
    quick: bool = False,
    threads: int | None = None,
    progress: Callable[[str, float], None] | None = None,
    executor: Executors | None = None,
) -> list[Section]:
    """Run experiments, or resume them, and leave data, figures and page in a folder.

    Parameters
    ----------
    folder
        Where to leave them, made if it is not there; what its data hold is not computed again.
    seed
        Of all random numbers.
    only
        The numbers of the experiments; all if empty.
    runs
        How many runs; each experiment has its own number unless given.
    quick
        Whether to do with a fraction of the runs.
    threads, progress, executor
        As in `simulate`.
    """
    numbers = chosen(only)
    seed, quick = check_option("seed", seed), flag(quick, "quick")
    runs = None if runs is None else check_option("runs", runs)
    threads = check_option("threads", threads)
    place = check_folder(folder, "out")
    for part in ("data", "figures"):
        check_folder(place / part, "out").mkdir(parents=True, exist_ok=True)
    page_file = check_target(place / "report.html", "out")
    tell = progress if progress is not None else lambda what, share: None
    sections = []

    def n_runs(number: int) -> int:
        usual: int = NUMBERED[number].RUNS
        return runs or (max(LEAST_RUNS, usual // QUICK) if quick else usual)

    def run_all() -> None:
        for number in numbers:
            file = partial(data_file, place, number)
            NUMBERED[number].run(file, runs=n_runs(number), seed=seed, threads=threads)

    with open_executor(executor) as crew, ThreadPoolExecutor(1) as aside, ExitStack() as stack:
        script = aside.submit(vega.javascript)
        if crew is None:
            stack.enter_context(compile_for(run_all))
        for done, number in enumerate(numbers):

            def step(what: str, share: float, done: int = done, number: int = number) -> None:
                title = NUMBERED[number].TITLE
                tell(f"{number}. {title}: {what}", (done + share) / len(numbers))

            options = {"runs": n_runs(number), "seed": seed, "threads": threads, "executor": crew}
            sections.append(experiment(number, place, progress=step, **options))
        written = page(sections, place / "figures", script.result(), seed, quick)
    write_atomic(page_file, written.encode(), "out")
    return sections


def chosen(only: Sequence[int]) -> list[int]:
    """Return the numbers of the experiments that are asked for, each once; all if none is."""
    condition = f"numbers from 1 to {len(NUMBERED)}"
    if not isinstance(only, Sequence) or isinstance(only, str):
        raise invalid("only", condition, only)
    for number in only:
        if isinstance(number, bool) or not isinstance(number, int) or number not in NUMBERED:
            raise invalid("only", condition, number)
    return list(dict.fromkeys(only)) or list(NUMBERED)


def data_file(folder: Path, number: int, part: str) -> Path:
    """Return the file for a part of an experiment's data."""
    return folder / "data" / f"{number}-{part}.nc"


def experiment(
    number: int, folder: Path, *, progress: Callable[[str, float], None], **options: Any
) -> Section:
    """Run an experiment, or resume it; leave its data and its figure in a folder."""
    module = NUMBERED[number]
    files: list[str] = []

    def file(part: str) -> Path:
        path = data_file(folder, number, part)
        files.append(path.name)
        return path

    data = module.run(file, progress=progress, **options)
    progress("drawing", 1.0)
    picture = module.draw(data)
    drawn = figure(picture)
    for ending in ("png", "svg"):
        save_figure(drawn, folder / "figures" / f"{number}.{ending}", "out")
    words = (module.TITLE, module.PAPER, module.CLAIM)
    verdict = module.verdict(data)
    if hasattr(module, "measured"):
        verdict = verdict._replace(tables=[*verdict.tables, *module.measured()])
    n_runs = next(iter(data.values())).sizes["run"]
    made = (setting_rows(data), rewards_of(data), n_runs)
    return Section(number, *words, verdict, picture, *made, sorted(files))


# ------------------------------------------------------------------------------------- the page


def page(
    sections: Sequence[Section], figures: Path, script: str, seed: int, quick: bool = False
) -> str:
    """Return the page; `script` is the JavaScript of Vega."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["with_indices"] = with_indices
    templates.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False, "separators": (",", ":"), "allow_nan": False,
    }  # fmt: skip
    words = [section.verdict.word for section in sections]
    return templates.get_template("page.html").render(
        paper=PAPER,
        quick=quick,
        seed=seed,
        sure=f"{SURE:g}",
        signs=SIGNS,
        counts=", ".join(
            f"{words.count(word)} {word}"
            for word in ("confirmed", "depends", "not confirmed")
            if word in words
        ),
        sections=[
            {
                **section._asdict(),
                "svg": base64.b64encode((figures / f"{section.number}.svg").read_bytes()).decode(),
                "legend": legend(section.picture),
            }
            for section in sections
        ],
        setting_columns=SETTING_COLUMNS,
        charts={
            str(section.number): [
                vega.chart(panel, section.picture) for panel in section.picture.panels
            ]
            for section in sections
        },
        versions={
            **versions(), "matplotlib": version("matplotlib"), "Python": platform.python_version()
        },
        style=Markup(beside("report.css") + palettes()),
        vega=inline_script(script),
        script=inline_script(beside("report.js")),
    )  # fmt: skip


def beside(name: str) -> str:
    """Return the text of a file that lies beside the templates."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def inline_script(code: str) -> Markup:
    """Return JavaScript that may stand in a script element: nothing in it ends the element."""
    return Markup(code.replace("</script", "<\\/script").replace("<!--", "<\\!--"))


def with_indices(text: str) -> Markup:
    """Return text as HTML, with its indices as indices: Δ_i."""
    return Markup(re.sub(r"([ΔNp])_i", r"\1<sub>i</sub>", str(escape(text))))


def palettes() -> str:
    """Return the colours of the curves as CSS, for light and for dark."""

    def variables(colours: Iterable[str]) -> str:
        return "".join(f"--c{n}:{colour};" for n, colour in enumerate(colours))

    light, dark = variables(COLOURS), variables(DARK_COLOURS)
    classes = "".join(f".c{n}{{color:var(--c{n})}}" for n in range(len(COLOURS)))
    night = f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return f":root{{{light}}}{night}{classes}"


def legend(picture: Picture) -> list[dict[str, Any]]:
    """Return label, colour, dashes and dot of each curve."""
    curves = [curve for panel in picture.panels for curve in panel.curves]
    kinds = {curve.label: curve.kind for curve in reversed(curves)}  # the first of each label
    entries = []
    for place, label in enumerate(picture.labels()):
        own = {"reference": (5, 3), "points": (), "dots": (0, 99)}
        dashes = own.get(kinds[label], DASHES[place % len(DASHES)])
        entries.append(
            {
                "label": label,
                "colour": place % len(COLOURS),
                "dashes": " ".join(map(str, dashes)),
                "dot": kinds[label] in {"points", "dots"},
            }
        )
    return entries


def setting_rows(data: Data) -> list[list[str]]:
    """Return what made some data, as they say themselves: a row for each part."""
    rows = []
    for label, part in data.items():
        cells = json.loads(part.attrs["cells"])
        first = cells[0]["fingerprint"]
        swept = next((str(d) for d in part["final_regret"].dims if d not in {"policy", "run"}), None)
        values = _values(part[swept].to_numpy()) if swept else ""
        policies = "; ".join(
            f"{one} = {name_of(cell['policy'])}"
            if one != cell["policy"]["name"]
            else name_of(cell["policy"])
            for one, cell in {cell["policy"]: cell["fingerprint"] for cell in cells}.items()
        )
        feedback = dict(first["feedback"])
        if len({json.dumps(cell["fingerprint"]["feedback"]) for cell in cells}) > 1:
            feedback.pop("rate", None)
        means = ", ".join(f"{one:g}" for one in first["problem"]["means"])
        if any(cell["fingerprint"]["problem"] != first["problem"] for cell in cells):
            means = f"{means} and others"
        row = [label, means, _words(feedback), policies, f"{swept}: {values}" if swept else "–"]
        rows.append([*row, typeset(first["horizon"]), str(part.sizes["run"]), part.attrs["engine"]])
    return rows


def name_of(policy: dict[str, Any]) -> str:
    """Write a policy with its parameters."""
    parameters = ", ".join(
        f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in policy["parameters"].items()
    )
    return f"{policy['name']}({parameters})"


def _words(feedback: dict[str, Any]) -> str:
    usual = {"observer": feedback["observer"], "looks": 1, "paid": False}
    unusual = {name: value for name, value in feedback.items() if value != usual.get(name)}
    return str(feedback["observer"]) + "".join(f", {k} {v}" for k, v in unusual.items())


def _values(values: Any) -> str:
    """Write what was swept; the first and the last of very many."""
    if len(values) > MOST_LISTED:
        return f"{_value(values[0])} to {_value(values[-1])}"
    return ", ".join(map(_value, values))


def rewards_of(data: Data) -> str:
    """Say which law the rewards have."""
    first = next(iter(data.values()))
    return LAWS[json.loads(first.attrs["cells"])[0]["fingerprint"]["problem"]["kind"]]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else typeset(float(value))
