"""Figures in the browser: Vega-Lite specifications and the JavaScript that draws them.

The HTML page supplies the colours, for light and dark backgrounds. The parameter `hidden` of a
chart lists the curves that the reader has switched off.
"""

import json
import math
import subprocess
import sys
from typing import Any

import numpy as np

from kibitz.plotting.picture import DASHES, Curve, Mark, Panel, Picture, typeset

Spec = dict[str, Any]


def make_chart(panel: Panel, picture: Picture) -> Spec:
    """Return the Vega-Lite specification of a panel."""
    values = [value for curve in panel.curves for value in curve_values(curve)]
    heights = [value[key] for value in values for key in ("y", "low", "high") if key in value]
    if panel.y_log:  # an error bar that reaches below 0 ends at the axis
        heights = [height for height in heights if height > 0]
        for value in values:
            if "low" in value:
                value["low"] = max(value["low"], min(heights))
    x = {"field": "x", **axis(panel.x, panel.x_log, [value["x"] for value in values])}
    y = axis(panel.y, panel.y_log, heights, zero=True)
    layers = curve_layers(panel, picture.labels(), x, y)
    layers += [layer for mark in panel.marks for layer in mark_layers(mark)]
    top = 22 if any(one.marks for one in picture.panels) else 8
    return {
        "data": {"values": values},
        "params": [{"name": "hidden", "value": []}, {"name": "ink", "value": "#555"}],
        "transform": [{"filter": "indexof(hidden, datum.label) < 0"}],
        "width": "container",
        "height": 250,
        "padding": {"left": 2, "right": 14, "top": top, "bottom": 2},
        "layer": layers,
    }


def curve_layers(panel: Panel, labels: list[str], x: Spec, y: Spec) -> list[Spec]:
    """Return layers for bands, bars, lines and points, and a layer that shows tooltips."""
    named: Spec = {"field": "label", "type": "nominal", "legend": None}
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
    by_kind = [
        ("line", layer("area", between, "line", "datum.low != null", opacity=0.13)),
        ("points", layer("rule", between, "points", "datum.low != null")),
        ("line", layer("line", {**at, "strokeDash": dash}, "line", strokeWidth=2)),
        ("reference", layer("line", at, "reference", strokeWidth=1.5, strokeDash=[5, 3])),
        ("points", layer("line", {**at, "strokeDash": dash}, "points", strokeWidth=1.2)),
        ("points", layer("point", at, "points", filled=True, size=34, opacity=1, clip=False)),
        ("dots", layer("point", at, "dots", filled=True, size=60, opacity=1, clip=False)),
    ]
    kinds = {curve.kind for curve in panel.curves}
    pointer = {**layer("point", hover, filled=True, size=160), "params": [near]}
    return [*(drawn for kind, drawn in by_kind if kind in kinds), pointer]


def mark_layers(mark: Mark) -> list[Spec]:
    """Return layers for a vertical line and its label."""
    ink: Spec = {"color": {"expr": "ink"}, "clip": False}
    position = {"x": {"datum": mark.x, "type": "quantitative"}}
    text = {**position, "y": {"value": 0}, "text": {"value": mark.label}}
    once: Spec = {"data": {"values": [{}]}}
    return [
        {**layer("rule", position, strokeDash=[1, 3], **ink), **once},
        {**layer("text", text, dy=-4, baseline="bottom", **ink), **once},
    ]


def layer(
    mark: str, encoding: Spec, kind: str | None = None, test: str = "true", **style: Any
) -> Spec:
    """Return a layer for the curves of one kind, or for all curves if `kind` is None."""
    return {
        "mark": {"type": mark, "aria": False, "clip": True, **style},
        "transform": [{"filter": f"datum.kind == '{kind}' && {test}"}] if kind else [],
        "encoding": encoding,
    }


def curve_values(curve: Curve) -> list[Spec]:
    """Return the points of a curve, rounded to four digits and without NaN."""
    x, y = np.asarray(curve.x, float), np.asarray(curve.y, float)
    low = high = np.full(x.shape, np.nan)
    if curve.low is not None and curve.high is not None:
        low, high = np.asarray(curve.low, float), np.asarray(curve.high, float)
    values = []
    for n in range(x.size):
        numbers = {"x": x[n], "y": y[n], "low": low[n], "high": high[n]}
        rounded = {name: float(f"{z:.4g}") for name, z in numbers.items() if np.isfinite(z)}
        values.append({"label": curve.label, "kind": curve.kind, **rounded})
    return values


def axis(title: str, log: bool, values: list[float], zero: bool = False) -> Spec:
    """Return the type, scale and axis of a channel.

    With `zero`, a linear axis includes 0, and a logarithmic axis has a margin.
    """
    lines = title.replace(" (", "\n(").split("\n") if len(title) > 30 else [title]
    low, high = min(values), max(values)
    if not log:
        low = min(low, 0.0) if zero else low
        scale = {"domain": [low, high], "zero": False, "nice": zero}
        return {"type": "quantitative", "title": lines, "scale": scale}
    low, high = (low / 1.2, high * 1.2) if zero else (low, high)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = max(1, math.ceil((last - first) / 6))
    fronts = (1, 2, 5) if last - first <= 2 else (1,)
    ticks = [float(f"{front}e{n}") for n in range(first, last + 1, step) for front in fronts]
    ticks = [tick for tick in ticks if low <= tick <= high]
    names = {f"{n:.0e}".replace("e+0", "e+").replace("e-0", "e-"): typeset(n) for n in ticks}
    named = f"({json.dumps(names, ensure_ascii=False)})[format(datum.value, '.0e')]"
    return {
        "type": "quantitative",
        "title": lines,
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {"values": ticks, "labelExpr": named},
    }


def bundle_javascript() -> str:
    """Return the JavaScript of Vega, Vega-Lite and vega-embed.

    A subprocess bundles the JavaScript, because bundling takes 100 MB of memory.
    """
    program = (
        "import sys, vl_convert; "
        "bundle = vl_convert.javascript_bundle('window.vegaEmbed = vegaEmbed;'); "
        "sys.stdout.buffer.write(bundle.encode())"
    )
    bundle = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE)
    return bundle.stdout.decode()
