"""Print the regret of UCB for several rates of looks, with a lower and an upper bound."""

import kibitz
from kibitz.bounds import lower, upper

GAPS = [0, 0.2, 1.5, 1.8]
HORIZON = 10_000
RATES = [0.0001, 0.001, 0.01, 0.1, 1.0]

problem = kibitz.gaussian([2 - gap for gap in GAPS])
data = kibitz.sweep(
    problem, kibitz.passive, kibitz.ucb(), rate=RATES, horizon=HORIZON, runs=100, seed=1
)
means = data["final_regret"].mean("run").to_numpy()[0]

weights = [1 / len(GAPS)] * len(GAPS)
lower_bounds = lower.passive_sharp(GAPS, RATES, weights, HORIZON)
upper_bounds = upper.ucb_sharp(GAPS, RATES, weights, HORIZON)
print("   rate  lower bound  simulated  upper bound")
for rate, lower_bound, mean_regret, upper_bound in zip(
    RATES, lower_bounds, means, upper_bounds, strict=True
):
    print(f"{rate:7.4f}  {lower_bound:11.2f}  {mean_regret:9.1f}  {upper_bound:11.0f}")
