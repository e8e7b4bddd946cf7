"""Execute the code of documentation pages, and show its output below each block.

A page is plain Markdown. Its `python` blocks share one namespace and its `sh` blocks share
one shell, as if a reader pasted them in order. They run in an empty folder. A server that
a block starts in the background runs until the end of the page. Blocks that are fenced as
`{code-block}` are shown but not executed.

The output of a page is stored in `docs/_generated/`. A page is executed again when it
changes or when kibitz changes.

python docs/run.py              execute all pages that are out of date
python docs/run.py PAGE ...     execute these pages now
"""

import contextlib
import hashlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src"
GENERATED = DOCS / "_generated"
REPOSITORY = "https://github.com/kibitz-bandits/kibitz/blob/main/docs/"

EXECUTED_PAGES = ("index", "bounds", "serve")
EXECUTED_FOLDERS = (
    "tutorials",
    "howto",
    "gallery",
    "explanations",
    "reference",
    "bounds",
    "commands",
)
SCRIPT_FOLDERS = ("tutorials", "gallery")
NOTEBOOK_FOLDERS = ("tutorials", "howto")

BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
SERVER = re.compile(r"^(?:kibitz serve|uvicorn) .*&$", re.MULTILINE)
PORT = "8765"  # the port that pages show; a free port replaces it in each run
BLOCK_SECONDS = 600  # timeout of an `sh` block
SERVER_SECONDS = 60  # timeout for the start of a server

LIGHT_INK, DARK_INK = (
    "#24292f",
    "#d5dae2",
)  # colours of text and axes in light and dark figures


class Output(NamedTuple):
    """The printed text of a block, and the file names of its figures."""

    text: str
    figures: list[str]


def pages() -> list[Path]:
    """Return the pages that are executed."""
    return [
        *(DOCS / f"{name}.md" for name in EXECUTED_PAGES),
        *(
            page
            for folder in EXECUTED_FOLDERS
            for page in sorted((DOCS / folder).glob("*.md"))
        ),
    ]


def page_id(page: Path) -> str:
    """Return the common name, without extension, of the page's files in `_generated`."""
    return "-".join(page.relative_to(DOCS).with_suffix("").parts)


@cache
def source_hash() -> bytes:
    """Return a hash of what every page depends on: kibitz, this file and Python."""
    digest = hashlib.sha256(sys.version.encode())
    for path in [Path(__file__), *sorted(SOURCE.rglob("*.py"))]:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def fingerprint(page: Path) -> str:
    """Return a hash of everything that the output of a page depends on."""
    return hashlib.sha256(source_hash() + page.read_bytes()).hexdigest()


def load_outputs(page: Path) -> list[Output] | None:
    """Return the stored output of each block, or None if the page must be executed."""
    try:
        stored_output = json.loads(
            (GENERATED / f"{page_id(page)}.json").read_text(encoding="utf-8")
        )
    except FileNotFoundError:
        return None
    if stored_output["fingerprint"] != fingerprint(page):
        return None
    return [Output(*block) for block in stored_output["blocks"]]


def execute_outdated(workers: int = os.cpu_count() or 1) -> str:
    """Execute all pages that are out of date, in parallel; return the error messages."""
    outdated_pages = [page for page in pages() if load_outputs(page) is None]
    batches = [
        batch
        for first in range(workers)
        if (batch := outdated_pages[first::workers])
    ]
    with ThreadPoolExecutor(workers) as pool:
        return "".join(pool.map(execute_in_process, batches))


def execute_in_process(batch: list[Path]) -> str:
    """Execute pages in a new process; return the error messages."""
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "agg"}
    environment |= {"COLUMNS": "84", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}
    process = subprocess.run(
        [sys.executable, __file__, *map(str, batch)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
    )
    return process.stderr if process.returncode else ""


def execute(page: Path) -> None:
    """Execute a page in an empty folder and store its output."""
    previous_folder, current_fingerprint = os.getcwd(), fingerprint(page)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            outputs = [
                save_output(page_id(page), *block)
                for block in execute_blocks(page, Path(folder))
            ]
        finally:
            os.chdir(previous_folder)
            if "matplotlib.pyplot" in sys.modules:
                # The next page of this process starts without open figures.
                sys.modules["matplotlib.pyplot"].close("all")
    GENERATED.mkdir(exist_ok=True)
    (GENERATED / f"{page_id(page)}.json").write_text(
        json.dumps({"fingerprint": current_fingerprint, "blocks": outputs}),
        encoding="utf-8",
    )


def execute_blocks(page: Path, folder: Path) -> list[tuple[str, dict[str, str]]]:
    """Execute the blocks of a page; return the printed text and the SVG figures of each block."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    outputs, known_figures = [], set()
    port = find_free_port()
    with contextlib.ExitStack() as stack:
        shell = None
        for language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
            code = code.replace(PORT, port)
            if language == "sh":
                shell = shell or stack.enter_context(Shell(folder))
                text = shell.run(code)
                if SERVER.search(code):
                    wait_for_server(int(port))
            else:
                text = run_python(code, page, namespace)
            text = text.replace(f"{folder}{os.sep}", "").replace(port, PORT)
            new_figures = sorted(
                {path.name for path in folder.glob("*.svg")} - known_figures
            )
            known_figures.update(new_figures)
            figures = {
                name: (folder / name).read_text(encoding="utf-8")
                for name in new_figures
            }
            outputs.append((text, figures))
    return outputs


def run_python(code: str, page: Path, namespace: dict[str, Any]) -> str:
    """Execute a `python` block; return the printed text."""
    printed_text = io.StringIO()
    with contextlib.redirect_stdout(printed_text), warnings.catch_warnings():
        warnings.simplefilter("error")  # a reader would see the warning
        warnings.simplefilter("ignore", DeprecationWarning)  # of other libraries
        exec(compile(code, str(page), "exec"), namespace)
    return printed_text.getvalue()


class Shell:
    """A bash process that runs the `sh` blocks of a page.

    `stop` ends bash and all processes that the blocks started.
    """

    END = "--- end of block ---"

    def __init__(self, folder: Path) -> None:
        self.tools = tempfile.TemporaryDirectory()
        tools = Path(self.tools.name)
        self.script = tools / "block.sh"
        programs = {
            "kibitz": f'exec "{sys.executable}" -m kibitz.cli "$@"',
            "uvicorn": f'exec "{sys.executable}" -m uvicorn "$@"',
            "pip": "exit 0",  # a block may call pip, but every package is installed
        }
        for name, command in programs.items():
            (tools / name).write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
            (tools / name).chmod(0o755)
        # curl ends each response with a newline, and an HTTP error makes the page fail.
        (tools / ".curlrc").write_text(
            'write-out = "\\n"\nfail-with-body\nmax-time = 60\n'
        )
        self.errors = (tools / "stderr").open("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            cwd=folder,
            env={
                **os.environ,
                "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
                "CURL_HOME": str(tools),
            },
            start_new_session=True,
        )
        self.send("set -e -o pipefail")

    def __enter__(self) -> "Shell":
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self.process.communicate()
        self.errors.close()
        self.tools.cleanup()

    def send(self, line: str) -> None:
        """Let bash execute a line."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """Stop bash and everything that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)

    def run(self, code: str) -> str:
        """Execute a block; return the printed text. Raise RuntimeError if the block fails."""
        self.script.write_text(code, encoding="utf-8")
        watchdog = threading.Timer(BLOCK_SECONDS, self.stop)
        watchdog.start()
        printed_lines = []
        try:
            with contextlib.suppress(BrokenPipeError):
                self.send(f'source "{self.script}" < /dev/null')
                self.send(f"printf '\\n%s\\n' '{self.END}'")
            for line in self.process.stdout:
                if line.rstrip() == self.END:
                    return "".join(printed_lines)
                printed_lines.append(line)
        finally:
            watchdog.cancel()
        self.errors.seek(0)
        raise RuntimeError(f"{code}{''.join(printed_lines)}{self.errors.read()}")


def find_free_port() -> str:
    """Return a port of this machine that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def wait_for_server(port: int) -> None:
    """Wait until a server accepts connections."""
    deadline = time.monotonic() + SERVER_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def save_output(name: str, text: str, figures: dict[str, str]) -> Output:
    """Write the figures of a block in light and in dark colours; return its output."""
    from kibitz.plotting.picture import COLOURS, DARK_COLOURS

    dark_colours = dict(zip(COLOURS, DARK_COLOURS, strict=True))
    dark_colours[LIGHT_INK] = DARK_INK
    dark_colours = {light.lower(): dark for light, dark in dark_colours.items()}
    colour = re.compile("|".join(dark_colours))
    stems = []
    for file, svg in figures.items():
        stem = f"{name}-{Path(file).stem.replace(' ', '-')}"
        GENERATED.mkdir(exist_ok=True)
        dark_svg = colour.sub(lambda match: dark_colours[match[0]], svg)
        for scheme, drawing in (("light", svg), ("dark", dark_svg)):
            target = GENERATED / f"{stem}-{scheme}.svg"
            target.write_text(drawing, encoding="utf-8")
        stems.append(stem)
    return Output(
        "\n".join(line.rstrip() for line in text.rstrip().splitlines()), stems
    )


def insert_outputs(app, docname: str, source: list[str]) -> None:
    """Add outputs and downloads to a page (Sphinx event `source-read`)."""
    page = DOCS / f"{docname}.md"
    if page not in pages():
        return
    outputs = load_outputs(page) or []
    text = source[0]
    remaining_outputs = iter(outputs)
    source[0] = add_downloads(
        BLOCK.sub(
            lambda block: block[0] + as_markdown(next(remaining_outputs), page),
            text,
        ),
        write_downloads(page, text, outputs),
    )


def write_downloads(page: Path, text: str, outputs: list[Output]) -> dict[str, str]:
    """Write a page as notebook and as script; return the file names by link text."""
    name, links = page_id(page), {}
    if not BLOCK.search(text):
        return links
    if page.parent.name in NOTEBOOK_FOLDERS:
        target = GENERATED / f"{name}.ipynb"
        target.write_text(as_notebook(page, text, outputs), encoding="utf-8")
        links["Download as notebook"] = target.name
    if page.parent.name in SCRIPT_FOLDERS:
        target = GENERATED / f"{name}.py"
        target.write_text(as_script(text), encoding="utf-8")
        links["Download as script"] = target.name
    return links


def add_downloads(text: str, links: dict[str, str]) -> str:
    """Add a line with download links below the title of a page."""
    if not links:
        return text
    line = " · ".join(
        f"{{download}}`{words} </_generated/{file}>`"
        for words, file in links.items()
    )
    container = f":::{{container}} downloads\n{line}\n:::\n"
    return re.sub(
        r"^# .*\n", lambda title: f"{title[0]}\n{container}", text, count=1
    )


def as_script(text: str) -> str:
    """Return the code of a page as one Python program, with commands as comments."""
    blocks = [
        code
        if language == "python"
        else "".join(f"# {line}\n" for line in code.splitlines())
        for language, code in BLOCK.findall(text)
    ]
    return "\n".join(blocks)


def as_notebook(page: Path, text: str, outputs: list[Output]) -> str:
    """Return a page as a Jupyter notebook that contains the outputs of its blocks.

    On pages that start a server, commands stay Markdown, because a cell would wait until
    the server ends.
    """
    import nbformat
    from nbformat.v4 import (
        new_code_cell,
        new_markdown_cell,
        new_notebook,
        new_output,
    )

    cells, position = [], 0

    def add_markdown(markdown: str) -> None:
        if words := plain_markdown(markdown, page).strip():
            cells.append(new_markdown_cell(words))

    for block, output in zip(BLOCK.finditer(text), outputs, strict=True):
        language, code = block.groups()
        add_markdown(text[position : block.start()])
        position = block.end()
        if language == "sh" and SERVER.search(text):
            output_markdown = f"```text\n{output.text}\n```" if output.text else ""
            add_markdown(f"{block[0]}\n{output_markdown}")
            continue
        cell_magic = "%%bash\n" if language == "sh" else ""
        cell = new_code_cell(cell_magic + code.rstrip("\n"))
        if output.text:
            cell.outputs.append(
                new_output("stream", name="stdout", text=f"{output.text}\n")
            )
        for stem in output.figures:
            svg = (GENERATED / f"{stem}-light.svg").read_text(encoding="utf-8")
            cell.outputs.append(new_output("display_data", {"image/svg+xml": svg}))
        cells.append(cell)
    add_markdown(text[position:])
    n_executed = 0
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
        if cell.cell_type == "code":
            n_executed += 1
            cell.execution_count = n_executed
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.writes(
        new_notebook(cells=cells, metadata={"kernelspec": kernel})
    )


def plain_markdown(text: str, page: Path) -> str:
    """Return Markdown without Sphinx directives, with links to the repository."""
    text = re.sub(r"^```\{code-block\} ", "```", text, flags=re.MULTILINE)
    text = re.sub(r"^```\{.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^:{3,}.*$", "", text, flags=re.MULTILINE)

    def link_to_repository(link: re.Match[str]) -> str:
        target = os.path.relpath((page.parent / link[1]).resolve(), DOCS.resolve())
        return f"]({REPOSITORY}{target}{link[2] or ''})"

    return re.sub(r"\]\(([^)#:]+)(#[^)]*)?\)", link_to_repository, text)


def as_markdown(output: Output, page: Path) -> str:
    """Return the Markdown that shows the output of a block."""
    parts = []
    if output.text:
        parts.append(
            f"\n```{{code-block}} text\n:class: printed\n\n{output.text}\n```\n"
        )
    for stem in output.figures:
        words = stem.removeprefix(f"{page_id(page)}-").replace("-", " ")
        parts += [
            f"\n```{{image}} /_generated/{stem}-{scheme}.svg\n"
            f":class: only-{scheme}\n:alt: {words}\n```\n"
            for scheme in ("light", "dark")
        ]
    return "".join(parts)


def execute_before_build(app) -> None:
    """Execute outdated pages before Sphinx reads the pages (event `builder-inited`)."""
    from sphinx.errors import ExtensionError

    if errors := execute_outdated():
        raise ExtensionError(errors)


def find_changed(app, env, added, changed, removed) -> list[str]:
    """Return the pages whose output is newer than their HTML (event `env-get-outdated`)."""
    stale_pages = []
    for page in pages():
        docname = page.relative_to(DOCS).with_suffix("").as_posix()
        output_file = GENERATED / f"{page_id(page)}.json"
        read_at = env.all_docs.get(docname, 0) / 1e6
        if docname in env.found_docs and output_file.stat().st_mtime > read_at:
            stale_pages.append(docname)
    return stale_pages


def setup(app) -> dict[str, bool]:
    """Register this file as a Sphinx extension."""
    app.connect("builder-inited", execute_before_build)
    app.connect("env-get-outdated", find_changed)
    app.connect("source-read", insert_outputs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def set_figure_style() -> None:
    """Make matplotlib draw figures that suit light and dark pages."""
    import matplotlib

    from kibitz.plotting.picture import COLOURS

    ink_settings = (
        "text.color",
        "axes.labelcolor",
        "axes.edgecolor",
        "xtick.color",
        "ytick.color",
        "grid.color",
    )
    matplotlib.rcParams.update(
        dict.fromkeys(ink_settings, LIGHT_INK)
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


def main(arguments: list[str]) -> int:
    """Execute the given pages, or all outdated pages; return the exit code."""
    if not arguments:
        errors = execute_outdated()
        print(errors or "all pages are up to date")
        return bool(errors)
    set_figure_style()
    has_failed = False
    for name in arguments:
        try:
            execute(Path(name).resolve())
        except Exception:
            print(f"{name}:\n{traceback.format_exc()}", file=sys.stderr)
            has_failed = True
    return has_failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
