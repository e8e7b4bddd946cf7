"""The result of `kibitz.plan`."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Plan:
    """A plan: the recommended number of looks, and the predicted regret with and without looks.

    Regret and costs are in units of reward. If rewards are clicks, they are numbers of clicks.
    If the plan covers several problems (a range of gaps, or draws from a posterior distribution),
    predictions are means over these problems. No number in a plan is a bound.

    Attributes
    ----------
    rewards
        "bernoulli" (clicks) or "gaussian".
    horizon
        The number of stages T.
    n_arms
        The number of arms K.
    problems
        The problems of the plan. A problem is the list of the rates of its arms (clicks), or the list
        of the gaps of its arms (Gaussian rewards).
    scale
        The scale of Gaussian rewards; None for clicks.
    cost
        The cost of a look; None if looks have no cost.
    policy
        The recommended policy: "kibitzer" or, for Gaussian rewards only, "ucb_double" if its
        predicted regret is clearly lower.
    rate, n_looks
        The rate of looks ε and the expected number of looks εT: the values given by `at`, or the
        recommended values. If looks have a cost, the recommended rate has the largest net saving.
        Otherwise the recommended rate is the smallest of `rates` that saves at least half as much as
        a look at every stage would save.
    rate_range
        The range of the recommended rate over draws from a posterior distribution, from the 10 % to
        the 90 % quantile; None if there are no draws or `at` is given.
    regret
        The predicted regret of the recommended policy at `rate`.
    regret_range
        The range of the predicted regret over the problems: from the 10 % to the 90 % quantile of
        draws from a posterior distribution, or from the smallest to the largest value in a range of
        gaps. None for a single problem.
    regret_without_looks
        The predicted regret of the recommended policy without looks.
    saving
        The regret that the looks save: `regret_without_looks` minus `regret`.
    net
        The saving minus the cost of the looks; None if looks have no cost.
    others
        The regret of other policies with the same looks: "even_split" (each arm gets the same number
        of pulls), and "thompson" (clicks) or "ucb_double" and "kibitzer" (Gaussian rewards).
    best_reward
        The expected number of clicks if every stage pulled the best arm; None for Gaussian rewards.
    accuracy
        The measured relative error of the predictions: `median`, `nine_of_ten` (90 % quantile) and
        `worst` absolute error, for each policy or group of settings.
    rates
        The rates of looks for which `curves` has predictions. The first rate is 0.
    curves
        The predicted regret at each of `rates`, for each policy: `mean` and `worst` over the
        problems. Clicks: "kibitzer" and "thompson". Gaussian rewards: "kibitzer", "active"
        (UCB1-Double), "uniform" and "optimal" (UCB as a passive observer with these weights).
    bucket
        The value of visitors that get a random arm, if `randomized` is given; else None. `share` is
        their share of the visitors. `cost` is the regret of these visitors. `regret` is the predicted
        regret of kibitzer among the other visitors if kibitzer also learns from the random visitors,
        and `saving` is the regret that kibitzer avoids in this way. `total` is the sum of
        `cost` and `regret`. `without` is the predicted regret of kibitzer if no visitor gets a random
        arm.
    simulation
        The simulated regret, or None if nothing was simulated: a dict with `runs`, `seed` and
        `points`. `points` is a list of dicts with `means`, `rate`, `policy`, `early`, `predicted`,
        `mean` and `sem` (standard error).
    details
        More predictions for Gaussian rewards; empty for clicks.

        - `exploration`: the constant c of UCB's index.
        - `rate_star`: the paper's threshold ε*, an order of magnitude for UCB (mean and worst).
        - `early`: predictions for the same numbers of looks if they arrive early, at rate min(1, A/t)
          at stage t: `scale` (A), `curves` as above, and `better`, for each policy a list that says
          whether early looks lower the mean regret. `recommended` holds `scale`, `regret` and `error`
          for the recommended number of looks; a gain smaller than `error` is not significant.
        - `plateau`: for each policy, the stage after which the regret hardly grows, at each of
          `rates`. It is the largest c/(ε p_i Δ_i²) over the sub-optimal arms (passive),
          Σ c/(ε Δ_i²) (active), or Σ (6 + 2ℓ(1 + 1/ε))/(ε Δ_i²) with the ℓ of
          `kibitz.planning.kibitzer` (kibitzer). The plateau can lie beyond T.
        - `weights`: `optimal` (the optimal weights p*) and `active` (the shares of UCB1-Double's
          looks), each with one list per problem; and `uniform_costs`, the additional regret with
          uniform weights, compared with the optimal weights, at leading order.
        - `best`, if looks have a cost: for each policy, the `rate`, `n_looks` and `net` with the
          largest net saving, all 0 if no look is worth its cost. For "uniform" and "optimal",
          `leading` holds the same three numbers from the leading-order formula.
    hint
        Advice about the arguments of the plan; empty if there is no advice.
    """

    rewards: str
    horizon: int
    n_arms: int
    problems: list[list[float]]
    scale: float | None
    cost: float | None
    policy: str
    rate: float
    n_looks: float
    rate_range: list[float] | None
    regret: float
    regret_range: list[float] | None
    regret_without_looks: float
    saving: float
    net: float | None
    others: dict[str, float]
    best_reward: float | None
    accuracy: dict[str, dict[str, float]]
    rates: list[float]
    curves: dict[str, dict[str, list[float]]]
    bucket: dict[str, float] | None = None
    simulation: dict[str, Any] | None = None
    details: dict[str, Any] = field(default_factory=dict)
    hint: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data; `kibitz plan --json` prints it."""
        return asdict(self)
