"""`gym_env`: a problem as an environment of Gymnasium, with the random streams of a simulation."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from kibitz.model.feedback import Feedback, check_feedback
from kibitz.model.problem import Problem, check_problem
from kibitz.simulation.options import check_option

if TYPE_CHECKING:
    from kibitz.simulation.bandit_env import BanditEnv


def gym_env(
    problem: Problem, feedback: Feedback, horizon: int, seed: "int | np.random.SeedSequence"
) -> "BanditEnv":
    """Return a Gymnasium environment in which an agent of another library plays a problem.

    An episode uses the random numbers of a run of `simulate` with the same seed, so the same arms
    give the same rewards and looks. The first call of `reset` begins run 0, and each further call
    begins the next run. `reset(seed=s)` begins run 0 of seed s. Requires the extra `gym`.

    - **Action.** The arm to pull, from 0 on. With active feedback, an array: the arm to pull, then
      the arms to look at, which matter only if looks arrive at the stage.
    - **Observation.** A dict: `counts` and `sums`, the number and the sum of the rewards of each arm
      that were observed in the last stage, by the pull, by looks and by shows of a graph; and `look`,
      1 if looks arrive at the next stage, else 0.
    - **Reward.** The reward of the pull, even if a graph hides it from policies; `counts` and `sums`
      contain only rewards that policies observe.
    - **Info.** A dict: `stage`, the number of stages played; `regret`, the cumulative regret; and
      `run`, the number of the run.

    The episode is truncated after the last stage.

    Parameters
    ----------
    problem, feedback
        As in `simulate`. A graph must not vary with the stage.
    horizon
        The number of stages of an episode.
    seed
        The seed of the episodes.
    """
    if find_spec("gymnasium") is None:
        raise ValueError("gymnasium is not installed; run: pip install 'kibitz[gym]'")
    from kibitz.simulation.bandit_env import BanditEnv

    shows = check_feedback(feedback).shows
    if shows is not None and shows.function is not None:
        raise ValueError("gym_env needs a graph that does not vary with the stage; pass a matrix")
    return BanditEnv(
        check_problem(problem), feedback, check_option("horizon", horizon), check_option("seed", seed)
    )
