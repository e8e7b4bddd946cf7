"""UCB of SMPyBandits; with alpha = 12, it has the index of `kibitz.ucb`: mean + √(6 log t / n)."""

import random
from importlib.metadata import version

import numpy as np
import scipy.special

import kibitz


class SMPyBandits:
    def __init__(self, n_arms):
        if not hasattr(scipy.special, "btdtri"):  # SMPyBandits 0.9.7 imports this removed name
            scipy.special.btdtri = scipy.special.betaincinv
        from SMPyBandits.Policies import UCBalpha

        self.policy = UCBalpha(n_arms, alpha=12)
        self.policy.startGame()

    def pull(self, stage, rng):
        if stage == 1:  # the library draws from the global generators
            random.seed(int(rng.integers(2**32)))
            np.random.seed(rng.integers(2**32))  # noqa: NPY002
        return self.policy.choice()

    def update(self, arm, reward, is_look):
        self.policy.getReward(arm, reward)


policy = kibitz.python_policy(SMPyBandits, label="SMPyBandits UCB", version=version("SMPyBandits"))

if __name__ == "__main__":
    setting = kibitz.gaussian([2, 1.8, 0.5]), kibitz.passive(0.1), [policy, kibitz.ucb()]
    data = kibitz.simulate(*setting, horizon=500, runs=10, seed=1)
    print(data["final_regret"].mean("run").round(1).to_series())
