"""Draw the bar chart of docs/performance.md from docs/performance.txt.

The colours follow the page (`currentColor`), so the drawing suits light and dark mode.
"""

import math
import re
from pathlib import Path

DOCS = Path(__file__).parent
# label of each bar: regular expression for the line of performance.txt with its CPU time
BARS = {
    "C++": r"ucb by hand in C\+\+",
    "kibitz": "ucb, bandit",
    "JAX": r"jax [\d.]+",
    "NumPy": "ucb, NumPy over 100 runs",
    "Python": "ucb, plain Python",
    "SMPyBandits": r"SMPyBandits [\d.]+",
    "coba": r"coba [\d.]+",
    "rlberry": r"rlberry [\d.]+",
    "MABWiser": r"mabwiser [\d.]+",
}
# The width of the chart and its left and right margins
WIDTH, LEFT, RIGHT = 440, 92, 66
ROW_HEIGHT, BAR_HEIGHT = 26, 17
AXIS_END_NS = 1e5


def read_times_ns() -> dict[str, float]:
    """Return the CPU time per stage, in nanoseconds, for each bar."""
    report = (DOCS / "performance.txt").read_text(encoding="utf-8")
    lines = {
        name: re.search(rf"^{line} +([\d.]+) ", report, re.M)
        for name, line in BARS.items()
    }
    return {name: float(match[1]) for name, match in lines.items() if match}


def draw_chart(times: dict[str, float]) -> str:
    """Return an SVG drawing with one bar per entry, on a logarithmic scale that starts at 1 ns."""
    height = ROW_HEIGHT * len(times) + 8
    words = (
        "CPU time per stage of UCB in kibitz, hand-written C++ and other libraries"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" viewBox="0 0 {WIDTH} {height}"'
        f' role="img" font-size="13" fill="currentColor" aria-label="{words}">'
    ]
    for row, (name, time) in enumerate(times.items()):
        y = 4 + ROW_HEIGHT * row
        length = (WIDTH - LEFT - RIGHT) * math.log10(time) / math.log10(AXIS_END_NS)
        colour = "#d55e00" if name == "kibitz" else "#0072b2"
        duration = f"{time:g} ns" if time < 1000 else f"{time / 1000:.1f} µs"
        parts += [
            f'<text x="{LEFT - 8}" y="{y + BAR_HEIGHT - 4}" text-anchor="end">{name}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR_HEIGHT}" fill="{colour}"/>',
            f'<text x="{LEFT + length + 6:.1f}" y="{y + BAR_HEIGHT - 4}">{duration}</text>',
        ]
    return "\n".join([*parts, "</svg>\n"])


def write(target: Path) -> None:
    """Write the chart to a file."""
    target.parent.mkdir(exist_ok=True)
    target.write_text(draw_chart(read_times_ns()), encoding="utf-8")
