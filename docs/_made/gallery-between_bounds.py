import matplotlib.pyplot as plt
import numpy as np

import kibitz
from kibitz.bounds import lower, upper

gaps, rate, weights = [0, 0.2], 0.0005, [0.5, 0.5]
stages = np.geomspace(100, 10**9, 40).astype(int)
play = {"horizon": 10**9, "runs": 20, "seed": 1, "stages": stages}
problem = kibitz.gaussian([1, 0.8])
data = kibitz.simulate(problem, kibitz.passive(rate), kibitz.ucb(), **play)
below = lower.passive_sharp(
    gaps, rate, weights, stages, C=24, C_0=1 + 2 * np.pi**2 / 3
)
above = upper.ucb_sharp(gaps, rate, weights, stages)
plt.loglog(stages, above, linestyle="--", label="proved: at most")
plt.loglog(stages, data.regret.mean("run")[0], label="UCB, mean of 20 runs")
plt.loglog(stages, below, linestyle="-.", label="proved: at least")
plt.xlabel("stage t")
plt.ylabel("regret")
plt.legend()
plt.savefig("regret-between-two-bounds.svg")
