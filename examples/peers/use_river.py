"""UCB of river; with delta = √3, it has the index of `kibitz.ucb`: mean + √(6 log t / n)."""

import math
from importlib.metadata import version

from river import bandit

import kibitz


class River:
    def __init__(self, n_arms):
        self.arms, self.policy = range(n_arms), None

    def pull(self, stage, rng):
        if self.policy is None:  # the first pull, because the seed comes from `rng`
            self.policy = bandit.UCB(delta=math.sqrt(3), seed=int(rng.integers(2**32)))
        return self.policy.pull(self.arms)

    def update(self, arm, reward, is_look):
        self.policy.update(arm, reward)


policy = kibitz.python_policy(River, label="river UCB", version=version("river"))

if __name__ == "__main__":
    setting = kibitz.gaussian([2, 1.8, 0.5]), kibitz.passive(0.1), [policy, kibitz.ucb()]
    data = kibitz.simulate(*setting, horizon=500, runs=10, seed=1)
    print(data["final_regret"].mean("run").round(1).to_series())
