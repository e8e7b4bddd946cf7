import kibitz

clicks = kibitz.bernoulli([0.10, 0.16, 0.30])
policy = kibitz.ucb_double(1.0)
play = {"horizon": 2000, "runs": 100, "seed": 1}
data = kibitz.simulate(clicks, kibitz.active(0.05), policy, **play)
print(f"simulated: {float(data.final_regret.mean()):.0f} purchases lost of 600")

# kibitz rehearse --means 0.1,0.16,0.3 --law bernoulli --policy ucb_double:exploration=1 \
#     --horizon 300 --runs 2 --rate 0.05 --delay 50 --loss 0.1 --duplicates 0.2

arms = ["blue", "green", "red"]
agent = kibitz.agent(
    "shop.db", "checkout", arms=arms, policy=policy, scale=0.5, seed=1
)
visit = agent.ask(key="visit-1")
print(visit.arm)
print(agent.tell(visit.id, 1.0))
print(agent.tell(visit.id, 1.0))  # the same report, twice

import numpy as np

rng = np.random.default_rng(1)
chances = {"blue": 0.10, "green": 0.16, "red": 0.30}
late = []
for number in range(2, 601):
    visit = agent.ask(key=f"visit-{number}")
    late.append((visit.id, float(rng.random() < chances[visit.arm])))
    if len(late) > 50:
        agent.tell(*late.pop(0))
    if number % 20 == 0:
        look = agent.look()
        agent.tell(look.id, float(rng.random() < chances[look.arm]))
agent.close()

agent = kibitz.agent("shop.db", "checkout")
for report in late:
    agent.tell(*report)
print(agent.check())  # nothing that does not follow from the log

from kibitz.live.agent.report import table

print(table(agent.report()))

import matplotlib.pyplot as plt
import pandas

agent.export("log.csv")
agent.close()
log = pandas.read_csv("log.csv")
pulls = log[log.kind == "pull"].reset_index()
for arm in arms:
    plt.plot((pulls.arm == arm).rolling(50, min_periods=1).mean(), label=arm)
plt.xlabel("visit")
plt.ylabel("share of the last 50 visits")
plt.legend()
plt.savefig("who-got-the-traffic.svg")

real = kibitz.from_log("log.csv")
print(real.means.round(2))

# kibitz simulate --log log.csv --policy kibitzer --policy ucb_double --horizon 2000 --runs 20
