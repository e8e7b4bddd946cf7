"""Find the number of panel answers to buy when an answer costs 0.005 conversions.

There are five banners and 100,000 visitors. The best banner converts 6 % of its visitors, the
other banners 5 %.
"""

import kibitz

plan = kibitz.plan(100_000, baseline=0.05, lift=0.01, n_arms=5, cost=0.005)
print(f"buy {plan.n_looks:.0f} answers, one for {1 / plan.rate:.0f} visitors")
print(f"kibitzer loses about {plan.regret:.0f} of {plan.best_reward:.0f} conversions")
print(f"without answers it loses {plan.regret_without_looks:.0f}")
print(f"the net saving is {plan.net:.0f} conversions")
for policy, lost in plan.others.items():
    print(f"{policy.replace('_', ' ')} loses {lost:.0f}")
