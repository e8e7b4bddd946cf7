"""The output folder of `kibitz reproduce`: data, figures, and a report that needs no network.

The report is one HTML file, rendered from `templates/`. It contains each figure twice: drawn by
matplotlib, for print and for browsers without JavaScript, and as an interactive Vega-Lite chart. The
file includes the JavaScript of Vega. All numbers are computed from the data in the folder.
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
from kibitz._validation import flag, invalid, one_of
from kibitz.plotting import vega
from kibitz.plotting.figures import draw_figure, save_figure
from kibitz.plotting.picture import COLOURS, DARK_COLOURS, Picture, choose_dashes, typeset
from kibitz.reproduction import Data
from kibitz.reproduction.parts import PAPER, PARTS
from kibitz.reproduction.verdict import (
    MIN_STANDARD_ERRORS,
    SIGNS,
    Claim,
    Parameter,
    Statement,
    Verdict,
    format_outcome,
    outcome,
)
from kibitz.simulation.executors import open_executor
from kibitz.simulation.options import Executors, check_option
from kibitz.simulation.results.dataset import versions
from kibitz.simulation.simulate import compile_for

TEMPLATES = Path(__file__).parent / "templates"
QUICK_DIVISOR = 25  # `quick` divides the number of runs by this number
MIN_RUNS = 3
RESULT_TEXTS = {True: "holds", False: "does not hold", None: "undecided: too few runs"}
OUTCOME_SIGNS = {"confirmed": "✓", "partly confirmed": "±", "undecided": "?", "not confirmed": "✗"}
REWARD_DESCRIPTIONS = {"gaussian": "Gaussian with variance 1", "bernoulli": "Bernoulli"}
SWEPT_LABELS = {
    "rate": "ε",
    "relative": "ε/ε*",
    "period": "1/ε",
    "draw": "pair of means",
    "probability": "r",
}
MAX_LISTED_VALUES = 20  # if a sweep has more values, only the first and the last are printed
DATA_COLUMNS = ("data", "means", "looks", "varied", "T", "runs", "engine")
POLICY_COLUMNS = ("policy", "function", "parameters", "data")


class Section(NamedTuple):
    """The results of an experiment, as the report shows them."""

    number: int
    title: str
    source: str
    claim: str
    verdict: Verdict
    picture: Picture
    rewards: str
    runs: int
    data_rows: list[list[str]]  # one row for each part of the data; see `DATA_COLUMNS`
    policy_rows: list[list[str]]  # one row for each policy; see `POLICY_COLUMNS`
    files: list[str]  # file names in `data/`, one name for each part of the data
    module: str = ""
    group: str = "ours"  # the name of its group in the part
    claims: Sequence[Claim] = ()
    parameters: Sequence[Parameter] = ()


# ---------------------------------------------------------------------------------- the command


def reproduce(
    folder: str | os.PathLike[str],
    *,
    seed: int,
    part: str = PAPER,
    only: Sequence[int] = (),
    runs: int | None = None,
    quick: bool = False,
    threads: int | None = None,
    progress: Callable[[str, float], None] | None = None,
    executor: Executors | None = None,
) -> list[Section]:
    """Run or resume experiments, and write data, figures and a report to a folder.

    Parameters
    ----------
    folder
        The folder, which is created if necessary. Existing results in its `data/` are reused.
    seed
        The seed of all random numbers.
    part
        The name of a part in `PARTS`.
    only
        The numbers of the experiments to run. If `only` is empty, all experiments run.
    runs
        The number of runs of every experiment; by default, each experiment has its own number.
    quick
        Whether to divide the default numbers of runs by 25 (to at least 3 runs). `quick` has no
        effect if `runs` is given.
    threads, progress, executor
        As in `simulate`.
    """
    experiments = PARTS[one_of(part, "part", tuple(PARTS))].numbered
    experiment_numbers = select_experiments(only, len(experiments))
    seed, quick = check_option("seed", seed), flag(quick, "quick")
    runs = None if runs is None else check_option("runs", runs)
    threads = check_option("threads", threads)
    out_folder = check_folder(folder, "out")
    for subfolder in ("data", "figures"):
        check_folder(out_folder / subfolder, "out").mkdir(parents=True, exist_ok=True)
    report_file = check_target(out_folder / "report.html", "out")
    report_progress = progress if progress is not None else lambda activity, share: None
    sections = []

    def count_runs(number: int) -> int:
        default_runs: int = experiments[number].RUNS
        return runs or (max(MIN_RUNS, default_runs // QUICK_DIVISOR) if quick else default_runs)

    def run_all() -> None:
        for number in experiment_numbers:
            file = partial(data_file, out_folder, number)
            experiments[number].run(file, runs=count_runs(number), seed=seed, threads=threads)

    with (
        open_executor(executor) as open_workers,
        ThreadPoolExecutor(1) as background_thread,
        ExitStack() as stack,
    ):
        script_future = background_thread.submit(vega.bundle_javascript)
        if open_workers is None:
            stack.enter_context(compile_for(run_all))
        for n_complete, number in enumerate(experiment_numbers):

            def report_step(
                activity: str, share: float, n: int = n_complete, number: int = number
            ) -> None:
                title = experiments[number].TITLE
                report_progress(
                    f"{number}. {title}: {activity}", (n + share) / len(experiment_numbers)
                )

            options = {
                "runs": count_runs(number),
                "seed": seed,
                "threads": threads,
                "executor": open_workers,
            }
            sections.append(run_experiment(part, number, out_folder, progress=report_step, **options))
        script, figures = script_future.result(), out_folder / "figures"
        html = render_report(sections, figures, script, seed, quick=quick, part=part)
    write_atomic(report_file, html.encode(), "out")
    return sections


def select_experiments(only: Sequence[int], n_experiments: int) -> list[int]:
    """Return the numbers of the experiments in `only` without duplicates; all if `only` is empty."""
    numbers = range(1, n_experiments + 1)
    condition = f"a list of whole numbers from 1 to {n_experiments}"
    if not isinstance(only, Sequence) or isinstance(only, str):
        raise invalid("only", condition, only)
    for number in only:
        if isinstance(number, bool) or not isinstance(number, int) or number not in numbers:
            raise invalid("only", condition, number)
    return list(dict.fromkeys(only)) or list(numbers)


def data_file(folder: Path, number: int, part: str) -> Path:
    """Return the path of the file for a part of an experiment's data."""
    return folder / "data" / f"{number}-{part}.nc"


def run_experiment(
    part: str, number: int, folder: Path, *, progress: Callable[[str, float], None], **options: Any
) -> Section:
    """Run or resume an experiment of a part, and write its data and its figure to a folder."""
    module = PARTS[part].numbered[number]
    files: list[str] = []

    def make_file(data_part: str) -> Path:
        path = data_file(folder, number, data_part)
        files.append(path.name)
        return path

    data = module.run(make_file, progress=progress, **options)
    progress("drawing", 1.0)
    picture = module.draw(data)
    figure = draw_figure(picture)
    for extension in ("png", "svg"):
        save_figure(figure, folder / "figures" / f"{number}.{extension}", "out")
    verdict = module.verdict(data)
    if hasattr(module, "measure_costs"):
        verdict = verdict._replace(tables=[*verdict.tables, *module.measure_costs()])
    runs = next(iter(data.values())).sizes["run"]
    group = PARTS[part].find_group(module)
    return Section(
        number,
        module.TITLE,
        module.SOURCE,
        module.CLAIM,
        verdict,
        picture,
        describe_rewards(data),
        runs,
        data_rows(data),
        policy_rows(data),
        files,
        module=module.__name__,
        group=group,
        claims=module.CLAIMS if group == PAPER else (),
        parameters=(
            [*module.PARAMETERS, Parameter("runs", str(module.PAPER_RUNS), str(runs))]
            if group == PAPER
            else ()
        ),
    )


# ----------------------------------------------------------------------------------- the report


def render_report(
    sections: Sequence[Section],
    figures: Path,
    script: str,
    seed: int,
    *,
    quick: bool = False,
    part: str = PAPER,
) -> str:
    """Return the report of a part as HTML; `script` is the JavaScript of Vega."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["to_html"] = to_html
    templates.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False, "separators": (",", ":"), "allow_nan": False,
    }  # fmt: skip
    entries = [
        {
            **section._asdict(),
            "svg": base64.b64encode((figures / f"{section.number}.svg").read_bytes()).decode(),
            "legend": legend_entries(section.picture),
        }
        for section in sections
    ]
    return templates.get_template("report.html").render(
        title=PARTS[part].title,
        introduction=PARTS[part].introduction,
        is_paper=part == PAPER,
        command="kibitz reproduce" if part == PAPER else f"kibitz reproduce --part {part}",
        quick=quick,
        seed=seed,
        min_standard_errors=f"{MIN_STANDARD_ERRORS:g}",
        signs=SIGNS,
        results=RESULT_TEXTS,
        outcome_signs=OUTCOME_SIGNS,
        groups=[
            {"id": name, "title": group.title, "text": group.text, "sections": group_sections,
             "counts": format_outcome_counts(group_sections)}
            for name, group in PARTS[part].groups.items()
            if (group_sections := [entry for entry in entries if entry["group"] == name])
        ],
        claims=[row for section in sections for row in claim_rows(section)],
        data_columns=DATA_COLUMNS,
        policy_columns=POLICY_COLUMNS,
        charts={
            str(section.number): [
                vega.make_chart(panel, section.picture) for panel in section.picture.panels
            ]
            for section in sections
        },
        versions={
            **versions(), "matplotlib": version("matplotlib"), "Python": platform.python_version()
        },
        style=Markup(read_template("report.css") + palette_css()),
        vega=inline_script(script),
        script=inline_script(read_template("report.js")),
    )  # fmt: skip


def format_outcome_counts(sections: Iterable[dict[str, Any]]) -> str:
    """Return the number of experiments with each outcome, as in "1 confirmed"."""
    outcomes = [section["verdict"].outcome for section in sections]
    return ", ".join(
        f"{outcomes.count(outcome_name)} {outcome_name}"
        for outcome_name in OUTCOME_SIGNS
        if outcome_name in outcomes
    )


def claim_rows(section: Section) -> list[dict[str, Any]]:
    """Return a row for each of the paper's claims that an experiment tests."""
    rows = []
    for n, claim in enumerate(section.claims):
        statements: list[Statement] = [
            statement for statement in section.verdict.statements if statement.claim == n
        ]
        if not statements:
            result = ("", "– not measured")
        elif all(statement.holds is None for statement in statements):
            result = ("", "? undecided: too few runs")
        else:
            result = (outcome(statements), format_outcome(statements))
        rows.append(
            {"number": section.number, "claim": claim, "outcome": result[0], "label": result[1]}
        )
    return rows


def read_template(name: str) -> str:
    """Return the text of a file in `templates/`."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def inline_script(code: str) -> Markup:
    """Return JavaScript for use inside a script element, with `</script` and `<!--` escaped."""
    return Markup(code.replace("</script", "<\\/script").replace("<!--", "<\\!--"))


def to_html(text: str) -> Markup:
    """Return text as HTML, with subscripts and non-breaking spaces."""
    spaced_text = re.sub(
        r" (?=[%±=])|(?<=[±=]) |(?<=Figure) ", "\N{NO-BREAK SPACE}", str(escape(text))
    )
    return Markup(re.sub(r"([ΔNp])_i", r"\1<sub>i</sub>", spaced_text))


def palette_css() -> str:
    """Return the colours of the curves as CSS, for light and dark backgrounds."""

    def make_variables(colours: Iterable[str]) -> str:
        return "".join(f"--c{n}:{colour};" for n, colour in enumerate(colours))

    light_css, dark_css = make_variables(COLOURS), make_variables(DARK_COLOURS)
    class_css = "".join(f".c{n}{{color:var(--c{n})}}" for n in range(len(COLOURS)))
    return (
        f":root{{{light_css}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark_css}}}}}"
        f"{class_css}"
    )


def legend_entries(picture: Picture) -> list[dict[str, Any]]:
    """Return the label, colour, dashes and marker of each curve."""
    curves = [curve for panel in picture.panels for curve in panel.curves]
    kind_by_label = {
        curve.label: curve.kind for curve in reversed(curves)
    }  # kind of a label's first curve
    entries = []
    for index, label in enumerate(picture.labels()):
        dashes_by_kind = {"reference": (5, 3), "points": (), "dots": (0, 99)}
        dashes = dashes_by_kind.get(kind_by_label[label], choose_dashes(index))
        entries.append(
            {
                "label": label,
                "colour": index % len(COLOURS),
                "dashes": " ".join(map(str, dashes)),
                "dot": kind_by_label[label] in {"points", "dots"},
            }
        )
    return entries


# --------------------------------------------------------------------------------- the settings


def data_rows(data: Data) -> list[list[str]]:
    """Return the settings of each part of the data, read from its attributes."""
    rows = []
    for label, part_data in data.items():
        fingerprints = [cell["fingerprint"] for cell in json.loads(part_data.attrs["cells"])]
        first_fingerprint = fingerprints[0]
        swept = [str(d) for d in part_data["final_regret"].dims if d not in {"policy", "run"}]
        rows.append(
            [
                format_label(label),
                format_problems([fingerprint["problem"] for fingerprint in fingerprints]),
                format_feedback([fingerprint["feedback"] for fingerprint in fingerprints]),
                "; ".join(
                    f"{SWEPT_LABELS.get(name, name)}: {format_values(part_data[name].to_numpy())}"
                    for name in swept
                )
                or "–",
                typeset(first_fingerprint["horizon"]),
                str(part_data.sizes["run"]),
                ", ".join(sorted({fingerprint["engine"] for fingerprint in fingerprints})),
            ]
        )
    return rows


def policy_rows(data: Data) -> list[list[str]]:
    """Return a row for each policy and its parameters, with the parts of the data that use it."""
    labels_by_row: dict[tuple[str, str, str], list[str]] = {}
    for label, part_data in data.items():
        cells = json.loads(part_data.attrs["cells"])
        for name, policy in {cell["policy"]: cell["fingerprint"]["policy"] for cell in cells}.items():
            row = (name, policy["name"], format_parameters(policy["parameters"]))
            labels_by_row.setdefault(row, []).append(format_label(label))
    return [
        [*row, "all" if len(labels) == len(data) else ", ".join(labels)]
        for row, labels in labels_by_row.items()
    ]


def format_label(label: str) -> str:
    """Replace the large numbers in a label by powers of ten, as in "paid, 10¹²"."""
    return re.sub(r"\d{5,}", lambda match: typeset(int(match[0])), label)


def format_parameters(parameters: dict[str, Any]) -> str:
    """Format the parameters of a policy, as in "a = 1, b = no"."""
    value_names = {True: "yes", False: "no", None: "none"}
    return (
        ", ".join(
            f"{name} = {value:g}"
            if isinstance(value, float)
            else f"{name} = {value_names[value] if isinstance(value, bool | None) else value}"
            for name, value in parameters.items()
        )
        or "–"
    )


def format_problems(problems: Sequence[dict[str, Any]]) -> str:
    """Format the means of the first problem, and the numbers of pieces and of different problems."""
    first = list_pieces(problems[0])
    text = ", ".join(f"{mean:g}" for mean in first[0]["means"])
    notes = [f"the first of {len(first)} pieces"] if len(first) > 1 else []
    n_problems = len({json.dumps(problem, sort_keys=True) for problem in problems})
    notes += [f"the first of {n_problems} problems"] if n_problems > 1 else []
    return f"{text} ({', '.join(notes)})" if notes else text


def list_pieces(problem: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the pieces of a problem; a problem that does not change is one piece."""
    pieces: list[dict[str, Any]] = problem.get("pieces", [problem])
    return pieces


def format_feedback(feedbacks: Sequence[dict[str, Any]]) -> str:
    """Describe how looks arrive in one or more feedback models; omit a rate that varies."""
    first_feedback = feedbacks[0]
    if "graph" in first_feedback:
        looks = [{k: v for k, v in other.items() if k != "graph"} for other in feedbacks]
        looks_text = "" if first_feedback["observer"] == "bandit" else f"; {format_feedback(looks)}"
        return format_graphs([other["graph"] for other in feedbacks]) + looks_text
    if first_feedback["observer"] in {"bandit", "full"}:
        return {"bandit": "none", "full": "all arms at every stage"}[first_feedback["observer"]]
    phrases = [first_feedback["observer"]]
    if weights := first_feedback.get("weights"):
        phrases.append(f"{weights} weights" if isinstance(weights, str) else f"weights {weights}")
    rate = first_feedback["rate"]
    if all(other_feedback.get("rate") == rate for other_feedback in feedbacks):
        is_periodic = isinstance(rate, dict) and "every" in rate
        phrases.append(f"every {rate['every']} stages" if is_periodic else f"ε = {rate}")
    if first_feedback["looks"] != 1:
        phrases.append(f"{first_feedback['looks']} looks per arrival")
    if first_feedback["paid"]:
        phrases.append("paid")
    return ", ".join(phrases)


def format_graphs(graphs: Sequence[dict[str, Any]]) -> str:
    """Describe one or more graphs by their number of edges, as in "graph with 12 edges"."""
    counts = [
        len([edge for edge in graph["edges"] if edge[0] != edge[1]])
        if isinstance(graph["edges"], list)
        else graph["edges"] - graph["arms"]
        for graph in graphs
    ]
    if len(set(counts)) > 1:
        return f"graphs with {min(counts)} to {max(counts)} edges"
    is_same = all(graph == graphs[0] for graph in graphs)
    return f"{'graph' if is_same else 'graphs'} with {counts[0]} edges"


def format_values(values: Any) -> str:
    """Format the values of a sweep, or only the first and the last value if there are many."""
    texts = [value if isinstance(value, str) else typeset(float(value)) for value in values]
    return ", ".join(texts) if len(texts) <= MAX_LISTED_VALUES else f"{texts[0]} to {texts[-1]}"


def describe_rewards(data: Data) -> str:
    """Return the reward distribution of the data in words."""
    kinds = [
        list_pieces(json.loads(part_data.attrs["cells"])[0]["fingerprint"]["problem"])[0]["kind"]
        for part_data in data.values()
    ]
    return " or ".join(REWARD_DESCRIPTIONS[kind] for kind in dict.fromkeys(kinds))
