import matplotlib.pyplot as plt

import kibitz

problem = kibitz.gaussian([2, 1.8, 0.5, 0.2])
worlds = {
    "UCB, no looks": (kibitz.bandit(), kibitz.ucb()),
    "UCB, looks at uniformly drawn arms": (kibitz.passive(0.1), kibitz.ucb()),
    "kibitzer, looks where it likes": (kibitz.active(0.1), kibitz.kibitzer()),
}
for label, (feedback, policy) in worlds.items():
    data = kibitz.simulate(
        problem, feedback, policy, horizon=10**12, runs=20, seed=1
    )
    plt.semilogx(data.stage, data.regret.mean("run")[0], label=label)
plt.xlim(100, 10**12)
plt.xlabel("stage t")
plt.ylabel("regret, mean of 20 runs")
plt.legend()
plt.savefig("regret-up-to-a-million-million-stages.svg")
