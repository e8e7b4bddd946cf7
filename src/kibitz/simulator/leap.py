r"""The engine that skips ahead: exact up to a stated error, at hardly any cost for a long horizon.

After a while a good policy pulls the same arm for enormously long stretches. A stretch is certified
first and drawn afterwards (docs/leap.md has the proof):

1. Propose a block of n stages in which the policy pulls the arm that it pulls now, and looks where it
   looks now.
2. But for an event of probability at most delta, everything stays in a box: how many looks come
   (Bernstein), and how far the sum of an arm's rewards strays from its drift (Gaussian rewards: the
   reflection principle, P(max_k W_k >= z \sigma \sqrt n) <= 2 Q(z); rewards in [0, 1]: Hoeffding's
   and Doob's inequalities, exp(-2 x^2 / n)).
3. An index is non-decreasing in mean and stage and non-increasing in every count. So the smallest
   index of the pulled arm over the box and the largest of each rival are values at corners: if the
   one exceeds the others, the policy pulls that arm throughout the block (and likewise for the look).
4. If so, draw the block at once: the number of looks (binomial, split by the weights), and the sums
   of rewards (normal or binomial). Add delta to the account of the run. If not, try a shorter block;
   a very short one is played stage by stage.

The block is chosen before anything in it is drawn. So the law of a run differs from that of the
stage-by-stage engine by at most the account, in total variation. It stays below `error` however many
blocks there are: the first 2^20 spend half of it, the next 2^21 a quarter, and so on. The random
numbers are not those of the other engine.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kibitz.compiling.jit import jit_init, jit_rare
from kibitz.model.feedback import ACTIVE, FAR, PASSIVE, PERIODIC, RANDOM, Every, Feedback, Looks
from kibitz.model.problem import GAUSSIAN, Law, Problem
from kibitz.policies.policy import Array, Policy, View

SHORTEST = 128  # blocks below are not worth a certificate
ROUNDING = 1e-14  # room for an index whose monotonicity suffers from rounding
STEPS = 128  # how far to go stage by stage before the next try
CERTIFICATES = 2.0**20  # that half of the allowed error pays for; as many again cost half of it, ...
CUT = 32.0  # expected arrivals from which on a block is not cut short at one of them
MOST_PACE = 1e30  # a number that no lead makes a block of
EXACT_BINOMIAL = 10**6  # beyond, rounding in the generator's acceptance step begins to show


def can_leap(policy: Policy, problem: Problem, feedback: Feedback) -> bool:
    """Return whether leaping is sound: an index policy, random or periodic looks, a known law."""
    rate, weights = feedback.rate, feedback.weights
    return (
        policy.index is not None
        and problem.law in {"gaussian", "bernoulli"}
        and feedback.observer in {"bandit", "passive", "active"}
        and isinstance(rate, float | Every)
        and (weights is None or isinstance(weights, str) or np.ndim(weights) == 1)
    )


class Box(NamedTuple):
    """Room for a certificate and for what is left to say of it."""

    looks: Array  # at most so many looks at each arm
    counts: Array  # counts at most
    highs: Array  # indices at most
    numbers: Array  # WAIT: how many decisions before the next try; PATIENCE: and then; LATEST block
    account: Array
    # SPENT, ALLOWED; COST: what a certificate adds, until STEP is spent; LOG, Z: -log of what each of
    # its events may cost, and the normal quantile; PACE: stages to try, for a lead of 1


WAIT, PATIENCE, LATEST = 0, 1, 2
SPENT, ALLOWED, STEP, COST, LOG, Z, PACE = range(7)


@jit_rare
def normal_quantile(log: float) -> float:
    """Return z with 2 Q(z) <= e^-log, by Q(z) <= phi(z) / z for z >= 1."""
    z = math.sqrt(2 * log)
    for _ in range(8):
        z = math.sqrt(max(1.0, 2 * (log + math.log(2.0) - 0.918938533204672 - math.log(z))))
    return z + 1e-6


@jit_init
def new_box(n_arms: int, error: float) -> Box:
    """Return room for a run whose error may come to `error`."""
    # a certificate rests on at most 2 K + 2 events: arrivals, looks at and straying of each arm, and
    # straying of the arm that is looked at to the other side
    cost = error / (2 * CERTIFICATES)
    log = math.log((2 * n_arms + 2) / cost)
    return Box(
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.float64),
        np.array([0, 1, SHORTEST]),
        np.array([0.0, error, error / 2, cost, log, normal_quantile(log), MOST_PACE]),
    )


@jit_rare
def charge(account: Array) -> None:
    """Charge a certificate; when half of what was left is spent, the next ones cost a quarter."""
    account[SPENT] += account[COST]
    if account[SPENT] >= account[STEP]:
        account[STEP] = (account[STEP] + account[ALLOWED]) / 2
        account[COST] /= 4
        account[LOG] += math.log(4.0)
        account[Z] = normal_quantile(account[LOG])


@jit_rare
def binomial(n: int, p: float, rng: Any) -> int:
    """Draw the number of successes in n trials, for any n.

    Large n are halved by drawing the median of n uniform numbers, which has a beta law: the
    generator's own method loses its accuracy there.
    """
    successes = 0
    while n > EXACT_BINOMIAL and 0 < p < 1:
        half = n // 2 + 1
        median = rng.beta(float(half), float(n + 1 - half))
        if median <= p:
            successes += half
            n -= half
            p = (p - median) / (1 - median)
        else:
            n = half - 1
            p = p / median
    if p <= 0 or n == 0:
        return successes
    if p >= 1:
        return successes + n
    return successes + rng.binomial(n, p)


@jit_rare
def sum_of(law: Law, arm: int, n: int, rng: Any) -> float:
    """Draw the sum of n rewards of an arm."""
    if law.kind == GAUSSIAN:
        noise = law.sds[arm] * math.sqrt(float(n)) * rng.standard_normal()
        return n * law.means[arm] + noise
    return float(binomial(n, law.means[arm], rng))


@jit_rare
def at_most(n: float, p: float, log: float) -> int:
    """Return a number that a binomial (n, p) exceeds with probability at most e^-log (Bernstein)."""
    if p <= 0 or n <= 0:
        return 0
    if p >= 1:
        return int(n)
    excess = log / 3 + math.sqrt(log * log / 9 + 2 * n * p * (1 - p) * log)
    return int(min(n, n * p + excess + 1))


@jit_rare
def strays(law: Law, arm: int, n: int, log: float, z: float) -> float:
    """Return how far a sum of up to n rewards strays to one side, but for probability e^-log."""
    if law.kind == GAUSSIAN:
        return z * law.sds[arm] * math.sqrt(float(n))
    return math.sqrt(n * log / 2)


@jit_rare
def cut_at(looks: Looks, arrival: int, last: int) -> int:
    """Return the number of arrivals at which a short block is cut; FAR for a longer one.

    Bernstein's inequality says little about a few arrivals.
    """
    if looks.arrivals == PERIODIC or arrival > last:
        return FAR
    expected = looks.rate * (last - arrival)
    return 1 + int(expected + math.sqrt(expected)) if expected < CUT else FAR


@jit_rare
def arrivals_up_to(looks: Looks, arrival: int, last: int, log: float) -> int:
    """Return how many arrivals there are at most up to `last`, the next one being at `arrival`."""
    if arrival > last:
        return 0
    if looks.arrivals == PERIODIC:
        return 1 + (last - arrival) // looks.period
    most = 1 + at_most(float(last - arrival), looks.rate, log)
    return min(most, cut_at(looks, arrival, last))


@jit_rare
def arrivals_drawn(looks: Looks, arrival: int, last: int, rng: Any) -> tuple[int, int]:
    """Draw how many arrivals there are up to `last`, and where the block ends if it is cut."""
    if arrival > last:
        return 0, last
    if looks.arrivals == PERIODIC:
        return 1 + (last - arrival) // looks.period, last
    cut = cut_at(looks, arrival, last)
    if cut == FAR:
        return 1 + binomial(last - arrival, looks.rate, rng), last
    n = 1
    while n < cut:
        gap = rng.standard_exponential() * looks.mean_gap
        if gap >= last - arrival:
            return n, last
        arrival += 1 + int(gap)
        n += 1
    return n, arrival


def leaper(policy: Policy) -> tuple[Any, Any]:
    """Return the compiled functions `proposed` and `tell_looks` for an index policy."""
    index: Any = policy.index
    update: Any = policy.update
    turns: Any = policy.turns
    takes_turns = policy.turns is not None

    def certified(
        params: Any,
        seen: View,
        law: Law,
        looks: Looks,
        stage: int,
        last: int,
        arrival: int,
        arm: int,
        look: int,
        playing: Array,
        box: Box,
    ) -> float:
        """Return a number above 0 if the policy surely pulls `arm` and looks at `look` up to `last`.

        It is the least lead of their indices over the box. `playing` are the arms that take turns, if
        some do; `look` is -1 then, or if it is drawn.
        """
        n_arms = seen.counts.size
        n = last - stage + 1
        log, z = box.account[LOG], box.account[Z]
        # the looks
        n_arrivals = arrivals_up_to(looks, arrival, last, log)
        if n_arrivals > seen.most_looks // looks.per_arrival:
            return -np.inf
        n_looks = n_arrivals * looks.per_arrival
        share = looks.weights[0, n_arms - 1]  # of all arms: 1, but for rounding
        for other in range(n_arms):
            box.looks[other] = 0
            if n_looks > 0:
                if looks.observer == PASSIVE:
                    box.looks[other] = at_most(float(n_looks), looks.shares[other] / share, log)
                elif look >= 0:
                    box.looks[other] = n_looks if other == look else 0
                elif playing[other]:
                    box.looks[other] = n_looks // playing.sum() + 1
            extra = box.looks[other] if seen.learns else 0
            box.counts[other] = seen.counts[other] + extra + (n if other == arm else 0)
        # the rivals' largest indices
        rival, other_rival = -np.inf, -np.inf
        for other in range(n_arms):
            if other != arm and seen.allowed[other]:
                high = seen.sums[other] / seen.counts[other]
                new = box.looks[other] if seen.learns else 0
                if new > 0:
                    far = seen.sums[other] + strays(law, other, new, log, z)
                    drifted = (far + new * law.means[other]) / (seen.counts[other] + new)
                    high = max(far / seen.counts[other], drifted)
                box.highs[other] = index(params, last - seen.origin, seen.counts, other, high)
                box.highs[other] += ROUNDING * (1 + abs(box.highs[other]))
                rival = max(rival, box.highs[other])
                if other != look:
                    other_rival = max(other_rival, box.highs[other])
        lead = np.inf
        if rival > -np.inf:
            lead = lowest(params, seen, law, stage, arm, box, log, z) - rival
        if look >= 0 and look != arm and n_looks > 0 and other_rival > -np.inf:
            lead = min(lead, lowest(params, seen, law, stage, look, box, log, z) - other_rival)
        return lead

    def lowest(
        params: Any, seen: View, law: Law, stage: int, arm: int, box: Box, log: float, z: float
    ) -> Any:
        """Return the smallest index of an arm over the box."""
        new = box.counts[arm] - seen.counts[arm]
        far = seen.sums[arm] - strays(law, arm, new, log, z)
        drifted = (far + new * law.means[arm]) / box.counts[arm]
        low = min(far / seen.counts[arm], drifted)
        return index(params, stage - seen.origin, box.counts, arm, low)

    def leads(
        params: Any, seen: View, stage: int, arm: int, look: int, box: Box
    ) -> tuple[float, float]:
        """Return by how much the index of `arm` leads now, and that of `look` but for `arm`."""
        rival, other_rival = -np.inf, -np.inf
        for other in range(seen.counts.size):
            if seen.allowed[other]:
                mean = seen.sums[other] / seen.counts[other]
                value = index(params, stage - seen.origin, seen.counts, other, mean)
                box.highs[other] = value
                if other != arm:
                    rival = max(rival, value)
                    if other != look:
                        other_rival = max(other_rival, value)
        look_lead = np.inf
        if look >= 0 and look != arm:
            look_lead = box.highs[look] - other_rival
        return box.highs[arm] - rival, look_lead

    leads = jit_rare(leads)
    lowest = jit_rare(lowest)
    certified = jit_rare(certified)

    def tell_looks(
        params: Any,
        state: Any,
        law: Law,
        looks: Looks,
        stage: int,
        n_looks: int,
        look: int,
        rng: Any,
        n_free: Array,
        box: Box,
    ) -> Any:
        """Draw where the looks of a block go, and tell the policy of them."""
        n_arms = law.means.size
        looked = n_arms > 0  # a literal True would compile `update` once more
        box.looks[:] = 0
        first = 0
        if looks.observer == PASSIVE:
            left, weight = n_looks, 0.0
            for arm in range(n_arms - 1, -1, -1):  # the weight of this arm and those after it
                weight += looks.shares[arm]
                box.highs[arm] = weight
            for arm in range(n_arms):
                if left > 0 and looks.shares[arm] > 0:
                    box.looks[arm] = binomial(left, looks.shares[arm] / box.highs[arm], rng)
                    left -= box.looks[arm]
        elif look >= 0:
            box.looks[look] = n_looks
        elif takes_turns:
            playing, latest = turns(params, state)
            n_playing = playing.sum()
            more = n_looks % n_playing
            arm, turn = latest, 0
            while turn < n_playing:
                arm = (arm + 1) % n_arms
                if playing[arm]:
                    box.looks[arm] = n_looks // n_playing + (1 if turn < more else 0)
                    turn += 1
                    if turn == more:
                        first = (arm + 1) % n_arms
            if more == 0:
                first = (arm + 1) % n_arms
        # `first` is such that the arm looked at last is told last
        for step in range(n_arms):
            arm = (first + step) % n_arms
            if box.looks[arm] > 0:
                n_free[arm] += box.looks[arm]
                total = sum_of(law, arm, box.looks[arm], rng)
                state = update(params, state, stage, arm, box.looks[arm], total, looked)
        return state

    tell_looks = jit_rare(tell_looks)

    def proposed(
        params: Any,
        state: Any,
        seen: View,
        law: Law,
        looks: Looks,
        stage: int,
        last: int,
        arrival: int,
        arm: int,
        look: int,
        rng: Any,
        box: Box,
    ) -> tuple[int, int]:
        """Return how many stages, up to `last`, to leap (0: it does not pay) and their arrivals."""
        furthest = min(last, seen.end - 1) - stage + 1
        if looks.observer == ACTIVE and look < 0 and not takes_turns:
            furthest = min(furthest, arrival - stage)
        shortest = SHORTEST
        if arrival < FAR:  # playing an arrival costs as much as playing a hundred other stages
            rate = looks.rate if looks.arrivals == RANDOM else 1 / looks.period
            shortest = max(4, int(SHORTEST / (1 + 100 * rate)))
        if furthest < shortest:
            return 0, 0
        playing = seen.allowed
        if takes_turns:
            playing = turns(params, state)[0]
        lead, look_lead = leads(params, seen, stage, arm, look, box)
        pace = box.account[PACE]
        if look_lead < lead:  # unless it is better to stop before the next look
            if pace * look_lead**2 > max(shortest, arrival - stage):
                lead = look_lead
            else:
                furthest = min(furthest, arrival - stage)
        # A lead falls as the square root of the length of a block, or faster: do not trust it far.
        furthest = min(furthest, 4 * box.numbers[LATEST])
        n = furthest if pace * lead**2 > furthest else int(pace * lead**2)
        if n < shortest:
            box.account[PACE] = min(2 * pace, MOST_PACE)  # so as not to give up for ever
        while n >= shortest:
            left = certified(
                params, seen, law, looks, stage, stage + n - 1, arrival, arm, look, playing, box
            )
            if lead < np.inf and left > -np.inf:
                box.account[PACE] = pace = 0.9 * n / max(lead - left, ROUNDING) ** 2
            if left > 0:
                charge(box.account)
                box.numbers[PATIENCE] = 1
                box.numbers[LATEST] = min(max(n, shortest), FAR // 8)
                n_arrivals, end = arrivals_drawn(looks, arrival, stage + n - 1, rng)
                return end - stage + 1, n_arrivals
            n = n // 2 if left == -np.inf else min(n // 2 + n // 4, int(pace * lead**2))
        box.numbers[WAIT] = box.numbers[PATIENCE]
        box.numbers[PATIENCE] = min(2 * box.numbers[PATIENCE], 8)
        return 0, 0

    return jit_rare(proposed), tell_looks
