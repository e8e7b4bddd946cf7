"""Run a live agent for a shop with delayed purchases and a panel of customers.

The visitors are simulated. The agent is real: it stores its log in a file, as for a real shop.
"""

import tempfile
from pathlib import Path

import numpy as np

import kibitz

CONVERSION = {"blue": 0.10, "green": 0.16, "red": 0.30}  # unknown to the agent
DELAY = 50  # visits until a purchase is reported
rng = np.random.default_rng(1)

with tempfile.TemporaryDirectory() as folder:
    store = Path(folder) / "shop.db"
    arms = list(CONVERSION)
    agent = kibitz.agent(store, "checkout", arms=arms, rewards="bernoulli", seed=1)
    pending = []
    for visit in range(1, 2001):
        decision = agent.ask(key=f"visit-{visit}")
        pending.append((decision.id, float(rng.random() < CONVERSION[decision.arm])))
        if len(pending) > DELAY:
            agent.tell(*pending.pop(0))
        if visit % 20 == 0:  # the panel answers at once
            look = agent.look()
            agent.tell(look.id, float(rng.random() < CONVERSION[look.arm]))
        if visit == 1000:  # simulate a restart: nothing is lost
            agent.close()
            agent = kibitz.agent(store, "checkout")
    print(kibitz.format_report(agent.report()))
    agent.export(Path(folder) / "log.csv")
    agent.close()
    problem = kibitz.from_log(Path(folder) / "log.csv")
    print(f"problem for the next simulation: {problem}")
