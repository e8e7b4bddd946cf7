r"""The stage-by-stage engine: exact, compiled, runs in parallel.

A stage: the policy decides, from what was seen before it, which arm to pull and, if looks arrive,
where to look; it is told the reward of the pull, then that of the look. All arrays are written at
chosen stages only, so that memory does not grow with the horizon.

**Randomness.** Each run has three streams of its own, made from (seed, run): rewards of pulls,
everything about looks, and the policy's own. What is drawn from the first two does not depend on the
policy, so all policies meet the same world: the same arrivals, and the same noise at the same stage.

**Index policies** are played in stretches. By their promise of monotonicity (`policies.policy`), the
index of an arm that is not observed is at most its value at a later stage: such bounds are kept, all
up to one stage, and an index is computed only for an arm whose bound reaches the leader's index.
Moreover, the leader stays the leader while its mean stays above a floor, as long as the bounds hold:
those stages are played without any index at all. How long to try is guessed and learned, and has no
influence on a run that is played stage by stage. The decisions are those of the policy's own `pull`
(tests/policies/test_contract.py), up to exact ties that rounding decides: a stretch sums its rewards
before it adds them. Other policies are asked at each stage.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz.compiling.jit import compiled, jit_init, jit_inner
from kibitz.model.feedback import ACTIVE, FULL, PASSIVE, Feedback, Looks
from kibitz.model.problem import BERNOULLI, GAUSSIAN, Law, Problem, draw
from kibitz.policies.policy import Array, Policy, View
from kibitz.simulator.leap import ROUNDING, SPENT, STEPS, WAIT, Box, leaper, new_box, sum_of
from kibitz.simulator.streams import (
    Stream,
    Streams,
    normal,
    seed_stream,
    seed_words,
    streams,
    uniform,
)

# ------------------------------------------------------------------------- deciding by an index


class Bounds(NamedTuple):
    """Upper bounds of the indices, from which most decisions follow without computing any."""

    upper: Array  # infinite where there is none, -inf for the leader and for arms not in play
    numbers: Array  # LEADER; READY: whether all arms were pulled; UNTIL: the stage they hold up to
    pace: Array  # one number: how long a stretch to try, relative to a guess


LEADER, READY, UNTIL = 0, 1, 2


@jit_init
def no_bounds(n_arms: int) -> Bounds:
    """Return room for bounds."""
    return Bounds(np.full(n_arms, np.inf), np.zeros(3, np.int64), np.ones(1, np.float64))


@jit_inner
def forget(bounds: Bounds, allowed: Array) -> None:
    """Drop all bounds: other arms are in play, or the clock has restarted."""
    bounds.numbers[READY] = 0
    for arm in range(allowed.size):
        bounds.upper[arm] = np.inf if allowed[arm] else -np.inf


@jit_inner
def drop(bounds: Bounds, arm: int) -> None:
    """Drop the bound of an arm: it was looked at."""
    if bounds.upper[arm] > -np.inf:
        bounds.upper[arm] = np.inf


@jit_inner
def largest(values: Array) -> float:
    """Return the largest of some numbers; numba's own `max` makes an array."""
    most = -np.inf
    for value in values:
        most = max(most, value)
    return most


def decider(index: Any) -> tuple[Any, Any]:
    """Return the compiled functions `decide` and `stretch` for an index."""

    def bound(params: Any, seen: View, until: int, arm: int) -> float:
        """Return a bound of an arm's index up to a stage, with room for rounding."""
        mean = seen.sums[arm] / seen.counts[arm]
        upper = index(params, until - seen.origin, seen.counts, arm, mean)
        upper += ROUNDING * (1 + abs(upper))
        return upper if upper > -np.inf else np.inf  # what is no number bounds nothing

    bound = jit_inner(bound)

    def bound_all(params: Any, seen: View, until: int, bounds: Bounds) -> None:
        """Bound all indices up to a stage, in one loop: it costs little more than a few of them."""
        bounds.numbers[UNTIL] = until
        for arm in range(seen.counts.size):
            if bounds.upper[arm] > -np.inf:
                bounds.upper[arm] = bound(params, seen, until, arm)

    bound_all = jit_inner(bound_all)

    def decide(params: Any, seen: View, stage: int, bounds: Bounds) -> tuple[int, float, float]:
        """Return the arm to pull, its index, and a bound of the others' at this stage.

        The index of an arm not yet pulled is infinite.
        """
        n_arms = seen.counts.size
        clock = stage - seen.origin
        if bounds.numbers[READY] == 0:
            for arm in range(n_arms):
                if seen.allowed[arm] and seen.n_pulls[arm] == 0:
                    return arm, np.inf, np.inf
            bounds.numbers[READY] = 1
            bounds.numbers[UNTIL] = 0
            if not seen.allowed[bounds.numbers[LEADER]]:
                bounds.numbers[LEADER] = np.argmax(seen.allowed)
            bounds.upper[bounds.numbers[LEADER]] = -np.inf
        if stage > bounds.numbers[UNTIL]:
            bound_all(params, seen, stage + 1 + clock // 64, bounds)
        leader = best = bounds.numbers[LEADER]
        most = index(params, clock, seen.counts, best, seen.sums[best] / seen.counts[best])
        rest = -np.inf
        for arm in range(n_arms):
            value = bounds.upper[arm]
            if value >= most:
                mean = seen.sums[arm] / seen.counts[arm]
                value = index(params, clock, seen.counts, arm, mean)
                if bounds.upper[arm] == np.inf:
                    bounds.upper[arm] = bound(params, seen, bounds.numbers[UNTIL], arm)
                if value > most or (value == most and arm < best):
                    best, most, value = arm, value, most
            rest = max(rest, value)
        if best != leader:
            bounds.numbers[LEADER] = best
            bounds.upper[leader] = bound(params, seen, bounds.numbers[UNTIL], leader)
            bounds.upper[best] = -np.inf
        return best, most, rest

    def stretch(
        params: Any,
        seen: View,
        stage: int,
        last: int,
        bounds: Bounds,
        arm: int,
        most: float,
        rest: float,
    ) -> tuple[int, float]:
        """Return for how many stages, up to `last`, and above which mean, `arm` surely stays best.

        `most` is its index at `stage`, `rest` bounds the others'. The answer (1, -inf) says: at this
        stage only.
        """
        if rest == -np.inf:  # no other arm is in play
            return last - stage + 1, -np.inf
        # Guess a length that uses up half of the lead; an index is like mean + sqrt(log / count).
        clock = stage - seen.origin
        count = seen.counts[arm]
        mean = seen.sums[arm] / count
        lead = most - rest
        pace = bounds.pace[0]
        guess = pace * lead * count / max(abs(most - mean) + 1e-9 * lead, 1e-300)
        if guess < 2:
            bounds.pace[0] = min(1.02 * pace, 64.0)
            return 1, -np.inf
        n_stages = min(last - stage + 1, int(min(guess, 1e9)))
        if n_stages == 1:
            return 1, -np.inf
        end = stage + n_stages - 1
        rival = np.inf
        if end <= bounds.numbers[UNTIL]:
            rival = largest(bounds.upper)
        if rival > rest + 0.3 * lead:
            bound_all(params, seen, end, bounds)
            rival = largest(bounds.upper)
        # The leader's index at the end of the stretch, as if no time had passed, at a lower mean.
        seen.counts[arm] = count + n_stages - 1
        slack = index(params, clock, seen.counts, arm, mean) - rival
        floor = mean - 0.999 * slack
        safe = slack > 0 and index(params, clock, seen.counts, arm, floor) > rival
        seen.counts[arm] = count
        if slack < 0.5 * lead:
            bounds.pace[0] = max(0.8 * pace, 1e-6)
        elif end < last:
            bounds.pace[0] = min(1.25 * pace, 64.0)
        return (n_stages, floor) if safe else (1, -np.inf)

    return jit_inner(decide), jit_inner(stretch)


@jit_inner
def play_stretch(
    law: Law, arm: int, stream: Stream, n_stages: int, floor: float, count: int, total: float
) -> tuple[int, float]:
    """Pull `arm` up to `n_stages` times while its mean is at least `floor`; at least once.

    `count` and `total` are what is known of it so far. Return how often it was pulled and the sum.
    """
    mean, sd = law.means[arm], law.sds[arm]
    n, new = 0, 0.0
    if law.kind == GAUSSIAN:
        while True:
            new += mean + sd * normal(stream)
            n += 1
            if n >= n_stages or total + new < floor * (count + n):
                return n, new
    if law.kind == BERNOULLI:
        while True:
            new += 1.0 if uniform(stream) < mean else 0.0
            n += 1
            if n >= n_stages or total + new < floor * (count + n):
                return n, new
    while True:
        new += draw(law, arm, stream)
        n += 1
        if n >= n_stages or total + new < floor * (count + n):
            return n, new


# -------------------------------------------------------------------------------------- the loop


class Record(NamedTuple):
    """Where a run is written to."""

    stages: Array  # the stages at which to note the regret
    gaps: Array
    paid: bool  # whether a look costs its gap
    regret: Array  # of each run at each of the stages
    n_pulls: Array  # of each run and arm, at the end
    n_free: Array
    error: Array  # of each run, in total variation


@jit_inner
def note(record: Record, run: int, noted: int, arm: int, first: int, n: int) -> int:
    """Note `n` pulls of `arm` from stage `first` on; return how many stages are written.

    The looks of the last of these stages are not known yet: it is written by `note_stage`.
    """
    pulls = record.n_pulls[run]
    before = pulls[arm]
    while noted < record.stages.size and record.stages[noted] < first + n - 1:
        pulls[arm] = before + record.stages[noted] - first + 1
        noted = note_stage(record, run, noted, record.stages[noted])
    pulls[arm] = before + n
    return noted


@jit_inner
def note_stage(record: Record, run: int, noted: int, stage: int) -> int:
    """Write the regret at the end of a stage, if it is one to note."""
    if noted < record.stages.size and record.stages[noted] == stage:
        regret = 0.0
        for arm in range(record.gaps.size):
            paid = record.n_free[run, arm] if record.paid else 0
            regret += record.gaps[arm] * (record.n_pulls[run, arm] + paid)
        record.regret[run, noted] = regret
        return noted + 1
    return noted


def loop(
    policy: Policy,
    feedback: Feedback,
    announce: Callable[[], None] | None = None,
    leap: bool = False,
) -> Any:
    """Return the compiled loop that plays a policy with a kind of feedback; see `kibitz.simulator.leap`."""
    params_type = type(policy.params)
    init, pull, observe, update = policy.init, policy.pull, policy.observe, policy.update
    view: Any = policy.view
    is_index = policy.index is not None
    decide: Any = None
    stretch: Any = None
    if is_index:
        decide, stretch = decider(policy.index)
    proposed: Any = None
    tell_looks: Any = None
    takes_turns = policy.turns is not None
    if leap:
        proposed, tell_looks = leaper(policy)
    next_arrival, drawn_arm = feedback.functions()

    def play_run(
        params: Any,
        law: Law,
        looks: Looks,
        horizon: int,
        state: Any,
        bounds: Bounds,
        box: Box,
        shown: Array,
        rngs: Streams,
        record: Record,
        run: int,
        control: Array,
    ) -> None:
        n_arms = law.means.size
        # numba would compile functions anew for each literal number or flag among their arguments
        zero: Any = np.int64(0)
        one: Any = np.int64(1)
        pulled, looked = one < zero, one > zero
        stage, end, noted = one, zero, zero
        arrival = next_arrival(looks, zero, horizon, rngs.looks.rng)
        while stage <= horizon:
            control[1] = run * horizon + stage
            if control[0] != 0:
                return
            # decide: n stages of `arm`, as long as its mean is at least `floor`
            n, floor = one, -np.inf
            if is_index:
                seen = view(params, state, stage)
                if stage > end:
                    end = seen.end
                    forget(bounds, seen.allowed)
                arm, most, rest = decide(params, seen, stage, bounds)
                if leap and most < np.inf and box.numbers[WAIT] == 0:
                    look = -one
                    if looks.observer == ACTIVE and not takes_turns and seen.most_looks > 0:
                        look = observe(params, state, stage, rngs.policy.rng)
                    last = record.stages[noted] if record.paid else horizon
                    n, n_arrivals = proposed(
                        params, state, seen, law, looks, stage, last, arrival, arm, look,
                        rngs.looks.rng, box,
                    )  # fmt: skip
                    if n > 0:
                        last = stage + n - 1
                        total = sum_of(law, arm, n, rngs.rewards.rng)
                        noted = note(record, run, noted, arm, stage, n)
                        state = update(params, state, stage, arm, n, total, pulled)
                        if n_arrivals > 0:
                            n_looks = n_arrivals * looks.per_arrival
                            state = tell_looks(
                                params, state, law, looks, last, n_looks, look, rngs.looks.rng,
                                record.n_free[run], box,
                            )  # fmt: skip
                            for other in range(n_arms):
                                drop(bounds, other)
                            arrival = next_arrival(looks, last, horizon, rngs.looks.rng)
                        noted = note_stage(record, run, noted, last)
                        stage = last + 1
                        continue
                    n = one
                box.numbers[WAIT] = max(0, box.numbers[WAIT] - 1)
                if stage < arrival and most < np.inf and looks.observer != FULL:
                    last = min(horizon, min(arrival - 1, end))
                    if leap:
                        last = min(last, stage + STEPS)
                    n, floor = stretch(params, seen, stage, last, bounds, arm, most, rest)
            else:
                arm = pull(params, state, stage, rngs.policy.rng)
            look = arm
            if stage == arrival and looks.observer == ACTIVE:
                look = observe(params, state, stage, rngs.policy.rng)
            # the pulls
            if looks.observer == FULL:
                for other in range(n_arms):
                    shown[other] = draw(law, other, rngs.rewards)
                total = shown[arm]
            elif is_index:
                n, total = play_stretch(
                    law, arm, rngs.rewards, n, floor, seen.counts[arm], seen.sums[arm]
                )
            else:
                total = draw(law, arm, rngs.rewards)
            noted = note(record, run, noted, arm, stage, n)
            state = update(params, state, stage, arm, n, total, pulled)
            stage += n - 1
            # the looks
            if looks.observer == FULL:
                for other in range(n_arms):
                    if other != arm:
                        record.n_free[run, other] += 1
                        drop(bounds, other)
                        state = update(params, state, stage, other, one, shown[other], looked)
            elif stage == arrival:
                for nth in range(looks.per_arrival):
                    if looks.observer == PASSIVE:
                        look = drawn_arm(looks, stage, rngs.looks.rng)
                    elif nth > 0:
                        look = observe(params, state, stage, rngs.policy.rng)
                    record.n_free[run, look] += 1
                    if is_index and seen.learns:
                        drop(bounds, look)
                    reward = draw(law, look, rngs.looks)
                    state = update(params, state, stage, look, one, reward, looked)
                arrival = next_arrival(looks, stage, horizon, rngs.looks.rng)
            noted = note_stage(record, run, noted, stage)
            stage += 1

    play_run = jit_inner(play_run)

    def play(
        numbers: Any,
        law: Law,
        looks: Looks,
        horizon: int,
        error: float,
        words: Array,
        rngs: Streams,
        record: Record,
        control: Array,
    ) -> None:
        # numbers: the parameters as a plain tuple, so that no class of the user's enters the key
        params = params_type(*numbers)
        shown = np.zeros(law.means.size)
        for run in range(words.shape[0]):
            seed_stream(rngs.rewards, words[run, 0:3])
            seed_stream(rngs.looks, words[run, 3:6])
            seed_stream(rngs.policy, words[run, 6:9])
            state = init(params, law.means.size)
            bounds = no_bounds(law.means.size)
            box = new_box(law.means.size, error)
            play_run(
                params, law, looks, horizon, state, bounds, box, shown, rngs, record, run, control
            )
            record.error[run] = box.account[SPENT]

    return compiled(play, announce)


# ----------------------------------------------------------------------------- runs in parallel


class Piece(NamedTuple):
    """Some runs of one policy in one setting."""

    label: Any  # whatever the caller knows it by
    play: Any
    policy: Policy
    problem: Problem
    feedback: Feedback
    horizon: int
    stages: NDArray[np.int64]
    seed: int
    first: int  # the first run
    last: int  # and the one after the last
    error: float = 1e-9  # allowed to leaps, of each run


class Played(NamedTuple):
    """What came of a piece; one row for each run."""

    regret: NDArray[np.float64]
    n_pulls: NDArray[np.int64]
    n_free: NDArray[np.int64]
    error: NDArray[np.float64]  # in total variation; 0 stage by stage


def play_piece(piece: Piece, control: NDArray[np.int64]) -> Played | None:
    """Play a piece; None if it was stopped by `control[0]`. `control[1]` tells how far it is."""
    problem, horizon = piece.problem, piece.horizon
    words = seed_words(piece.seed, piece.first, piece.last)
    shape = (len(words), problem.n_arms)
    played = Played(
        np.full((len(words), piece.stages.size), np.nan),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(len(words)),
    )
    record = Record(piece.stages, problem.gaps, piece.feedback.paid, *played)
    looks = piece.feedback.compiled(problem.gaps, horizon)
    numbers = tuple(planned(piece.policy, horizon))
    law, error = problem.compiled, piece.error
    piece.play(numbers, law, looks, horizon, error, words, streams(), record, control)
    return None if control[0] else played


def planned(policy: Policy, horizon: int) -> Any:
    """Return the parameters of a policy, with the simulation's horizon where it has none."""
    if getattr(policy.params, "horizon", None) == 0:
        return policy.params._replace(horizon=float(horizon))
    return policy.params


def play_all(
    pieces: list[Piece], threads: int, progress: Callable[[float], None]
) -> Iterator[tuple[Piece, Played]]:
    """Play pieces in parallel and yield each when it is done.

    `progress` is told the share of all stages played so far, some ten times a second. An exception,
    Ctrl-C for one, stops the others within moments.
    """
    controls = [np.zeros(2, np.int64) for _ in pieces]
    sizes = [(piece.last - piece.first) * piece.horizon for piece in pieces]
    pool = ThreadPoolExecutor(threads)
    try:
        waiting = {
            pool.submit(play_piece, piece, control): n
            for n, (piece, control) in enumerate(zip(pieces, controls, strict=True))
        }
        while waiting:
            done, _ = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
            for future in done:
                n = waiting.pop(future)
                played = future.result()
                controls[n][1] = sizes[n]
                if played is not None:
                    yield pieces[n], played
            progress(sum(int(control[1]) for control in controls) / sum(sizes))
    finally:
        for control in controls:
            control[0] = 1
        pool.shutdown(wait=True, cancel_futures=True)
