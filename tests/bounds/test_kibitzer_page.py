"""Recompute the numbers in the tables of docs/kibitzer.md and docs/kibitzer_proof.md.

Run as a program, this file replaces the placeholders NUMBERS, GAUSSIAN, … by the tables.
"""

from pathlib import Path

import numpy as np
import pytest

from kibitz.bounds import upper
from kibitz.bounds.upper import _crossing as crossing
from kibitz.evaluation.bayes_optimal import bayes_optimal

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "kibitzer.md", DOCS / "kibitzer_proof.md"]
PROBLEMS = {"five arms": [0, 0.2, 0.5, 1.0, 1.5], "four arms": [0, 0.2, 1.5, 1.8]}
FOREVER = 2**53


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def numbers():
    for name, gaps in PROBLEMS.items():
        for rate in (0.1, 0.01):
            values = [
                upper.kibitzer(gaps, rate),
                upper.kibitzer(gaps, rate, looks="uniform"),
                upper.kibitzer(gaps, rate, looks="periodic"),
                upper.kibitzer(gaps, rate, form="closed"),
                upper.kibitzer(gaps, rate, beta=0),
                upper.kibitzer(gaps, rate, looks="uniform", beta=0),
                upper.kibitzer(gaps, rate, form="closed", beta=0),
                upper.ucb_sharp(gaps, rate, None, FOREVER),
            ]
            yield [name, f"{rate:g}", *map(number, values)]


def gaussian():
    for name, gaps in PROBLEMS.items():
        for rate in (0.1, 0.01):
            values = [
                upper.kibitzer(gaps, rate, looks=looks, form=form, beta=beta, gaussian=True)
                for beta in (1, 0)
                for looks, form in (("active", "proved"), ("uniform", "proved"), ("active", "closed"))
            ]
            yield [name, f"{rate:g}", *map(number, values)]


def horizons():
    gaps = PROBLEMS["five arms"]
    for rate, horizon in ((0.1, 10**4), (0.01, 10**4), (0.0, 10**4), (0.0, 10**6)):
        values = [
            upper.kibitzer(gaps, rate, horizon),
            upper.kibitzer(gaps, rate, horizon, beta=0),
            upper.ucb_sharp(gaps, rate, None, horizon),
        ]
        yield [f"{rate:g}", f"{horizon:.0e}".replace("e+0", "e"), *map(number, values)]


def constants():
    for rate in (1.0, 0.1, 0.01, 0.001):
        row = [f"{rate:g}"]
        for beta in (1.0, 0.0):
            t = crossing.load_tables(8.0, beta)
            at = np.searchsorted(t.speeds, (1 + 1e-9) / rate) - 1
            periodic = crossing.compute_periodic_constant(t)[at]
            row += [number(crossing.compute_random_constant(t, rate)), number(periodic)]
        yield row


def limits():
    for words, every in (("none", None), ("every ten stages", 10), ("at each stage", 1)):
        yield [words, *(f"{bayes_optimal(horizon, every).regret:.3f}" for horizon in (60, 100, 200))]


def lines(rows):
    """Return the rows as lines of a Markdown table."""
    return ["| " + " | ".join(row) + " |" for row in rows]


PARTS = {
    "NUMBERS": numbers,
    "GAUSSIAN": gaussian,
    "HORIZONS": horizons,
    "CONSTANTS": constants,
    "LIMITS": limits,
}


def test_pages_show_the_computed_numbers():
    shown = [line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines()]
    for rows in PARTS.values():
        for line in lines(rows()):
            assert line in shown


if __name__ == "__main__":
    computed = {part: "\n".join(lines(rows())) for part, rows in PARTS.items()}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for part, table in computed.items():
            text = text.replace(f"\n{part}\n", f"\n{table}\n")
        page.write_text(text, encoding="utf-8")
