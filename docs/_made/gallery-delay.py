import matplotlib.pyplot as plt

import kibitz
from kibitz.live.agent.rehearse import rehearse

problem = kibitz.bernoulli([0.3, 0.2, 0.1])
for delay in (0, 100):
    play = {"horizon": 400, "runs": 2, "seed": 1, "delay": delay, "rate": 0.1}
    data = rehearse(problem, kibitz.ucb_double(2.0), **play)
    agent = data.regret.sel(policy="agent").mean("run")
    plt.plot(data.stage, agent, label=f"reports {delay} stages late")
plt.xlabel("stage t")
plt.ylabel("regret of the agent, mean of 2 runs")
plt.legend()
plt.savefig("regret-with-late-reports.svg")
