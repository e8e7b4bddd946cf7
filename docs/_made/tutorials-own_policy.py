import math

import kibitz


def index(params, stage, counts, arm, mean):
    return mean + math.sqrt(
        params.c * math.log(1 + stage / counts[arm]) / counts[arm]
    )


mine = kibitz.index_policy("mine", index, c=2.0)

kibitz.check(mine)


def wrong(params, stage, counts, arm, mean):
    return mean + math.log(1 + counts[arm])  # grows with its own count


try:
    kibitz.check(kibitz.index_policy("wrong", wrong))
except ValueError as error:
    print(error)

problem = kibitz.gaussian([2, 1.8, 1.5, 1, 0.5])
rivals = [mine, kibitz.ucb_double(), kibitz.kibitzer()]
play = {"horizon": 10_000, "runs": 200, "seed": 1}
data = kibitz.simulate(problem, kibitz.active(0.1), rivals, **play)
final = data.final_regret
for rival in ("ucb_double", "kibitzer"):
    lead = final.sel(policy=rival) - final.sel(policy="mine")
    error = float(lead.std("run", ddof=1)) / lead.sizes["run"] ** 0.5
    print(f"mine loses less than {rival} by {float(lead.mean()):.1f} ± {error:.1f}")

import matplotlib.pyplot as plt

for policy in data.policy.values:
    mean = data.regret.sel(policy=policy).mean("run")
    plt.semilogx(data.stage, mean, label=policy)
plt.xlabel("stage t")
plt.ylabel("regret, mean of 200 runs")
plt.legend()
plt.savefig("the-race.svg")

play = {"horizon": 10_000, "runs": 100, "seed": 1}
swept = kibitz.sweep(
    problem,
    kibitz.active(0.1),
    lambda c: kibitz.index_policy("mine", index, c=c),
    c=[0.5, 1.0, 2.0, 4.0],
    **play,
)
final = swept.final_regret.sel(policy="mine")
plt.figure()
plt.semilogy(swept.c, final.mean("run"), "o-", label="mean")
plt.semilogy(swept.c, final.quantile(0.99, "run"), "s--", label="99 % quantile")
plt.xlabel("c")
plt.ylabel("regret after 10 000 stages")
plt.legend()
plt.savefig("tuning.svg")

from kibitz.evaluation.league import games, geometric_ratio, play_league

own = {
    "mine": mine,
    "UCB1-Double": kibitz.ucb_double(),
    "kibitzer": kibitz.kibitzer(),
}
played = games(play_league(own, problems=4, horizon=2000, runs=32, seed=1))
for place, name in enumerate(played.policies):
    ratio, error = geometric_ratio(played, place, played.reference)
    print(f"{name:12} {ratio:.2f} ± {error:.2f} times the regret of kibitzer")
