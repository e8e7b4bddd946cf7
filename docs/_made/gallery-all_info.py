import matplotlib.pyplot as plt

import kibitz

problem = kibitz.gaussian([2, 1.8, 1.5, 1, 0.5])
policies = {
    "pulls and looks apart": kibitz.etc_ocucb(p=2),
    "all information": kibitz.etc_ocucb(p=2, all_info=True),
}
play = {"horizon": 10_000, "runs": 200, "seed": 1}
data = kibitz.simulate(problem, kibitz.active(0.1), policies, **play)
for label in policies:
    one = data.regret.sel(policy=label)
    low, high = one.quantile([0.25, 0.75], "run")
    plt.semilogx(data.stage, one.mean("run"), label=label)
    plt.fill_between(data.stage, low, high, alpha=0.15)
plt.xlabel("stage t")
plt.ylabel("regret, mean of 200 runs")
plt.legend()
plt.savefig("regret-with-all-information.svg")
