"""Random number streams: four for each run, which depend on (seed, run) only.

The streams are for the rewards of pulls, for the arrivals and rewards of looks, for the policy, and
for what a pull shows of other arms. The last stream is seeded again at each stage, from the stage and
the pulled arm, so two policies that pull the same arm at the same stage get the same shows. Each
stream is a NumPy SFC64 generator, and all its numbers equal those of NumPy's `Generator`, bit for
bit. Compiled code implements normal and uniform numbers itself: numba would call the generator
through a pointer, and this call costs as much as drawing the number.
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
    """A generator and a view of its state: three 64-bit words, a counter and a buffer."""

    rng: Any
    state: Array


class Streams(NamedTuple):
    """The random streams of a run, one for each purpose."""

    rewards: Stream
    looks: Stream
    policy: Stream
    shows: Any  # a stream; None without a graph
    show_key: Any  # three words from which `seed_shows` seeds `shows`; None without a graph


def new_stream(seed: int = 0) -> Stream:
    """Return the stream of NumPy's `SFC64(seed)`."""
    generator = SFC64(seed)
    memory = (ctypes.c_uint64 * 5).from_address(generator.ctypes.state_address)
    return Stream(Generator(generator), np.ctypeslib.as_array(memory))


def new_streams(has_graph: bool = False) -> Streams:
    """Return new streams, which `seed_stream` must seed before each run."""
    shows = (new_stream(), np.zeros(3, np.uint64)) if has_graph else (None, None)
    return Streams(new_stream(), new_stream(), new_stream(), *shows)


# -------------------------------------------------------------------------------------- seeding


def make_seeds(seed: int, first_run: int, end_run: int) -> NDArray[np.uint64]:
    """Return the seeds of runs `first_run` to `end_run` - 1: one row of twelve 64-bit words per run.

    The row of a run equals `SeedSequence(seed, spawn_key=(run,)).generate_state(12, np.uint64)`. Each
    of the four streams gets three words. All rows are computed at once, by mixing the number of the
    run into the entropy pool of the seed.
    """
    runs = np.arange(first_run, end_run, dtype=np.uint32)[:, None]
    n_hashed = 4 * max(4, -(-int(seed).bit_length() // 32))  # four hashes per 32-bit word of the seed
    start = 0x43B0D7E5 * pow(0x931E8875, n_hashed, 2**32) % 2**32
    pool = np.uint32(0xCA01F9DD) * SeedSequence(seed).pool
    pool = pool - np.uint32(0x4973F715) * _hash_columns(np.repeat(runs, 4, 1), start, 0x931E8875)
    pool ^= pool >> np.uint32(16)
    state = _hash_columns(pool[:, np.arange(24) % 4], 0x8B51F9DD, 0x58F38DED).astype(np.uint64)
    return np.ascontiguousarray(state[:, 0::2] | state[:, 1::2] << np.uint64(32))


def _hash_columns(values: NDArray[np.uint32], constant: int, multiplier: int) -> NDArray[np.uint32]:
    """Hash the columns one after another as SeedSequence does, each column with its own constant."""
    constants = [constant]
    for _ in range(values.shape[1]):
        constants.append(constants[-1] * multiplier % 2**32)
    values = (values ^ np.array(constants[:-1], np.uint32)) * np.array(constants[1:], np.uint32)
    return values ^ (values >> np.uint32(16))


@jit
def seed_stream(stream: Stream, seed: Array) -> None:
    """Seed a generator as NumPy seeds SFC64: set three words and a counter, then discard 12 draws."""
    stream.state[0] = seed[0]
    stream.state[1] = seed[1]
    stream.state[2] = seed[2]
    stream.state[3] = 1
    stream.state[4] = 0
    for _ in range(12):
        stream.rng.random()


STAGE_FACTOR, ARM_FACTOR = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9  # odd constants of SplitMix64


@jit
def compiled_seed_shows(stream: Stream, key: Array, stage: int, arm: int) -> None:
    """Seed the stream of shows in compiled code, for a pull of `arm` at `stage`."""
    state = (
        key[0] ^ (np.uint64(stage) * np.uint64(STAGE_FACTOR)),
        key[1] ^ (np.uint64(arm) * np.uint64(ARM_FACTOR)),
        key[2],
        np.uint64(1),
    )
    for _ in range(12):
        _, state = next_bits(state)
    store(stream, state)


@jit(substitute=compiled_seed_shows)
def seed_shows(stream: Stream, key: Array, stage: int, arm: int) -> None:
    """Seed the stream of shows for a pull of `arm` at `stage`, by the method of `seed_stream`."""
    words = key.copy()
    words[0] ^= np.uint64(int(stage) * STAGE_FACTOR % 2**64)
    words[1] ^= np.uint64(int(arm) * ARM_FACTOR % 2**64)
    seed_stream(stream, words)


# -------------------------------------------------------------------------------------- drawing

# The ziggurat algorithm of Marsaglia and Tsang (2000), with numba's copy of NumPy's tables.
WIDTHS, HEIGHTS, LIMITS = NORMAL_WIDTHS, NORMAL_HEIGHTS, NORMAL_LIMITS.astype(np.int64)


@jit
def next_bits(state: Any) -> tuple[Any, Any]:
    """Return 64 random bits and the next state of a generator."""
    a, b, c, counter = state
    bits = a + b + counter
    mixed = ((c << np.uint64(24)) | (c >> np.uint64(40))) + bits
    return bits, (b ^ (b >> np.uint64(11)), c + (c << np.uint64(3)), mixed, counter + np.uint64(1))


@jit
def load(stream: Stream) -> Any:
    """Return the state of a generator as a tuple, which compiled code can keep in registers."""
    state = stream.state
    return state[0], state[1], state[2], state[3]


@jit
def store(stream: Stream, state: Any) -> None:
    """Set the state of a generator; `state` is a tuple, as `load` returns it."""
    memory = stream.state
    memory[0], memory[1], memory[2], memory[3] = state


@jit
def compiled_next_uniform(stream: Stream, state: Any) -> tuple[Any, Any]:
    """Draw a number from [0, 1) in compiled code; return it and the next state."""
    bits, state = next_bits(state)
    return np.int64(bits >> np.uint64(11)) * 2.0**-53, state


@jit(substitute=compiled_next_uniform)
def next_uniform(stream: Stream, state: Any) -> tuple[Any, Any]:
    """Draw a number from [0, 1); return it and the next state."""
    store(stream, state)
    return stream.rng.random(), load(stream)


@jit
def uniform(stream: Stream) -> Any:
    """Draw a number from [0, 1)."""
    number, state = next_uniform(stream, load(stream))
    store(stream, state)
    return number


@jit
def split_bits(bits: Any) -> tuple[Any, Any, Any]:
    """Split random bits into a layer of the ziggurat, a position in that layer and a sign."""
    layer = np.int64(bits & np.uint64(0xFF))
    position = np.int64((bits >> np.uint64(9)) & np.uint64(0xFFFFFFFFFFFFF))
    return layer, position, 1 - 2 * np.int64((bits >> np.uint64(8)) & np.uint64(1))


@jit(inline=False)
def finish_normal(stream: Stream, bits: Any) -> Any:
    """Return the normal number for bits on the edge of a ziggurat layer or in the tail."""
    while True:
        layer, position, sign = split_bits(bits)
        x = sign * (position * WIDTHS[layer])
        if position < LIMITS[layer]:
            return x
        if layer == 0:
            while True:
                tail = -NORMAL_TAIL_INVERSE * math.log1p(-uniform(stream))
                y = -math.log1p(-uniform(stream))
                if y + y > tail * tail:
                    tail += NORMAL_TAIL
                    return -tail if (position >> 8) & 1 else tail
        low, high = HEIGHTS[layer], HEIGHTS[layer - 1]
        if (high - low) * uniform(stream) + low < math.exp(-0.5 * x * x):
            return x
        bits, state = next_bits(load(stream))
        store(stream, state)


@jit
def compiled_next_normal(stream: Stream, state: Any) -> tuple[Any, Any]:
    """Draw a standard normal number in compiled code; return it and the next state.

    The first branch, which needs no further random numbers, handles 99 % of the draws.
    """
    bits, state = next_bits(state)
    layer, position, sign = split_bits(bits)
    if position < LIMITS[layer]:
        return sign * (position * WIDTHS[layer]), state
    store(stream, state)
    return finish_normal(stream, bits), load(stream)


@jit(substitute=compiled_next_normal)
def next_normal(stream: Stream, state: Any) -> tuple[Any, Any]:
    """Draw a standard normal number; return it and the next state."""
    store(stream, state)
    return stream.rng.standard_normal(), load(stream)


@jit
def normal(stream: Stream) -> Any:
    """Draw a standard normal number."""
    number, state = next_normal(stream, load(stream))
    store(stream, state)
    return number
