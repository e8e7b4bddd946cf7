"""Runs the code of tutorials, how-to pages and the gallery, and shows below it what it did.

A page is plain Markdown. Its blocks of `python` are run in their order, in an empty folder; so are
the lines of its blocks of `sh` that begin with `kibitz`. What a block prints, and SVG files that it
writes are put below it when the pages are built. A page is run again when it changes, or kibitz does;
what its last run showed is kept in `docs/_made/`.

python docs/run.py        runs all pages that have to be run, and says so
"""

import contextlib
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src"
MADE = DOCS / "_made"
FOLDERS = (
    "tutorials",
    "howto",
    "gallery",
    "explanations",
    "reference",
    "bounds",
    "commands",
)

SCRIPTS = ("tutorials", "gallery")  # whose code can be taken home

BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
INK, PAPER = (
    "#24292f",
    "#d5dae2",
)  # what is drawn in ink by day is drawn in the other by night
COLOURS = [
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#7f7f7f",
]


class Shown(NamedTuple):
    """What a block showed: the text that it printed, and the names of the figures that it wrote."""

    text: str
    figures: list[str]


def pages() -> list[Path]:
    """Return the pages that are run: two by name, and those in the folders named above."""
    return [
        DOCS / "index.md",
        DOCS / "bounds.md",
        *(page for one in FOLDERS for page in sorted((DOCS / one).glob("*.md"))),
    ]


def name_of(page: Path) -> str:
    """Return the name of a page as one word, by which its record is known."""
    return "-".join(page.relative_to(DOCS).with_suffix("").parts)


@cache
def source() -> bytes:
    """Return a hash of what all pages depend on: kibitz, this file and Python."""
    digest = hashlib.sha256(sys.version.encode())
    for path in [Path(__file__), *sorted(SOURCE.rglob("*.py"))]:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def key(page: Path) -> str:
    """Return a hash of all that a run of a page depends on."""
    return hashlib.sha256(source() + page.read_bytes()).hexdigest()


def record(page: Path) -> list[Shown] | None:
    """Return what the blocks of a page showed; None if it must be run."""
    try:
        kept = json.loads(
            (MADE / f"{name_of(page)}.json").read_text(encoding="utf-8")
        )
    except FileNotFoundError:
        return None
    if kept["key"] != key(page):
        return None
    return [Shown(*block) for block in kept["blocks"]]


def run_all(workers: int = os.cpu_count() or 1) -> str:
    """Run what has to be run, so many pages at a time; return what went wrong."""
    stale = [page for page in pages() if record(page) is None]
    shares = [share for first in range(workers) if (share := stale[first::workers])]
    with ThreadPoolExecutor(workers) as pool:
        return "".join(pool.map(ask, shares))


def ask(share: list[Path]) -> str:
    """Run pages in a process of their own; return what went wrong."""
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "agg"}
    environment |= {"COLUMNS": "84", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, __file__, *map(str, share)]
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=environment
    )
    return done.stderr if done.returncode else ""


def run(page: Path) -> None:
    """Run a page in an empty folder and keep what it showed."""
    here, made = os.getcwd(), key(page)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            blocks = [
                show(name_of(page), *block) for block in play(page, Path(folder))
            ]
        finally:
            os.chdir(here)
            if (
                "matplotlib.pyplot" in sys.modules
            ):  # the next page draws on paper of its own
                sys.modules["matplotlib.pyplot"].close("all")
    MADE.mkdir(exist_ok=True)
    target = MADE / f"{name_of(page)}.json"
    target.write_text(json.dumps({"key": made, "blocks": blocks}), encoding="utf-8")


def play(page: Path, folder: Path) -> list[tuple[str, dict[str, str]]]:
    """Run the blocks of a page; return what each printed, and the figures that it wrote."""
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks, known = [], set()
    for language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")  # a reader would see it
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # of other libraries
            if language == "python":
                exec(compile(code, str(page), "exec"), names)
            else:
                print(commands(code), end="")
        new = sorted({path.name for path in folder.glob("*.svg")} - known)
        known.update(new)
        text = printed.getvalue().replace(f"{folder}{os.sep}", "")
        drawn = {one: (folder / one).read_text(encoding="utf-8") for one in new}
        blocks.append((text, drawn))
    return blocks


def commands(code: str) -> str:
    """Run the lines of a block that begin with `kibitz`, here; return what they printed."""
    from kibitz.cli import app

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for line in code.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["kibitz"] and app(
                words[1:], "kibitz", standalone_mode=False
            ):
                raise RuntimeError(f"{line}\n{printed.getvalue()}")
    return printed.getvalue()


def show(name: str, text: str, drawn: dict[str, str]) -> Shown:
    """Write the figures of a block, by day and by night; return what the block showed."""
    figures = []
    for one, svg in drawn.items():
        stem = f"{name}-{Path(one).stem.replace(' ', '-')}"
        MADE.mkdir(exist_ok=True)
        (MADE / f"{stem}-light.svg").write_text(svg, encoding="utf-8")
        (MADE / f"{stem}-dark.svg").write_text(
            svg.replace(INK, PAPER), encoding="utf-8"
        )
        figures.append(stem)
    return Shown(
        "\n".join(line.rstrip() for line in text.rstrip().splitlines()), figures
    )


def insert(app, docname: str, source: list[str]) -> None:
    """Put what was shown below each block (an event of Sphinx)."""
    page = DOCS / f"{docname}.md"
    if page not in pages():
        return
    shown = iter(record(page) or [])
    script = as_script(source[0])
    source[0] = BLOCK.sub(
        lambda block: block[0] + below(next(shown), page), source[0]
    )
    if page.parent.name in SCRIPTS and script:
        target = MADE / f"{name_of(page)}.py"
        target.write_text(script, encoding="utf-8")
        source[0] += (
            f"\n{{download}}`The code of this page as a script </_made/{target.name}>`\n"
        )


def as_script(text: str) -> str:
    """Return the code of a page as one program; commands are comments in it."""
    blocks = [
        code
        if language == "python"
        else "".join(f"# {line}\n" for line in code.splitlines())
        for language, code in BLOCK.findall(text)
    ]
    return "\n".join(blocks)


def below(block: Shown, page: Path) -> str:
    """Return the Markdown of what a block showed."""
    parts = []
    if block.text:
        parts.append(
            f"\n```{{code-block}} text\n:class: printed\n\n{block.text}\n```\n"
        )
    for stem in block.figures:
        words = stem.removeprefix(f"{name_of(page)}-").replace("-", " ")
        parts += [
            f"\n```{{image}} /_made/{stem}-{light}.svg\n:class: only-{light}\n:alt: {words}\n```\n"
            for light in ("light", "dark")
        ]
    return "".join(parts)


def before(app) -> None:
    """Run pages before any is read (an event of Sphinx)."""
    from sphinx.errors import ExtensionError

    if wrong := run_all():
        raise ExtensionError(wrong)


def setup(app) -> dict[str, bool]:
    """Make Sphinx run pages."""
    app.connect("builder-inited", before)
    app.connect("source-read", insert)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def look() -> None:
    """Make matplotlib draw so that figures can be shown by day and by night."""
    import matplotlib

    inked = (
        "text.color",
        "axes.labelcolor",
        "axes.edgecolor",
        "xtick.color",
        "ytick.color",
        "grid.color",
    )
    matplotlib.rcParams.update(
        dict.fromkeys(inked, INK)
        | {
            "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.facecolor": "none",
            "grid.alpha": 0.2,
            "figure.figsize": (5.8, 3.5),
            "figure.facecolor": "none",
            "figure.constrained_layout.use": True,
            "savefig.facecolor": "none",
            "legend.frameon": False,
            "svg.hashsalt": "kibitz",
        }
    )


def main(given: list[str]) -> int:
    """Run the pages given here and now, or else all that have to be run."""
    if not given:
        wrong = run_all()
        print(wrong or "all pages have run")
        return bool(wrong)
    look()
    failed = False
    for name in given:
        try:
            run(Path(name).resolve())
        except Exception:
            print(f"{name}:\n{traceback.format_exc()}", file=sys.stderr)
            failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
