"""`kibitz reproduce`: run experiments and write a report."""

from pathlib import Path
from typing import Annotated, Any

from kibitz.cli import option
from kibitz.cli.option import OUTPUT, RUN, SEED, Integers

EXAMPLES = """\
kibitz reproduce --only 1 --quick --out figure
kibitz reproduce --part graphs --only 3 --quick
"""
PARTS = ("paper", "graphs", "changes")


@option.simulation_options("seed", "threads", "executor", seed=SEED)
def reproduce(
    part: Annotated[
        str, option.choice("--part", "Experiments to run: paper, graphs or changes", PARTS, RUN)
    ] = "paper",
    only: Annotated[
        Integers | None,
        option.integers("--only", "Numbers of the experiments: 4 or 1,3 (default: all)", RUN),
    ] = None,
    runs: Annotated[
        int | None,
        option.integer("--runs", "Number of runs (default: depends on the experiment)", RUN),
    ] = None,
    quick: Annotated[
        bool, option.flag("--quick", "Fewer runs, for a rough result in seconds", RUN)
    ] = False,
    *,
    out: Annotated[
        str | None,
        option.text(
            "--out",
            "FOLDER",
            "Folder for the data, figures and report (default: reproduction, or reproduction-PART)",
            OUTPUT,
        ),
    ] = None,
    **options: Any,
) -> None:
    """Run the experiments on the paper, on graphs or on changing means, and write a report.

    If the command is interrupted, run it again to resume.
    """
    for package in ("jinja2", "matplotlib", "vl_convert"):
        option.check_installed(package, "reproduce", "kibitz reproduce")
    from kibitz.cli.cluster import open_cluster
    from kibitz.cli.output import Printer, progress_bar
    from kibitz.reproduction.parts import PARTS as PARTS_BY_NAME
    from kibitz.reproduction.report import reproduce as run

    folder = out if out is not None else "reproduction" if part == "paper" else f"reproduction-{part}"
    with open_cluster(options["executor"]) as options["executor"], progress_bar() as progress:
        sections = run(
            folder, part=part, only=only or [], runs=runs, quick=quick, progress=progress, **options
        )
    text_columns = ("experiment", "verdict", "measured")
    for name, group in PARTS_BY_NAME[part].groups.items():
        rows = [
            [str(section.number), section.title, str(section.verdict), section.verdict.summary]
            for section in sections
            if section.group == name
        ]
        if rows:
            title = f"{group.title}, seed {options['seed']}"
            Printer(140).table(
                title, ["", *text_columns], rows, left=text_columns, folded=text_columns
            )
    print(f"written to {Path(folder) / 'report.html'}")
