"""Thompson sampling of bayesianbandits, with a prior as flat as that of `kibitz.thompson`."""

from importlib.metadata import version

from bayesianbandits import Agent, Arm, NormalRegressor, ThompsonSampling

import kibitz


class BayesianBandits:
    def __init__(self, n_arms):
        self.arms = [Arm(arm, learner=NormalRegressor(alpha=1e-9, beta=1)) for arm in range(n_arms)]
        self.agent = None

    def pull(self, stage, rng):
        if self.agent is None:
            self.agent = Agent(self.arms, ThompsonSampling(), random_seed=rng)
        return self.agent.pull()[0]

    def update(self, arm, reward, is_look):
        self.agent.select_for_update(arm).update([reward])


policy = kibitz.python_policy(
    BayesianBandits, label="bayesianbandits Thompson", version=version("bayesianbandits")
)

if __name__ == "__main__":
    setting = kibitz.gaussian([2, 1.8, 0.5]), kibitz.passive(0.1), [policy, kibitz.thompson()]
    data = kibitz.simulate(*setting, horizon=500, runs=10, seed=1)
    print(data["final_regret"].mean("run").round(1).to_series())
