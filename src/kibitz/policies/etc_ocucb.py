r"""ETC-OCUCB: the paper's active algorithm (Algorithm 2) and the variants of its experiments.

Epoch m lasts \lceil d_m \rceil stages, where d_m = p^{p^m} (p = 2 in Algorithm 2). During the epoch,
OCUCB-n on a set S_m of arms chooses the pulls. Looks go in turn to the arms that ETC has not
eliminated. ETC runs with parameter \alpha and horizon d_{m+1}^{1 + 1/p} \log d_{m+1}, which for p = 2
is the paper's horizon (errata, D34). At the end of the epoch, S_{m+1} becomes the set of arms that
ETC has not eliminated. Theorem 4, as corrected in the errata (D13, D25, D36), covers `restart=True`
with p = 2.

- With `check="rounds"`, ETC tests for arms to eliminate after every :math:`C |S|` looks, where S is
  the set of remaining arms (the paper's ETC-OCUCB). With `check="doubling"`, it tests at stages 1, 2,
  4, 8, ... (ETC-OCUCB-2).
- `restart=True` is Algorithm 2 exactly: in each epoch, OCUCB-n and ETC start without observations,
  and ETC starts with all arms. `restart=False`, the default, keeps the statistics, the clock and the
  eliminated arms from epoch to epoch; only this variant agrees with the paper's remarks on
  its Figure 4.
- With `all_info=True`, both subroutines learn from pulls and looks (section 5, "all-info"); each arm
  then has its own count in ETC's width.

An epoch ends when the reward of the pull at its last stage is known; a look at that stage belongs to
the next epoch. Likewise, a doubling test takes place before the look of its stage.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz._validation import flag, invalid, number, one_of, positive
from kibitz.policies.etc import eliminate
from kibitz.policies.index_policy import make_choices
from kibitz.policies.ocucb import index, ocucb_constants, ocucb_statistics, update_derived
from kibitz.policies.policy import NEVER, Array, Policy, Statistics, View, check_scale, count

CLOCK = np.dtype(
    [
        ("epoch", np.int64),  # m
        ("origin", np.int64),  # the stage before OCUCB-n's first stage
        ("end", np.int64),  # the last stage of the epoch
        ("next_test", np.int64),  # the stage of the next test ("doubling")
        ("looks", np.int64),  # the number of looks since the last test ("rounds")
        ("last", np.int64),  # the arm of the last look
    ],
    align=True,
)


class State(NamedTuple):
    """The statistics of both subroutines, their arms, and the clock."""

    statistics: Statistics  # the statistics of OCUCB-n, since it started
    allowed: Array  # for each arm, whether it is in S_m
    etc_counts: Array  # the observations of each arm that ETC counts
    etc_sums: Array  # the sums of the rewards of these observations
    in_play: Array  # for each arm, False if ETC has eliminated it
    clock: Array  # one record of type CLOCK


def etc_ocucb(
    p: float = 2.0,
    C: float = 10.0,
    alpha: float = 1.0,
    rho: float = 0.5,
    eta: float = 2.0,
    restart: bool = False,
    check: str = "rounds",
    all_info: bool = False,
    scale: float | None = None,
) -> Policy:
    """Return ETC-OCUCB (Algorithm 2), ETC-OCUCB-2 or one of the all-info variants (section 5).

    Parameters
    ----------
    p
        The base p > 1 of the epoch lengths: epoch m lasts p^(p^m) stages, rounded up. Algorithm 2 has
        p = 2.
    C
        With check="rounds", ETC tests after C looks per remaining arm; 10 in the experiments.
    alpha
        The constant \\alpha of ETC; 1 in the paper.
    rho, eta
        The constants \\rho in [1/2, 1] and \\eta > 1 of OCUCB-n; 1/2 and 2 in the experiments.
    restart
        Whether both subroutines start again in each epoch, as in Algorithm 2.
    check
        When ETC tests for arms to eliminate: "rounds" (ETC-OCUCB) or "doubling" (ETC-OCUCB-2).
    all_info
        Whether both subroutines learn from pulls and looks.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    if not 1 < number(p, "p") < math.inf:
        raise invalid("p", "above 1 and finite", p)
    floats = {"p": float(p), "C": positive(C, "C"), "alpha": positive(alpha, "alpha")}
    floats |= ocucb_constants(eta, rho)
    one_of(check, "check", ("rounds", "doubling"))
    flags = {"restart": flag(restart, "restart"), "all_info": flag(all_info, "all_info")}
    return Policy(
        "etc_ocucb",
        {**floats, **flags, "doubling": check == "doubling"},
        init,
        pull,
        look,
        update,
        index=index,
        view=view,
        index_reads="statistics",
        turns=turns,
        in_phases=True,
        scale=check_scale(scale),
        parameters={**floats, **flags, "check": check},
    )


@jit
def log_epoch_length(p: float, m: int) -> float:
    """Return log d_m = p^m log p, the logarithm of the length of epoch m before it is rounded up."""
    return p ** float(m) * math.log(p)


@jit
def epoch_length(p: float, m: int) -> int:
    """Return the length of epoch m, ceil(d_m), or NEVER if it exceeds any horizon."""
    log_length = log_epoch_length(p, m)
    return math.ceil(p ** (p ** float(m)) - 1e-9) if log_length < 42 else NEVER


@jit
def log_etc_horizon(p: float, m: int) -> float:
    """Return the logarithm of ETC's horizon in epoch m."""
    log_length = log_epoch_length(p, m + 1)
    return (1 + 1 / p) * log_length + math.log(log_length)


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation, in epoch 0."""
    clock = np.zeros(1, CLOCK)
    clock[0]["end"] = epoch_length(params.p, 0)
    clock[0]["next_test"] = 1
    clock[0]["last"] = n_arms - 1
    return State(
        ocucb_statistics(n_arms),
        np.ones(n_arms, np.bool_),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.float64),
        np.ones(n_arms, np.bool_),
        clock,
    )


@jit
def test_arms(params: Any, state: State) -> None:
    """Let ETC eliminate the arms that are significantly worse than another arm."""
    slope = 2 * params.alpha
    level = slope * log_etc_horizon(params.p, state.clock[0]["epoch"])
    eliminate(state.in_play, state.etc_counts, state.etc_sums, level, slope)


@jit
def begin_epoch(params: Any, state: State) -> None:
    """Restrict OCUCB-n to the arms that ETC has not eliminated, and begin the next epoch.

    OCUCB-n forgets the observations of the eliminated arms. With `restart`, both subroutines forget
    all observations.
    """
    clock, stats = state.clock[0], state.statistics
    clock["epoch"] += 1
    for arm in range(state.allowed.size):
        state.allowed[arm] = state.in_play[arm]
        if params.restart or not state.allowed[arm]:
            stats.n_pulls[arm] = 0
            stats.n_looks[arm] = 0
            stats.n_observed[arm] = 0
            stats.sums[arm] = 0.0
            update_derived(params, stats, arm)
        if params.restart:
            state.etc_counts[arm] = 0
            state.etc_sums[arm] = 0.0
            state.in_play[arm] = True
    if params.restart:
        clock["origin"] = clock["end"]
        clock["looks"] = 0
        clock["last"] = state.allowed.size - 1
    clock["end"] = min(NEVER, clock["end"] + epoch_length(params.p, clock["epoch"]))


@jit
def view(params: Any, state: State, stage: int) -> View:
    """Return the data of OCUCB-n, valid until the epoch ends or ETC may eliminate arms."""
    last_stage = state.clock[0]["end"]
    if params.doubling:
        last_stage = min(last_stage, state.clock[0]["next_test"])
    max_looks = NEVER  # once a single arm is left, tests change nothing
    if not params.doubling and state.in_play.sum() > 1:
        max_looks = math.ceil(min(params.C * state.in_play.sum(), 1e18)) - 1 - state.clock[0]["looks"]
    return View(
        state.statistics,
        state.statistics.n_pulls,
        state.allowed,
        state.clock[0]["origin"],
        last_stage,
        params.all_info,
        max_looks,
    )


@jit
def turns(params: Any, state: State) -> tuple[Array, int]:
    """Return the arms that ETC has not eliminated, which take turns, and the arm of the last look."""
    return state.in_play, state.clock[0]["last"]


pull, _ = make_choices(index, view, "statistics")


@jit
def look(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the next arm in turn among the arms that ETC has not eliminated."""
    arm = state.clock[0]["last"]
    while True:
        arm = (arm + 1) % state.allowed.size
        if state.in_play[arm]:
            return arm


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count an observation for the subroutine that learns from it, or for both (`all_info`)."""
    if (params.all_info or not is_look) and state.allowed[arm]:
        count(state.statistics, arm, n, total, is_look)
        update_derived(params, state.statistics, arm)
    if params.all_info or is_look:
        state.etc_counts[arm] += n
        state.etc_sums[arm] += total
    clock = state.clock[0]
    if is_look:
        clock["last"] = arm
        clock["looks"] += n
        if not params.doubling and clock["looks"] >= params.C * state.in_play.sum():
            clock["looks"] = 0
            test_arms(params, state)
    else:
        last_stage = stage + n - 1
        while params.doubling and last_stage >= clock["next_test"]:
            clock["next_test"] *= 2
            test_arms(params, state)
        while last_stage >= clock["end"]:
            begin_epoch(params, state)
    return state
