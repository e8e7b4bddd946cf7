"""Find the number of panel answers to buy when an answer costs 0.005 conversions.

Five banners, 100,000 visitors. The best banner converts 6 % of them, the others 5 %.
"""

import math

import kibitz

SPREAD = math.sqrt(0.055 * (1 - 0.055))  # standard deviation of a conversion
OBSERVERS = {
    "uniform": "UCB, random looks",
    "optimal": "UCB, optimal weights",
    "active": "UCB1-Double",
    "kibitzer": "kibitzer",
}

plan = kibitz.plan(100_000, n_arms=5, gap=0.01 / SPREAD, cost=0.005 / SPREAD)
print("in conversions        lost without looks  looks to buy  net saving")
for observer, best in plan["best"].items():
    lost, net = plan["regret"][observer]["mean"][0] * SPREAD, best["net"] * SPREAD
    print(f"{OBSERVERS[observer]:20}  {lost:18.0f}  {best['looks']:12.0f}  {net:10.0f}")
