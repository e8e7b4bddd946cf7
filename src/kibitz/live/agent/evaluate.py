r"""Estimate from a log what another policy would have earned (off-policy evaluation).

Only randomised visits can answer this question. At a randomised visit, the arm was drawn at random,
and the probability of each arm is known and positive. In a log of kibitz, the decisions of the bucket
are randomised visits, with probability 1/K for each of K arms. Decisions of the policy itself are not
used: a deterministic policy gives all other arms probability 0, and the probabilities of Thompson
sampling are unknown.

At each randomised visit, the evaluated policy chooses an arm. If the log has the same arm, the policy
learns its reward, which is a fresh reward of that arm (replay; Li, Chu, Langford and Wang, 2011). If
not, the visit teaches it nothing. The policy therefore learns from `n_matched` visits only.

The result has three estimates of the policy's mean reward per visit. Let X be the reward of a visit,
and let the weight w be 1/probability if the two arms are the same, and 0 otherwise.

- `value`: the average of m + w (X - m) for a constant m (inverse propensity scoring). It is unbiased.
  [`low`, `high`] is a confidence sequence (`kibitz.live.agent.confidence.off_policy_interval`). It is
  valid at all times, even if the mean rewards change.
- `self_normalised`: the sum of w X divided by the sum of w. It often has a smaller error but is
  biased; no interval is known that holds at all times.
- `replay`: the mean reward of the visits at which the two arms are the same.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.random import SFC64, Generator, SeedSequence

from kibitz._validation import between, invalid, positive, seed_number, short_repr
from kibitz.live.agent import pending
from kibitz.live.agent.confidence import check_delta, count_visits_needed, off_policy_interval
from kibitz.live.agent.config import UNIT_SCALE
from kibitz.live.agent.from_log import Columns, is_kibitz_log, read_columns, read_number, replay
from kibitz.live.events import Arm, Event
from kibitz.policies.policy import Policy

SUGGESTED_BUCKET = 0.02  # the bucket in the advice for a log without randomised visits


class Visit(NamedTuple):
    """A randomised visit: the arm that was drawn from `candidates`, and its reward."""

    arm: int
    candidates: tuple[int, ...]
    probability: float
    reward: float


class Visits(NamedTuple):
    """The randomised visits of a log, the names of its arms, and its total number of pulls."""

    visits: list[Visit]
    arms: list[str]
    n_asks: int
    mean_square: float  # mean square of all rewards of the log
    n_open: int = 0  # randomised visits whose rewards are not known yet


@dataclass(frozen=True)
class Evaluation:
    """An estimate of what another policy would have earned; the result of `evaluate`.

    Attributes
    ----------
    policy
        The evaluated policy.
    value
        The estimated mean reward per visit, by inverse propensity scoring.
    low, high
        A confidence sequence for this mean. It is valid at all times with probability 1 - delta.
    self_normalised
        The self-normalised estimate; NaN if no visit matched. It has no interval.
    replay
        The mean reward of the matched visits; NaN if no visit matched.
    n_visits
        The number of randomised visits.
    n_matched
        The number of randomised visits at which the policy would have chosen the logged arm.
    visits_needed
        The approximate number of visits, randomised or not, that the log would need for an interval
        from `value` - `precision` to `value` + `precision`.
    delta, baseline, precision
        The arguments of `evaluate`.
    """

    policy: str
    value: float
    low: float
    high: float
    self_normalised: float
    replay: float
    n_visits: int
    n_matched: int
    visits_needed: float
    delta: float
    baseline: float
    precision: float

    def __str__(self) -> str:
        return (
            f"{self.policy} would have earned {self.value:.4g} per visit ({self.low:.4g} to "
            f"{self.high:.4g}; at {1 - self.delta:.0%} confidence, however often you check).\n"
            f"Self-normalised estimate: {self.self_normalised:.4g}; mean reward of the "
            f"{self.n_matched:,} matched of {self.n_visits:,} randomised visits: {self.replay:.4g}.\n"
            f"An interval of about \u00b1 {self.precision:g} needs a log of about "
            f"{format_count(self.visits_needed)} visits."
        )


def evaluate(
    log: Any,
    policy: Policy | str | Mapping[str, float],
    *,
    delta: float = 0.05,
    baseline: float = 0.0,
    precision: float = 0.01,
    seed: int | SeedSequence | None = None,
    arm: str = "arm",
    reward: str = "reward",
    probability: str = "probability",
) -> Evaluation:
    """Estimate what another policy would have earned, from the randomised visits of a log.

    Raise ValueError if the log has no randomised visits. The message says how many are needed.

    Parameters
    ----------
    log
        An agent or a client; a file written by `Agent.export`; or any other CSV or JSON lines file,
        data frame, dataset or dict of columns with one row for each visit. Rewards are in [0, 1].
    policy
        A policy, the name of an arm that is always pulled, or a dict of arms with their
        probabilities.
    delta
        An upper bound on the probability that the interval ever misses the mean reward.
    baseline
        The constant m in [0, 1] of the estimate `value`. The interval is narrowest if m is close to
        the mean reward, but m must be chosen without looking at the rewards of this log.
    precision
        The half-width of the interval for which `visits_needed` is computed.
    seed
        The seed of a policy that draws random numbers, such as Thompson sampling.
    arm, reward, probability
        The names of the columns of a log that kibitz did not write. `probability` is the probability
        with which the arm of the row was chosen; every arm must have had a positive probability. Rows
        with probability 1 are not randomised and are left out.
    """
    delta = check_delta(delta)
    baseline = between(baseline, "baseline", 0, 1)
    precision = positive(precision, "precision")
    seed = None if seed is None else seed_number(seed)
    source = _read(log, {"arm": arm, "reward": reward, "probability": probability})
    target = _Target(policy, source, seed)
    visits = [visit for visit in source.visits if target.support <= {*visit.candidates}]
    if not visits:
        raise ValueError(_explain_refusal(source, target, precision, baseline, delta))
    # The interval is narrower if no arm is certain: with 1/K for each of K arms, no weight exceeds 1.
    max_weight = max(target.largest / visit.probability for visit in visits)
    total = squares = weights = weighted_rewards = matched_rewards = 0.0
    n_matched = 0
    for visit in visits:
        share = target.share(visit)
        if share == 0:
            continue
        weight = share / visit.probability
        term = weight * (visit.reward - baseline)
        total, squares = total + term, squares + term * term
        weights, weighted_rewards = weights + weight, weighted_rewards + weight * visit.reward
        matched_rewards += visit.reward
        n_matched += 1
        target.learn(visit)
    n = len(visits)
    low, high = off_policy_interval(n, total, squares, max_weight, baseline, delta)
    mean_square = squares / n if squares else source.mean_square * max_weight
    needed = count_visits_needed(precision, mean_square, max_weight, baseline, delta)
    return Evaluation(
        policy=target.name,
        value=baseline + total / n,
        low=low,
        high=high,
        self_normalised=weighted_rewards / weights if weights else math.nan,
        replay=matched_rewards / n_matched if n_matched else math.nan,
        n_visits=n,
        n_matched=n_matched,
        visits_needed=needed * max(source.n_asks, n) / n,
        delta=delta,
        baseline=baseline,
        precision=precision,
    )


class _Target:
    """The evaluated policy: a policy that learns from the visits, or fixed probabilities of arms."""

    def __init__(self, policy: Any, source: Visits, seed: int | None) -> None:
        self._policy = policy if isinstance(policy, Policy) else None
        self._shares: dict[int, float] = {}
        self.support: frozenset[int] = frozenset()  # arms that a visit must offer
        self.largest = 1.0  # the largest probability of an arm
        if self._policy is None:
            self._set_shares(policy, source.arms)
            return
        self.name = repr(policy)
        if "graph" in policy.constants:
            raise ValueError(
                f"{policy.name} cannot be evaluated, because it plays on a graph, which a log does "
                "not have; choose another policy"
            )
        self._arms = [Arm(name) for name in source.arms]
        self._unit = policy.scale_for(UNIT_SCALE)
        n_arms = max((len(visit.candidates) for visit in source.visits), default=2)
        self._params = policy.params_for(max(1, len(source.visits) // n_arms))
        self._stage, self._choice = 1, -1
        self._candidates: tuple[int, ...] = ()
        self._rng = self._state = None
        if policy.index is None:
            if seed is None and not policy.in_phases:
                raise ValueError(f"seed is required for {policy.name}, which draws random numbers")
            self._rng = Generator(SFC64(SeedSequence(seed or 0)))
        # the state of these policies does not follow from the counts of the arms
        needs_all_arms = policy.in_phases or policy.simulation_only or policy.is_python
        self._state = None
        if needs_all_arms or policy.revise is not None:
            self._state = policy.init(self._params, len(self._arms))
        if needs_all_arms and any(len(v.candidates) < len(self._arms) for v in source.visits):
            raise ValueError(
                f"{policy.name} cannot be evaluated, because the arms of the log have changed; "
                "choose another policy"
            )

    def _set_shares(self, policy: Any, arms: list[str]) -> None:
        shares = {policy: 1.0} if isinstance(policy, str) else policy
        if not isinstance(shares, Mapping) or not shares:
            raise invalid("policy", "a policy, the name of an arm or a dict of probabilities", policy)
        for name in shares:
            if name not in arms:
                names = ", ".join(map(short_repr, arms))
                raise ValueError(f"{short_repr(name)} is not an arm of the log; use one of {names}")
        self._shares = {arms.index(name): between(p, "policy", 0, 1) for name, p in shares.items()}
        if not math.isclose(sum(self._shares.values()), 1.0, abs_tol=1e-9):
            raise invalid("policy", "a dict of probabilities that sum to 1", policy)
        self.support = frozenset(arm for arm, share in self._shares.items() if share > 0)
        self.largest = max(self._shares.values())
        self.name = f"arm {policy!r}" if isinstance(policy, str) else "the mix of arms"

    def share(self, visit: Visit) -> float:
        """Return the probability with which the policy chooses the arm of a visit."""
        if self._policy is None:
            return self._shares.get(visit.arm, 0.0)
        if self._choice < 0 or self._candidates != visit.candidates:
            self._choice, self._candidates = self._choose(visit.candidates), visit.candidates
        return float(self._choice == visit.arm)

    def _choose(self, candidates: tuple[int, ...]) -> int:
        assert self._policy is not None
        policy, state = self._policy, self._state
        if state is not None and policy.revise is None:
            return int(policy.pull(self._params, state, self._stage, self._rng))
        if state is not None:
            state = pending.select_arms(policy, self._params, state, candidates)
        arms = [self._arms[arm] for arm in candidates]
        choice = pending.pull(
            policy, self._params, arms, self._stage, self._unit, self._rng, stored=state
        )
        return candidates[choice]

    def learn(self, visit: Visit) -> None:
        """Update the policy with the reward of a visit at which it chose the logged arm."""
        if self._policy is None:
            return
        arm = self._arms[visit.arm]
        arm.n_asked += 1
        arm.n_pulls += 1
        arm.pull_sum += visit.reward
        if self._state is not None:
            self._state = self._policy.update(
                self._params, self._state, self._stage, visit.arm, 1, visit.reward / self._unit, False
            )
        self._stage += 1
        self._choice = -1


def _read(log: Any, names: dict[str, str]) -> Visits:
    """Return the randomised visits of a log."""
    if not callable(getattr(log, "events", None)):
        columns = read_columns(log)
        return _replay_visits(columns) if is_kibitz_log(columns) else _read_visits(columns, names)
    events = log.events()
    if not isinstance(events, Iterator):
        raise invalid("log", "an agent, a Client or an exported file", log)
    rows = list(events)
    columns = {name: [getattr(event, name) for event in rows] for name in Event._fields}
    # only an agent that counts silence as a reward has unsettled decisions
    return _replay_visits(columns, counts_silence=bool(log.report()["n_unsettled"].sum()))


def _replay_visits(columns: Columns, counts_silence: bool = False) -> Visits:
    """Return the randomised visits of a log of kibitz.

    With `counts_silence`, the visits end before the first pending decision, because a click is known
    when it is reported, but a missing click only when the patience has passed. The confidence
    sequence is valid at all times, so it is valid for the visits up to this decision.
    """
    projection = replay(columns)
    n_randomised = sum(isinstance(arms, str) and arms != "" for arms in columns.get("bucket", ()))
    visits, rewards, n_asks = [], [], 0
    for record in projection.decisions.values():
        if counts_silence and record.status == "pending":
            break
        n_asks += record.kind == "pull" or record.bucket is not None
        if record.reward is None:
            continue
        rewards.append(record.reward)
        if record.bucket is not None:
            candidates = tuple(map(int, record.bucket.split()))
            visits.append(Visit(record.arm, candidates, 1 / len(candidates), record.reward))
    arms = [arm.name for arm in projection.arms]
    return Visits(visits, arms, n_asks, _mean_square(rewards), n_randomised - len(visits))


def _read_visits(columns: Columns, names: dict[str, str]) -> Visits:
    for name, column in names.items():
        if not isinstance(column, str) or column not in columns:
            column_names = ", ".join(map(str, columns)) or "none"
            raise invalid(name, f"a column of the log ({column_names})", column)
    rows = list(_parse_rows(columns, names))
    # The names are sorted. If the arms were in the order of their first appearance, a policy that
    # first pulls each arm once would agree with the log too often.
    arm_indices = {name: k for k, name in enumerate(sorted({arm for arm, _, _ in rows}))}
    candidates = tuple(range(len(arm_indices)))
    visits = [Visit(arm_indices[arm], candidates, p, x) for arm, x, p in rows if p < 1]
    return Visits(visits, list(arm_indices), len(rows), _mean_square([x for _, x, _ in rows]))


def _parse_rows(columns: Columns, names: dict[str, str]) -> Iterator[tuple[str, float, float]]:
    """Yield the arm, the reward and the probability of each row that has a reward."""
    selected_columns = (columns[names[name]] for name in ("arm", "reward", "probability"))
    for n, (arm, reward, probability) in enumerate(zip(*selected_columns, strict=True)):
        x = read_number(reward, f"{names['reward']} of line {n + 1}")
        p = read_number(probability, f"{names['probability']} of line {n + 1}")
        if p is None or not 0 < p <= 1:
            raise invalid(f"{names['probability']} of line {n + 1}", "in (0, 1]", probability)
        if x is not None:
            yield str(arm), x, p


def _mean_square(rewards: list[float]) -> float:
    """Return the mean square of rewards, which must be in [0, 1]; 1/4 if there are none."""
    for reward in rewards:
        if not 0 <= reward <= 1:
            raise invalid("log", "a log of rewards in [0, 1]", reward)
    return math.fsum(x * x for x in rewards) / len(rewards) if rewards else 0.25


def _explain_refusal(
    source: Visits, target: _Target, precision: float, baseline: float, delta: float
) -> str:
    """Return an error message: why the log is not sufficient, and how many visits are needed."""
    n_arms = max(len(source.arms), 2)
    square = n_arms * (source.mean_square + baseline**2)
    needed = count_visits_needed(precision, square, n_arms, baseline, delta) / SUGGESTED_BUCKET
    if source.visits:
        names = ", ".join(short_repr(source.arms[arm]) for arm in sorted(target.support))
        reason = f"log cannot evaluate this policy: no randomised visit could have been given {names}"
        advice = "activate these arms and log more visits with a bucket"
    elif source.n_open:
        return (
            "log cannot evaluate this policy: no reward of its randomised visits ("
            f"{source.n_open:,} so far) is known; report them, or wait if silence counts as a reward"
        )
    else:
        reason = (
            "log cannot evaluate this policy: it has no randomised visits, so the arms that were not "
            "chosen had probability 0"
        )
        advice = f"create an agent with bucket={SUGGESTED_BUCKET:g}"
    return (
        f"{reason}; {advice}: an interval of about \u00b1 {precision:g} then needs about "
        f"{format_count(needed)} visits"
    )


def format_count(n: float) -> str:
    """Format a number of visits with two significant digits."""
    if not math.isfinite(n):
        return "infinitely many"
    return f"{int(float(f'{n:.2g}')):,}"
