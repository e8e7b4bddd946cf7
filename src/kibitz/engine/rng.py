r"""Random numbers: each run has three streams of its own, made from (seed, run) only.

They are NumPy's SFC64 generators, for the rewards of pulls, for everything about looks, and for the
policy itself. Numbers are those that NumPy's own `Generator` returns. In compiled code, normal and
uniform ones are drawn here, to the same bits: numba calls the generator through a pointer, which
costs as much as the drawing.
"""

import ctypes
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence
from numpy.typing import NDArray

from kibitz._jit import jit
from kibitz.engine.numba_compat import (
    NORMAL_HEIGHTS,
    NORMAL_LIMITS,
    NORMAL_TAIL,
    NORMAL_TAIL_INVERSE,
    NORMAL_WIDTHS,
)

Array = NDArray[Any]


class Stream(NamedTuple):
    """A generator, and the memory of its state: three words, a counter, and a half-used draw."""

    rng: Any
    words: Array


class Streams(NamedTuple):
    """The streams of a run."""

    rewards: Stream
    looks: Stream
    policy: Stream


def new_stream(seed: int = 0) -> Stream:
    """Return the stream of NumPy's `SFC64(seed)`."""
    generator = SFC64(seed)
    memory = (ctypes.c_uint64 * 5).from_address(generator.ctypes.state_address)
    return Stream(Generator(generator), np.ctypeslib.as_array(memory))


def streams() -> Streams:
    """Return streams that `seed_stream` has yet to seed."""
    return Streams(new_stream(), new_stream(), new_stream())


# -------------------------------------------------------------------------------------- seeding


def seed_words(seed: int, first: int, last: int) -> NDArray[np.uint64]:
    """Return nine words for each of runs first, ..., last - 1: three to seed each stream.

    They are `SeedSequence(seed, spawn_key=(run,)).generate_state(9, np.uint64)`, for all runs at
    once: the run, one word, is mixed into the pool that NumPy makes of the seed.
    """
    runs = np.arange(first, last, dtype=np.uint32)[:, None]
    n_hashed = 4 * max(4, -(-int(seed).bit_length() // 32))  # four for each word of the seed
    start = 0x43B0D7E5 * pow(0x931E8875, n_hashed, 2**32) % 2**32
    pool = np.uint32(0xCA01F9DD) * SeedSequence(seed).pool
    pool = pool - np.uint32(0x4973F715) * _hashed(np.repeat(runs, 4, 1), start, 0x931E8875)
    pool ^= pool >> np.uint32(16)
    state = _hashed(pool[:, np.arange(18) % 4], 0x8B51F9DD, 0x58F38DED).astype(np.uint64)
    return np.ascontiguousarray(state[:, 0::2] | state[:, 1::2] << np.uint64(32))


def _hashed(values: NDArray[np.uint32], constant: int, multiplier: int) -> NDArray[np.uint32]:
    """Hash columns of words as SeedSequence does, one after another, the constant changing."""
    constants = [constant]
    for _ in range(values.shape[1]):
        constants.append(constants[-1] * multiplier % 2**32)
    values = (values ^ np.array(constants[:-1], np.uint32)) * np.array(constants[1:], np.uint32)
    return values ^ (values >> np.uint32(16))


@jit
def seed_stream(stream: Stream, words: Array) -> None:
    """Seed a generator as NumPy's SFC64 is seeded: three words, a counter, twelve steps."""
    stream.words[0] = words[0]
    stream.words[1] = words[1]
    stream.words[2] = words[2]
    stream.words[3] = 1
    stream.words[4] = 0
    for _ in range(12):
        stream.rng.random()


# -------------------------------------------------------------------------------------- drawing

# The ziggurat of Marsaglia and Tsang (2000) with NumPy's tables, which numba has a copy of.
WIDTHS, HEIGHTS, LIMITS = NORMAL_WIDTHS, NORMAL_HEIGHTS, NORMAL_LIMITS.astype(np.int64)


@jit
def next_bits(state: Any) -> tuple[Any, Any]:
    """Draw 64 random bits from the state of a generator; return them, and its next state."""
    a, b, c, counter = state
    drawn = a + b + counter
    mixed = ((c << np.uint64(24)) | (c >> np.uint64(40))) + drawn
    return drawn, (b ^ (b >> np.uint64(11)), c + (c << np.uint64(3)), mixed, counter + np.uint64(1))


@jit
def load(stream: Stream) -> Any:
    """Return the state of a generator: what is drawn in a row is drawn from registers."""
    words = stream.words
    return words[0], words[1], words[2], words[3]


@jit
def store(stream: Stream, state: Any) -> None:
    """Put a state back."""
    words = stream.words
    words[0], words[1], words[2], words[3] = state


@jit
def compiled_next_uniform(stream: Stream, state: Any) -> tuple[Any, Any]:
    """Draw a number from [0, 1), in compiled code."""
    drawn, state = next_bits(state)
    return np.int64(drawn >> np.uint64(11)) * 2.0**-53, state


@jit(substitute=compiled_next_uniform)
def next_uniform(stream: Stream, state: Any) -> tuple[Any, Any]:
    """Draw a number from [0, 1), and the next state."""
    store(stream, state)
    return stream.rng.random(), load(stream)


@jit
def uniform(stream: Stream) -> Any:
    """Draw a number from [0, 1)."""
    drawn, state = next_uniform(stream, load(stream))
    store(stream, state)
    return drawn


@jit
def parts(drawn: Any) -> tuple[Any, Any, Any]:
    """Split random bits into a layer of the ziggurat, a place in it and a sign."""
    layer = np.int64(drawn & np.uint64(0xFF))
    place = np.int64((drawn >> np.uint64(9)) & np.uint64(0xFFFFFFFFFFFFF))
    return layer, place, 1 - 2 * np.int64((drawn >> np.uint64(8)) & np.uint64(1))


@jit(inline=False)
def rare_normal(stream: Stream, drawn: Any) -> Any:
    """Draw a standard normal number from bits that fell on the edge of a layer, or in the tail."""
    while True:
        layer, place, sign = parts(drawn)
        x = sign * (place * WIDTHS[layer])
        if place < LIMITS[layer]:
            return x
        if layer == 0:
            while True:
                beyond = -NORMAL_TAIL_INVERSE * math.log1p(-uniform(stream))
                y = -math.log1p(-uniform(stream))
                if y + y > beyond * beyond:
                    beyond += NORMAL_TAIL
                    return -beyond if (place >> 8) & 1 else beyond
        low, high = HEIGHTS[layer], HEIGHTS[layer - 1]
        if (high - low) * uniform(stream) + low < math.exp(-0.5 * x * x):
            return x
        drawn, state = next_bits(load(stream))
        store(stream, state)


@jit
def compiled_next_normal(stream: Stream, state: Any) -> tuple[Any, Any]:
    """Draw a standard normal number, in compiled code: 99 times of 100 at once."""
    drawn, state = next_bits(state)
    layer, place, sign = parts(drawn)
    if place < LIMITS[layer]:
        return sign * (place * WIDTHS[layer]), state
    store(stream, state)
    return rare_normal(stream, drawn), load(stream)


@jit(substitute=compiled_next_normal)
def next_normal(stream: Stream, state: Any) -> tuple[Any, Any]:
    """Draw a standard normal number, and the next state."""
    store(stream, state)
    return stream.rng.standard_normal(), load(stream)


@jit
def normal(stream: Stream) -> Any:
    """Draw a standard normal number."""
    drawn, state = next_normal(stream, load(stream))
    store(stream, state)
    return drawn
