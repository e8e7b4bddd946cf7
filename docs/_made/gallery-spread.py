import matplotlib.pyplot as plt
import numpy as np

import kibitz

problem = kibitz.gaussian([0.5, 0])
worlds = {
    "FTL, no looks": (kibitz.bandit(), kibitz.ftl()),
    "FTL, a look in 100": (kibitz.active(0.01), kibitz.ftl_robin()),
    "kibitzer, a look in 100": (kibitz.active(0.01), kibitz.kibitzer()),
}
for label, (feedback, policy) in worlds.items():
    play = {"horizon": 2000, "runs": 1000, "seed": 1}
    data = kibitz.simulate(problem, feedback, policy, **play)
    final = np.sort(data.final_regret.values[0])
    plt.loglog(final, 1 - np.arange(final.size) / final.size, label=label)
plt.xlabel("regret x after 2000 stages")
plt.ylabel("share of runs with regret ≥ x")
plt.legend()
plt.savefig("tails-of-the-regret.svg")
