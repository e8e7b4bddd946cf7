r"""The Bayes-optimal policy for two Bernoulli arms, with or without looks.

The means have independent uniform priors. After s successes and f failures the posterior of an arm is
Beta(1 + s, 1 + f). Let V be the largest expected total reward from a stage to the horizon, as a
function of the state (s_1, f_1, s_2, f_2). Bellman's equation determines V backwards over stages. A
look arrives at stages n, 2n, ..., and the policy chooses the arm of the look. The policy chooses the
pull and the look in the same state, and observes both rewards before the next stage. With the
posterior means q_i = (1 + s_i)/(2 + s_i + f_i) and the value W at the next stage,

.. math:: V = \max_i\{q_i + E_iW\} \quad\text{or, with a look,}\quad
          V = \max_{i,j}\{q_i + E_{ij}W\},

where E_i is the expectation over one observation of arm i, and E_{ij} the expectation over one
observation of arm i and one observation of arm j. A pull of arm 1 and a look at arm 2 give the same
information as a pull of arm 2 and a look at arm 1 (E_{12} = E_{21}). In this case the policy
therefore pulls the arm with the larger q.

**Time and memory.** All states of a stage have the same number N of observations, so (s_1, f_1, s_2)
identifies a state. One array holds the values, and the values of each stage overwrite the values of
the next stage in place. The array has C(N+3, 3) numbers of eight bytes, where N is T − 1 plus the
number of looks before stage T. For T = 500 it takes 168 MB without looks, 222 MB with a look at one
stage in ten, and 1.3 GB with a look at every stage. The computation takes about N⁴/24 steps, which is
a few seconds at T = 500.

Averaged over the priors, no policy has a smaller regret than the optimal regret. `bayes_regret`
simulates a policy on means drawn from these priors.
"""

from collections.abc import Callable
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz._validation import invalid, seed_number, short_repr, whole
from kibitz.engine.cache import cached_dispatcher
from kibitz.model.problem import bernoulli
from kibitz.policies.policy import Policy, check_policy

MAX_BYTES = 4e9
N_ROWS = 32  # numbers of successes of arm 1 per compiled call; a call takes up to 0.3 s
NEVER = 2**62  # a period longer than any horizon

Floats = NDArray[np.float64]
ObservedCounts = tuple[tuple[int, int], tuple[int, int]]


class Optimum(NamedTuple):
    """The value of a state under the optimal policy, and the optimal decision."""

    reward: float  # the expected total reward from this stage to the horizon
    regret: float  # the expected total reward with known means, minus `reward`
    pull: int
    look: int | None  # None if no look arrives at this stage


class Regret(NamedTuple):
    """The mean regret of a policy over the priors, and its standard error."""

    mean: float
    sem: float


def bayes_optimal(
    horizon: int, every: int | None = None, *, stage: int = 1, seen: ObservedCounts = ((0, 0), (0, 0))
) -> Optimum:
    """Return the exact Bayes-optimal value and decision for two Bernoulli arms.

    Parameters
    ----------
    horizon
        The number of stages, T.
    every
        The number of stages between looks: one look arrives at stages `every`, 2·`every`, …; None
        means no looks.
    stage
        The current stage; the first by default.
    seen
        The successes and failures of each arm so far, as in ((3, 1), (0, 2)); none by default. Pass
        the current `stage` and `seen` to get the optimal decision in the middle of a run.
    """
    return solve_with_progress(horizon, every, stage, seen, lambda label, share: None)


def solve_with_progress(
    horizon: int,
    every: int | None,
    stage: int,
    seen: ObservedCounts,
    progress: Callable[[str, float], None],
) -> Optimum:
    """Compute `bayes_optimal`, and report the completed share to `progress` after each stage."""
    n_stages = whole(horizon, "horizon", 1)
    period = NEVER if every is None else whole(every, "every", 1)
    current_stage = whole(stage, "stage", 1, n_stages)
    posterior = _check_seen(seen)
    n_future = _count_observations(current_stage, n_stages, period)
    if (n_bytes := 8 * comb(n_future + 3, 3)) > MAX_BYTES:
        raise ValueError(
            f"horizon={short_repr(horizon)} would take {n_bytes / 1e9:.3g} GB of memory; "
            f"the limit is {MAX_BYTES / 1e9:g} GB, use a shorter horizon or fewer looks"
        )
    offsets = _make_offsets(n_future)
    values = np.zeros(offsets[-1, -1])
    solve_stage = cached_dispatcher(_solve_stage, nogil=True)
    for solved_stage in range(n_stages, current_stage, -1):
        n = _count_observations(current_stage, solved_stage, period)
        is_last, has_look = solved_stage == n_stages, solved_stage % period == 0
        for first in range(0, n + 1, N_ROWS):  # Ctrl-C can interrupt this loop
            last = min(first + N_ROWS, n + 1)
            solve_stage(values, offsets, posterior, n, first, last, is_last, has_look)
        progress("optimum", 1 - (n / n_future) ** 4)
    posterior_means = (posterior[:, 0] / posterior.sum(axis=1)).tolist()
    gains = _expect_gains(
        values, offsets, posterior, n_stages > current_stage, current_stage % period == 0
    )
    action_values = {(i, j): posterior_means[i] + gain for (i, j), gain in gains.items()}
    pull, look = max(action_values, key=lambda pull_and_look: action_values[pull_and_look])
    reward = action_values[pull, look]
    regret = (n_stages - current_stage + 1) * _compute_mean_of_larger(posterior) - reward
    return Optimum(reward, regret, pull, look if current_stage % period == 0 else None)


def _check_seen(seen: Any) -> NDArray[np.int64]:
    """Return the parameters of both Beta posteriors: successes and failures plus 1 for the prior."""
    condition = "successes and failures of two arms, as in ((3, 1), (0, 2))"
    try:
        (a, b), (c, d) = seen
        observed_counts = [[whole(a, "seen"), whole(b, "seen")], [whole(c, "seen"), whole(d, "seen")]]
    except (TypeError, ValueError):
        raise invalid("seen", condition, seen) from None
    return np.array(observed_counts, np.int64) + 1


def _count_observations(first_stage: int, stage: int, period: int) -> int:
    """Return the number of observations in the stages from `first_stage` to `stage` − 1."""
    return stage - first_stage + (stage - 1) // period - (first_stage - 1) // period


def _make_offsets(n_observed: int) -> NDArray[np.int64]:
    """Return the offset of the row of each (s_1, f_1) in the array of values.

    A row holds the values for all s_2. The last entry of the result is the size of the array.
    """
    s, f = np.indices((n_observed + 1, n_observed + 1))
    lengths = np.maximum(n_observed + 1 - s - f, 0)
    row_ends = np.cumsum(lengths.ravel()).reshape(lengths.shape)
    row_starts: NDArray[np.int64] = row_ends - lengths
    row_starts[-1, -1] = row_ends[-1, -1] if n_observed else 1
    return row_starts


def _solve_stage(
    values: Any,
    offsets: Any,
    posterior: Any,
    n: int,
    first: int,
    last: int,
    is_last: bool,
    has_look: bool,
) -> None:
    """Overwrite the values of the next stage with the values of a stage after n observations.

    The call overwrites the values for `first` to `last` - 1 successes of arm 1. Earlier calls must
    overwrite the values for fewer successes.
    """
    a1, b1, a2, b2 = posterior[0, 0], posterior[0, 1], posterior[1, 0], posterior[1, 1]
    for s1 in range(first, last):
        for f1 in range(n - s1 + 1):
            n2_observed = n - s1 - f1  # observations of arm 2
            row = values[offsets[s1, f1] :]
            n1, n2 = a1 + b1 + s1 + f1, a2 + b2 + n2_observed
            q1, inverse_n2 = (a1 + s1) / n1, 1.0 / n2
            if is_last:
                for s2 in range(n2_observed + 1):
                    row[s2] = max(q1, (a2 + s2) * inverse_n2)
                continue
            success_row, failure_row = (values[offsets[s1 + 1, f1] :], values[offsets[s1, f1 + 1] :])
            if not has_look:
                for s2 in range(n2_observed + 1):
                    q2 = (a2 + s2) * inverse_n2
                    value_of_arm1 = q1 + q1 * success_row[s2] + (1 - q1) * failure_row[s2]
                    value_of_arm2 = q2 + q2 * row[s2 + 1] + (1 - q2) * row[s2]
                    row[s2] = max(value_of_arm1, value_of_arm2)
                continue
            two_successes, one_success, two_failures = (
                values[offsets[s1 + 2, f1] :],
                values[offsets[s1 + 1, f1 + 1] :],
                values[offsets[s1, f1 + 2] :],
            )
            inverse_n1_next = 1.0 / (n1 + 1)
            q11, q10 = q1 * (a1 + s1 + 1) * inverse_n1_next, 2 * q1 * (b1 + f1) * inverse_n1_next
            q00 = (1 - q1) * (b1 + f1 + 1) * inverse_n1_next
            inverse_n2_next = 1.0 / (n2 + 1)
            for s2 in range(n2_observed + 1):
                q2 = (a2 + s2) * inverse_n2
                p11, p10 = (
                    q2 * (a2 + s2 + 1) * inverse_n2_next,
                    2 * q2 * (b2 + n2_observed - s2) * inverse_n2_next,
                )
                p00 = (1 - q2) * (b2 + n2_observed - s2 + 1) * inverse_n2_next
                only_arm1 = q11 * two_successes[s2] + q10 * one_success[s2] + q00 * two_failures[s2]
                only_arm2 = p11 * row[s2 + 2] + p10 * row[s2 + 1] + p00 * row[s2]
                both_arms = q1 * (q2 * success_row[s2 + 1] + (1 - q2) * success_row[s2])
                both_arms += (1 - q1) * (q2 * failure_row[s2 + 1] + (1 - q2) * failure_row[s2])
                row[s2] = max(max(q1, q2) + both_arms, max(q1 + only_arm1, q2 + only_arm2))


def _expect_gains(
    values: Floats, offsets: NDArray[np.int64], posterior: Any, has_next: bool, has_look: bool
) -> dict[tuple[int, int], float]:
    """Return E_ij W, the expected value of the next stage, for each pull i and look j."""
    if not has_next:
        return {(0, 1): 0.0, (1, 0): 0.0}
    gains = {}
    for pull in (0, 1):
        for look in (0, 1) if has_look else (1 - pull,):
            gain = 0.0
            for pull_reward in (0, 1):
                for look_reward in (0, 1) if has_look else (0,):
                    counts = posterior.copy()
                    probability = counts[pull, 1 - pull_reward] / counts[pull].sum()
                    counts[pull, 1 - pull_reward] += 1
                    if has_look:
                        probability *= counts[look, 1 - look_reward] / counts[look].sum()
                        counts[look, 1 - look_reward] += 1
                    (s1, f1), (s2, _) = counts - posterior
                    gain += probability * values[offsets[s1, f1] + s2]
            gains[pull, look] = float(gain)
    return gains


def _compute_mean_of_larger(posterior: Any) -> float:
    """Return E max(μ_1, μ_2) = ∫ 1 − F_1F_2, where F_i is the distribution function of μ_i.

    The integrand is a polynomial, for which Gauss-Legendre quadrature is exact.
    """
    from scipy.special import betainc

    x, weights = np.polynomial.legendre.leggauss(int(posterior.sum()) // 2 + 2)
    x, weights = (x + 1) / 2, weights / 2
    joint_distribution = betainc(*posterior[0], x) * betainc(*posterior[1], x)
    return float(weights @ (1 - joint_distribution))


def bayes_regret(
    policy: Policy, horizon: int, every: int | None = None, *, runs: int, seed: int
) -> Regret:
    """Return the mean regret of a policy in the setting of `bayes_optimal`, and its standard error.

    Each run draws both means from the uniform prior. With the same seed, all policies get the same
    means and rewards in each run. The policy runs as plain Python; nothing is compiled.

    Parameters
    ----------
    policy
        A policy of kibitz, or a policy of your own.
    horizon, every
        As in `bayes_optimal`.
    runs
        The number of runs, at least 2.
    seed
        The seed, a whole number. The same seed gives the same result.
    """
    check_policy(policy)
    n_stages = whole(horizon, "horizon", 1)
    period = NEVER if every is None else whole(every, "every", 1)
    n_runs = whole(runs, "runs", 2)
    streams = np.random.SeedSequence(seed_number(seed)).spawn(n_runs)
    regrets = [_simulate_run(policy, n_stages, period, stream) for stream in streams]
    return Regret(float(np.mean(regrets)), float(np.std(regrets, ddof=1) / np.sqrt(n_runs)))


def _simulate_run(policy: Policy, horizon: int, period: int, stream: np.random.SeedSequence) -> float:
    """Return the regret of one run."""
    environment_rng, policy_rng = (
        np.random.default_rng(child_stream) for child_stream in stream.spawn(2)
    )
    means = environment_rng.random(2)
    scale = policy.scale_for(bernoulli(means.tolist()).scale)
    pull_rewards = (environment_rng.random((horizon, 2)) < means) / scale  # stage, arm
    look_rewards = (environment_rng.random((horizon // period, 2)) < means) / scale
    params = policy.params_for(horizon)
    state = policy.init(params, 2)
    regret = 0.0
    for stage in range(1, horizon + 1):
        arm = policy.pull(params, state, stage, policy_rng)
        has_look = stage % period == 0
        look_arm = policy.look(params, state, stage, policy_rng) if has_look else arm
        regret += means.max() - means[arm]
        state = policy.update(params, state, stage, arm, 1, pull_rewards[stage - 1, arm], False)
        if has_look:
            reward = look_rewards[stage // period - 1, look_arm]
            state = policy.update(params, state, stage, look_arm, 1, reward, True)
    return float(regret)
