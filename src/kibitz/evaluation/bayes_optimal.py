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

from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz._validation import invalid, short_repr, whole
from kibitz.engine.cache import cached_dispatcher
from kibitz.model.problem import bernoulli
from kibitz.policies.policy import Policy, check_policy

MAX_BYTES = 4e9
NEVER = 2**62  # a period longer than any horizon

Floats = NDArray[np.float64]
Seen = tuple[tuple[int, int], tuple[int, int]]


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
    horizon: int, every: int | None = None, *, stage: int = 1, seen: Seen = ((0, 0), (0, 0))
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
    last = whole(horizon, "horizon", 1)
    period = NEVER if every is None else whole(every, "every", 1)
    now = whole(stage, "stage", 1, last)
    known = _check_seen(seen)
    n_observed = _count_observations(now, last, period)
    if (n_bytes := 8 * comb(n_observed + 3, 3)) > MAX_BYTES:
        raise ValueError(
            f"horizon={short_repr(horizon)} would take {n_bytes / 1e9:.3g} GB of memory; "
            f"the limit is {MAX_BYTES / 1e9:g} GB, use a shorter horizon or fewer looks"
        )
    offsets = _make_offsets(n_observed)
    values = np.zeros(offsets[-1, -1])
    if last > now:
        cached_dispatcher(_solve, nogil=True)(values, offsets, known, now, last, period)
    q = (known[:, 0] / known.sum(axis=1)).tolist()
    gains = _expect_gains(values, offsets, known, last > now, now % period == 0)
    options = {(i, j): q[i] + gain for (i, j), gain in gains.items()}
    pull, look = max(options, key=lambda arms: options[arms])
    reward = options[pull, look]
    regret = (last - now + 1) * _compute_mean_of_larger(known) - reward
    return Optimum(reward, regret, pull, look if now % period == 0 else None)


def _check_seen(seen: Any) -> NDArray[np.int64]:
    """Return the parameters of both Beta posteriors: successes and failures plus 1 for the prior."""
    condition = "successes and failures of two arms, as in ((3, 1), (0, 2))"
    try:
        (a, b), (c, d) = seen
        numbers = [[whole(a, "seen"), whole(b, "seen")], [whole(c, "seen"), whole(d, "seen")]]
    except (TypeError, ValueError):
        raise invalid("seen", condition, seen) from None
    return np.array(numbers, np.int64) + 1


def _count_observations(first: int, stage: int, period: int) -> int:
    """Return the number of observations in the stages from `first` to `stage` − 1."""
    return stage - first + (stage - 1) // period - (first - 1) // period


def _make_offsets(n_observed: int) -> NDArray[np.int64]:
    """Return the offset of the row of each (s_1, f_1) in the array of values.

    A row holds the values for all s_2. The last entry of the result is the size of the array.
    """
    s, f = np.indices((n_observed + 1, n_observed + 1))
    lengths = np.maximum(n_observed + 1 - s - f, 0)
    ends = np.cumsum(lengths.ravel()).reshape(lengths.shape)
    begins: NDArray[np.int64] = ends - lengths
    begins[-1, -1] = ends[-1, -1] if n_observed else 1
    return begins


def _solve(values: Any, offsets: Any, known: Any, first: int, last: int, period: int) -> None:
    """Fill `values` with the values of stage first + 1, backwards from the last stage."""
    a1, b1, a2, b2 = known[0, 0], known[0, 1], known[1, 0], known[1, 1]
    for stage in range(last, first, -1):
        n = stage - first + (stage - 1) // period - (first - 1) // period
        looks = stage % period == 0
        for s1 in range(n + 1):
            for f1 in range(n - s1 + 1):
                rest = n - s1 - f1  # observations of arm 2
                here = values[offsets[s1, f1] :]
                n1, n2 = a1 + b1 + s1 + f1, a2 + b2 + rest
                q1, unit = (a1 + s1) / n1, 1.0 / n2
                if stage == last:
                    for s2 in range(rest + 1):
                        here[s2] = max(q1, (a2 + s2) * unit)
                    continue
                won, lost = values[offsets[s1 + 1, f1] :], values[offsets[s1, f1 + 1] :]
                if not looks:
                    for s2 in range(rest + 1):
                        q2 = (a2 + s2) * unit
                        first_arm = q1 + q1 * won[s2] + (1 - q1) * lost[s2]
                        second_arm = q2 + q2 * here[s2 + 1] + (1 - q2) * here[s2]
                        here[s2] = max(first_arm, second_arm)
                    continue
                won2, both, lost2 = (
                    values[offsets[s1 + 2, f1] :],
                    values[offsets[s1 + 1, f1 + 1] :],
                    values[offsets[s1, f1 + 2] :],
                )
                more = 1.0 / (n1 + 1)
                q11, q10 = q1 * (a1 + s1 + 1) * more, 2 * q1 * (b1 + f1) * more
                q00 = (1 - q1) * (b1 + f1 + 1) * more
                later = 1.0 / (n2 + 1)
                for s2 in range(rest + 1):
                    q2 = (a2 + s2) * unit
                    p11, p10 = q2 * (a2 + s2 + 1) * later, 2 * q2 * (b2 + rest - s2) * later
                    p00 = (1 - q2) * (b2 + rest - s2 + 1) * later
                    only1 = q11 * won2[s2] + q10 * both[s2] + q00 * lost2[s2]
                    only2 = p11 * here[s2 + 2] + p10 * here[s2 + 1] + p00 * here[s2]
                    each = q1 * (q2 * won[s2 + 1] + (1 - q2) * won[s2])
                    each += (1 - q1) * (q2 * lost[s2 + 1] + (1 - q2) * lost[s2])
                    here[s2] = max(max(q1, q2) + each, max(q1 + only1, q2 + only2))


def _expect_gains(
    values: Floats, offsets: NDArray[np.int64], known: Any, has_next: bool, looks: bool
) -> dict[tuple[int, int], float]:
    """Return E_ij W, the expected value of the next stage, for each pull i and look j."""
    if not has_next:
        return {(0, 1): 0.0, (1, 0): 0.0}
    gains = {}
    for pull in (0, 1):
        for look in (0, 1) if looks else (1 - pull,):
            gain = 0.0
            for paid in (0, 1):
                for shown in (0, 1) if looks else (0,):
                    counts = known.copy()
                    chance = counts[pull, 1 - paid] / counts[pull].sum()
                    counts[pull, 1 - paid] += 1
                    if looks:
                        chance *= counts[look, 1 - shown] / counts[look].sum()
                        counts[look, 1 - shown] += 1
                    (s1, f1), (s2, _) = counts - known
                    gain += chance * values[offsets[s1, f1] + s2]
            gains[pull, look] = float(gain)
    return gains


def _compute_mean_of_larger(known: Any) -> float:
    """Return E max(μ_1, μ_2) = ∫ 1 − F_1F_2, where F_i is the distribution function of μ_i.

    The integrand is a polynomial, for which Gauss-Legendre quadrature is exact.
    """
    from scipy.special import betainc

    x, weights = np.polynomial.legendre.leggauss(int(known.sum()) // 2 + 2)
    x, weights = (x + 1) / 2, weights / 2
    both = betainc(*known[0], x) * betainc(*known[1], x)
    return float(weights @ (1 - both))


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
    last = whole(horizon, "horizon", 1)
    period = NEVER if every is None else whole(every, "every", 1)
    n_runs = whole(runs, "runs", 2)
    streams = np.random.SeedSequence(whole(seed, "seed")).spawn(n_runs)
    regrets = [_simulate_run(policy, last, period, stream) for stream in streams]
    return Regret(float(np.mean(regrets)), float(np.std(regrets, ddof=1) / np.sqrt(n_runs)))


def _simulate_run(policy: Policy, horizon: int, period: int, stream: np.random.SeedSequence) -> float:
    """Return the regret of one run."""
    environment, own = (np.random.default_rng(part) for part in stream.spawn(2))
    means = environment.random(2)
    unit = policy.scale_for(bernoulli(means.tolist()).scale)
    pull_rewards = (environment.random((horizon, 2)) < means) / unit  # stage, arm
    look_rewards = (environment.random((horizon // period, 2)) < means) / unit
    params = policy.params_for(horizon)
    state = policy.init(params, 2)
    regret = 0.0
    for stage in range(1, horizon + 1):
        arm = policy.pull(params, state, stage, own)
        looks = stage % period == 0
        other = policy.look(params, state, stage, own) if looks else arm
        regret += means.max() - means[arm]
        state = policy.update(params, state, stage, arm, 1, pull_rewards[stage - 1, arm], False)
        if looks:
            reward = look_rewards[stage // period - 1, other]
            state = policy.update(params, state, stage, other, 1, reward, True)
    return float(regret)
