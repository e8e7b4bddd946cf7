r"""Thompson sampling that looks by top-two Thompson sampling (Russo, 2020).

Pulls are those of Thompson sampling (`kibitz.policies.thompson`). Top-two Thompson sampling chooses
the arm of each look, because looks cost no regret and should find the best arm: draw a sample from
the posterior of each mean; the arm with the largest sample is the leader. With probability \beta,
look at the leader. Otherwise draw new samples until another arm, the challenger, has the largest
sample, and look at the challenger.

Russo proves that with \beta = 1/2 the posterior probability that a wrong arm is the best vanishes
exponentially, at a rate at least half of the optimal rate, if top-two sampling makes all
observations. No theorem covers the combination with Thompson sampling. If the posterior is certain,
a challenger is rare: after 100 sets of samples without a challenger, the policy looks at the arm with
the second largest sample.
"""

from typing import Any

from kibitz._jit import jit
from kibitz._validation import between
from kibitz.policies.index_policy import State, init, update
from kibitz.policies.policy import Policy, Rewards, check_rewards, check_scale
from kibitz.policies.thompson import find_two_largest, pull

MAX_RESAMPLES = 100


def top_two_thompson(
    rewards: Rewards = "gaussian", leader_share: float = 0.5, scale: float | None = None
) -> Policy:
    r"""Return Thompson sampling with top-two Thompson sampling for looks, not in the paper.

    Parameters
    ----------
    rewards
        "gaussian", "bernoulli" (0 or 1) or "bounded" (any number in [0, 1]).
    leader_share
        The probability \beta of a look at the leader.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    parameters: dict[str, Any] = {
        "rewards": check_rewards(rewards),
        "leader_share": between(leader_share, "leader_share", 0, 1),
    }
    constants = {"beta": rewards != "gaussian", "leader_share": parameters["leader_share"]}
    return Policy(
        "top_two_thompson",
        constants,
        init,
        pull,
        look,
        update,
        rewards=rewards,
        scale=check_scale(scale, rewards),
        parameters=parameters,
    )


@jit
def look(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the leader of a set of samples, or the challenger of the leader."""
    n_arms = state.allowed.size
    leader, challenger = find_two_largest(params, state, stage, n_arms, rng)
    if rng.random() < params.leader_share:
        return leader
    for _ in range(MAX_RESAMPLES):
        arm, runner_up = find_two_largest(params, state, stage, n_arms, rng)
        if arm != leader:
            return arm
        challenger = runner_up
    return challenger
