"""Tests that all numbers in docs/performance.md are measurements from docs/performance.txt."""

import re
from pathlib import Path

import performance_chart

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "performance.md").read_text(encoding="utf-8")
REPORT = (DOCS / "performance.txt").read_text(encoding="utf-8")


def test_every_time_in_the_table_was_measured():
    shown_times = re.findall(r"^\| .* \| ([\d.]+) (?:ns|ms|s|times as fast) \|$", PAGE, re.MULTILINE)
    assert len(shown_times) > 10
    assert set(shown_times) <= set(re.findall(r"[\d.]*\d", REPORT))


def test_the_ratio_to_cpp_was_measured():
    (ratio,) = re.findall(r"kibitz takes ([\d.]+) times as long", PAGE)
    assert re.search(rf"^ucb, x by hand +{re.escape(ratio)} ", REPORT, re.MULTILINE)


def test_the_chart_has_a_bar_of_the_measured_length_for_each_program():
    times = performance_chart.read_times_ns()
    assert set(times) == set(performance_chart.BARS)
    svg = performance_chart.draw_chart(times)
    bar_widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', svg)]
    assert [width for _, width in sorted(zip(times.values(), bar_widths, strict=True))] == sorted(
        bar_widths
    )
    assert f">{times['kibitz']:g} ns<" in svg
