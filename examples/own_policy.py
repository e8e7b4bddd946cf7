"""Compare your own index policy with policies of the paper."""

import math

import kibitz


# UCB with the exploration term of MOSS, but without a horizon
def index(params, stage, counts, arm, mean):
    return mean + math.sqrt(params.c * math.log(1 + stage / counts[arm]) / counts[arm])


own_policy = kibitz.index_policy("mine", index, c=2.0)
kibitz.check(own_policy)  # raises ValueError if the index is not monotone

problem = kibitz.gaussian([2, 1.8, 1.5, 1, 0.5])
policies = [own_policy, kibitz.ucb_double(), kibitz.ocucb()]
data = kibitz.simulate(problem, kibitz.active(0.1), policies, horizon=10_000, runs=200, seed=1)

table = kibitz.compare(data, baseline="mine")
print(table[["regret", "difference", "error"]].to_dataframe().round(1))
