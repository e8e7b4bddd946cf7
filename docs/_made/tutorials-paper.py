import kibitz
from kibitz.bounds import complexity, lower, upper

gaps, horizon = [0, 0.2, 1.5, 1.8], 10_000
problem = kibitz.gaussian([2 - gap for gap in gaps])

play = {"horizon": horizon, "runs": 100, "seed": 1}
for feedback in (kibitz.full(), kibitz.bandit()):
    data = kibitz.simulate(problem, feedback, kibitz.ftl(), **play)
    print(f"{feedback.observer:8} {float(data.final_regret.mean()):8.1f}")

for rate in (0.1, 0.01):
    data = kibitz.simulate(problem, kibitz.active(rate), kibitz.ftl_robin(), **play)
    bound, mean = upper.ftl_robin(gaps, rate), float(data.final_regret.mean())
    print(f"ε = {rate}: at most {bound:.0f}, simulated {mean:.1f}")

for exponent in (4, 6, 8):
    passive = lower.passive_fixed_stage(gaps, 1e-5, "uniform", 10**exponent)
    active = lower.active_fixed_stage(gaps, 1e-5, 10**exponent)
    print(f"T = 10^{exponent}: passive {passive:5.2f}, active {active:5.2f}")

weights = "uniform"
print("    ε  printed  proved  sharper")
for rate in (0.0, 0.001, 0.1):
    printed = lower.passive_theorem(gaps, rate, weights, horizon, form="printed")
    proved = lower.passive_theorem(gaps, rate, weights, horizon)
    sharper = lower.passive_sharp(gaps, rate, weights, horizon)
    print(f"{rate:5}  {printed:7.2f}  {proved:6.2f}  {sharper:7.2f}")

for exponent in (6, 9, 12, 15):
    proved = lower.passive_sharp(gaps, 0.0, weights, 10**exponent)
    print(f"T = 10^{exponent:<2}  without looks, at least {proved:6.1f}")

printed = lower.active_theorem(gaps, 0.1, horizon, form="printed")
proved = lower.active_maximum(gaps, 0.1, horizon)
print(f"printed {printed:.0f}, proved {proved:.0f}")
data = kibitz.simulate(problem, kibitz.active(0.1), kibitz.kibitzer(), **play)
print(f"kibitzer loses {float(data.final_regret.mean()):.1f}")

import matplotlib.pyplot as plt
import numpy as np

rates = np.geomspace(1e-7, 1e-2, 40)
late = 10**9
drawn = {
    "Theorem 1, printed": lower.passive_theorem(
        gaps, rates, "uniform", late, form="printed"
    ),
    "Theorem 1, proved": lower.passive_theorem(gaps, rates, "uniform", late),
    "passive, sharper": lower.passive_sharp(gaps, rates, "uniform", late),
    "Theorem 2, printed": lower.active_theorem(gaps, rates, late, form="printed"),
    "active, proved": lower.active_maximum(gaps, rates, late),
}
for label, bound in drawn.items():
    style = "--" if "printed" in label else "-"
    plt.semilogx(rates, np.where(bound > 0, bound, np.nan), style, label=label)
plt.xlabel("rate of looks ε")
plt.ylabel("regret, at least")
plt.legend()
plt.savefig("what-nobody-can-avoid.svg")

print(complexity.optimal_weights(gaps).round(3))

for rate in (0.1, 0.01, 0.001):
    bound = upper.ucb_sharp(gaps, rate, weights, 2**53)
    data = kibitz.simulate(problem, kibitz.passive(rate), kibitz.ucb(), **play)
    mean = float(data.final_regret.mean())
    print(f"ε = {rate:5}: at most {bound:5.0f}, simulated {mean:5.1f}")

bound = upper.etc_ocucb([0, 0.2, 0.5], 0.1, c_eta=1.0)
print(f"if OCUCB-n's constant were 1: at most {bound:.0f}, for every T")

from kibitz.bounds import concentration

printed = concentration.maximal(0.05, form="printed")
print(f"printed {printed:.3f}, proved {concentration.maximal(0.05):.3f}")

print(f"{complexity.rate_star(gaps, horizon):.2g}")
