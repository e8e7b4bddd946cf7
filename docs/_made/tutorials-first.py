import kibitz

problem = kibitz.gaussian([2, 1.8, 1.5, 1, 0.5])
print(problem.gaps.round(2))

feedback = kibitz.active(0.1)

policies = [kibitz.ucb_double(), kibitz.kibitzer()]
data = kibitz.simulate(
    problem, feedback, policies, horizon=10_000, runs=200, seed=1
)
print(data.final_regret.mean("run").to_series())

final = data.final_regret
table = final.mean("run").to_dataframe("mean")
table["error"] = final.std("run", ddof=1).values / final.sizes["run"] ** 0.5
print(table.round(2))

difference = final.sel(policy="ucb_double") - final.sel(policy="kibitzer")
error = float(difference.std("run", ddof=1)) / difference.sizes["run"] ** 0.5
print(f"kibitzer loses less by {float(difference.mean()):.1f} ± {error:.1f}")
assert difference.mean() > 10 * error

import matplotlib.pyplot as plt

for policy in data.policy.values:
    regret = data.regret.sel(policy=policy)
    low, high = regret.quantile([0.25, 0.75], "run")
    plt.semilogx(data.stage, regret.mean("run"), label=policy)
    plt.fill_between(data.stage, low, high, alpha=0.15)
plt.xlabel("stage t")
plt.ylabel("regret")
plt.legend()
plt.savefig("two-policies.svg")

print(data.n_pulls.mean("run").round(1).to_pandas())
print(data.n_free.mean("run").round(1).to_pandas())

rates = [0.0, 0.001, 0.01, 0.1, 1.0]
play = {"horizon": 10_000, "runs": 100, "seed": 1}
swept = kibitz.sweep(problem, kibitz.active, kibitz.kibitzer(), rate=rates, **play)
print(swept.final_regret.mean("run").round(1).to_pandas())

play = {"horizon": 10**10, "runs": 20, "seed": 1, "stages": [10**4, 10**7, 10**10]}
long = kibitz.simulate(problem, feedback, kibitz.kibitzer(), **play)
print(long.regret.mean("run").round(1).to_pandas())
