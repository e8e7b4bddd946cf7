"""UCB1 of MABWiser; with alpha = √3, it has the index of `kibitz.ucb`."""

import math
from importlib.metadata import version

from mabwiser.mab import MAB, LearningPolicy

import kibitz


class MABWiser:
    def __init__(self, n_arms):
        self.arms = list(range(n_arms))
        self.mab = MAB(self.arms, LearningPolicy.UCB1(alpha=math.sqrt(3)))
        self.learn = self.mab.fit  # later `partial_fit`

    def pull(self, stage, rng):  # each arm must be observed first
        return stage - 1 if stage <= len(self.arms) else self.mab.predict()

    def update(self, arm, reward, is_look):
        self.learn([arm], [reward])
        self.learn = self.mab.partial_fit


options = {"label": "MABWiser UCB1", "version": version("mabwiser")}
policy = kibitz.python_policy(MABWiser, **options)

if __name__ == "__main__":
    setting = kibitz.gaussian([2, 1.8, 0.5]), kibitz.passive(0.1), [policy, kibitz.ucb()]
    data = kibitz.simulate(*setting, horizon=500, runs=10, seed=1)
    print(data["final_regret"].mean("run").round(1).to_series())
