r"""\epsilon-greedy with a decaying exploration rate (Auer, Cesa-Bianchi and Fischer, 2002).

Pull each arm once. At stage t, pull a uniformly random arm with probability

.. math:: \epsilon_t = \min(1, c K / t)

and the arm with the largest mean otherwise, where K is the number of arms and the mean includes pulls
and looks. In the authors' notation, our c is c / d^2. Their Theorem 3 bounds the probability of
pulling a suboptimal arm by a term of order 1/t, for rewards in [0, 1], if d is at most the smallest
gap and their c exceeds 5; the policy must therefore know the gaps. With an active observer, the
policy looks at each arm in turn, because looks replace its exploration. No theorem covers the policy
with looks.
"""

from typing import Any

import numpy as np

from kibitz._jit import jit
from kibitz._validation import positive
from kibitz.policies.index_policy import State, init, look_in_turn, make_two_largest, update
from kibitz.policies.policy import Policy, check_scale


def epsilon_greedy(exploration: float = 5.0, scale: float | None = None) -> Policy:
    """Return ε-greedy with the exploration rate c K / t, which is not in the paper.

    Parameters
    ----------
    exploration
        The constant c of the exploration rate.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem. The decisions do not
        depend on it.
    """
    constants = {"exploration": positive(exploration, "exploration")}
    return Policy(
        "epsilon_greedy",
        constants,
        init,
        pull,
        look_in_turn,
        update,
        scale=check_scale(scale),
        parameters=dict(constants),
    )


@jit
def mean_or_infinity(params: Any, state: State, stage: int, arm: int, rng: Any) -> Any:
    """Return the mean of an arm; infinity before the arm's first pull."""
    stats = state.statistics
    return stats.sums[arm] / stats.n_observed[arm] if stats.n_pulls[arm] > 0 else np.inf


find_two_largest = make_two_largest(mean_or_infinity)


@jit
def pull(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return a random arm with the probability of exploration, and the leader otherwise."""
    n_arms = state.allowed.size
    leader = find_two_largest(params, state, stage, n_arms, rng)[0]
    if state.statistics.n_pulls[leader] > 0 and rng.random() * stage < params.exploration * n_arms:
        return int(rng.random() * n_arms)
    return leader
