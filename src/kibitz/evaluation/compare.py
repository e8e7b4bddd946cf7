"""Paired comparisons of policies: differences, intervals, tests, and corrections for many tests.

All policies of a result get the same rewards and looks (common random numbers), so regrets are
subtracted run by run. The differences are then averaged within each *unit*: a run if all policies
played one problem, or a problem if they played many. Standard errors, intervals and tests treat the
units as a random sample:

- The interval is a bootstrap-t interval: units are resampled with replacement, and the quantiles of
  (mean* - mean) / error* replace the quantiles of Student's distribution (Efron and Tibshirani 1993,
  chapter 12).
- `p_mean` is the p-value of the paired t-test of equal means, and `p_sign` the p-value of the exact
  sign test of the hypothesis that a policy is as likely to be better on a unit as to be worse.
- Holm's (1979) adjusted p-values bound the probability of at least one false rejection among all
  comparisons.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kibitz._validation import between, one_of, whole

if TYPE_CHECKING:
    import xarray

FloatArray = NDArray[np.float64]

PROBLEM_NAMES = ("problem", "draw")  # coordinates whose values are a sample of problems
RUN = "run"
RESAMPLE_SEED = 27
MAX_RESAMPLED = 10**7  # numbers in memory at a time

VARIABLES = {  # name: long name
    "regret": "mean final regret",
    "regret_error": "standard error of the mean final regret, over runs",
    "difference": "mean final regret minus the mean final regret of the baseline",
    "error": "standard error of the difference, over units",
    "low": "lower end of the bootstrap interval of the difference",
    "high": "upper end of the bootstrap interval of the difference",
    "run_error": "standard error of the difference, over runs on these problems",
    "ratio": "ratio to the mean regret of the baseline, geometric mean over settings",
    "ratio_error": "standard error of the ratio, over units",
    "n_better": "number of units with less regret than the baseline",
    "n_worse": "number of units with more regret than the baseline",
    "p_mean": "p-value of the paired t-test",
    "p_mean_holm": "p-value of the paired t-test, adjusted by Holm's method",
    "p_sign": "p-value of the sign test",
    "p_sign_holm": "p-value of the sign test, adjusted by Holm's method",
}


def compare(
    data: "xarray.Dataset",
    baseline: str | None = None,
    *,
    over: str | None = None,
    level: float = 0.95,
    resamples: int = 2000,
) -> "xarray.Dataset":
    """Compare the final regret of each policy with a baseline, paired run by run.

    Call `.to_dataframe()` on the result for a table with one row per policy.

    Parameters
    ----------
    data
        A result of `simulate`, `sweep` or `league` that keeps all runs. Runs that are not complete
        for all policies are left out.
    baseline
        The label of the policy to compare with; default: the first policy.
    over
        The units of the sample: "run", or the name of the coordinate that identifies the problem.
        Default: "problem" or "draw" if the result has this coordinate (`league`, or `sweep` with
        `random_problems`), otherwise "run". The regret is averaged over other swept parameters.
    level
        The confidence level of each interval.
    resamples
        The number of bootstrap resamples.

    Returns
    -------
    xarray.Dataset
        For each `policy`, the baseline included: `regret` and `regret_error`, the mean final regret
        and its standard error over runs; `difference`, the mean paired difference to the baseline,
        with its standard error over units (`error`), its bootstrap interval over units (`low` to
        `high`) and its standard error over runs if the problems are held fixed (`run_error`);
        `ratio` and `ratio_error`, the geometric mean of the ratio of mean regrets; `n_better` and
        `n_worse`, the numbers of units with less and with more regret than the baseline; and the
        p-values `p_mean` (paired t-test) and `p_sign` (sign test), both also adjusted by Holm's
        method (`p_mean_holm`, `p_sign_holm`). P-values of the baseline are NaN. The attributes
        `baseline`, `unit`, `n_units` and `level` say what was compared.
    """
    import xarray

    level = between(level, "level", 0.5, 0.9999)
    n_resamples = whole(resamples, "resamples", 100, 10**6)
    samples = settings_of(data, over)
    labels = [str(label) for label in samples["policy"].to_numpy()]
    reference = 0
    if baseline is not None:
        reference = labels.index(one_of(baseline, "baseline", tuple(labels)))
    regret: FloatArray = samples.to_numpy()
    means = raise_to_smallest_gap(samples)
    units: NDArray[Any] = samples["unit"].to_numpy()
    differences = regret - regret[reference]
    if samples.attrs["unit"] == RUN:
        unit_differences = differences.mean(axis=1)
        log_ratios, ratio_errors = _log_ratios_over_runs(regret, means, reference)
    else:
        groups = [units == unit for unit in dict.fromkeys(units.tolist())]
        unit_differences = np.stack(
            [differences[:, group].mean(axis=(1, 2)) for group in groups], axis=1
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            setting_log_ratios = np.log(means / means[reference])
        unit_log_ratios = np.stack(
            [setting_log_ratios[:, group].mean(axis=1) for group in groups], axis=1
        )
        log_ratios, ratio_errors = unit_log_ratios.mean(axis=1), standard_errors(unit_log_ratios)
    low, high = bootstrap_t(unit_differences, level, n_resamples)
    n_better, n_worse = (unit_differences < 0).sum(axis=1), (unit_differences > 0).sum(axis=1)
    p_mean, p_sign = t_test(unit_differences), sign_test(n_better, n_worse)
    p_mean[reference] = p_sign[reference] = np.nan
    columns = {
        "regret": regret.mean(axis=(1, 2)),
        "regret_error": standard_errors(regret.mean(axis=1)),
        "difference": unit_differences.mean(axis=1),
        "error": standard_errors(unit_differences),
        "low": low,
        "high": high,
        "run_error": standard_errors(differences.mean(axis=1)),
        "ratio": np.exp(log_ratios),
        "ratio_error": np.exp(log_ratios) * ratio_errors,
        "n_better": n_better,
        "n_worse": n_worse,
        "p_mean": p_mean,
        "p_mean_holm": holm(p_mean),
        "p_sign": p_sign,
        "p_sign_holm": holm(p_sign),
    }
    return xarray.Dataset(
        {
            name: ("policy", columns[name], {"long_name": long_name})
            for name, long_name in VARIABLES.items()
        },
        {"policy": labels},
        {
            "baseline": labels[reference],
            "unit": samples.attrs["unit"],
            "n_units": unit_differences.shape[1],
            "level": level,
        },
    )


# ------------------------------------------------------------------------------------------ samples


def settings_of(data: "xarray.Dataset", over: str | None = None) -> "xarray.DataArray":
    """Return the final regret of each policy, setting and run, without incomplete runs.

    A setting is a combination of the values of all dimensions except policy and run. The coordinate
    `unit` holds the number of the unit of each setting. The attribute `unit` names the kind of unit.
    """
    import xarray

    if not isinstance(data, xarray.Dataset) or "final_regret" not in data:
        variables = ", ".join(map(str, data)) if isinstance(data, xarray.Dataset) else type(data)
        raise ValueError(f"data must be a result of simulate, sweep or league, got {variables}")
    values = data["final_regret"].compute()
    if RUN not in values.dims:
        raise ValueError("data keeps no runs, so it cannot be paired; simulate with keep='runs'")
    if "policy" not in values.dims:
        values = values.expand_dims("policy")
    dims = [str(dim) for dim in values.dims if dim not in {"policy", RUN}]
    names = [str(name) for name, c in values.coords.items() if c.ndim == 1 and c.dims[0] in dims]
    if over is None:
        over = next((name for name in PROBLEM_NAMES if name in names), RUN)
    one_of(over, "over", (RUN, *names))
    values = values.transpose("policy", *dims, RUN)
    units = np.zeros([values.sizes[dim] for dim in dims], int)
    if over != RUN:
        (unit_dim,) = values[over].dims
        shape = [-1 if dim == unit_dim else 1 for dim in dims]
        numbers = np.unique(values[over].to_numpy(), return_inverse=True)[1]
        units = units + numbers.reshape(shape)
    array = values.to_numpy().reshape(values.sizes["policy"], -1, values.sizes[RUN])
    is_complete = np.isfinite(array).all(axis=(0, 1))
    if is_complete.sum() < 1 + (over == RUN):
        raise ValueError("data has too few complete runs to compare; simulate at least 2 runs")
    coordinates: dict[str, Any] = {"policy": values["policy"].to_numpy()}
    coordinates["unit"] = ("setting", units.ravel())
    if "smallest_gap" in names and dims == ["setting"]:
        coordinates["smallest_gap"] = ("setting", values["smallest_gap"].to_numpy())
    return xarray.DataArray(
        array[:, :, is_complete], coordinates, ("policy", "setting", RUN), attrs={"unit": over}
    )


def raise_to_smallest_gap(samples: "xarray.DataArray") -> FloatArray:
    """Return the mean regret of each policy and setting, raised to the smallest gap if it is lower.

    Without the coordinate `smallest_gap`, the mean regret is returned unchanged.
    """
    means: FloatArray = samples.mean(RUN).to_numpy()
    if "smallest_gap" in samples.coords:
        means = np.maximum(means, samples["smallest_gap"].to_numpy())
    return means


def ratios_to_best(data: "xarray.Dataset") -> FloatArray:
    """Return the mean regret of each policy divided by that of the best policy, in each setting."""
    means = raise_to_smallest_gap(settings_of(data))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: FloatArray = means / means.min(axis=0)
    return np.where(means == means.min(axis=0), 1.0, ratios)  # 0/0 counts as 1


def _log_ratios_over_runs(
    regret: FloatArray, means: FloatArray, reference: int
) -> tuple[FloatArray, FloatArray]:
    """Return the mean log ratio over settings and its standard error over runs (delta method)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratios = np.log(means / means[reference]).mean(axis=1)
        relative_regret = (regret / means[..., np.newaxis]).mean(axis=1)
        return log_ratios, standard_errors(relative_regret - relative_regret[reference])


# ----------------------------------------------------------------------------------------- statistics


def standard_errors(samples: FloatArray) -> FloatArray:
    """Return the standard error of the mean of each row; NaN if a row has one number."""
    n = samples.shape[1]
    if n < 2:
        return np.full(samples.shape[0], np.nan)
    return np.asarray(samples.std(axis=1, ddof=1) / np.sqrt(n))


def bootstrap_t(samples: FloatArray, level: float, resamples: int) -> tuple[FloatArray, FloatArray]:
    """Return bootstrap-t intervals of the mean of each row; all rows use the same resamples."""
    n = samples.shape[1]
    means, errors = samples.mean(axis=1), standard_errors(samples)
    if n < 2:
        return np.full(means.shape, -np.inf), np.full(means.shape, np.inf)
    centred = samples - means[:, np.newaxis]
    rng = np.random.default_rng(RESAMPLE_SEED)
    batch = max(1, MAX_RESAMPLED // n)
    quotients = []
    for first in range(0, resamples, batch):
        n_batch = min(batch, resamples - first)
        counts = np.stack(
            [np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(n_batch)], axis=1
        )
        mean = centred @ counts / n
        variance = np.maximum(centred**2 @ counts / n - mean**2, 0) / (n - 1)
        # rounding leaves a tiny variance where all resampled numbers are equal
        variance[variance < 1e-24 * (centred**2).max(axis=1, keepdims=True)] = 0
        with np.errstate(divide="ignore", invalid="ignore"):
            quotient = mean / np.sqrt(variance)
        quotients.append(np.where(np.isnan(quotient), 0.0, quotient))
    sorted_quotients = np.sort(np.concatenate(quotients, axis=1), axis=1)
    tail = (1 - level) / 2
    k = int(tail * resamples + 1e-9)
    low_quotient, high_quotient = sorted_quotients[:, k], sorted_quotients[:, resamples - 1 - k]
    with np.errstate(invalid="ignore"):
        low, high = means - high_quotient * errors, means - low_quotient * errors
    is_constant = errors == 0
    return np.where(is_constant, means, low), np.where(is_constant, means, high)


def t_test(samples: FloatArray) -> FloatArray:
    """Return the two-sided p-value of the hypothesis that the mean of each row is 0."""
    n, means, errors = samples.shape[1], samples.mean(axis=1), standard_errors(samples)
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = np.where((means == 0) & (errors == 0), 0.0, np.abs(means) / errors)
    return np.asarray(2 * special.stdtr(n - 1, -quotients)) if n > 1 else np.full(means.shape, np.nan)


def sign_test(n_below: NDArray[np.int64], n_above: NDArray[np.int64]) -> FloatArray:
    """Return the two-sided p-value of the sign test for each pair of counts; ties are left out."""
    n, smaller = n_below + n_above, np.minimum(n_below, n_above)
    return np.asarray(np.minimum(1.0, 2 * special.bdtr(smaller, n, 0.5)))


def holm(p_values: FloatArray) -> FloatArray:
    """Return p-values adjusted by Holm's method; NaN entries are not comparisons and stay NaN."""
    adjusted = np.full(p_values.shape, np.nan)
    (indices,) = np.nonzero(~np.isnan(p_values))
    order = indices[np.argsort(p_values[indices], kind="stable")]
    multipliers = np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(multipliers * p_values[order]))
    return adjusted
