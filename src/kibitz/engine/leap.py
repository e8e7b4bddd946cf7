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
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz.engine.environment import ACTIVE, GAUSSIAN, PASSIVE, PERIODIC, RANDOM, Law, Looks
from kibitz.engine.lazy_index import ROUNDING
from kibitz.model.feedback import Every, Feedback
from kibitz.model.problem import Problem
from kibitz.policies.policy import (
    LOOKS,
    NEVER,
    PULLS,
    Array,
    Hold,
    Policy,
    Statistics,
    View,
    new_statistics,
)

SHORTEST = 128  # blocks below are not worth a certificate
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
        and problem.kind in {"gaussian", "bernoulli"}
        and feedback.observer in {"bandit", "passive", "active"}
        and isinstance(rate, float | Every)
        and (weights is None or isinstance(weights, str) or np.ndim(weights) == 1)
    )


class Certificate(NamedTuple):
    """Room for a certificate, and the account of those that were given."""

    looks: Array  # at most so many looks at each arm
    most: Statistics  # counts at most
    highs: Array  # indices at most
    now: Array  # one record


ACCOUNT = np.dtype(
    [
        ("wait", np.int64),  # how many decisions before the next try
        ("patience", np.int64),  # and then
        ("latest", np.int64),  # the length of the latest block
        ("spent", np.float64),  # of the error that a run may have
        ("allowed", np.float64),  # that error
        ("step", np.float64),  # a certificate costs this much less when so much is spent
        ("cost", np.float64),  # of a certificate
        ("log", np.float64),  # -log of what each of its events may cost
        ("z", np.float64),  # and the normal quantile
        ("pace", np.float64),  # stages to try, for a lead of 1
    ],
    align=True,
)


@jit(inline=False)
def normal_quantile(log: float) -> float:
    """Return z with 2 Q(z) <= e^-log, by Q(z) <= phi(z) / z for z >= 1."""
    z = math.sqrt(2 * log)
    for _ in range(8):
        z = math.sqrt(max(1.0, 2 * (log + math.log(2.0) - 0.918938533204672 - math.log(z))))
    return z + 1e-6


@jit(allocates=True)
def new_certificate(n_arms: int, error: float) -> Certificate:
    """Return room for a run whose error may come to `error`."""
    # a certificate rests on at most 2 K + 2 events: arrivals, looks at and straying of each arm, and
    # straying of the arm that is looked at to the other side; or, where an arm is held, on K + 3:
    # arrivals, straying of each arm, and of the pulled arm and the leader to the other side
    now = np.zeros(1, ACCOUNT)
    account = now[0]
    account["patience"] = 1
    account["latest"] = SHORTEST
    account["allowed"] = error
    account["step"] = error / 2
    account["cost"] = error / (2 * CERTIFICATES)
    account["log"] = math.log((2 * n_arms + 2) / account["cost"])
    account["z"] = normal_quantile(account["log"])
    account["pace"] = MOST_PACE
    looks, highs = np.zeros(n_arms, np.int64), np.zeros(n_arms, np.float64)
    return Certificate(looks, new_statistics(n_arms, 0), highs, now)


@jit(inline=False)
def charge(certificate: Certificate) -> None:
    """Charge a certificate; when half of what was left is spent, the next ones cost a quarter."""
    account = certificate.now[0]
    account["spent"] += account["cost"]
    if account["spent"] >= account["step"]:
        account["step"] = (account["step"] + account["allowed"]) / 2
        account["cost"] /= 4
        account["log"] += math.log(4.0)
        account["z"] = normal_quantile(account["log"])


@jit(inline=False)
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


@jit(inline=False)
def sum_of(law: Law, arm: int, n: int, rng: Any) -> float:
    """Draw the sum of n rewards of an arm."""
    if law.kind == GAUSSIAN:
        noise = law.sds[arm] * math.sqrt(float(n)) * rng.standard_normal()
        return n * law.means[arm] + noise
    return law.success * binomial(n, law.chances[arm], rng)


@jit
def binomial_upper_bound(n: float, p: float, log: float) -> int:
    """Return a number that a binomial (n, p) exceeds with probability at most e^-log (Bernstein)."""
    if p <= 0 or n <= 0:
        return 0
    if p >= 1:
        return int(n)
    excess = log / 3 + math.sqrt(log * log / 9 + 2 * n * p * (1 - p) * log)
    return int(min(n, n * p + excess + 1))


@jit
def deviation_bound(law: Law, arm: int, n: int, log: float, z: float) -> float:
    """Return how far a sum of up to n rewards strays to one side, but for probability e^-log."""
    if law.kind == GAUSSIAN:
        return z * law.sds[arm] * math.sqrt(float(n))
    if law.chances[arm] == 0 or law.chances[arm] == 1:
        return 0.0
    return law.success * math.sqrt(n * log / 2)


@jit
def cut_at(looks: Looks, arrival: int, last: int) -> int:
    """Return the number of arrivals at which a short block is cut; NEVER for a longer one.

    Bernstein's inequality says little about a few arrivals.
    """
    if looks.arrivals == PERIODIC or arrival > last:
        return NEVER
    expected = looks.rate * (last - arrival)
    return 1 + int(expected + math.sqrt(expected)) if expected < CUT else NEVER


@jit
def arrivals_up_to(looks: Looks, arrival: int, last: int, log: float) -> int:
    """Return how many arrivals there are at most up to `last`, the next one being at `arrival`."""
    if arrival > last:
        return 0
    if looks.arrivals == PERIODIC:
        return 1 + (last - arrival) // looks.period
    most = 1 + binomial_upper_bound(float(last - arrival), looks.rate, log)
    return min(most, cut_at(looks, arrival, last))


@jit(inline=False)
def stages_for(looks: Looks, n_arrivals: int, log: float) -> int:
    """Return after how many stages from an arrival on there surely are not more than so many.

    It is a guess: `arrivals_up_to` decides.
    """
    if looks.arrivals == PERIODIC:
        return n_arrivals * looks.period
    root = (math.sqrt(1 + 4.0 * n_arrivals) - 1) / 2
    expected = root * root  # which is cut at the last of them
    if expected >= CUT:
        far = n_arrivals - 2 - log / 3
        expected = max(0.99 * CUT, far + log - math.sqrt((far + log) ** 2 - far**2 + log**2 / 9))
    return 1 + int(min(0.999 * expected / looks.rate, 1e18))


@jit(inline=False)
def arrivals_drawn(looks: Looks, arrival: int, last: int, rng: Any) -> tuple[int, int]:
    """Draw how many arrivals there are up to `last`, and where the block ends if it is cut."""
    if arrival > last:
        return 0, last
    if looks.arrivals == PERIODIC:
        return 1 + (last - arrival) // looks.period, last
    cut = cut_at(looks, arrival, last)
    if cut == NEVER:
        return 1 + binomial(last - arrival, looks.rate, rng), last
    n = 1
    while n < cut:
        wait = rng.standard_exponential() * looks.expected_wait
        if wait >= last - arrival:
            return n, last
        arrival += 1 + int(wait)
        n += 1
    return n, arrival


@jit
def no_hold(params: Any, state: Any) -> Hold:
    """Return that no arm is held: all looks go in turn, or none."""
    return Hold(-1, -1, NEVER)


@jit
def none_due(params: Any, state: Any, arm: int, n: int) -> int:
    """Return that no look goes in turn."""
    return 0


@cache
def leaping_by(index: Any, update: Any, turns: Any, hold: Any, due: Any) -> tuple[Any, Any]:
    """Return `propose`, which certifies a block, and `tell_looks`, for an index policy."""
    takes_turns = turns is not None
    holding = no_hold if hold is None else hold
    in_turn = none_due if due is None else due
    foreseen = takes_turns or hold is not None

    def certified(
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
        playing: Array,
        held: Hold,
        certificate: Certificate,
    ) -> float:
        """Return a number above 0 if the policy surely pulls `arm` and looks at `look` up to `last`.

        It is the least lead of their indices over the box. `playing` are the arms that take turns,
        if some do; `look` is -1 then, or if it is drawn. `held` is looked at between turns, while
        its leader leads; neither it nor `arm` takes any turn.
        """
        n_arms = seen.allowed.size
        known, most = seen.statistics, certificate.most
        n = last - stage + 1
        log = certificate.now[0]["log"]
        # the looks
        n_arrivals = arrivals_up_to(looks, arrival, last, log)
        if n_arrivals > min(seen.most_looks, held.most) // looks.per_arrival:
            return -np.inf
        n_looks = n_arrivals * looks.per_arrival
        share = looks.weights[0, n_arms - 1]  # of all arms: 1, but for rounding
        for other in range(n_arms):
            certificate.looks[other] = 0
            if n_looks > 0:
                if looks.observer == PASSIVE:
                    certificate.looks[other] = binomial_upper_bound(
                        float(n_looks), looks.shares[other] / share, log
                    )
                elif look >= 0:
                    certificate.looks[other] = n_looks if other == look else 0
                elif held.arm >= 0:
                    certificate.looks[other] = in_turn(params, state, other, n_looks)
                elif playing[other]:
                    certificate.looks[other] = n_looks // playing.sum() + 1
        if held.arm >= 0:
            if certificate.looks[arm] > 0 or certificate.looks[held.arm] > 0:
                return -np.inf
            if arm == held.arm and n_looks > 0 and n + n_looks > held.most:
                return -np.inf  # its pulls count as well
            certificate.looks[held.arm] = n_looks - certificate.looks.sum()
        for other in range(n_arms):
            extra = certificate.looks[other] if seen.learns else 0
            pulls = n if other == arm else 0
            most.n_pulls[other] = known.n_pulls[other] + pulls
            most.n_looks[other] = known.n_looks[other] + certificate.looks[other]
            most.n_observed[other] = known.n_observed[other] + extra + pulls
        most.totals[PULLS] = known.totals[PULLS] + n
        most.totals[LOOKS] = known.totals[LOOKS] + n_looks
        # the rivals' largest indices; a tie that lasts goes to the lower arm
        least = lowest(params, seen, law, stage, arm, certificate)
        mean = known.sums[arm] / known.n_observed[arm]
        constant = least == index(params, stage - seen.origin, known, arm, mean)
        rival, other_rival = -np.inf, -np.inf
        for other in range(n_arms):
            if other != arm and seen.allowed[other]:
                high = highest_mean(seen, law, other, certificate)
                value = index(params, last - seen.origin, known, other, high)
                certificate.highs[other] = value + ROUNDING * (1 + abs(value))
                if not (constant and value == least and arm < other):
                    rival = max(rival, certificate.highs[other])
                if other != look:
                    other_rival = max(other_rival, certificate.highs[other])
        lead = least - rival if rival > -np.inf else np.inf
        if look >= 0 and look != arm and n_looks > 0 and other_rival > -np.inf:
            lead = min(lead, lowest(params, seen, law, stage, look, certificate) - other_rival)
        if held.leader >= 0 and n_looks > 0:
            low = lowest_mean(seen, law, held.leader, certificate)
            for other in range(n_arms):
                if other != held.leader:
                    high = highest_mean(seen, law, other, certificate)
                    lead = min(lead, low - high - ROUNDING * (1 + abs(high)))
        return lead

    def highest_mean(seen: View, law: Law, arm: int, certificate: Certificate) -> Any:
        """Return the largest mean of an arm over the box."""
        known, most = seen.statistics, certificate.most.n_observed[arm]
        new = most - known.n_observed[arm]
        log, z = certificate.now[0]["log"], certificate.now[0]["z"]
        far = known.sums[arm] + deviation_bound(law, arm, new, log, z)
        drifted = (far + new * law.means[arm]) / most
        return max(far / known.n_observed[arm], drifted)

    def lowest_mean(seen: View, law: Law, arm: int, certificate: Certificate) -> Any:
        """Return the smallest mean of an arm over the box."""
        known, most = seen.statistics, certificate.most.n_observed[arm]
        new = most - known.n_observed[arm]
        log, z = certificate.now[0]["log"], certificate.now[0]["z"]
        far = known.sums[arm] - deviation_bound(law, arm, new, log, z)
        drifted = (far + new * law.means[arm]) / most
        return min(far / known.n_observed[arm], drifted)

    def lowest(
        params: Any, seen: View, law: Law, stage: int, arm: int, certificate: Certificate
    ) -> Any:
        """Return the smallest index of an arm over the box."""
        low = lowest_mean(seen, law, arm, certificate)
        return index(params, stage - seen.origin, certificate.most, arm, low)

    def leads(
        params: Any, seen: View, stage: int, arm: int, look: int, held: Hold, certificate: Certificate
    ) -> tuple[float, float]:
        """Return by how much the index of `arm` leads now, and what decides on looks.

        That is the index of `look` but for `arm`, or the mean of the leader while an arm is held. The
        lead is infinite where all others are behind or tie with a lower arm, which may last.
        """
        known = seen.statistics
        rival, other_rival = -np.inf, -np.inf
        mean = known.sums[arm] / known.n_observed[arm]
        most = index(params, stage - seen.origin, known, arm, mean)
        for other in range(seen.allowed.size):
            if seen.allowed[other]:
                mean = known.sums[other] / known.n_observed[other]
                value = index(params, stage - seen.origin, known, other, mean)
                certificate.highs[other] = value
                if other != arm:
                    if not (value == most and arm < other):
                        rival = max(rival, value)
                    if other != look:
                        other_rival = max(other_rival, value)
        look_lead = np.inf
        if look >= 0 and look != arm:
            look_lead = certificate.highs[look] - other_rival
        if held.leader >= 0:
            best = known.sums[held.leader] / known.n_observed[held.leader]
            for other in range(seen.allowed.size):
                if other != held.leader:
                    look_lead = min(look_lead, best - known.sums[other] / known.n_observed[other])
        return certificate.highs[arm] - rival, look_lead

    leads = jit(leads)
    highest_mean = jit(highest_mean)
    lowest_mean = jit(lowest_mean)
    lowest = jit(lowest)
    certified = jit(certified)

    def held_by(params: Any, state: Any, looks: Looks) -> Hold:
        """Return which arm is held, if one is that matters."""
        return holding(params, state) if looks.observer == ACTIVE else no_hold(params, state)

    held_by = jit(held_by)

    def tell_looks(
        params: Any,
        state: Any,
        law: Law,
        looks: Looks,
        stage: int,
        n_looks: int,
        look: int,
        rng: Any,
        looks_by_arm: Array,
        certificate: Certificate,
    ) -> Any:
        """Draw where the looks of a block go, and tell the policy of them."""
        n_arms = law.means.size
        looked = n_arms > 0  # a literal True would compile `update` once more
        certificate.looks[:] = 0
        first = 0
        if looks.observer == PASSIVE:
            left, weight = n_looks, 0.0
            for arm in range(n_arms - 1, -1, -1):  # the weight of this arm and those after it
                weight += looks.shares[arm]
                certificate.highs[arm] = weight
            for arm in range(n_arms):
                if left > 0 and looks.shares[arm] > 0:
                    certificate.looks[arm] = binomial(
                        left, looks.shares[arm] / certificate.highs[arm], rng
                    )
                    left -= certificate.looks[arm]
        elif look >= 0:
            certificate.looks[look] = n_looks
        elif hold is not None:
            held = holding(params, state)
            for arm in range(n_arms):
                if arm != held.arm:
                    certificate.looks[arm] = in_turn(params, state, arm, n_looks)
            certificate.looks[held.arm] = n_looks - certificate.looks.sum()
            first = (held.arm + 1) % n_arms
        elif takes_turns:
            playing, latest = turns(params, state)
            n_playing = playing.sum()
            more = n_looks % n_playing
            arm, turn = latest, 0
            while turn < n_playing:
                arm = (arm + 1) % n_arms
                if playing[arm]:
                    certificate.looks[arm] = n_looks // n_playing + (1 if turn < more else 0)
                    turn += 1
                    if turn == more:
                        first = (arm + 1) % n_arms
            if more == 0:
                first = (arm + 1) % n_arms
        # `first` is such that the arm looked at last, or held, is told last
        for step in range(n_arms):
            arm = (first + step) % n_arms
            if certificate.looks[arm] > 0:
                looks_by_arm[arm] += certificate.looks[arm]
                total = sum_of(law, arm, certificate.looks[arm], rng)
                state = update(params, state, stage, arm, certificate.looks[arm], total, looked)
        return state

    tell_looks = jit(tell_looks)

    def propose(
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
        certificate: Certificate,
    ) -> tuple[int, int]:
        """Return how many stages, up to `last`, to leap (0: it does not pay) and their arrivals."""
        furthest = min(last, seen.end - 1) - stage + 1
        if looks.observer == ACTIVE and look < 0 and not foreseen:
            furthest = min(furthest, arrival - stage)
        shortest = SHORTEST
        if arrival < NEVER:  # playing an arrival costs as much as playing a hundred other stages
            rate = looks.rate if looks.arrivals == RANDOM else 1 / looks.period
            shortest = max(4, int(SHORTEST / (1 + 100 * rate)))
        held = held_by(params, state, looks)
        if held.most < NEVER and arrival < NEVER:
            n_arrivals = held.most // looks.per_arrival
            ahead = stages_for(looks, n_arrivals, certificate.now[0]["log"]) if n_arrivals > 0 else 0
            furthest = min(furthest, arrival - stage + ahead)
        if furthest < shortest:
            return 0, 0
        playing = seen.allowed
        if takes_turns:
            playing = turns(params, state)[0]
        lead, look_lead = leads(params, seen, stage, arm, look, held, certificate)
        pace = certificate.now[0]["pace"]
        if look_lead < lead:  # unless it is better to stop before the next look
            if pace * look_lead**2 > max(shortest, arrival - stage):
                lead = look_lead
            else:
                furthest = min(furthest, arrival - stage)
        # A lead falls as the square root of the length of a block, or faster: do not trust it far.
        furthest = min(furthest, 4 * certificate.now[0]["latest"])
        n = furthest if pace * lead**2 > furthest else int(pace * lead**2)
        if n < shortest:
            certificate.now[0]["pace"] = min(2 * pace, MOST_PACE)  # so as not to give up for ever
        while n >= shortest:
            left = certified(
                params,
                state,
                seen,
                law,
                looks,
                stage,
                stage + n - 1,
                arrival,
                arm,
                look,
                playing,
                held,
                certificate,
            )
            if lead < np.inf and left > -np.inf:
                certificate.now[0]["pace"] = pace = 0.9 * n / max(lead - left, ROUNDING) ** 2
            if left > 0:
                charge(certificate)
                certificate.now[0]["patience"] = 1
                certificate.now[0]["latest"] = min(max(n, shortest), NEVER // 8)
                n_arrivals, end = arrivals_drawn(looks, arrival, stage + n - 1, rng)
                return end - stage + 1, n_arrivals
            n = n // 2 if left == -np.inf else min(n // 2 + n // 4, int(pace * lead**2))
        certificate.now[0]["wait"] = certificate.now[0]["patience"]
        certificate.now[0]["patience"] = min(2 * certificate.now[0]["patience"], 8)
        return 0, 0

    return jit(propose), tell_looks
