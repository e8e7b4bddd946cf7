import time

import numpy as np

import kibitz

problem = kibitz.gaussian([2, 1.8, 0.5, 0.2])
rates = np.geomspace(1e-4, 1, 5).round(6).tolist()


def swept(runs, rates=rates, policies=(kibitz.ucb(),)):
    play = {"horizon": 10_000, "runs": runs, "seed": 1, "file": "sweep.nc"}
    return kibitz.sweep(problem, kibitz.passive, policies, rate=rates, **play)


swept(100)
before = time.perf_counter()
again = swept(100)
print(f"the second time it took {time.perf_counter() - before:.1f} s")
print(again.final_regret.mean("run").round(1).to_pandas())

more = swept(150, [*rates, 0.05])
old = again.final_regret.values
new = more.final_regret.sel(rate=rates).isel(run=slice(100)).values
assert (old == new).all()
print(dict(more.sizes))

import matplotlib.pyplot as plt

final = more.final_regret.sel(policy="ucb").sortby("rate")
error = final.std("run", ddof=1) / final.sizes["run"] ** 0.5
plt.errorbar(final.rate, final.mean("run"), error, marker="o", capsize=3)
plt.xscale("log")
plt.xlabel("rate of looks ε")
plt.ylabel("regret, mean of 150 runs")
plt.savefig("what-was-swept.svg")

import xarray

play = {"horizon": 10_000, "runs": 50, "seed": 1}
for machine, share in enumerate((rates[::2], rates[1::2])):  # on two machines
    kibitz.sweep(
        problem,
        kibitz.passive,
        kibitz.ucb(),
        rate=share,
        file=f"{machine}.nc",
        **play,
    )
parts = [xarray.open_dataset(f"{machine}.nc") for machine in (0, 1)]
whole = xarray.concat([part.final_regret for part in parts], "rate").sortby("rate")
assert (whole.values == again.final_regret.isel(run=slice(50)).values).all()
print("the parts together are what one machine computes")
