"""The experiments of `kibitz reproduce --part graphs`: what changes if a pull also shows other arms.

Each experiment is a module as described in `kibitz.reproduction.experiments`. Q(i, j) is the
probability that a pull of arm i shows arm j, and C* is the smallest constant of log T that a
consistent policy can reach (`kibitz.bounds.complexity.graph`).
"""

from kibitz.reproduction.graphs import bad_hub, league, redrawn, speed_up, weak_star, which_hub

EXPERIMENTS = (speed_up, bad_hub, which_hub, redrawn, weak_star, league)
