r"""Plan the rate of looks that detects changes, and predict how long detection takes.

The plan is for a *hidden rise*: every L stages, an arm that is not pulled rises by d and is then the
best arm by d − Δ, where Δ is the gap. Until the rise is detected, each stage loses d − Δ. At the rate
of looks ε, the policy `lookout` detects the rise after about D/ε stages, where

.. math:: D = \min\Big(1.2\,w^*,\ \frac{n_0\Delta}{d-\Delta}\Big) + \frac{8(K-2)^{3/4}}{d^2}

is the number of looks until detection. :math:`1.2\,w^*` is the number of observations of the risen
arm that its scan needs (:func:`kibitz.bounds.concentration.scan_delay`). The second number in the
minimum is the number of observations after which the risen arm has the largest average even without
an alarm, where :math:`n_0=\epsilon L/(K-1)` is its number of observations before the rise. The last
term is the number of looks at the other arms. If a look costs q, a change costs

.. math:: J(\epsilon) = q\epsilon L + (d-\Delta)\min(L, D/\epsilon) .

The recommended rate minimises J, at about :math:`\epsilon^*=\sqrt{(d-\Delta)D/(qL)}`. Without looks,
the loss is (d − Δ)L. Looks pay only if the smallest J is below this loss, that is, approximately if
(d − Δ)L > 4qD.

If :math:`n_0 < 2w^*`, the plan is rough and uses the :math:`w^*` for :math:`n_0=2w^*`. For clicks, d
is in units in which :math:`d^2/2` is the divergence kl(p + d, p) of Bernoulli distributions, where p
is the baseline. The formulas are approximations, fitted to simulations; no number is a bound. In 80
other random settings (2 to 20 arms, Gaussian rewards and clicks, looks at the recommended rate), the
simulated cost J was within 12 % of the plan in nine settings of ten, and within 16 % where the plan
is rough; the simulated loss by the delay was within 23 %. In a second draw with 2 to 12 arms, nine
settings of ten were within 12 % if the plan is not rough (33 settings), and within 25 % if the plan
is rough (7 settings). With 20 or 30 arms (14 settings), the cost was within 25 % and the loss within
50 % in nine settings of ten. The plan is for one rise at a time.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kibitz._validation import between, invalid, number, whole
from kibitz.bounds._checks import MAX_HORIZON, check_nonnegative, check_scale
from kibitz.bounds.complexity import WATCH_LOOKS, WATCH_POWER
from kibitz.bounds.concentration import scan_delay

MAX_ARMS = 1_000_000
DELTA = 0.1  # the false-alarm probability of `lookout`
N_RATES = 161  # rates of looks that the plan compares, from 10⁻⁴ to 1


@dataclass(frozen=True)
class ChangePlan:
    """A plan for changes: the recommended rate of looks, and how long a change stays undetected.

    All numbers are predictions for one hidden rise every `changes_every` stages. No number is a
    bound. Losses and costs are in units of reward, per change.

    Attributes
    ----------
    n_arms, changes_every, change_size, gap, baseline, cost, scale
        The arguments of the plan. The default of `cost` is the gap. `baseline` is None for
        Gaussian rewards, and `scale` is None for clicks.
    pays
        Whether looks at this rate cost less than the loss that they avoid.
    rate, n_looks
        The rate of looks ε and the number of looks between two changes. The rate is the argument
        `at`, or the recommended rate. If no rate is worth its cost, the recommended rate is 0.
    delay
        The mean number of stages until the rise is detected; `changes_every` if the rise is not
        detected before the next change.
    n_observed
        The mean number of observations of the risen arm until its scan raises an alarm.
    loss
        The regret until the rise is detected.
    look_cost
        The cost of the looks between two changes.
    total
        The sum of `loss` and `look_cost`.
    loss_without_looks
        The regret if the rise is not detected before the next change.
    is_rough
        Whether the arm has too few observations before the rise for an accurate plan.
    rates, totals, delays
        Rates of looks, and the total cost and the delay at each rate.
    """

    n_arms: int
    changes_every: int
    change_size: float
    gap: float
    baseline: float | None
    cost: float
    scale: float | None
    pays: bool
    rate: float
    n_looks: float
    delay: float
    n_observed: float
    loss: float
    look_cost: float
    total: float
    loss_without_looks: float
    is_rough: bool
    rates: list[float]
    totals: list[float]
    delays: list[float]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data; `kibitz plan --changes-every L --json` prints it."""
        return asdict(self)


def plan_changes(
    changes_every: int,
    change_size: float,
    *,
    n_arms: int = 2,
    gap: float,
    baseline: float | None = None,
    scale: float = 1.0,
    cost: float | None = None,
    at: float | None = None,
) -> ChangePlan:
    """Return a plan for changes: the cheapest rate of looks, and how soon it detects a change.

    The plan is for the policy `kibitz.lookout`, which chooses where to look.

    Parameters
    ----------
    changes_every
        The number of stages L between two changes, from 1 to 2⁵³.
    change_size
        The size d of a change: the mean of an arm rises by d. The size must be greater than the gap,
        because a smaller rise does not make another arm the best.
    n_arms
        The number of arms K, from 2 to a million.
    gap
        The gap Δ of every arm but the best, before the change.
    baseline
        For clicks: the rate of every arm but the best, such as 0.05. The risen arm has the rate
        `baseline` + `change_size`. Omit `baseline` for Gaussian rewards.
    scale
        The standard deviation of Gaussian rewards.
    cost
        The cost of a look, in units of reward. The default is the gap, which is the cost of pulling a
        sub-optimal arm.
    at
        The rate of looks ε to predict for, in [0, 1]. By default the plan recommends a rate.
    """
    n_stages = whole(changes_every, "changes_every", 1, MAX_HORIZON)
    n_arms = whole(n_arms, "n_arms", 2, MAX_ARMS)
    size, gap, scale = (
        check_scale(name, value)
        for name, value in (("change_size", change_size), ("gap", gap), ("scale", scale))
    )
    if not size > gap:
        raise invalid(
            "change_size", f"greater than the gap {gap:g}, or no other arm becomes the best", size
        )
    look_price = gap if cost is None else check_nonnegative("cost", cost)
    if baseline is None:
        change = check_scale("change_size / scale", size / scale)
    else:
        baseline = _check_baseline(baseline, size)
        if scale != 1:
            raise invalid("scale", "left out with baseline, because rewards are clicks", scale)
        change = math.sqrt(2 * _divergence(baseline + size, baseline))
    threshold = math.log(100 * n_arms / DELTA)
    loss_without_looks = (size - gap) * n_stages

    def predict(rate: float) -> tuple[float, float, bool]:
        """Return the delay in stages and in observations, and whether both are rough estimates."""
        n_before = rate * n_stages / (n_arms - 1)
        enough = 6 * (threshold + math.log(3)) / change**2  # the n_0 that equals 2w*
        n_observed = scan_delay(max(n_before, enough), change, threshold, form="leading")
        n_observed = min(n_observed, max(1.0, n_before * gap / (size - gap)))
        n_looks = n_observed + WATCH_LOOKS * (n_arms - 2) ** WATCH_POWER / change**2
        delay = n_looks / rate if rate * n_stages > n_looks else float(n_stages)
        return delay, n_observed, n_before < enough

    def add_costs(rate: float) -> float:
        return look_price * rate * n_stages + (size - gap) * predict(rate)[0]

    rates = np.geomspace(1e-4, 1, N_RATES).tolist()
    totals = [add_costs(rate) for rate in rates]
    best = min(range(N_RATES), key=totals.__getitem__)
    rate = rates[best] if at is None else between(at, "at", 0, 1)
    delay, n_observed, is_rough = predict(rate)
    total = add_costs(rate)
    pays = total < loss_without_looks
    if not pays and at is None:
        rate, delay, total = 0.0, float(n_stages), loss_without_looks
    return ChangePlan(
        n_arms, n_stages, size, gap, baseline, look_price, None if baseline else scale,
        pays, rate, rate * n_stages, delay, n_observed, (size - gap) * delay,
        look_price * rate * n_stages, total, loss_without_looks, is_rough, rates, totals,
        [predict(rate)[0] for rate in rates],
    )  # fmt: skip


def _check_baseline(baseline: float, size: float) -> float:
    condition = f"positive, and below 1 when change_size={size:g} is added"
    if not 0 < (x := number(baseline, "baseline", condition)) < x + size < 1:
        raise invalid("baseline", condition, baseline)
    return x


def _divergence(p: float, q: float) -> float:
    """Return the divergence kl(p, q) of two Bernoulli distributions."""
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
