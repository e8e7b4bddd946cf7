"""A shop with three buttons: purchases come late, and a panel of customers lends its eyes.

Everything is simulated but the agent: it keeps its log in a file, as it would for a real shop.
"""

import tempfile
from pathlib import Path

import numpy as np

import kibitz
from kibitz.live.agent.report import table

CHANCES = {"blue": 0.10, "green": 0.16, "red": 0.30}  # of a purchase; the agent does not know
LATE = 50  # visits between a visit and the news of its purchase
rng = np.random.default_rng(1)

with tempfile.TemporaryDirectory() as folder:
    store = Path(folder) / "shop.db"
    arms, policy = list(CHANCES), kibitz.ucb_double(1.0)
    agent = kibitz.agent(store, "checkout", arms=arms, policy=policy, scale=0.5, seed=1)
    on_the_way = []
    for visit in range(1, 2001):
        decision = agent.ask(key=f"visit-{visit}")
        on_the_way.append((decision.id, float(rng.random() < CHANCES[decision.arm])))
        if visit > LATE:
            agent.tell(*on_the_way[visit - LATE - 1])
        if visit % 20 == 0:  # the panel answers at once
            look = agent.look()
            agent.tell(look.id, float(rng.random() < CHANCES[look.arm]))
        if visit == 1000:  # the machine is restarted: nothing is lost
            agent.close()
            agent = kibitz.agent(store, "checkout")
    print(table(agent.report()))
    agent.export(Path(folder) / "log.csv")
    agent.close()
    problem = kibitz.from_log(Path(folder) / "log.csv")
    print(f"the next plan starts from data: {problem}")
