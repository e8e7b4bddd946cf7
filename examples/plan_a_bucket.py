"""How large should a bucket of looks be, if each look costs something?"""

import kibitz

plan = kibitz.plan(100_000, n_arms=5, gap=0.2, cost=0.05)
print(f"recommended: {plan['advice']['looks']:.0f} looks with {plan['advice']['policy']}")
for observer, best in plan["best"].items():
    looks, net = best["looks"], best["net"]
    print(f"{observer:8} {looks:6.0f} looks (ε = {best['rate']:.2g}) save {net:.0f} net")
