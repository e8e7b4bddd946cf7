r"""The leaping engine: it plays blocks of stages at once, with a bounded error.

After some time, a good policy pulls the same arm for very many stages. The engine first certifies
that the policy does so for a block of stages, then draws that block (docs/leap.md has the proof):

1. Propose a block of n stages in which the policy keeps pulling the arm that it pulls now, and keeps
   looking where it looks now.
2. Bound the number of looks (Bernstein's inequality) and the deviation of each arm's sum of rewards
   from its mean (Gaussian rewards: the reflection principle,
   P(max_k W_k >= z \sigma \sqrt n) <= 2 Q(z); rewards in [0, 1]: Hoeffding's and Doob's inequalities,
   exp(-2 x^2 / n) for a deviation x). Here W_k is the sum of k centred rewards, \sigma their standard
   deviation and Q the upper tail of the standard normal distribution. All these bounds hold
   simultaneously, except with probability at most delta. Together they define a box that contains the
   statistics of all arms throughout the block.
3. An index is non-decreasing in mean and stage and non-increasing in every count. Hence its extreme
   values over the box are attained at corners. If the smallest index of the pulled arm exceeds the
   largest index of every rival, the policy pulls that arm throughout the block. The same argument
   shows where the policy looks.
4. If the block is certified, draw it at once: the number of looks (binomial, split by the weights)
   and the sums of rewards (normal or binomial). Add delta to the error of the run. If the block is
   not certified, try a shorter block; very short blocks are played stage by stage.

The block is chosen before anything in it is drawn. Hence the distribution of a run differs, in total
variation, by at most the accumulated error from its distribution in the stage-by-stage engine. The
error stays below `error` for any number of blocks: the first 2^20 blocks spend half of `error`, the
next 2^21 a quarter, and so on. The two engines draw different random numbers.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz.engine.environment import ACTIVE, GAUSSIAN, PASSIVE, PERIODIC, RANDOM, Arms, Looks
from kibitz.engine.lazy_index import ROUNDING
from kibitz.model.feedback import Every, Feedback
from kibitz.model.problem import Problem
from kibitz.policies.policy import (
    LOOKS,
    NEVER,
    PULLS,
    Array,
    Graph,
    Hold,
    Policy,
    Statistics,
    View,
    new_statistics,
)

MIN_BLOCK_STAGES = 128  # stages; a certificate for a shorter block costs more than it saves
RETRY_STAGES = 128  # largest number of stages played one by one between two decisions
N_CERTIFICATES_PER_HALF = 2.0**20  # certificates that together cost half of the allowed error
CUTOFF_ARRIVALS = 32.0  # a block with fewer expected arrivals may end at an arrival (`cutoff`)
MAX_PACE = 1e30  # larger than any useful pace
MAX_DIRECT_BINOMIAL = 10**6  # trials; with more trials, the generator's rejection step loses accuracy


def can_leap(policy: Policy, problem: Problem, feedback: Feedback) -> bool:
    """Return whether the engine can play a policy in leaps, for this problem and feedback."""
    rate, weights = feedback.rate, feedback.weights
    return (
        policy.index is not None
        and (feedback.shows is None or policy.on_graph is not None)
        and not any(feedback.functions)
        and problem.kind in {"gaussian", "bernoulli"}
        and feedback.observer in {"bandit", "passive", "active"}
        and isinstance(rate, float | Every)
        and (weights is None or isinstance(weights, str) or np.ndim(weights) == 1)
    )


class Certificate(NamedTuple):
    """Work arrays for one certificate, and the error budget of all certificates of the run."""

    looks: Array  # an upper bound on the looks at each arm
    shows: Array  # an upper bound on the number of times that the block shows each arm
    upper: Statistics  # upper bounds on the counts
    max_indices: Array  # upper bounds on the indices
    leap_state: Array  # one record of type LEAP_STATE: when to leap next, and the error so far


LEAP_STATE = np.dtype(
    [
        ("wait", np.int64),  # decisions until the next attempt to leap
        ("patience", np.int64),  # decisions to wait after the next failed attempt
        ("last_length", np.int64),  # length of the latest block
        ("spent", np.float64),  # error of the run so far
        ("max_error", np.float64),  # error that the run may reach
        ("step", np.float64),  # once `spent` reaches this value, `cost` is divided by 4
        ("cost", np.float64),  # error of one certificate
        ("neg_log_p", np.float64),  # -log P(a bound of a certificate fails)
        ("z", np.float64),  # the normal quantile of that probability
        ("pace", np.float64),  # stages to propose for a lead of 1
        ("rare_stage", np.int64),  # the stage of the first rare show, see `is_rare`
        ("rare_length", np.int64),  # the length of the block for which rare shows were chosen
    ],
    align=True,
)


@jit(inline=False)
def normal_quantile(neg_log_p: float) -> float:
    """Return z with P(|Z| > z) <= exp(-neg_log_p) for a standard normal variable Z.

    The bound is P(Z > z) <= phi(z) / z for z >= 1, where phi is the normal density.
    """
    z = math.sqrt(2 * neg_log_p)
    for _ in range(8):
        z = math.sqrt(max(1.0, 2 * (neg_log_p + math.log(2.0) - 0.918938533204672 - math.log(z))))
    return z + 1e-6


@jit(allocates=True)
def new_certificate(n_arms: int, error: float, n_bounds: int) -> Certificate:
    """Return the certificate of a run, before any block.

    `error` is the largest allowed error of the run. `n_bounds` is the largest number of bounds that a
    block uses.
    """
    # A certificate for K arms uses at most 2 K + 2 bounds: on the number of arrivals, on the looks at
    # each arm, on the deviation of each arm, and on the opposite deviation of the looked-at arm. If
    # an arm is held, it uses K + 3 bounds: on the number of arrivals, on the deviation of each arm,
    # and on the opposite deviations of the pulled arm and of the leader. On a graph, it uses K more
    # bounds: on the number of times that the block shows each arm.
    records = np.zeros(1, LEAP_STATE)
    leap_state = records[0]
    leap_state["patience"] = 1
    leap_state["last_length"] = MIN_BLOCK_STAGES
    leap_state["max_error"] = error
    leap_state["step"] = error / 2
    leap_state["cost"] = error / (2 * N_CERTIFICATES_PER_HALF)
    leap_state["neg_log_p"] = math.log(n_bounds / leap_state["cost"])
    leap_state["z"] = normal_quantile(leap_state["neg_log_p"])
    leap_state["pace"] = MAX_PACE
    looks, shows = np.zeros(n_arms, np.int64), np.zeros(n_arms, np.int64)
    max_indices = np.zeros(n_arms, np.float64)
    return Certificate(looks, shows, new_statistics(n_arms, 0), max_indices, records)


@jit(inline=False)
def charge(certificate: Certificate) -> None:
    """Add the error of one certificate to the error of the run.

    Divide the error of later certificates by 4 if the error of the run reaches `step`.
    """
    leap_state = certificate.leap_state[0]
    leap_state["spent"] += leap_state["cost"]
    if leap_state["spent"] >= leap_state["step"]:
        leap_state["step"] = (leap_state["step"] + leap_state["max_error"]) / 2
        leap_state["cost"] /= 4
        leap_state["neg_log_p"] += math.log(4.0)
        leap_state["z"] = normal_quantile(leap_state["neg_log_p"])


@jit(inline=False)
def binomial(n: int, p: float, rng: Any) -> int:
    """Draw the number of successes in n trials, for any n.

    The generator's own method loses accuracy for large n. A large n is therefore halved: the median
    of n uniform numbers has a beta distribution, and comparing it with p decides half of the trials.
    """
    successes = 0
    while n > MAX_DIRECT_BINOMIAL and 0 < p < 1:
        median_rank = n // 2 + 1
        median = rng.beta(float(median_rank), float(n + 1 - median_rank))
        if median <= p:
            successes += median_rank
            n -= median_rank
            p = (p - median) / (1 - median)
        else:
            n = median_rank - 1
            p = p / median
    if p <= 0 or n == 0:
        return successes
    if p >= 1:
        return successes + n
    return successes + rng.binomial(n, p)


@jit(inline=False)
def draw_sum(arms: Arms, arm: int, n: int, rng: Any) -> float:
    """Draw the sum of n rewards of an arm."""
    if arms.kind == GAUSSIAN:
        noise = arms.sds[arm] * math.sqrt(float(n)) * rng.standard_normal()
        return n * arms.means[arm] + noise
    return arms.success * binomial(n, arms.chances[arm], rng)


@jit
def binomial_upper_bound(n: float, p: float, neg_log_p: float) -> int:
    """Return an upper bound on a binomial(n, p) variable.

    The bound fails with probability at most exp(-neg_log_p), by Bernstein's inequality.
    """
    if p <= 0 or n <= 0:
        return 0
    if p >= 1:
        return int(n)
    excess = neg_log_p / 3 + math.sqrt(neg_log_p * neg_log_p / 9 + 2 * n * p * (1 - p) * neg_log_p)
    return int(min(n, n * p + excess + 1))


@jit
def deviation_bound(arms: Arms, arm: int, n: int, neg_log_p: float, z: float) -> float:
    """Return a one-sided bound on how far the sum of the first k rewards of an arm is from its mean.

    The bound holds for all k <= n simultaneously. It fails with probability at most exp(-neg_log_p);
    z is the normal quantile of that probability.
    """
    if arms.kind == GAUSSIAN:
        return z * arms.sds[arm] * math.sqrt(float(n))
    if arms.chances[arm] == 0 or arms.chances[arm] == 1:
        return 0.0
    return arms.success * math.sqrt(n * neg_log_p / 2)


@jit
def cutoff(looks: Looks, arrival: int, last_stage: int) -> int:
    """Return the number of arrivals after which a block ends early, or NEVER if it runs to its end.

    Bernstein's inequality is loose for few arrivals, so a block with few expected arrivals ends after
    a fixed number of arrivals instead. Periodic looks need no cutoff.
    """
    if looks.arrivals == PERIODIC or arrival > last_stage:
        return NEVER
    n_expected = looks.rate * (last_stage - arrival)
    return 1 + int(n_expected + math.sqrt(n_expected)) if n_expected < CUTOFF_ARRIVALS else NEVER


@jit
def max_arrivals(looks: Looks, arrival: int, last_stage: int, neg_log_p: float) -> int:
    """Return an upper bound on the arrivals up to `last_stage`; the next arrival is at `arrival`.

    The bound fails with probability at most exp(-neg_log_p).
    """
    if arrival > last_stage:
        return 0
    if looks.arrivals == PERIODIC:
        return 1 + (last_stage - arrival) // looks.period
    upper_bound = 1 + binomial_upper_bound(float(last_stage - arrival), looks.rate, neg_log_p)
    return min(upper_bound, cutoff(looks, arrival, last_stage))


@jit(inline=False)
def guess_stages(looks: Looks, n_arrivals: int, neg_log_p: float) -> int:
    """Guess how many stages, starting with an arrival, contain at most `n_arrivals` arrivals.

    The proof does not depend on this guess; `max_arrivals` returns a valid bound.
    """
    if looks.arrivals == PERIODIC:
        return n_arrivals * looks.period
    root = (math.sqrt(1 + 4.0 * n_arrivals) - 1) / 2
    n_expected = root * root  # solves n_arrivals = expected + sqrt(expected), see `cutoff`
    if n_expected >= CUTOFF_ARRIVALS:
        shifted_count = n_arrivals - 2 - neg_log_p / 3
        n_expected = max(
            0.99 * CUTOFF_ARRIVALS,
            shifted_count
            + neg_log_p
            - math.sqrt((shifted_count + neg_log_p) ** 2 - shifted_count**2 + neg_log_p**2 / 9),
        )
    return 1 + int(min(0.999 * n_expected / looks.rate, 1e18))


@jit(inline=False)
def draw_arrivals(looks: Looks, arrival: int, last_stage: int, rng: Any) -> tuple[int, int]:
    """Draw the number of arrivals up to `last_stage`, and the stage at which the block ends.

    The next arrival is at stage `arrival`. A block may end at an arrival (`cutoff`).
    """
    if arrival > last_stage:
        return 0, last_stage
    if looks.arrivals == PERIODIC:
        return 1 + (last_stage - arrival) // looks.period, last_stage
    max_block_arrivals = cutoff(looks, arrival, last_stage)
    if max_block_arrivals == NEVER:
        return 1 + binomial(last_stage - arrival, looks.rate, rng), last_stage
    n_arrivals = 1
    while n_arrivals < max_block_arrivals:
        wait = rng.standard_exponential() * looks.expected_wait
        if wait >= last_stage - arrival:
            return n_arrivals, last_stage
        arrival += 1 + int(wait)
        n_arrivals += 1
    return n_arrivals, arrival


@jit
def is_rare(looks: Looks, probability: float, n_stages: int) -> bool:
    """Return whether an edge is rare: a block of `n_stages` stages ends when the edge shows its arm.

    Bernstein's inequality is loose for few shows. A block therefore ends at the first show of an edge
    with less than one expected show, and no decision of the block depends on this show. If the
    policy chooses the arms of looks, a look of the same stage could depend on the show.
    """
    return looks.observer != ACTIVE and probability * n_stages < 1


@jit(inline=False)
def draw_rare_show(looks: Looks, graph: Graph, arm: int, n_stages: int, rng: Any) -> int:
    """Draw the number of pulls of `arm` until a rare edge shows its arm (`is_rare`).

    Return NEVER // 2 if this number is too large.
    """
    log_none = 0.0  # the logarithm of the probability that a pull shows no rare edge
    for edge in range(graph.offsets[arm], graph.offsets[arm + 1]):
        if is_rare(looks, graph.probabilities[edge], n_stages):
            log_none += math.log1p(-graph.probabilities[edge])
    n_pulls = -rng.standard_exponential() / log_none if log_none < 0 else np.inf
    return 1 + int(n_pulls) if n_pulls < 1e18 else NEVER // 2


@jit(inline=False)
def draw_rare_edges(
    looks: Looks, graph: Graph, arm: int, n_stages: int, rng: Any, shown: Array
) -> None:
    """Draw which rare edges a pull of `arm` shows, given that it shows at least one of them.

    Set `shown` to 1 for the arms of these edges.
    """
    log_none, has_shown = 0.0, False  # log P(this and all later rare edges show nothing)
    for edge in range(graph.offsets[arm], graph.offsets[arm + 1]):
        if is_rare(looks, graph.probabilities[edge], n_stages):
            log_none += math.log1p(-graph.probabilities[edge])
    for edge in range(graph.offsets[arm], graph.offsets[arm + 1]):
        probability = graph.probabilities[edge]
        if is_rare(looks, probability, n_stages):
            chance = probability if has_shown else probability / -math.expm1(log_none)
            if rng.random() < chance:
                shown[graph.arms[edge]] = 1
                has_shown = True
            log_none -= math.log1p(-probability)


@jit
def no_hold(params: Any, state: Any) -> Hold:
    """Return the hold of a policy that never holds an arm: no arm, no leader and no limit."""
    return Hold(-1, -1, NEVER)


@jit
def no_looks_due(params: Any, state: Any, arm: int, n: int) -> int:
    """Return 0, for a policy that sends no looks to the arms in turn."""
    return 0


@cache
def make_leap_functions(
    index: Any, update: Any, turns: Any, hold: Any, looks_due: Any, has_graph: bool = False
) -> tuple[Any, Any]:
    """Return `propose`, which certifies a block, and `draw_looks`, which draws its looks.

    The arguments are functions of an index policy; `index` takes the whole statistics. `has_graph`
    says whether a pull may show other arms.
    """
    takes_turns = turns is not None
    get_hold = no_hold if hold is None else hold
    get_looks_due = no_looks_due if looks_due is None else looks_due
    look_is_planned = takes_turns or hold is not None

    def certified_lead(
        params: Any,
        state: Any,
        view: View,
        arms: Arms,
        looks: Looks,
        stage: int,
        last_stage: int,
        arrival: int,
        arm: int,
        look: int,
        graph: Graph,
        taking_turns: Array,
        hold_now: Hold,
        certificate: Certificate,
    ) -> float:
        """Return a lower bound on the leads of `arm` and `look` during a block up to `last_stage`.

        The lead of an arm is its index minus the largest index of its rivals. If the lower bound is
        positive, the policy pulls `arm` and looks at `look` throughout the block. `look` is -1 if the
        arms of looks are random or if the arms `taking_turns` are looked at in turn. The arm of
        `hold_now` gets the looks between turns while the leader of `hold_now` has the largest mean.
        Neither the held arm nor `arm` may take a turn in the block.
        """
        n_arms = view.allowed.size
        stats, upper = view.statistics, certificate.upper
        n_stages = last_stage - stage + 1
        neg_log_p = certificate.leap_state[0]["neg_log_p"]
        # bound the looks and the counts
        n_arrivals = max_arrivals(looks, arrival, last_stage, neg_log_p)
        if n_arrivals > min(view.max_looks, hold_now.max_looks) // looks.per_arrival:
            return -np.inf
        n_looks = n_arrivals * looks.per_arrival
        total_weight = looks.weights[0, n_arms - 1]  # the sum of all weights: 1 up to rounding
        for other_arm in range(n_arms):
            certificate.looks[other_arm] = 0
            if n_looks > 0:
                if looks.observer == PASSIVE:
                    certificate.looks[other_arm] = binomial_upper_bound(
                        float(n_looks), looks.shares[other_arm] / total_weight, neg_log_p
                    )
                elif look >= 0:
                    certificate.looks[other_arm] = n_looks if other_arm == look else 0
                elif hold_now.arm >= 0:
                    certificate.looks[other_arm] = get_looks_due(params, state, other_arm, n_looks)
                elif taking_turns[other_arm]:
                    certificate.looks[other_arm] = n_looks // taking_turns.sum() + 1
        if has_graph:
            certificate.shows[:] = 0
            for edge in range(graph.offsets[arm], graph.offsets[arm + 1]):
                if not is_rare(looks, graph.probabilities[edge], n_stages):
                    certificate.shows[graph.arms[edge]] = binomial_upper_bound(
                        float(n_stages), graph.probabilities[edge], neg_log_p
                    )
                if hold_now.arm >= 0 and certificate.looks[graph.arms[edge]] > 0:
                    return -np.inf  # the shows may make the arm lose its turn
            n_held = certificate.shows[hold_now.arm] if hold_now.arm >= 0 else 0
            if n_held > 0 and n_looks > 0 and n_held + n_looks > hold_now.max_looks:
                return -np.inf  # shows of the held arm count too
        if hold_now.arm >= 0:
            if certificate.looks[arm] > 0 or certificate.looks[hold_now.arm] > 0:
                return -np.inf
            if arm == hold_now.arm and n_looks > 0 and n_stages + n_looks > hold_now.max_looks:
                return -np.inf  # pulls of the held arm count too
            certificate.looks[hold_now.arm] = n_looks - certificate.looks.sum()
        for other_arm in range(n_arms):
            extra_looks = certificate.looks[other_arm] if view.learns_from_looks else 0
            n_pulls = n_stages if other_arm == arm else 0
            upper.n_pulls[other_arm] = stats.n_pulls[other_arm] + n_pulls
            upper.n_looks[other_arm] = stats.n_looks[other_arm] + certificate.looks[other_arm]
            upper.n_observed[other_arm] = stats.n_observed[other_arm] + extra_looks + n_pulls
            if has_graph and view.learns_from_looks:
                upper.n_observed[other_arm] += certificate.shows[other_arm]
        upper.totals[PULLS] = stats.totals[PULLS] + n_stages
        upper.totals[LOOKS] = stats.totals[LOOKS] + n_looks
        # bound the indices of the rivals; in a tie that lasts, the lower arm is pulled
        lowest_pull_index = lowest_index(params, view, arms, stage, arm, certificate)
        mean = stats.sums[arm] / stats.n_observed[arm]
        is_constant = lowest_pull_index == index(params, stage - view.origin, stats, arm, mean)
        best_rival, best_look_rival = -np.inf, -np.inf
        for other_arm in range(n_arms):
            if other_arm != arm and view.allowed[other_arm]:
                high_mean = highest_mean(view, arms, other_arm, certificate)
                high_index = index(params, last_stage - view.origin, stats, other_arm, high_mean)
                certificate.max_indices[other_arm] = high_index + ROUNDING * (1 + abs(high_index))
                if not (is_constant and high_index == lowest_pull_index and arm < other_arm):
                    best_rival = max(best_rival, certificate.max_indices[other_arm])
                if other_arm != look:
                    best_look_rival = max(best_look_rival, certificate.max_indices[other_arm])
        lead = lowest_pull_index - best_rival if best_rival > -np.inf else np.inf
        if look >= 0 and look != arm and n_looks > 0 and best_look_rival > -np.inf:
            lead = min(
                lead, lowest_index(params, view, arms, stage, look, certificate) - best_look_rival
            )
        if hold_now.leader >= 0 and n_looks > 0:
            low_mean = lowest_mean(view, arms, hold_now.leader, certificate)
            for other_arm in range(n_arms):
                if other_arm != hold_now.leader:
                    high_mean = highest_mean(view, arms, other_arm, certificate)
                    lead = min(lead, low_mean - high_mean - ROUNDING * (1 + abs(high_mean)))
        return lead

    def highest_mean(view: View, arms: Arms, arm: int, certificate: Certificate) -> Any:
        """Return an upper bound on the mean of an arm during the block."""
        stats, max_count = view.statistics, certificate.upper.n_observed[arm]
        n_new = max_count - stats.n_observed[arm]
        neg_log_p, z = certificate.leap_state[0]["neg_log_p"], certificate.leap_state[0]["z"]
        extreme_sum = stats.sums[arm] + deviation_bound(arms, arm, n_new, neg_log_p, z)
        drifted_mean = (extreme_sum + n_new * arms.means[arm]) / max_count
        return max(extreme_sum / stats.n_observed[arm], drifted_mean)

    def lowest_mean(view: View, arms: Arms, arm: int, certificate: Certificate) -> Any:
        """Return a lower bound on the mean of an arm during the block."""
        stats, max_count = view.statistics, certificate.upper.n_observed[arm]
        n_new = max_count - stats.n_observed[arm]
        neg_log_p, z = certificate.leap_state[0]["neg_log_p"], certificate.leap_state[0]["z"]
        extreme_sum = stats.sums[arm] - deviation_bound(arms, arm, n_new, neg_log_p, z)
        drifted_mean = (extreme_sum + n_new * arms.means[arm]) / max_count
        return min(extreme_sum / stats.n_observed[arm], drifted_mean)

    def lowest_index(
        params: Any, view: View, arms: Arms, stage: int, arm: int, certificate: Certificate
    ) -> Any:
        """Return a lower bound on the index of an arm during the block."""
        low_mean = lowest_mean(view, arms, arm, certificate)
        return index(params, stage - view.origin, certificate.upper, arm, low_mean)

    def current_leads(
        params: Any,
        view: View,
        stage: int,
        arm: int,
        look: int,
        hold_now: Hold,
        certificate: Certificate,
    ) -> tuple[float, float]:
        """Return the current leads of the pull and of the look.

        The lead of the pull is the index of `arm` minus the largest index of its rivals. The lead of
        the look is the index of `look` minus the largest index of all arms but `look` and `arm`;
        while an arm is held, the lead of the look is the leader's mean minus the largest other mean.
        Without rivals, a lead is infinite. A higher arm whose index equals the index of `arm` is not
        a rival: in a tie, the lower arm is pulled, and the tie may last.
        """
        stats = view.statistics
        best_rival, best_look_rival = -np.inf, -np.inf
        mean = stats.sums[arm] / stats.n_observed[arm]
        pull_index = index(params, stage - view.origin, stats, arm, mean)
        for other_arm in range(view.allowed.size):
            if view.allowed[other_arm]:
                mean = stats.sums[other_arm] / stats.n_observed[other_arm]
                other_index = index(params, stage - view.origin, stats, other_arm, mean)
                certificate.max_indices[other_arm] = other_index
                if other_arm != arm:
                    if not (other_index == pull_index and arm < other_arm):
                        best_rival = max(best_rival, other_index)
                    if other_arm != look:
                        best_look_rival = max(best_look_rival, other_index)
        look_lead = np.inf
        if look >= 0 and look != arm:
            look_lead = certificate.max_indices[look] - best_look_rival
        if hold_now.leader >= 0:
            leader_mean = stats.sums[hold_now.leader] / stats.n_observed[hold_now.leader]
            for other_arm in range(view.allowed.size):
                if other_arm != hold_now.leader:
                    look_lead = min(
                        look_lead, leader_mean - stats.sums[other_arm] / stats.n_observed[other_arm]
                    )
        return certificate.max_indices[arm] - best_rival, look_lead

    current_leads = jit(current_leads)
    highest_mean = jit(highest_mean)
    lowest_mean = jit(lowest_mean)
    lowest_index = jit(lowest_index)
    certified_lead = jit(certified_lead)

    def current_hold(params: Any, state: Any, looks: Looks) -> Hold:
        """Return the policy's current hold, or `no_hold` if the observer is not active."""
        return get_hold(params, state) if looks.observer == ACTIVE else no_hold(params, state)

    current_hold = jit(current_hold)

    def draw_looks(
        params: Any,
        state: Any,
        arms: Arms,
        looks: Looks,
        stage: int,
        n_looks: int,
        look: int,
        rng: Any,
        looks_by_arm: Array,
        certificate: Certificate,
    ) -> Any:
        """Draw the looks of a block and update the policy with them."""
        n_arms = arms.means.size
        true = n_arms > 0  # a literal True would compile `update` again
        certificate.looks[:] = 0
        first_arm = 0
        if looks.observer == PASSIVE:
            n_left, tail_weight = n_looks, 0.0
            for arm in range(n_arms - 1, -1, -1):  # add up the weights of this and all later arms
                tail_weight += looks.shares[arm]
                certificate.max_indices[arm] = tail_weight
            for arm in range(n_arms):
                if n_left > 0 and looks.shares[arm] > 0:
                    certificate.looks[arm] = binomial(
                        n_left, looks.shares[arm] / certificate.max_indices[arm], rng
                    )
                    n_left -= certificate.looks[arm]
        elif look >= 0:
            certificate.looks[look] = n_looks
        elif hold is not None:
            hold_now = get_hold(params, state)
            for arm in range(n_arms):
                if arm != hold_now.arm:
                    certificate.looks[arm] = get_looks_due(params, state, arm, n_looks)
            certificate.looks[hold_now.arm] = n_looks - certificate.looks.sum()
            first_arm = (hold_now.arm + 1) % n_arms
        elif takes_turns:
            taking_turns, last_arm = turns(params, state)
            n_taking_turns = taking_turns.sum()
            n_extra = n_looks % n_taking_turns
            arm, turn = last_arm, 0
            while turn < n_taking_turns:
                arm = (arm + 1) % n_arms
                if taking_turns[arm]:
                    certificate.looks[arm] = n_looks // n_taking_turns + (1 if turn < n_extra else 0)
                    turn += 1
                    if turn == n_extra:
                        first_arm = (arm + 1) % n_arms
            if n_extra == 0:
                first_arm = (arm + 1) % n_arms
        # start at `first_arm`: the last update must be for the last arm in turn or the held arm
        for step in range(n_arms):
            arm = (first_arm + step) % n_arms
            if certificate.looks[arm] > 0:
                looks_by_arm[arm] += certificate.looks[arm]
                total = draw_sum(arms, arm, certificate.looks[arm], rng)
                state = update(params, state, stage, arm, certificate.looks[arm], total, true)
        return state

    draw_looks = jit(draw_looks)

    def propose(
        params: Any,
        state: Any,
        view: View,
        arms: Arms,
        looks: Looks,
        stage: int,
        last_stage: int,
        arrival: int,
        arm: int,
        look: int,
        graph: Graph,
        rng: Any,
        certificate: Certificate,
    ) -> tuple[int, int]:
        """Return the length and the number of arrivals of a certified block up to `last_stage`.

        The length is 0 if no block can be certified or if leaping would not save time.
        """
        max_length = min(last_stage, view.last_stage - 1) - stage + 1
        if looks.observer == ACTIVE and look < 0 and not look_is_planned:
            max_length = min(max_length, arrival - stage)
        min_length = MIN_BLOCK_STAGES
        if arrival < NEVER:  # playing an arrival costs as much as a hundred other stages
            rate = looks.rate if looks.arrivals == RANDOM else 1 / looks.period
            min_length = max(4, int(MIN_BLOCK_STAGES / (1 + 100 * rate)))
        hold_now = current_hold(params, state, looks)
        if hold_now.max_looks < NEVER and arrival < NEVER:
            n_arrivals = hold_now.max_looks // looks.per_arrival
            n_stages_ahead = (
                guess_stages(looks, n_arrivals, certificate.leap_state[0]["neg_log_p"])
                if n_arrivals > 0
                else 0
            )
            max_length = min(max_length, arrival - stage + n_stages_ahead)
        if max_length < min_length:
            return 0, 0
        taking_turns = view.allowed
        if takes_turns:
            taking_turns = turns(params, state)[0]
        lead, look_lead = current_leads(params, view, stage, arm, look, hold_now, certificate)
        pace = certificate.leap_state[0]["pace"]
        if look_lead < lead:  # stop before the next look instead, if that allows a longer block
            if pace * look_lead**2 > max(min_length, arrival - stage):
                lead = look_lead
            else:
                max_length = min(max_length, arrival - stage)
        # the lead shrinks at least like the square root of the block length: extrapolate with care
        max_length = min(max_length, 4 * certificate.leap_state[0]["last_length"])
        length = max_length if pace * lead**2 > max_length else int(pace * lead**2)
        if length < min_length:
            certificate.leap_state[0]["pace"] = min(
                2 * pace, MAX_PACE
            )  # try longer blocks again later
        while length >= min_length:
            certified = certified_lead(
                params,
                state,
                view,
                arms,
                looks,
                stage,
                stage + length - 1,
                arrival,
                arm,
                look,
                graph,
                taking_turns,
                hold_now,
                certificate,
            )
            if lead < np.inf and certified > -np.inf:
                certificate.leap_state[0]["pace"] = pace = (
                    0.9 * length / max(lead - certified, ROUNDING) ** 2
                )
            if certified > 0:
                charge(certificate)
                certificate.leap_state[0]["patience"] = 1
                certificate.leap_state[0]["last_length"] = min(max(length, min_length), NEVER // 8)
                block_end = stage + length - 1
                if has_graph:
                    rare_stage = stage - 1 + draw_rare_show(looks, graph, arm, length, rng)
                    block_end = min(block_end, rare_stage)
                    certificate.leap_state[0]["rare_stage"] = rare_stage
                    certificate.leap_state[0]["rare_length"] = length
                n_arrivals, block_end = draw_arrivals(looks, arrival, block_end, rng)
                return block_end - stage + 1, n_arrivals
            length = (
                length // 2
                if certified == -np.inf
                else min(length // 2 + length // 4, int(pace * lead**2))
            )
        certificate.leap_state[0]["wait"] = certificate.leap_state[0]["patience"]
        certificate.leap_state[0]["patience"] = min(2 * certificate.leap_state[0]["patience"], 8)
        return 0, 0

    return jit(propose), draw_looks
