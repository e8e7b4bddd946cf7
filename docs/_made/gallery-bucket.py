import matplotlib.pyplot as plt

import kibitz

plan = kibitz.plan(100_000, n_arms=5, gap=0.2, simulate=True, runs=20, seed=1)
rates = plan["rates"][1:]
for observer, label in {"active": "UCB1-Double", "kibitzer": "kibitzer"}.items():
    (line,) = plt.semilogx(rates, plan["regret"][observer]["mean"][1:], label=label)
    for point in plan["simulation"]["points"]:
        if (
            point["observer"] == observer
            and point["rate"] > 0
            and not point["early"]
        ):
            bar = 2 * point["sem"]
            plt.errorbar(
                point["rate"], point["mean"], bar, fmt="o", color=line.get_color()
            )
plt.xlabel("looks per stage ε")
plt.ylabel("regret after 100 000 stages")
plt.ylim(bottom=0)
plt.legend()
plt.savefig("regret-against-the-size-of-the-bucket.svg")
