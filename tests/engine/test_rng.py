"""Random numbers equal the numbers of NumPy's generators, bit for bit."""

import numba
import numpy as np
import pytest
from histories import numpy_show_stream, numpy_streams
from hypothesis import given, strategies as st
from numpy.random import SFC64, Generator, SeedSequence

from kibitz.engine import rng as kibitz_rng
from kibitz.engine.cache import cached_dispatcher
from kibitz.engine.rng import new_stream, seed_shows, seed_stream

N_DRAWS = 1_000 if numba.config.DISABLE_JIT else 3_000_000


def seed_one_stream(stream, seeds):
    seed_stream(stream, seeds)


def seed_show_stream(stream, key, stage, arm):
    seed_shows(stream, key, stage, arm)


def make_filler(draw):
    def fill(stream, out):
        for n in range(out.size):
            out[n] = draw(stream)

    return cached_dispatcher(fill)


FILLERS = {"normal": make_filler(kibitz_rng.normal), "uniform": make_filler(kibitz_rng.uniform)}


@given(st.integers(0, 2**300), st.integers(0, 2**32 - 3))
def test_runs_are_seeded_by_numpys_seed_sequence(seed, run):
    seeds = kibitz_rng.make_seeds(seed, run, run + 2)
    for n in range(2):
        numpy_seeds = SeedSequence(seed, spawn_key=(run + n,)).generate_state(12, np.uint64)
        np.testing.assert_array_equal(seeds[n], numpy_seeds)


def test_the_seeds_of_a_run_do_not_depend_on_other_runs():
    all_seeds = kibitz_rng.make_seeds(7, 0, 100)
    for first_run, end_run in ((0, 1), (17, 40), (99, 100)):
        np.testing.assert_array_equal(
            kibitz_rng.make_seeds(7, first_run, end_run), all_seeds[first_run:end_run]
        )


def test_streams_equal_numpys_sfc64():
    seeds = kibitz_rng.make_seeds(5, 3, 4)[0]
    for n, (kibitz_stream, numpy_rng) in enumerate(
        zip(kibitz_rng.new_streams()[:3], numpy_streams(5, 3), strict=True)
    ):
        cached_dispatcher(seed_one_stream)(kibitz_stream, seeds[3 * n : 3 * n + 3])
        np.testing.assert_array_equal(kibitz_stream.rng.random(5), numpy_rng.random(5))
        np.testing.assert_array_equal(
            kibitz_stream.rng.standard_normal(99), numpy_rng.standard_normal(99)
        )


@pytest.mark.parametrize(
    ("kibitz_draw", "numpy_draw"), [("normal", "standard_normal"), ("uniform", "random")]
)
def test_numbers_equal_those_of_numpys_generator(kibitz_draw, numpy_draw):
    """Three million draws cover all layers of the ziggurat, their edges and the tail."""
    out = np.empty(N_DRAWS)
    FILLERS[kibitz_draw](new_stream(8), out)
    np.testing.assert_array_equal(out, getattr(Generator(SFC64(8)), numpy_draw)(N_DRAWS))


@pytest.mark.parametrize("name", ["normal", "uniform"])
def test_plain_python_draws_the_same_numbers(name):
    plain_stream, compiled_stream = new_stream(8), new_stream(8)
    out = np.empty(500)
    FILLERS[name](compiled_stream, out)
    assert [getattr(kibitz_rng, name)(plain_stream) for _ in range(500)] == out.tolist()


def test_kibitz_and_numpy_draw_from_the_same_state():
    stream, numpy_rng = new_stream(9), Generator(SFC64(9))
    out = np.empty(3)
    for _ in range(5):
        FILLERS["normal"](stream, out)
        np.testing.assert_array_equal(out, numpy_rng.standard_normal(3))
        assert stream.rng.standard_exponential() == numpy_rng.standard_exponential()
        FILLERS["uniform"](stream, out)
        np.testing.assert_array_equal(out, numpy_rng.random(3))


@pytest.mark.parametrize("n", [1, 2, 50])
def test_seeds_have_the_same_layout_for_any_number_of_runs(n):
    """Another memory layout would be another type for numba, which would compile the loop again."""
    assert numba.typeof(kibitz_rng.make_seeds(1, 0, n)) == numba.types.uint64[:, ::1]


@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_stream_of_shows_depends_on_stage_and_arm(is_compiled):
    seeds = kibitz_rng.make_seeds(5, 3, 4)[0]
    streams = kibitz_rng.new_streams(has_graph=True)
    seed_shows = cached_dispatcher(seed_show_stream) if is_compiled else seed_show_stream
    for stage, arm in ((1, 0), (1, 1), (2, 0), (10**12, 4999)):
        seed_shows(streams.shows, seeds[9:], stage, arm)
        expected = numpy_show_stream(5, 3, stage, arm).random(5)
        np.testing.assert_array_equal(streams.shows.rng.random(5), expected)
