import matplotlib.pyplot as plt
import numpy as np

import kibitz

problem = kibitz.gaussian([2, 1.8, 0.5, 0.2])
rates = np.geomspace(1e-3, 1, 7)
play = {"horizon": 10_000, "runs": 50, "seed": 1}
for weights in ("uniform", "optimal", "suboptimal"):
    swept = kibitz.sweep(
        problem, kibitz.passive, kibitz.ucb(), rate=rates, weights=weights, **play
    )
    plt.semilogx(
        rates, swept.final_regret.mean("run")[0], marker="o", label=weights
    )
plt.xlabel("rate of looks ε")
plt.ylabel("regret after 10 000 stages")
plt.ylim(bottom=0)
plt.legend(title="weights")
plt.savefig("regret-for-three-kinds-of-weights.svg")
