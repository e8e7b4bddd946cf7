"""Recompute the numbers in the tables of docs/kibitzer.md and docs/kibitzer_proof.md.

If it is run as a program, this file replaces the placeholders NUMBERS, GAUSSIAN, … by the tables.
"""

import itertools
from pathlib import Path

import numpy as np
import pytest

import kibitz
from kibitz.bounds import upper
from kibitz.bounds.upper import _crossing as crossing
from kibitz.evaluation.bayes_optimal import bayes_optimal

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "kibitzer.md", DOCS / "kibitzer_proof.md"]
PROBLEMS = {"five arms": [0, 0.2, 0.5, 1.0, 1.5], "four arms": [0, 0.2, 1.5, 1.8]}
WEIGHTS = {
    "uniform": "uniform",
    "hardly the best": [0.001, *[0.999 / 4] * 4],
    "optimal": "optimal",
    "suboptimal": "suboptimal",
    "worst only": [0, 0, 0, 0, 1],
    "best only": [1, 0, 0, 0, 0],
}
LONG_HORIZON = 2**53


def format_number(value):
    if value == np.inf:
        return "∞"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def iterate_cases():
    for name, gaps in PROBLEMS.items():
        for rate in (0.1, 0.01):
            yield name, gaps, rate


def compute_bounds(gaps, rate, beta):
    return [
        upper.kibitzer(gaps, rate, beta=beta),
        upper.kibitzer(gaps, rate, looks="periodic", beta=beta),
        upper.kibitzer(gaps, rate, looks="uniform", beta=beta),
        upper.kibitzer(gaps, rate, form="closed", beta=beta),
        upper.kibitzer(gaps, rate, looks="uniform", form="closed", beta=beta),
    ]


def make_bound_rows():
    for name, gaps, rate in iterate_cases():
        values = [*compute_bounds(gaps, rate, 1), upper.ucb_sharp(gaps, rate, None, LONG_HORIZON)]
        yield [name, f"{rate:g}", *map(format_number, values)]


def make_zero_beta_rows():
    for name, gaps, rate in iterate_cases():
        yield [name, f"{rate:g}", *map(format_number, compute_bounds(gaps, rate, 0))]


def make_gaussian_rows():
    for name, gaps, rate in iterate_cases():
        values = [
            upper.kibitzer(gaps, rate, looks=looks, form=form, beta=beta, gaussian=True)
            for beta in (1, 0)
            for looks, form in (("active", "proved"), ("uniform", "proved"), ("active", "closed"))
        ]
        yield [name, f"{rate:g}", *map(format_number, values)]


def make_weight_rows():
    horizons = [10**4, 10**6, 10**9, np.inf]
    for name, shares in WEIGHTS.items():
        for rate in (0.1, 0.01):
            options = {"looks": "passive", "weights": shares}
            values = upper.kibitzer(PROBLEMS["five arms"], rate, horizons, **options)
            closed_bound = upper.kibitzer(
                PROBLEMS["five arms"], rate, 10**9, form="closed", **options
            )
            yield [name, f"{rate:g}", *map(format_number, [*values, closed_bound])]


def make_horizon_rows():
    gaps = PROBLEMS["five arms"]
    for rate, horizon in ((0.1, 10**4), (0.01, 10**4), (0.0, 10**4), (0.0, 10**6)):
        values = [
            upper.kibitzer(gaps, rate, horizon),
            upper.kibitzer(gaps, rate, horizon, beta=0),
            upper.ucb_sharp(gaps, rate, None, horizon),
        ]
        yield [f"{rate:g}", f"{horizon:.0e}".replace("e+0", "e"), *map(format_number, values)]


def make_constant_rows():
    for rate in (1.0, 0.1, 0.01, 0.001):
        row = [f"{rate:g}"]
        for beta in (1.0, 0.0):
            t = crossing.load_tables(8.0, beta)
            speed_index = np.searchsorted(t.speeds, (1 + 1e-9) / rate) - 1
            periodic = crossing.compute_periodic_constant(t)[speed_index]
            row += [
                format_number(crossing.compute_random_constant(t, rate)),
                format_number(periodic),
                format_number(crossing.compute_random_constant(t, rate, is_passive=True)),
            ]
        yield row


def iterate_settings():
    """Yield the settings of the table of simulated regret: name of the looks, feedback and β."""
    for rate, beta in itertools.product((0.1, 0.01), (1, 0)):
        yield "active", kibitz.active(rate), beta
    for name in ("uniform", "hardly the best", "optimal", "worst only"):
        yield f"passive, {name}", kibitz.passive(0.1, WEIGHTS[name]), 1


def iterate_measurements():
    """Yield the cells, the bound, the mean regret and its standard error for each setting."""
    means = 2 - np.array(PROBLEMS["five arms"])
    problem = kibitz.gaussian(means)
    for name, feedback, beta in iterate_settings():
        bounds = [
            upper.kibitzer(problem, feedback, 10**4, beta=beta, gaussian=is_gaussian)
            for is_gaussian in (False, True)
        ]
        policy = kibitz.kibitzer(beta=beta)
        data = kibitz.simulate(problem, feedback, policy, horizon=10**4, runs=1000, seed=1)
        regret = np.ravel(data.final_regret.to_numpy())
        cells = [name, f"{feedback.rate:g}", str(beta), *map(format_number, bounds)]
        yield cells, bounds[1], regret.mean(), regret.std(ddof=1) / regret.size**0.5


def make_measured_rows():
    for cells, bound, mean, sem in iterate_measurements():
        yield [*cells, f"{mean:.1f} ± {sem:.1f}", format_number(bound / mean)]


def make_limit_rows():
    for label, look_period in (("none", None), ("every ten stages", 10), ("at each stage", 1)):
        yield [
            label,
            *(f"{bayes_optimal(horizon, look_period).regret:.3f}" for horizon in (60, 100, 200)),
        ]


def format_lines(rows):
    """Return the rows as lines of a Markdown table."""
    return ["| " + " | ".join(row) + " |" for row in rows]


ROWS_BY_PLACEHOLDER = {
    "NUMBERS": make_bound_rows,
    "ZERO": make_zero_beta_rows,
    "GAUSSIAN": make_gaussian_rows,
    "WEIGHTS": make_weight_rows,
    "HORIZONS": make_horizon_rows,
    "CONSTANTS": make_constant_rows,
    "LIMITS": make_limit_rows,
}


def test_pages_show_the_computed_numbers():
    page_lines = [line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines()]
    for rows in ROWS_BY_PLACEHOLDER.values():
        for line in format_lines(rows()):
            assert line in page_lines


def test_page_shows_the_measured_regret():
    """Compare the regret on the page with a simulation, within 5 standard errors of the difference.

    If the simulator draws other random numbers than on the page, each of the eight comparisons fails
    with probability below 1e-6.
    """
    page_lines = PAGES[1].read_text(encoding="utf-8").splitlines()
    for cells, bound, mean, sem in iterate_measurements():
        (line,) = [line for line in page_lines if line.startswith("| " + " | ".join(cells) + " | ")]
        regret, ratio = line.strip("| ").split(" | ")[-2:]
        page_regret, error = map(float, regret.split(" ± "))
        assert abs(page_regret - mean) < 5 * np.hypot(sem, error) + 0.05
        assert float(ratio) == pytest.approx(bound / page_regret, rel=0.02)


if __name__ == "__main__":
    tables = {
        placeholder: "\n".join(format_lines(rows()))
        for placeholder, rows in {**ROWS_BY_PLACEHOLDER, "MEASURED": make_measured_rows}.items()
    }
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for placeholder, table in tables.items():
            text = text.replace(f"\n{placeholder}\n", f"\n{table}\n")
        page.write_text(text, encoding="utf-8")
