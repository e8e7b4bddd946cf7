"""A policy of one's own, against the paper's: one function, compiled into the same loop."""

import math

import kibitz


# UCB with the exploration of MOSS, but without a horizon
def index(params, stage, counts, arm, mean):
    return mean + math.sqrt(params.c * math.log(1 + stage / counts[arm]) / counts[arm])


mine = kibitz.index_policy("mine", index, c=2.0)
kibitz.check(mine)  # says in a sentence where a promise of the contract is broken

problem = kibitz.gaussian([2, 1.8, 1.5, 1, 0.5])
rivals = [mine, kibitz.ucb_double(), kibitz.ocucb()]
data = kibitz.simulate(problem, kibitz.active(0.1), rivals, horizon=10_000, runs=200, seed=1)

regret = data["final_regret"]
for policy in data["policy"].to_numpy():
    mean, spread = float(regret.sel(policy=policy).mean()), float(regret.sel(policy=policy).std())
    print(f"{policy:12} {mean:7.1f} ± {spread / math.sqrt(data.sizes['run']):.1f}")
