"""`kibitz reproduce`: the paper's experiments."""

from pathlib import Path
from typing import Annotated, Any

from kibitz.cli import parse
from kibitz.cli.parse import SEED, Wholes


@parse.simulation_options("seed", "threads", "executor", seed=SEED)
def reproduce(
    only: Annotated[
        Wholes | None, parse.wholes("only", "Numbers of the experiments: 4 or 1,3 (default: all)")
    ] = None,
    runs: Annotated[
        int | None, parse.whole("runs", "Runs (default: each experiment's own number)")
    ] = None,
    out: Annotated[str, parse.text("FOLDER", "Folder for data, figures and page")] = "reproduction",
    quick: Annotated[bool, parse.flag("--quick", "A rough version, in seconds")] = False,
    **options: Any,
) -> None:
    """Reproduce the paper's experiments: data, figures and a page; resumes after an interruption."""
    for package in ("jinja2", "matplotlib", "vl_convert"):
        parse.check_installed(package, "reproduce")
    from kibitz.cli.cluster import executor_at
    from kibitz.cli.tables import Page, progress_bar
    from kibitz.reproduction.report import reproduce as do

    with executor_at(options["executor"]) as options["executor"], progress_bar() as progress:
        done = do(out, only=only or [], runs=runs, quick=quick, progress=progress, **options)
    words = ("experiment", "verdict", "measured")
    for title, is_paper in (("the paper's experiments", True), ("our experiments", False)):
        rows = [
            [str(section.number), section.title, str(section.verdict), section.verdict.summary]
            for section in done
            if section.is_paper is is_paper
        ]
        if rows:
            title = f"{title}, seed {options['seed']}"
            Page(140).table(title, ["", *words], rows, left=words, folded=words)
    print(f"written to {Path(out) / 'report.html'}")
