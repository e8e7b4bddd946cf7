"""Regret of UCB against the rate of looks, between what is proved below and above."""

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

uniform = [1 / len(GAPS)] * len(GAPS)
below = lower.passive_sharp(GAPS, RATES, uniform, HORIZON)
above = upper.ucb_sharp(GAPS, RATES, uniform, HORIZON)
print("   rate  proved below  simulated  proved above")
for rate, low, mean, high in zip(RATES, below, means, above, strict=True):
    shown = f"{low:.2f}" if low > 0 else "vacuous"
    print(f"{rate:7.4f}  {shown:>12}  {mean:9.1f}  {high:12.0f}")
