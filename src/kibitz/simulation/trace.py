"""`trace`: one run of one policy, stage by stage.

The engine's own loop plays the run in plain Python, with the random streams of the run, and the
function `update` of the policy records every observation. The loop reports the rewards of several
pulls as one sum, so a second pass draws the rewards again one by one, from the same stream, and
computes the indices that the policy compared at each stage.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz._validation import whole
from kibitz.engine.environment import FULL, draw
from kibitz.engine.loop import get_statistics_index, make_loop
from kibitz.engine.rng import make_seeds, new_streams, seed_stream
from kibitz.model.feedback import Feedback, check_feedback
from kibitz.model.problem import Problem, check_problem
from kibitz.policies.policy import Policy, check_policy
from kibitz.simulation import schedule
from kibitz.simulation.jobs import Job, empty_outcome, make_environment, new_control
from kibitz.simulation.options import MAX_RUNS, check_options
from kibitz.simulation.results.dataset import attributes

if TYPE_CHECKING:
    import xarray

MAX_VALUES = 10**7  # largest number of stages times arms


class Observation(NamedTuple):
    """Pulls of, or looks at, one arm, as the engine reports them to the policy."""

    stage: int  # the first stage, for several pulls
    arm: int
    n: int
    total: float  # the sum of the rewards, in units of the policy's scale
    is_look: bool


def trace(
    problem: Problem, feedback: Feedback, policy: Policy, *, horizon: int, seed: int, run: int = 0
) -> "xarray.Dataset":
    """Return one run stage by stage: pulls, looks, their rewards, and the indices of all arms.

    The run is the run that `simulate` plays stage by stage with the same seed and number: with
    `engine="step"`, or with the default engine and a horizon below 100,000.

    Parameters
    ----------
    problem, feedback, policy
        As in `simulate`, with a single policy.
    horizon
        The number of stages, T.
    seed
        The seed of the simulation.
    run
        The number of the run; runs count from 0.

    Returns
    -------
    xarray.Dataset
        `pull` and `reward` (stage), the arm that was pulled and its reward; `look` and `look_reward`
        (stage), the arm of the first look and its reward, or -1 and NaN without a look; `n_observed`
        and `mean` (stage, arm), the number and the mean of all observations of an arm before the
        stage; `index` (stage, arm), the index that the policy compared at the stage. The index is
        infinite for an arm that must be pulled first, minus infinity for an arm that may not be
        pulled, and NaN if the policy has no index. If several looks arrive at a stage, `later_look`
        and `later_look_reward` (stage, nth) hold the other looks. All values are in units of the
        rewards.
    """
    options = check_options({"horizon": horizon, "runs": 1, "seed": seed, "engine": "step"})
    run = whole(run, "run", 0, MAX_RUNS - 1)
    label = next(iter(schedule.label_policies(check_policy(policy))))
    point = schedule.Point(
        check_problem(problem), check_feedback(feedback), {label: policy}, options["horizon"]
    )
    if point.horizon * problem.n_arms > MAX_VALUES:
        raise ValueError(
            f"horizon={point.horizon} is too long for a trace of {problem.n_arms} arms, which stores "
            f"every stage; use at most {MAX_VALUES // problem.n_arms} stages"
        )
    stages = np.arange(1, point.horizon + 1)
    (cell,) = schedule.make_cells({(): point}, stages, options, lambda: 1).values()
    job = cell._replace(first_run=run, end_run=run + 1)
    with np.errstate(all="ignore"):  # as in compiled code
        observations = list_observations(job)
        variables = make_variables(job, observations)
    return to_dataset(job, label, variables)


def list_observations(job: Job) -> list[Observation]:
    """Play a job with a single run in plain Python; return the observations of the policy."""
    observations: list[Observation] = []
    update = job.policy.update

    def record(
        params: Any, state: Any, stage: int, arm: int, n: int, total: float, is_look: bool
    ) -> Any:
        observations.append(Observation(int(stage), int(arm), int(n), float(total), bool(is_look)))
        return update(params, state, stage, arm, n, total, is_look)

    outcome = empty_outcome(1, job.stages.size, job.problem.n_arms)
    outcome.n_pulls[:], outcome.n_looks[:] = 0, 0
    environment = make_environment(job, outcome, new_control())
    play = make_loop(replace(job.policy, update=record), job.feedback, leap=False)
    params = tuple(job.policy.params_for(job.horizon))
    play(params, environment, job.error, make_seeds(job.seed, job.first_run, job.end_run))
    return observations


def make_variables(job: Job, observations: list[Observation]) -> dict[str, NDArray[Any]]:
    """Return the variables of a trace as arrays, with a row for each stage."""
    policy, n_arms, horizon = job.policy, job.problem.n_arms, job.horizon
    scale = policy.scale_for(job.problem.scale)
    environment = make_environment(job, empty_outcome(1, 1, n_arms), new_control())
    reward_stream = new_streams().rewards
    seed_stream(reward_stream, make_seeds(job.seed, job.first_run, job.end_run)[0, 0:3])
    n_looks = np.bincount([o.stage for o in observations if o.is_look], minlength=horizon + 1)
    max_looks = max(1, int(n_looks.max()))
    pull, reward = np.zeros(horizon, np.int64), np.zeros(horizon)
    look, look_reward = np.full((horizon, max_looks), -1), np.full((horizon, max_looks), np.nan)
    n_observed, mean = np.zeros((horizon, n_arms), np.int64), np.full((horizon, n_arms), np.nan)
    index = np.full((horizon, n_arms), np.nan)
    counts, sums = np.zeros(n_arms, np.int64), np.zeros(n_arms)
    params: Any = policy.params_for(horizon)
    state = None if policy.index is None else policy.init(params, n_arms)
    nth = 0
    for stage, arm, n, total, is_look in observations:
        for k in range(stage, stage + n):
            if is_look:
                value = total
                look[k - 1, nth], look_reward[k - 1, nth] = arm, value * scale
                nth += 1
            else:
                value = total
                if environment.looks.observer != FULL:
                    value = draw(environment.arms, arm, reward_stream)
                pull[k - 1], reward[k - 1], nth = arm, value * scale, 0
                n_observed[k - 1] = counts
                mean[k - 1] = sums / counts * scale
                if policy.index is not None:
                    index[k - 1] = scale * list_indices(policy, params, state, k)
            counts[arm] += 1
            sums[arm] += value
            if policy.index is not None:
                state = policy.update(params, state, k, arm, 1, value, is_look)
    return {
        "pull": pull,
        "reward": reward,
        "look": look[:, 0],
        "look_reward": look_reward[:, 0],
        "index": index,
        "n_observed": n_observed,
        "mean": mean,
        "later_look": look[:, 1:],
        "later_look_reward": look_reward[:, 1:],
    }


def list_indices(policy: Policy, params: Any, state: Any, stage: int) -> NDArray[np.float64]:
    """Return the indices that an index policy compares at a stage, in units of its scale."""
    view: Any = policy.view
    index_value = get_statistics_index(policy)
    current_view = view(params, state, stage)
    statistics = current_view.statistics
    indices = np.full(current_view.allowed.size, -np.inf)
    for arm in np.flatnonzero(current_view.allowed):
        indices[arm] = np.inf
        if current_view.tried[arm] > 0:
            mean = statistics.sums[arm] / statistics.n_observed[arm]
            indices[arm] = index_value(params, stage - current_view.origin, statistics, arm, mean)
    return indices


LONG_NAMES = {
    "pull": "arm that was pulled",
    "reward": "reward of the pull",
    "look": "arm of the first look, -1 without a look",
    "look_reward": "reward of the first look",
    "later_look": "arm of the nth look, -1 without a look",
    "later_look_reward": "reward of the nth look",
    "index": "index of the arm at the stage",
    "n_observed": "number of observations of the arm before the stage",
    "mean": "mean of the observations of the arm before the stage",
}


def to_dataset(job: Job, label: str, variables: dict[str, NDArray[Any]]) -> "xarray.Dataset":
    """Return the variables of a trace as a dataset."""
    import xarray

    data = xarray.Dataset(
        coords={
            "stage": np.arange(1, job.horizon + 1),
            "arm": np.arange(job.problem.n_arms),
            "policy": label,
            "run": job.first_run,
        },
        attrs=attributes({((), label): schedule.fingerprint(job)}),
    )
    n_later_looks = variables["later_look"].shape[1]
    if n_later_looks:
        data.coords["nth"] = np.arange(2, n_later_looks + 2)
    for name, values in variables.items():
        dims = ("stage", "nth" if name.startswith("later") else "arm")[: values.ndim]
        if values.size:
            data[name] = (dims, values, {"long_name": LONG_NAMES[name]})
    return data
