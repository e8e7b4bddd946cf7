"""How large should a bucket of looks be, if each look costs something?"""

import kibitz

plan = kibitz.plan(arms=5, gap=0.2, horizon=100_000, cost=0.05)
print(plan)
