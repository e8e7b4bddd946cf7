"""The page that `kibitz reproduce` leaves behind: one file, which opens without a network.

Each figure is there twice: as drawn by matplotlib (for print, and where no script runs), and as
Vega-Lite, whose JavaScript stands in the page, for hovering and for switching curves off.
All numbers come from the data that the page was made from.
"""

import base64
import html
import json
import math
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kibitz.reproduction.experiments import EXPERIMENTS
from kibitz.reproduction.plots import COLOURS, DASHES, Panel, Picture, figure, save_figure
from kibitz.reproduction.verdict import SURE, Verdict, power
from kibitz.simulator.results import versions

if TYPE_CHECKING:
    import xarray

PAPER = (
    "Rémy Degenne, Evrard Garcelon and Vianney Perchet, “Bandits with Side Observations: Bounded vs. "
    "Logarithmic Regret”, UAI 2018"
)
QUICK = 25  # how many times fewer runs a rough version has
LEAST_RUNS = 3
#: `COLOURS` for a dark background.
DARK_COLOURS = (
    "#56B4E9", "#FF8B3D", "#2FCF9B", "#E88FCB", "#F0C24B", "#F2F2F2", "#9A9DA3", "#4FD8E8",
    "#FF8A8A", "#A9ABFF", "#FFFFFF", "#C9D64A",
)  # fmt: skip
SIGNS = {True: ("✓", "holds"), False: ("✗", "does not hold"), None: ("?", "open: too few runs")}


class Section(NamedTuple):
    """An experiment, done."""

    number: int
    title: str
    paper: str
    claim: str
    verdict: Verdict
    picture: Picture
    data: "dict[str, xarray.Dataset]"
    files: list[str]  # in the folder's data/


# ---------------------------------------------------------------------------------- the command


def reproduce(
    folder: Path,
    *,
    seed: int,
    only: Sequence[int] = (),
    runs: int | None = None,
    quick: bool = False,
    threads: int | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> list[Section]:
    """Run experiments, or go on with them, and leave data, figures and page in a folder.

    Parameters
    ----------
    folder
        Where to leave them; what is already there is not computed again.
    seed
        Of all random numbers.
    only
        The numbers of the experiments; all if empty.
    runs
        How many runs; each experiment has its own number unless given.
    quick
        Whether to do with a fraction of the runs.
    threads
        How many runs to play at a time.
    progress
        Called as `progress(what, share)` now and then.
    """
    numbers = list(only) or list(range(1, len(EXPERIMENTS) + 1))
    for number in numbers:
        if not 1 <= number <= len(EXPERIMENTS):
            raise ValueError(f"only must be numbers from 1 to {len(EXPERIMENTS)}, got {number!r}")
    for part in ("data", "figures"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    tell = progress if progress is not None else lambda what, share: None
    sections = []
    with ThreadPoolExecutor(1) as aside:
        script = aside.submit(vega)
        for place, number in enumerate(numbers):
            module = EXPERIMENTS[number - 1]

            def step(what: str, share: float, place: int = place, number: int = number) -> None:
                title = EXPERIMENTS[number - 1].TITLE
                tell(f"{number}. {title}: {what}", (place + share) / len(numbers))

            fewer = max(LEAST_RUNS, module.RUNS // QUICK) if quick else module.RUNS
            data = module.run(
                folder / "data", runs=runs or fewer, seed=seed, threads=threads, progress=step
            )
            step("drawing", 1.0)
            picture = module.draw(data)
            drawn = figure(picture)
            for ending in ("png", "svg"):
                save_figure(drawn, folder / "figures" / f"{number}.{ending}")
            files = sorted(file.name for file in (folder / "data").glob(f"{number}-*.nc"))
            words = (module.TITLE, module.PAPER, module.CLAIM)
            sections.append(Section(number, *words, module.verdict(data), picture, data, files))
        written = page(sections, folder / "figures", script.result(), seed, quick)
    (folder / "report.html").write_text(written, encoding="utf-8")
    return sections


def vega() -> str:
    """Return the JavaScript of Vega, Vega-Lite and vega-embed.

    It is put together by a process of its own, which gives back the 100 MB that this takes.
    """
    program = (
        "import sys, vl_convert; "
        "bundle = vl_convert.javascript_bundle('window.vegaEmbed = vegaEmbed;'); "
        "sys.stdout.buffer.write(bundle.encode())"
    )
    bundle = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE)
    return bundle.stdout.decode().replace("</script", "<\\/script")


def beside(name: str) -> str:
    """Return the text of a file that lies beside this one."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------- the page


def page(
    sections: Sequence[Section], figures: Path, script: str, seed: int, quick: bool = False
) -> str:
    """Return the page."""
    words = [section.verdict.word for section in sections]
    counts = ", ".join(
        f"{words.count(word)} {word}"
        for word in ("confirmed", "depends", "not confirmed")
        if word in words
    )
    specs = {
        str(one.number): [spec(panel, one.picture) for panel in one.picture.panels]
        for one in sections
    }
    used = {**versions(), "matplotlib": version("matplotlib"), "Python": platform.python_version()}
    rough = '<p class="rough">A rough version: few runs (<code>--quick</code>).</p>' if quick else ""
    made = ", ".join(f"{name} {number}" for name, number in used.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Bandits with side observations, reproduced</title>
<link rel="icon" href="data:,">
<style>{beside("report.css")}{palettes()}</style>
</head>
<body>
<header>
<h1>Bandits with side observations, reproduced</h1>
<p>{html.escape(PAPER)}. Its five experiments, and what it claims but does not draw, by
<b>kibitz</b> {html.escape(used["kibitz"])}.</p>
{rough}</header>
<main>
<section id="summary" aria-labelledby="summary-title">
<h2 id="summary-title">{counts}</h2>
<table><thead><tr><th>Experiment</th><th>Verdict</th><th>In numbers</th></tr></thead>
<tbody>
{"".join(summary_row(section) for section in sections)}</tbody></table>
</section>
{"".join(section_html(section, figures, seed) for section in sections)}
</main>
<footer>
<h2>How to read this page</h2>
<p>Regret is Σ Δ<sub>i</sub> N<sub>i</sub>, in units of reward, the standard deviation of one reward
being 1. A stage is one pull; ε is the number of looks per stage; ± is one standard error over runs.
A check is decided if the number is more than {SURE:g} standard errors away from its limit. A claim is
<b>confirmed</b> if all its checks hold, <b>not confirmed</b> if none does, and <b>depends</b> if some
do. All numbers on this page are computed from the data beside it.</p>
<p>Seed {seed}. {html.escape(made)}.</p>
</footer>
<script type="application/json" id="specs">{as_json(specs)}</script>
<script>{script}</script>
<script>{beside("report.js")}</script>
</body>
</html>
"""


def palettes() -> str:
    """Return the colours of the curves as CSS, for light and for dark."""

    def variables(colours: Iterable[str]) -> str:
        return "".join(f"--c{n}:{colour};" for n, colour in enumerate(colours))

    light, dark = variables(COLOURS), variables(DARK_COLOURS)
    classes = "".join(f".c{n}{{color:var(--c{n})}}" for n in range(len(COLOURS)))
    night = f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return f":root{{{light}}}{night}{classes}"


def badge(word: str) -> str:
    """Return a verdict as a coloured word."""
    sign = {"confirmed": "✓", "depends": "±", "not confirmed": "✗"}[word]
    return f'<span class="badge {word.replace(" ", "-")}">{sign} {word}</span>'


def summary_row(section: Section) -> str:
    """Return a row of the summary."""
    return (
        f'<tr><td><span class="number">{section.number}</span> <a href="#e{section.number}">'
        f"{html.escape(section.title)}</a></td><td>{badge(section.verdict.word)}</td>"
        f"<td>{html.escape(section.verdict.short)}</td></tr>\n"
    )


def section_html(section: Section, figures: Path, seed: int) -> str:
    """Return an experiment's part of the page."""
    n, title, alt = section.number, html.escape(section.title), html.escape(section.picture.alt)
    panels = "".join(panel_html(panel, n, m) for m, panel in enumerate(section.picture.panels))
    checks = "".join(
        f'<li><span class="sign s{SIGNS[check.holds][0]}" role="img" '
        f'aria-label="{SIGNS[check.holds][1]}">{SIGNS[check.holds][0]}</span>'
        f"<span>{html.escape(check.text)}</span></li>\n"
        for check in section.verdict.checks
    )
    held = sum(check.holds is True for check in section.verdict.checks)
    picture = base64.b64encode((figures / f"{n}.svg").read_bytes()).decode()
    links = ", ".join(f'<a href="data/{file}">{file}</a>' for file in section.files)
    return f"""<section id="e{n}" class="experiment" aria-labelledby="t{n}">
<h2 id="t{n}"><span class="number">{n}</span> {title} {badge(section.verdict.word)}</h2>
<p class="claim"><span class="where">{html.escape(section.paper)}.</span> {rich(section.claim)}</p>
<p class="finding">{rich(section.verdict.sentence)}</p>
<figure id="f{n}">
<img class="static" src="data:image/svg+xml;base64,{picture}" alt="{alt}">
<div class="live" hidden>
<div class="legend" role="group" aria-label="Curves to show">{legend(section.picture)}</div>
<div class="panels columns{section.picture.columns}" role="img" aria-label="{alt}">
{panels}</div>
</div>
</figure>
<details {"open" if len(section.verdict.checks) <= 4 else ""}>
<summary>{held} of {len(section.verdict.checks)} checks hold</summary>
<ul class="checks">
{checks}</ul></details>
<details><summary>Setting, seed, data</summary>
{setting_html(section, seed)}
<p>Data: {links}. Figure: <a href="figures/{n}.png">PNG</a>, <a href="figures/{n}.svg">SVG</a>. Again:
<code>kibitz reproduce --only {n} --seed {seed} --runs {runs_of(section)}</code></p></details>
</section>
"""


def legend(picture: Picture) -> str:
    """Return a button for each curve."""
    curves = [curve for panel in picture.panels for curve in panel.curves]
    kinds = {curve.label: curve.kind for curve in reversed(curves)}  # the first of each label
    buttons = []
    for place, label in enumerate(picture.labels()):
        dashes = {"reference": (5, 3), "points": (), "dots": (0, 99)}
        dash = " ".join(map(str, dashes.get(kinds[label], DASHES[place % len(DASHES)])))
        dot = '<circle cx="13" cy="5" r="3.2" fill="currentColor"/>'
        dot = dot if kinds[label] in {"points", "dots"} else ""
        buttons.append(
            f'<button type="button" aria-pressed="true" data-label="{html.escape(label)}">'
            f'<svg class="c{place % len(COLOURS)}" width="26" height="10" aria-hidden="true">'
            f'<line x1="0" y1="5" x2="26" y2="5" stroke="currentColor" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>{dot}</svg>{html.escape(label)}</button>'
        )
    return "".join(buttons)


def panel_html(panel: Panel, number: int, place: int) -> str:
    """Return the place for a panel of the live figure."""
    note = "<br>".join(html.escape(line) for line in panel.note.splitlines())
    return (
        f'<div class="panel"><p class="panel-title"><b>{html.escape(panel.title)}</b></p>'
        f'<div class="chart" id="p{number}-{place}"></div>'
        f'<p class="panel-title">{note}</p></div>\n'
    )


def runs_of(section: Section) -> int:
    """Return how many runs the section's data have."""
    return int(next(iter(section.data.values())).sizes["run"])


def setting_html(section: Section, seed: int) -> str:
    """Return what made the data, read from the data."""
    rows = []
    for label, part in section.data.items():
        cells = json.loads(part.attrs["cells"])
        first = cells[0]["setting"]
        swept = next((str(d) for d in part["final_regret"].dims if d not in {"policy", "run"}), None)
        values = ", ".join(_value(v) for v in part[swept].to_numpy()) if swept else "–"
        policies = "; ".join(
            f"{one} = {name_of(cell['policy'])}"
            if one != cell["policy"]["name"]
            else name_of(cell["policy"])
            for one, cell in {cell["policy"]: cell["setting"] for cell in cells}.items()
        )
        feedbacks = {json.dumps(cell["setting"]["feedback"]) for cell in cells}
        feedback = dict(first["feedback"])
        if len(feedbacks) > 1:
            feedback.pop("rate", None)
        means = ", ".join(f"{one:g}" for one in first["problem"]["means"])
        engine = part.attrs["engine"]
        row = [label, means, _words(feedback), policies, f"{swept}: {values}" if swept else "–"]
        row += [power(first["horizon"]), str(part.sizes["run"]), engine]
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    head = "".join(
        f"<th>{name}</th>"
        for name in ("data", "means", "looks", "policies", "swept", "T", "runs", "engine")
    )
    return (
        f"<p>Gaussian rewards of variance 1; seed {seed}.</p>"
        f"<div class='scroll'><table class='setting'><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def name_of(policy: dict[str, Any]) -> str:
    """Write a policy with its parameters."""
    parameters = ", ".join(
        f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in policy["parameters"].items()
    )
    return f"{policy['name']}({parameters})"


def rich(text: str) -> str:
    """Return text for the page, with its indices as indices."""
    return re.sub(r"([ΔNp])_i", r"\1<sub>i</sub>", html.escape(text))


def _words(feedback: dict[str, Any]) -> str:
    usual = {"observer": feedback["observer"], "looks": 1, "paid": False}
    unusual = {name: value for name, value in feedback.items() if value != usual.get(name)}
    return str(feedback["observer"]) + "".join(f", {k} {v}" for k, v in unusual.items())


def _value(value: Any) -> str:
    return value if isinstance(value, str) else power(float(value))


# ---------------------------------------------------------------------------------- Vega-Lite


def spec(panel: Panel, picture: Picture) -> dict[str, Any]:
    """Return a panel of a picture as a Vega-Lite chart; the colours come from the page."""
    labels = picture.labels()
    top = 22 if any(one.marks for one in picture.panels) else 8
    rows = [row for curve in panel.curves for row in curve_rows(curve)]
    heights = [row[key] for row in rows for key in ("y", "low", "high") if key in row]
    if panel.y_log:  # a bar that reaches below 0 ends at the axis
        heights = [height for height in heights if height > 0]
        for row in rows:
            if "low" in row:
                row["low"] = max(row["low"], min(heights))
    x = {"field": "x", **axis(panel.x, panel.x_log, [row["x"] for row in rows])}
    y = axis(panel.y, panel.y_log, heights, zero=True)
    named: dict[str, Any] = {"field": "label", "type": "nominal", "legend": None}
    colour = {**named, "scale": {"domain": labels}}
    dashes = [list(DASHES[n % len(DASHES)]) or [1, 0] for n in range(len(labels))]
    dash = {**named, "scale": {"domain": labels, "range": dashes}}
    at = {"x": x, "y": {"field": "y", **y}, "color": colour}
    between = {"x": x, "y": {"field": "low", **y}, "y2": {"field": "high"}, "color": colour}
    near = {"select": {"type": "point", "on": "pointerover", "clear": "pointerout"}, "name": "near"}
    hover = {
        **at,
        "opacity": {"condition": {"param": "near", "empty": False, "value": 0.8}, "value": 0},
        "tooltip": [
            {"field": "label", "title": "curve"},
            {"field": "x", "title": panel.x.split(",")[0], "format": ".4~g"},
            {"field": "y", "title": panel.y.split("\n")[0].split(" (")[0], "format": ".4~g"},
            {"field": "low", "title": "from", "format": ".4~g"},
            {"field": "high", "title": "to", "format": ".4~g"},
        ],
    }
    drawn = [
        layer("area", between, "line", "datum.low != null", opacity=0.13),
        layer("rule", between, "points", "datum.low != null"),
        layer("line", {**at, "strokeDash": dash}, "line", strokeWidth=2),
        layer("line", at, "reference", strokeWidth=1.5, strokeDash=[5, 3]),
        layer("line", {**at, "strokeDash": dash}, "points", strokeWidth=1.2),
        layer("point", at, "points", filled=True, size=34, opacity=1, clip=False),
        layer("point", at, "dots", filled=True, size=60, opacity=1, clip=False),
        {**layer("point", hover, filled=True, size=160), "params": [near]},
    ]
    ink: Any = {"color": {"expr": "ink"}, "clip": False}
    for mark in panel.marks:
        there = {"x": {"datum": mark.x, "type": "quantitative"}}
        text = {**there, "y": {"value": 0}, "text": {"value": mark.label}}
        once: dict[str, Any] = {"data": {"values": [{}]}}
        drawn.append({**layer("rule", there, strokeDash=[1, 3], **ink), **once})
        drawn.append({**layer("text", text, dy=-4, baseline="bottom", **ink), **once})
    kinds = {curve.kind for curve in panel.curves}
    return {
        "data": {"values": rows},
        "params": [{"name": "hidden", "value": []}, {"name": "ink", "value": "#555"}],
        "transform": [{"filter": "indexof(hidden, datum.label) < 0"}],
        "width": "container",
        "height": 250,
        "padding": {"left": 2, "right": 14, "top": top, "bottom": 2},
        "layer": [one for one in drawn if one.pop("of") in (None, *kinds)],
    }


def layer(
    mark: str, encoding: dict[str, Any], kind: str | None = None, test: str = "true", **style: Any
) -> dict[str, Any]:
    """Return a layer that shows the curves of one kind, or all."""
    return {
        "of": kind,
        "mark": {"type": mark, "aria": False, "clip": True, **style},
        "transform": [{"filter": f"datum.kind == '{kind}' && {test}"}] if kind else [],
        "encoding": encoding,
    }


def curve_rows(curve: Any) -> list[dict[str, Any]]:
    """Return a curve as rows; four digits are enough for a screen."""
    rows = []
    x, y = np.asarray(curve.x, float), np.asarray(curve.y, float)
    low = high = np.full(x.shape, np.nan)
    if curve.low is not None and curve.high is not None:
        low, high = np.asarray(curve.low, float), np.asarray(curve.high, float)
    for n in range(x.size):
        row: dict[str, Any] = {"label": curve.label, "kind": curve.kind}
        numbers = {"x": x[n], "y": y[n], "low": low[n], "high": high[n]}
        row |= {
            name: float(f"{number:.4g}") for name, number in numbers.items() if np.isfinite(number)
        }
        rows.append(row)
    return rows


def axis(title: str, log: bool, values: list[float], zero: bool = False) -> dict[str, Any]:
    """Return type, scale and axis of a channel."""
    lines = title.replace(" (", "\n(").split("\n") if len(title) > 30 else [title]
    low, high = min(values), max(values)
    if not log:
        low = min(low, 0.0) if zero else low
        scale = {"domain": [low, high], "zero": False, "nice": zero}
        return {"type": "quantitative", "title": lines, "scale": scale}
    low, high = (low / 1.2, high * 1.2) if zero else (low, high)  # room above and below
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = max(1, math.ceil((last - first) / 6))
    fronts = (1, 2, 5) if last - first <= 2 else (1,)
    ticks = [float(f"{front}e{n}") for n in range(first, last + 1, step) for front in fronts]
    ticks = [tick for tick in ticks if low <= tick <= high]
    names = {f"{n:.0e}".replace("e+0", "e+").replace("e-0", "e-"): power(n) for n in ticks}
    named = f"({json.dumps(names, ensure_ascii=False)})[format(datum.value, '.0e')]"
    return {
        "type": "quantitative",
        "title": lines,
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {"values": ticks, "labelExpr": named},
    }


def as_json(data: Any) -> str:
    """Return data as JSON that may stand in a script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")
