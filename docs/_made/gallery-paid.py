import matplotlib.pyplot as plt
import numpy as np

import kibitz

problem = kibitz.gaussian([1, 0.5, 0])
rates = np.geomspace(1e-4, 1, 9)
play = {"horizon": 10_000, "runs": 50, "seed": 1}
for paid in (False, True):
    swept = kibitz.sweep(
        problem, kibitz.active, kibitz.ucb_double(), rate=rates, paid=paid, **play
    )
    label = "paid" if paid else "free"
    plt.loglog(rates, swept.final_regret.mean("run")[0], marker="o", label=label)
plt.xlabel("rate of looks ε")
plt.ylabel("regret after 10 000 stages")
plt.legend(title="looks are")
plt.savefig("regret-with-free-and-with-paid-looks.svg")
