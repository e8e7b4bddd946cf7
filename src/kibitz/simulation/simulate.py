"""Play policies against a problem."""

from typing import TYPE_CHECKING, Unpack

from kibitz.model.feedback import Feedback, checked_feedback
from kibitz.model.problem import Problem, checked_problem
from kibitz.simulation.options import Options, check_options, show_options
from kibitz.simulation.play import play_points
from kibitz.simulation.results.dataset import Swept
from kibitz.simulation.schedule import Point, Policies, labelled

if TYPE_CHECKING:
    import xarray


@show_options()
def simulate(
    problem: Problem, feedback: Feedback, policies: Policies, **options: Unpack[Options]
) -> "xarray.Dataset":
    r"""Play policies against a problem and return their regret.

    Parameters
    ----------
    problem, feedback
        What the arms pay, and who sees what.
    policies
        A policy, several, or a dict from labels to policies.
    {options}

    Returns
    -------
    xarray.Dataset
        `regret` (policy, run, stage): \sum_i \Delta_i N_i at the end of a stage; `final_regret`
        (policy, run); `n_pulls` and `n_free` (policy, run, arm) at the horizon; `error`
        (policy, run), 0 stage by stage; and in its attributes, as JSON, the setting, the seed, the
        engine of each policy and the versions that made it.
    """
    players = labelled(policies)
    checked = check_options(options)
    point = Point(checked_problem(problem), checked_feedback(feedback), players, checked["horizon"])
    return play_points(Swept(), {(): point}, checked)
