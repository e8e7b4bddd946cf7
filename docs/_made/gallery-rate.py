import matplotlib.pyplot as plt
import numpy as np

import kibitz
from kibitz.bounds.complexity import rate_star

problem = kibitz.gaussian([2, 1.8, 0.5, 0.2])
rates = np.geomspace(1e-5, 1, 11)
play = {"horizon": 10_000, "runs": 50, "seed": 1}
swept = kibitz.sweep(problem, kibitz.passive, kibitz.ucb(), rate=rates, **play)
final = swept.final_regret.sel(policy="ucb")
error = final.std("run", ddof=1) / np.sqrt(final.sizes["run"])
plt.errorbar(rates, final.mean("run"), error, marker="o", capsize=3)
plt.axvline(rate_star(problem.gaps, 10_000), linestyle=":", color="gray")
plt.xscale("log")
plt.xlabel("rate of looks ε")
plt.ylabel("regret after 10 000 stages")
plt.ylim(bottom=0)
plt.savefig("regret-against-the-rate-of-looks.svg")
