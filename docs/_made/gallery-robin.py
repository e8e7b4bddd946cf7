import matplotlib.pyplot as plt
import numpy as np

import kibitz

problem = kibitz.gaussian([0.5, 0])
rates = np.geomspace(0.005, 1, 6)
policies = [kibitz.ftl_robin(), kibitz.kibitzer()]
play = {"horizon": 50_000, "runs": 100, "seed": 1}
swept = kibitz.sweep(problem, kibitz.active, policies, rate=rates, **play)
for label in swept.policy.values:
    mean = swept.final_regret.sel(policy=label).mean("run")
    plt.loglog(rates, mean, marker="o", label=label)
plt.xlabel("rate of looks ε")
plt.ylabel("regret after 50 000 stages")
plt.legend()
plt.savefig("regret-of-two-policies-against-the-rate.svg")
