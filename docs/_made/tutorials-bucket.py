import kibitz

plan = kibitz.plan(100_000, n_arms=5, gap=0.2)
star = plan["rate_star"]["mean"]
print(f"looks begin to matter at one in {1 / star:.0f} visitors")
advice = plan["advice"]
print(
    f"use {advice['policy']}: {advice['looks']:.0f} looks save {advice['saving']:.0f}"
)
print(f"of the {advice['alone']:.0f} that it loses without any")

priced = kibitz.plan(100_000, n_arms=5, gap=0.2, cost=0.05)
best = priced["best"]["kibitzer"]
print(f"buy {best['looks']:.0f}, one for every {1 / best['rate']:.0f} visitors")
print(f"net of their price they save {best['net']:.0f}")

import matplotlib.pyplot as plt
import numpy as np

looks = np.array(priced["looks"][1:])
saving = np.array(priced["saving"]["kibitzer"]["mean"][1:])
plt.semilogx(looks, saving, "--", label="saved")
plt.semilogx(looks, saving - 0.05 * looks, label="saved, net of the price")
plt.plot(best["looks"], best["net"], "o", label="the best bucket")
plt.ylim(-50, 200)
plt.xlabel("looks bought")
plt.ylabel("regret of kibitzer that is saved")
plt.legend()
plt.savefig("what-a-bucket-saves.svg")

unsure = kibitz.plan(100_000, n_arms=5, gap_range=(0.1, 0.5), cost=0.05)
best = unsure["best"]["kibitzer"]
print(f"buy {best['looks']:.0f}: on average {best['net']:.0f} net")

from pathlib import Path

rng = np.random.default_rng(1)
chances = {"blue": 0.05, "green": 0.08, "red": 0.02}
lines = ["arm,reward"]
for visit in range(3000):
    arm = list(chances)[visit % 3]
    lines.append(f"{arm},{float(rng.random() < chances[arm])}")
Path("log.csv").write_text("\n".join(lines) + "\n")

# kibitz plan --log log.csv --horizon 100000

backed = kibitz.plan(100_000, n_arms=5, gap=0.2, simulate=True, runs=20, seed=1)
print(" rate  observer  predicted  simulated")
for point in backed["simulation"]["points"]:
    if not point["early"] and point["observer"] in ("active", "kibitzer"):
        shown = f"{point['mean']:6.0f} ± {point['sem']:.0f}"
        row = f"{point['rate']:5.3f}  {point['observer']:8}"
        print(f"{row}  {point['predicted']:9.0f}  {shown}")
