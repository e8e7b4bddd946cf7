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

from kibitz.plotting.picture import Curve, Mark, Panel, Picture, choose_dashes, typeset

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
    y = axis(panel.y, panel.y_log, heights, include_zero=True)
    layers = curve_layers(panel, picture.labels(), x, y)
    layers += [layer for mark in panel.marks for layer in mark_layers(mark)]
    top_padding = 22 if any(other_panel.marks for other_panel in picture.panels) else 8
    return {
        "data": {"values": values},
        "params": [{"name": "hidden", "value": []}, {"name": "ink", "value": "#555"}],
        "transform": [{"filter": "indexof(hidden, datum.label) < 0"}],
        "width": "container",
        "height": 250,
        "padding": {"left": 2, "right": 14, "top": top_padding, "bottom": 2},
        "layer": layers,
    }


def curve_layers(panel: Panel, labels: list[str], x: Spec, y: Spec) -> list[Spec]:
    """Return layers for bands, bars, lines and points, and a layer that shows tooltips."""
    label_field: Spec = {"field": "label", "type": "nominal", "legend": None}
    colour_encoding = {**label_field, "scale": {"domain": labels}}
    dashes = [list(choose_dashes(n)) or [1, 0] for n in range(len(labels))]
    dash_encoding = {**label_field, "scale": {"domain": labels, "range": dashes}}
    point_encoding = {"x": x, "y": {"field": "y", **y}, "color": colour_encoding}
    range_encoding = {
        "x": x,
        "y": {"field": "low", **y},
        "y2": {"field": "high"},
        "color": colour_encoding,
    }
    hover_selection = {
        "select": {"type": "point", "on": "pointerover", "clear": "pointerout"},
        "name": "near",
    }
    hover_encoding = {
        **point_encoding,
        "opacity": {"condition": {"param": "near", "empty": False, "value": 0.8}, "value": 0},
        "tooltip": [
            {"field": "label", "title": "curve"},
            {"field": "x", "title": panel.x.split(",")[0], "format": ".4~g"},
            {"field": "y", "title": panel.y.split("\n")[0].split(" (")[0], "format": ".4~g"},
            {"field": "low", "title": "from", "format": ".4~g"},
            {"field": "high", "title": "to", "format": ".4~g"},
        ],
    }
    layers_by_kind = [
        ("line", layer("area", range_encoding, "line", "datum.low != null", opacity=0.13)),
        ("points", layer("rule", range_encoding, "points", "datum.low != null")),
        (
            "line",
            layer("line", {**point_encoding, "strokeDash": dash_encoding}, "line", strokeWidth=2),
        ),
        ("reference", layer("line", point_encoding, "reference", strokeWidth=1.5, strokeDash=[5, 3])),
        (
            "points",
            layer("line", {**point_encoding, "strokeDash": dash_encoding}, "points", strokeWidth=1.2),
        ),
        (
            "points",
            layer("point", point_encoding, "points", filled=True, size=34, opacity=1, clip=False),
        ),
        ("dots", layer("point", point_encoding, "dots", filled=True, size=60, opacity=1, clip=False)),
    ]
    kinds = {curve.kind for curve in panel.curves}
    hover_layer = {
        **layer("point", hover_encoding, filled=True, size=160),
        "params": [hover_selection],
    }
    return [*(curve_layer for kind, curve_layer in layers_by_kind if kind in kinds), hover_layer]


def mark_layers(mark: Mark) -> list[Spec]:
    """Return layers for a vertical line and its label."""
    mark_style: Spec = {"color": {"expr": "ink"}, "clip": False}
    position_encoding = {"x": {"datum": mark.x, "type": "quantitative"}}
    text_encoding = {**position_encoding, "y": {"value": 0}, "text": {"value": mark.label}}
    single_datum: Spec = {"data": {"values": [{}]}}
    return [
        {**layer("rule", position_encoding, strokeDash=[1, 3], **mark_style), **single_datum},
        {**layer("text", text_encoding, dy=-4, baseline="bottom", **mark_style), **single_datum},
    ]


def layer(
    mark: str, encoding: Spec, kind: str | None = None, condition: str = "true", **style: Any
) -> Spec:
    """Return a layer for the curves of one kind, or for all curves if `kind` is None."""
    return {
        "mark": {"type": mark, "aria": False, "clip": True, **style},
        "transform": [{"filter": f"datum.kind == '{kind}' && {condition}"}] if kind else [],
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
        coordinates = {"x": x[n], "y": y[n], "low": low[n], "high": high[n]}
        rounded_coordinates = {
            name: float(f"{coordinate:.4g}")
            for name, coordinate in coordinates.items()
            if np.isfinite(coordinate)
        }
        values.append({"label": curve.label, "kind": curve.kind, **rounded_coordinates})
    return values


def axis(title: str, is_log: bool, values: list[float], include_zero: bool = False) -> Spec:
    """Return the Vega-Lite encoding of the x or y coordinate: its type, title, scale and ticks.

    If `include_zero` is true, a linear axis includes 0, and a logarithmic axis has a margin.
    """
    title_lines = title.replace(" (", "\n(").split("\n") if len(title) > 30 else [title]
    low, high = min(values), max(values)
    if not is_log:
        low = min(low, 0.0) if include_zero else low
        scale = {"domain": [low, high], "zero": False, "nice": include_zero}
        return {"type": "quantitative", "title": title_lines, "scale": scale}
    low, high = (low / 1.2, high * 1.2) if include_zero else (low, high)
    first_exponent, last_exponent = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = max(1, math.ceil((last_exponent - first_exponent) / 6))
    mantissas = (1, 2, 5) if last_exponent - first_exponent <= 2 else (1,)
    ticks = [
        float(f"{mantissa}e{n}")
        for n in range(first_exponent, last_exponent + 1, step)
        for mantissa in mantissas
    ]
    ticks = [tick for tick in ticks if low <= tick <= high]
    tick_labels = {f"{n:.0e}".replace("e+0", "e+").replace("e-0", "e-"): typeset(n) for n in ticks}
    label_expression = f"({json.dumps(tick_labels, ensure_ascii=False)})[format(datum.value, '.0e')]"
    return {
        "type": "quantitative",
        "title": title_lines,
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {"values": ticks, "labelExpr": label_expression},
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
    completed_process = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE
    )
    return completed_process.stdout.decode()
