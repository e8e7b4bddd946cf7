"""Plan the number of looks if rewards are clicks, that is, 0 or 1."""

from typing import Any

import numpy as np

from kibitz.planning.bernoulli import ACCURACY, CONSTANTS, even_split, predict_regret
from kibitz.planning.fluid import FloatArray
from kibitz.planning.result import Plan

RATES_PER_DECADE = 12
MIN_RATE, MAX_FIRST_RATE = 1e-6, 0.01  # limits of the smallest positive rate, which is about 1/T
N_CANDIDATE_RATES = (
    2000  # the number of rates among which the rate with the largest net saving is chosen
)
LOW_QUANTILE, HIGH_QUANTILE = 0.1, 0.9  # the quantiles that are the ends of a range


def plan_clicks(
    problems: FloatArray,
    horizon: int,
    at: float | None,
    cost: float | None,
    randomized: float | None,
    options: dict[str, Any] | None,
) -> Plan:
    """Return a plan for problems, given the rates of their arms as an array (problem, arm).

    `options` are passed to `simulate`; None means that nothing is simulated.
    """
    first_power = np.log10(np.clip(1 / horizon, MIN_RATE, MAX_FIRST_RATE))
    powers = np.arange(np.ceil(RATES_PER_DECADE * first_power), 1) / RATES_PER_DECADE
    rates = np.concatenate(([0.0], 10**powers))
    rate, rate_range = 0.0 if at is None else at, None
    if at is None:
        rate = _recommend_rate(problems, rates, horizon, cost)
        if len(problems) > 1:
            best_rates = [
                _recommend_rate(problem[np.newaxis], rates, horizon, cost) for problem in problems
            ]
            rate_range = np.quantile(best_rates, [LOW_QUANTILE, HIGH_QUANTILE]).tolist()
    rates = np.union1d(rates, [rate])
    regret_by_policy = {
        policy: predict_regret(problems, rates, horizon, CONSTANTS[policy])
        for policy in ("kibitzer", "thompson")
    }
    k = int(np.searchsorted(rates, rate))
    regret_without_looks, regrets = (
        float(regret_by_policy["kibitzer"][:, 0].mean()),
        regret_by_policy["kibitzer"][:, k],
    )
    regret_saving = regret_without_looks - float(regrets.mean())
    simulation = None
    if options is not None:
        points = simulate_clicks(problems, rate, horizon, **options)
        simulation = {"runs": options["runs"], "seed": options["seed"], "points": points}
    return Plan(
        rewards="bernoulli",
        horizon=horizon,
        n_arms=problems.shape[1],
        problems=problems.tolist(),
        scale=None,
        cost=cost,
        policy="kibitzer",
        rate=rate,
        n_looks=rate * horizon,
        rate_range=rate_range,
        regret=float(regrets.mean()),
        regret_range=np.quantile(regrets, [LOW_QUANTILE, HIGH_QUANTILE]).tolist()
        if len(problems) > 1
        else None,
        regret_without_looks=regret_without_looks,
        saving=regret_saving,
        net=None if cost is None else regret_saving - cost * rate * horizon,
        others={
            "even_split": float(even_split(problems, horizon).mean()),
            "thompson": float(regret_by_policy["thompson"][:, k].mean()),
        },
        best_reward=float(horizon * problems.max(axis=1).mean()),
        accuracy=ACCURACY,
        rates=rates.tolist(),
        curves={
            policy: {"mean": values.mean(axis=0).tolist(), "worst": values.max(axis=0).tolist()}
            for policy, values in regret_by_policy.items()
        },
        bucket=None if randomized is None else value_bucket(problems, horizon, randomized),
        simulation=simulation,
    )


def _recommend_rate(
    problems: FloatArray, rates: FloatArray, horizon: int, cost: float | None
) -> float:
    """Return the rate with the largest net saving; 0 if no look is worth its cost.

    If looks have no cost, return the smallest rate that saves at least half as much as a look at
    every stage would save.
    """
    candidate_rates = (
        rates
        if cost is None
        else np.concatenate(([0.0], np.geomspace(rates[1], 1.0, N_CANDIDATE_RATES)))
    )
    regret = predict_regret(problems, candidate_rates, horizon, CONSTANTS["kibitzer"]).mean(axis=0)
    if cost is None:
        return float(rates[np.argmax(regret[0] - regret >= (regret[0] - regret[-1]) / 2)])
    return float(candidate_rates[np.argmin(regret + cost * candidate_rates * horizon)])


def value_bucket(problems: FloatArray, horizon: int, share: float) -> dict[str, float]:
    """Return the cost and the saving if a share of the visitors gets a random arm.

    The total loss is never smaller than without random visitors, apart from rounding: a random
    visitor costs the mean gap, and saves at most this amount among the other visitors. In simulations
    of ten settings and of forty real tests, random visitors never lowered the total loss by more than
    the standard error.

    `kibitz.planning.result.Plan.bucket` describes the result.
    """
    n_others = round((1 - share) * horizon)
    zero_rate = np.array([0.0])
    look_rates = np.array([share * horizon / max(n_others, 1)])
    regret_without_looks = predict_regret(problems, zero_rate, n_others, CONSTANTS["uniform"]).mean()
    regret = predict_regret(problems, look_rates, n_others, CONSTANTS["uniform"]).mean()
    cost = share * even_split(problems, horizon).mean()
    regret_without_bucket = predict_regret(problems, zero_rate, horizon, CONSTANTS["kibitzer"]).mean()
    bucket_values = {
        "share": share,
        "cost": cost,
        "regret": regret,
        "saving": regret_without_looks - regret,
        "total": cost + regret,
        "without": regret_without_bucket,
    }
    return {name: float(value) for name, value in bucket_values.items()}


def simulate_clicks(
    problems: FloatArray, rate: float, horizon: int, **options: Any
) -> list[dict[str, Any]]:
    """Simulate kibitzer and Thompson sampling without looks and at a rate of looks.

    Return one dict per setting; `kibitz.planning.result.Plan.simulation` describes the dicts. If
    there are several problems, only the first, the middle and the last problem are simulated.
    `options` are passed to `simulate`.
    """
    from kibitz.model.feedback import active, bandit
    from kibitz.model.problem import bernoulli
    from kibitz.policies.kibitzer import kibitzer
    from kibitz.policies.thompson import thompson
    from kibitz.simulation.simulate import simulate

    policies = {"kibitzer": kibitzer(rewards="bernoulli"), "thompson": thompson(rewards="bernoulli")}
    simulated_points = []
    for n in sorted({0, len(problems) // 2, len(problems) - 1}):
        means = problems[n].tolist()
        for look_rate in sorted({0.0, rate}):
            feedback = active(look_rate) if look_rate else bandit()
            data = simulate(
                bernoulli(means), feedback, policies,
                horizon=horizon, stages=[horizon], **options,
            )  # fmt: skip
            for name, final_regret in zip(policies, data["final_regret"].to_numpy(), strict=True):
                arguments = (np.array([means]), np.array([look_rate]), horizon, CONSTANTS[name])
                sem = (
                    final_regret.std(ddof=1) / final_regret.size**0.5
                    if final_regret.size > 1
                    else 0.0
                )
                simulated_points.append(
                    {
                        "means": means,
                        "rate": look_rate,
                        "policy": name,
                        "early": False,
                        "predicted": float(predict_regret(*arguments)[0, 0]),
                        "mean": float(final_regret.mean()),
                        "sem": float(sem),
                    }
                )
    return simulated_points
