"""`trace`: one run of one policy, stage by stage.

The engine's own loop plays the run in plain Python, with the random streams of the run, and the
functions `update`, `show` and `hide` of the policy record every observation. The loop reports the
rewards of several pulls as one sum, so a second pass draws the rewards again one by one, from the
same stream, and computes the indices that the policy compared at each stage.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz._progress import show_progress
from kibitz._validation import whole
from kibitz.engine.environment import FULL, draw, start_piece
from kibitz.engine.kernel import fill_graph
from kibitz.engine.loop import get_statistics_index, make_loop, make_show_functions
from kibitz.engine.rng import make_seeds, new_streams, seed_stream
from kibitz.model.feedback import Feedback, check_feedback
from kibitz.model.problem import Problem, check_problem
from kibitz.policies.policy import GraphFunctions, Policy, check_policy, params_type
from kibitz.simulation import schedule
from kibitz.simulation.jobs import Job, empty_outcome, make_environment, new_control
from kibitz.simulation.options import MAX_RUNS, check_options
from kibitz.simulation.results.dataset import COORDINATE_ATTRIBUTES, attributes

if TYPE_CHECKING:
    import xarray

MAX_VALUES = 10**7  # largest number of stages times arms


PULL, HIDDEN_PULL, SHOW, LOOK = "pull", "hidden pull", "show", "look"


class Observation(NamedTuple):
    """Pulls, shows or looks of one arm, as the engine reports them to the policy."""

    kind: str  # PULL, HIDDEN_PULL (a graph hid its reward), SHOW or LOOK
    stage: int  # the first stage, for several pulls
    arm: int
    n: int
    total: float  # the sum of the rewards, in units of the policy's scale
    pulled: int  # the arm whose pull showed `arm`


def trace(
    problem: Problem,
    feedback: Feedback,
    policy: Policy,
    *,
    horizon: int,
    seed: "int | np.random.SeedSequence",
    run: int = 0,
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
        and `later_look_reward` (stage, nth) hold the other looks. On a graph, `shown_reward` (stage,
        arm) is the reward that the pull showed of each arm, the pulled arm included, or NaN if the
        pull did not show the arm. All values are in units of the rewards.
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
    on_graph = job.feedback.shows is not None
    played_job = job._replace(policy=job.policy.for_graph()) if on_graph else job
    with show_progress(None, f"tracing {label}"), np.errstate(all="ignore"):  # as in compiled code
        observations = list_observations(played_job)
        variables = make_variables(played_job, observations)
    return to_dataset(job, label, variables)


def list_observations(job: Job) -> list[Observation]:
    """Play a job with a single run in plain Python; return the observations of the policy."""
    observations: list[Observation] = []
    policy = job.policy
    update = policy.update
    show, hide = make_show_functions(policy)

    def record(
        params: Any, state: Any, stage: int, arm: int, n: int, total: float, is_look: bool
    ) -> Any:
        kind = LOOK if is_look else PULL
        observations.append(Observation(kind, int(stage), int(arm), int(n), float(total), int(arm)))
        return update(params, state, stage, arm, n, total, is_look)

    def record_show(
        params: Any, state: Any, stage: int, pulled: int, arm: int, n: int, total: float
    ) -> Any:
        observations.append(
            Observation(SHOW, int(stage), int(arm), int(n), float(total), int(pulled))
        )
        return show(params, state, stage, pulled, arm, n, total)

    def record_hidden(params: Any, state: Any, stage: int, arm: int, n: int) -> Any:
        observations.append(Observation(HIDDEN_PULL, int(stage), int(arm), int(n), 0.0, int(arm)))
        return hide(params, state, stage, arm, n)

    outcome = empty_outcome(1, job.stages.size, job.problem.n_arms)
    outcome.n_pulls[:], outcome.n_looks[:] = 0, 0
    environment = make_environment(job, outcome, new_control())
    choices = (policy.pull, policy.look, policy.view)
    recording_policy = replace(
        policy, update=record, on_graph=GraphFunctions(*choices, record_show, record_hidden)
    )
    play = make_loop(recording_policy, job.feedback, leap=False, is_changing=bool(job.problem.pieces))
    params = fill_graph(policy, job.horizon, environment.graph, job.problem.n_arms)
    play(params, environment, job.error, make_seeds(job.seed, job.first_run, job.end_run))
    return observations


def make_variables(job: Job, observations: list[Observation]) -> dict[str, NDArray[Any]]:
    """Return the variables of a trace as arrays, with a row for each stage."""
    policy, n_arms, horizon = job.policy, job.problem.n_arms, job.horizon
    scale = policy.scale_for(job.problem.scale)
    environment = make_environment(job, empty_outcome(1, 1, n_arms), new_control())
    reward_stream = new_streams().rewards
    seed_stream(reward_stream, make_seeds(job.seed, job.first_run, job.end_run)[0, 0:3])
    n_looks = np.bincount([o.stage for o in observations if o.kind == LOOK], minlength=horizon + 1)
    max_looks = max(1, int(n_looks.max()))
    pull, reward = np.zeros(horizon, np.int64), np.zeros(horizon)
    look, look_reward = np.full((horizon, max_looks), -1), np.full((horizon, max_looks), np.nan)
    n_observed, mean = np.zeros((horizon, n_arms), np.int64), np.full((horizon, n_arms), np.nan)
    index, shown_reward = np.full((horizon, n_arms), np.nan), np.full((horizon, n_arms), np.nan)
    counts, sums = np.zeros(n_arms, np.int64), np.zeros(n_arms)
    names = tuple(policy.constants)
    params: Any = params_type(names)(*fill_graph(policy, horizon, environment.graph, n_arms))
    has_index = policy.index is not None
    state = policy.init(params, n_arms) if has_index else None
    show, hide = make_show_functions(policy)
    nth = 0
    first_stages = {start: n for n, start in enumerate(job.problem.starts) if job.problem.pieces}
    for kind, stage, arm, n, total, pulled in observations:
        for k in range(stage, stage + n):
            value = total
            if kind == LOOK:
                look[k - 1, nth], look_reward[k - 1, nth] = arm, value * scale
                nth += 1
            elif kind != SHOW:  # the first observation of a stage
                if environment.looks.observer != FULL:
                    if k in first_stages:
                        start_piece(
                            environment.pieces, first_stages[k], environment.arms,
                            environment.looks, environment.record.gaps,
                        )  # fmt: skip
                    value = draw(environment.arms, arm, reward_stream)
                pull[k - 1], reward[k - 1], nth = arm, value * scale, 0
                n_observed[k - 1] = counts
                mean[k - 1] = sums / counts * scale
                if has_index:
                    index[k - 1] = scale * list_indices(policy, params, state, k)
            if kind == HIDDEN_PULL:
                state = hide(params, state, k, arm, 1) if has_index else None
                continue
            counts[arm] += 1
            sums[arm] += value
            if kind != LOOK:
                shown_reward[k - 1, arm] = value * scale
            if has_index and kind == SHOW:
                state = show(params, state, k, pulled, arm, 1, value)
            elif has_index:
                state = policy.update(params, state, k, arm, 1, value, kind == LOOK)
    variables = {
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
    return variables | ({} if environment.graph is None else {"shown_reward": shown_reward})


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
    "shown_reward": "reward of the arm that the pull showed",
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
            attrs = {"long_name": LONG_NAMES[name]}
            if values.dtype.kind == "f":
                attrs["units"] = "reward"
            data[name] = (dims, values, attrs)
    for dim, coordinate in data.coords.items():
        coordinate.attrs = dict(COORDINATE_ATTRIBUTES[str(dim)])
    return data
