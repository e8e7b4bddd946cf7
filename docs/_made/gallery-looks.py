import matplotlib.pyplot as plt
import numpy as np

import kibitz

problem = kibitz.gaussian([2, 1.8, 1.5, 1, 0.5])
policies = [kibitz.ftl_robin(), kibitz.ucb_double(), kibitz.kibitzer()]
play = {"horizon": 10_000, "runs": 100, "seed": 1}
data = kibitz.simulate(problem, kibitz.active(0.1), policies, **play)
share = data.n_free.mean("run") / data.n_free.mean("run").sum("arm")
for place, label in enumerate(data.policy.values):
    plt.bar(
        np.arange(5) + 0.27 * (place - 1),
        share.sel(policy=label),
        0.25,
        label=label,
    )
plt.xticks(range(5), [f"{gap:g}" for gap in problem.gaps.round(2)])
plt.xlabel("gap of the arm")
plt.ylabel("share of the looks")
plt.legend()
plt.savefig("share-of-looks-by-arm.svg")
