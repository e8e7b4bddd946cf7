"""Print a plan for people."""

from typing import TYPE_CHECKING, Any

from kibitz.cli.output import Printer, format_mean, format_number, shorten

if TYPE_CHECKING:
    from kibitz.planning.changes import ChangePlan
    from kibitz.planning.result import Plan

LABELS = {
    "none": "UCB, no looks",
    "uniform": "UCB, uniform",
    "optimal": "UCB, optimal",
    "active": "UCB1-Double",
    "ucb_double": "UCB1-Double",
    "kibitzer": "kibitzer",
    "thompson": "Thompson sampling",
    "even_split": "even split",
}
OBSERVERS = {"kibitzer": "kibitzer", "ucb_double": "active"}  # the observer of each policy
MANY_ARMS = 20  # plans for changes were less accurate with this many arms

# ---------------------------------------------------------------------------------------- clicks


def print_clicks(
    planned: "Plan", log: dict[str, Any] | None = None, is_recommended: bool = True
) -> None:
    """Print a plan for clicks.

    `log` describes the arms of the log, if the plan is from a log. `is_recommended` is False if the
    user chose the rate of looks.
    """
    printer = Printer()
    assert planned.best_reward is not None
    best_clicks = format_number(planned.best_reward, 3)
    print_arms(planned, log, printer)
    printer.text()
    regret, regret_without_looks, even_split, thompson = (
        format_number(value, 2)
        for value in (
            planned.regret,
            planned.regret_without_looks,
            planned.others["even_split"],
            planned.others["thompson"],
        )
    )
    range_text = ""
    if planned.regret_range is not None:
        low, high = (format_number(value, 2) for value in planned.regret_range)
        range_text = f" ({low} to {high} for 80 % of the plausible rates)"
    if planned.rate == 0:
        reason = "; no look is worth its cost" if planned.cost is not None else ""
        printer.text(f"Recommendation: use kibitzer without looks{reason}.")
        printer.text(
            f"kibitzer loses about {regret} of {best_clicks} clicks{range_text}; an even split "
            f"loses {even_split}, Thompson sampling {thompson}."
        )
    else:
        looks = format_number(round(planned.n_looks))
        lead_text = "Recommendation: use kibitzer" if is_recommended else "Prediction for kibitzer"
        printer.text(f"{lead_text} with {looks} looks, {format_frequency(planned.rate)}.")
        printer.text(
            f"kibitzer loses about {regret} of {best_clicks} clicks{range_text}; an even split "
            f"loses {even_split}, Thompson sampling with the same looks {thompson}."
        )
        cost_text = ""
        if planned.cost is not None and planned.net is not None:
            look_cost = format_number(planned.cost * planned.n_looks, 2)
            cost_text = (
                f" They cost {look_cost} clicks, so the net saving is "
                f"{format_number(planned.net, 2)}."
            )
        printer.text(
            f"Without looks kibitzer loses about {regret_without_looks}, so the looks save "
            f"{format_number(planned.saving, 2)}.{cost_text}"
        )
    if planned.rate_range is not None and planned.cost is not None:
        low, high = (format_number(round(rate * planned.horizon), 2) for rate in planned.rate_range)
        printer.text(f"For 80 % of the plausible rates, the best number of looks is {low} to {high}.")
    if planned.bucket is not None:
        printer.text()
        print_bucket(planned.bucket, planned.horizon, printer)
    printer.text()
    rows = [
        [
            format_number(round(planned.rates[k] * planned.horizon)),
            format_frequency(planned.rates[k]),
            *(
                format_number(planned.curves[policy]["mean"][k], 3)
                for policy in ("kibitzer", "thompson")
            ),
        ]
        for k in choose_rows(planned)
    ]
    printer.table(
        f"clicks lost, of {best_clicks} that the best arm would get",
        ["looks", "how often", LABELS["kibitzer"], LABELS["thompson"]],
        rows,
        left=("how often",),
    )
    printer.text(describe_click_accuracy(planned.accuracy))
    if planned.simulation is not None:
        print_points(planned, printer)


def print_arms(planned: "Plan", log: dict[str, Any] | None, printer: Printer) -> None:
    """Print the number of visitors and the rates of the arms."""
    setting_text = f"{planned.horizon:,} visitors, {planned.n_arms:,} arms"
    if log is not None:
        printer.text(f"{setting_text}, rates from the log")
        rows = [
            [
                arm["arm"],
                f"{arm['n_observed']:,}",
                f"{arm['clicks']:,}",
                format_percent(arm["mean"]),
                format_percent(arm["likely"]),
            ]
            for arm in log["arms"]
        ]
        printer.table("", ("arm", "views", "clicks", "rate", "likely rate"), rows)
        printer.text(
            "The largest observed rate is partly luck. The plan averages over plausible rates, whose "
            "means are the likely rates."
        )
        return
    ordered_rates = sorted(planned.problems[0], reverse=True)
    best_rate, second_rate = ordered_rates[:2]
    if ordered_rates[1] == ordered_rates[-1]:
        percentage_points, relative_lift = (
            format_number(100 * (best_rate - second_rate), 3),
            best_rate / second_rate - 1,
        )
        noun = "percentage point" if percentage_points == "1" else "percentage points"
        other_arms_text = "the other" if planned.n_arms == 2 else "the others"
        lift_text = (
            f" (lift: {percentage_points} {noun}, {format_percent(relative_lift)} relative)"
            if best_rate > second_rate
            else ""
        )
        printer.text(
            f"{setting_text}: the best has rate {format_percent(best_rate)}, {other_arms_text} "
            f"{format_percent(second_rate)}{lift_text}"
        )
        if best_rate - second_rate > second_rate:
            printer.text(
                "The lift is larger than the baseline. Use --relative-lift if it is relative."
            )
    else:
        rates_text = ", ".join(map(format_percent, ordered_rates))
        printer.text(f"{setting_text} with rates {shorten(rates_text)}")


def print_bucket(bucket: dict[str, float], horizon: int, printer: Printer) -> None:
    """Print the cost and the saving of a bucket: a share of the visitors who get a random arm."""
    share, n_visitors = format_percent(bucket["share"]), f"{round(bucket['share'] * horizon):,}"
    cost, saving, total, total_without_bucket = (
        format_number(bucket[name], 2) for name in ("cost", "saving", "total", "without")
    )
    printer.text(f"If {share} of the visitors ({n_visitors}) get a random arm:")
    printer.text(
        f"- They lose {cost} clicks. If you would randomise them anyway, report them to kibitzer as "
        f"looks. These looks are free and save about {saving} clicks among the other visitors."
    )
    verdict = "do not randomise visitors only to feed kibitzer"
    if bucket["total"] <= bucket["without"]:
        verdict = "the difference is within the error of the prediction"
    printer.text(
        f"- If you randomise them in order to learn, the loss is about {total} clicks in total, "
        f"compared with {total_without_bucket} without a bucket: {verdict}."
    )


def describe_click_accuracy(accuracy: dict[str, dict[str, float]]) -> str:
    """Return the accuracy of the predictions for clicks, as measured in our tests."""

    def format_error(kind: str, quantile: str) -> str:
        return f"{100 * accuracy[f'kibitzer, {kind}'][quantile]:.0f} %"

    return (
        "Accuracy: half of the predictions for kibitzer were within "
        f"{format_error('real tests', 'median')} of the simulated regret, and nine of ten within "
        f"{format_error('real tests', 'nine_of_ten')}, at the rates of real A/B tests. In random "
        f"settings, half were within {format_error('fresh', 'median')} and nine of ten within "
        f"{format_error('fresh', 'nine_of_ten')}. Nothing was fitted to these tests and settings."
    )


def choose_rows(planned: "Plan") -> list[int]:
    """Return the positions in `planned.rates` of the rates that a table shows.

    The table shows the rate 0, two rates per decade and the rate of the plan.
    """
    shown_rates = {0.0, planned.rate, *(10 ** (k / 2) for k in range(-6, 1))}
    return [
        k for k, rate in enumerate(planned.rates) if min(abs(rate - x) for x in shown_rates) < 1e-12
    ]


def format_percent(share: float) -> str:
    """Format a share as a percentage with three significant digits."""
    return f"{format_number(100 * share, 3)} %"


def format_frequency(rate: float) -> str:
    """Format a rate of looks as a phrase such as "one per 20 visitors"."""
    if rate == 0:
        return "no looks"
    if rate > 0.5:
        return "one per visitor" if rate == 1 else f"{format_number(rate, 2)} per visitor"
    return f"one per {format_number(1 / rate, 2)} visitors"


# ------------------------------------------------------------------------------- Gaussian rewards


def print_log(log: dict[str, Any]) -> None:
    """Print the gaps of the arms in a log, with their confidence sequences."""
    printer = Printer()
    rows = [
        [
            arm["arm"],
            f"{arm['n_observed']:,}",
            format_number(arm["mean"]),
            format_number(arm["gap"], 3),
            f"{format_number(arm['gap_low'], 3)} to {format_number(arm['gap_high'], 3)}",
        ]
        for arm in log["arms"]
    ]
    printer.table("gaps in the log", ("arm", "observed", "mean", "gap", "confidence sequence"), rows)
    printer.text(
        f"The plan assumes rewards of scale {format_number(log['scale'], 3)}, half their range. All "
        f"confidence sequences hold with probability {1 - log['delta']:g}. A log tends to overstate "
        "gaps."
    )
    if "best_size" in log:
        low, high = (format_number(rate, 2) for rate in log["best_size"])
        printer.text(
            f"For all gaps in these confidence sequences, the recommended size is between ε = {low} "
            f"and {high}."
        )


def print_shows(n_shows: int) -> None:
    """Print that the plan ignores the graph, for a log with `n_shows` rewards that pulls showed."""
    Printer().text(
        f"In the log, pulls showed {n_shows:,} rewards of other arms. These rewards count in the "
        "means, but a plan does not cover graphs: its predictions are for an agent whose pulls show "
        "nothing of other arms."
    )


def print_plan(planned: "Plan", observers: list[str]) -> None:
    """Print a plan for Gaussian rewards, with the predicted regret for each of the `observers`."""
    details, problems = planned.details, planned.problems
    is_range = len(problems) > 1
    labels = [LABELS[observer] for observer in observers]
    printer = Printer()
    first_gaps, last_gaps = problems[0], problems[-1]
    gaps_text = (
        f"{first_gaps[-1]:g} to {last_gaps[-1]:g}"
        if is_range
        else " ".join(f"{g:g}" for g in first_gaps[1:])
    )
    printer.text(
        f"{planned.n_arms:,} arms, gaps {shorten(gaps_text)}, Gaussian rewards of standard deviation "
        f"{planned.scale:g}"
    )
    if planned.hint:
        printer.text(planned.hint)
    printer.text()
    print_recommendation(planned, printer)
    printer.text()
    printer.table(
        f"predicted regret after {planned.horizon:,} stages",
        ["ε", "looks", *labels, *(f"{label}, early" for label in labels)],
        make_rows(planned, observers),
        lead=2,
    )
    if is_range:
        printer.text("Each cell is the mean over the gaps, with the worst in brackets.")
    if "optimal" in observers:
        printer.text("UCB is a passive observer, with uniform or with optimal weights.")
    printer.text("early: the same number of looks at rates min(1, A/t)")
    print_accuracy(planned.accuracy, observers, printer)
    rate_star = details["rate_star"]
    worst_text = f", at the smallest gap {format_number(rate_star['worst'], 2)}" if is_range else ""
    printer.text(
        f"The paper's threshold for UCB is about ε* = {format_number(rate_star['mean'], 2)}"
        f"{worst_text}; kibitzer gains from fewer looks."
    )
    if "best" in details:
        print_alternatives(planned, observers, printer)
    if planned.simulation is not None:
        print_points(planned, printer)


def print_recommendation(planned: "Plan", printer: Printer) -> None:
    """Print the recommended policy, the number of looks, and advice on when and where to look."""
    policy_name = LABELS[planned.policy]
    comparison = "; ".join(
        f"{LABELS[other_policy]}: {format_number(value, 3)}"
        for other_policy, value in planned.others.items()
    )
    regret = format_number(planned.regret, 3)
    if planned.rate == 0:
        reason = "; no look is worth its cost" if planned.cost is not None else ""
        printer.text(
            f"Recommendation: use {policy_name} without looks{reason}. Predicted regret: {regret} "
            f"({comparison})."
        )
        return
    net_text = "" if planned.net is None else f", {format_number(planned.net, 3)} after their cost"
    printer.text(
        f"Recommendation: use {policy_name} with {format_number(round(planned.n_looks))} looks "
        f"(ε = {format_number(planned.rate, 2)}). Predicted regret: {regret} instead of "
        f"{format_number(planned.regret_without_looks, 3)} without looks. The looks save "
        f"{format_number(planned.saving, 3)}{net_text}. (With the same looks, {comparison}.)"
    )
    advice = planned.details["early"]["recommended"]
    if planned.regret - advice["regret"] > advice["error"]:
        printer.text(
            f"When: early, if possible. At rates min(1, A/t) with A = "
            f"{format_number(advice['scale'], 3)}, as many looks reduce the regret to "
            f"{format_number(advice['regret'], 3)}, give or take {format_number(advice['error'], 2)}."
        )
    else:
        printer.text("When: at any time. Early looks are not predicted to be significantly better.")
    weights = planned.details["weights"]
    optimal_weights = " ".join(format_number(weight, 3) for weight in weights["optimal"][0])
    is_range = len(weights["optimal"]) > 1
    weights_text = (
        "equal weights on all arms but the best"
        if is_range
        else f"weights {shorten(optimal_weights)}"
    )
    printer.text(
        f"Where: let the policy choose. A passive observer should use {weights_text}; uniform "
        f"weights cost UCB about {format_number(weights['uniform_costs']['mean'], 3)} more regret."
    )
    stage = plateau_stage(planned)
    horizon_note = "" if stage <= planned.horizon else ", which is beyond the horizon"
    printer.text(
        f"At this rate, regret hardly grows after stage {format_number(stage, 2)}{horizon_note}."
    )


def plateau_stage(planned: "Plan") -> float:
    """Return the stage after which regret hardly grows at the recommended rate."""
    import numpy as np

    rates = planned.rates[1:]
    stages = planned.details["plateau"][OBSERVERS[planned.policy]]["worst"][1:]
    return float(np.exp(np.interp(np.log(planned.rate), np.log(rates), np.log(stages))))


def make_rows(planned: "Plan", observers: list[str]) -> list[list[str]]:
    """Return the rows of the table of predictions: no looks first, then every sixth rate."""
    is_range = len(planned.problems) > 1

    def format_cell(summary: dict[str, Any], k: int) -> str:
        mean, worst = summary["mean"][k], summary["worst"][k]
        if is_range:
            return f"{format_number(mean, 3)} ({format_number(worst, 3)})"
        return format_number(mean)

    early_curves = planned.details["early"]["curves"]
    return [
        [
            format_number(planned.rates[k], 2),
            format_number(round(planned.rates[k] * planned.horizon)),
            *(format_cell(planned.curves[observer], k) for observer in observers),
            *(format_cell(early_curves[observer], k) for observer in observers),
        ]
        for k in [0, *range(1, len(planned.rates), 6)]
    ]


def print_accuracy(accuracy: dict[str, Any], observers: list[str], printer: Printer) -> None:
    """Print the accuracy of the predictions, as measured in our tests."""

    def format_error(kind: str) -> str:
        return f"{100 * accuracy[kind]['nine_of_ten']:.0f} %"

    steady_error = [f"{format_error(observer)} ({LABELS[observer]})" for observer in observers]
    early_error = [
        format_error(f"{o}, early" if f"{o}, early" in accuracy else "early") for o in observers
    ]
    printer.text(
        f"Accuracy: in our tests, 90 % of predictions were within {' or '.join(steady_error)} of the "
        f"simulated regret; for early looks, within {' and '.join(early_error)} of the regret "
        "without looks."
    )


def print_alternatives(planned: "Plan", observers: list[str], printer: Printer) -> None:
    """Print the best number of looks for each policy that is not recommended.

    Compare its regret plus cost with that of the recommended policy.
    """
    best_sizes = planned.details["best"]

    def format_total(observer: str) -> str:
        regret_without_looks = planned.curves[observer]["mean"][0]
        return format_number(regret_without_looks - best_sizes[observer]["net"], 3)

    recommended = OBSERVERS[planned.policy]
    for observer in observers:
        if observer == recommended:
            continue
        best_size, size_text = best_sizes[observer], "without looks"
        if best_size["rate"] > 0:
            looks, rate = (
                format_number(round(best_size["n_looks"])),
                format_number(best_size["rate"], 2),
            )
            size_text = f"with {looks} looks (ε = {rate})"
        printer.text(
            f"Alternative: {LABELS[observer]} {size_text}. Its regret plus cost is "
            f"{format_total(observer)}, against {format_total(recommended)} for "
            f"{LABELS[recommended]}."
        )


def print_points(planned: "Plan", printer: Printer) -> None:
    """Print a table of the predicted and the simulated regret."""
    assert planned.simulation is not None
    runs, seed, points = (planned.simulation[name] for name in ("runs", "seed", "points"))

    def format_problem(point: dict[str, Any]) -> str:
        if planned.rewards == "bernoulli":
            return format_percent(max(point["means"]))
        return format_number(point["means"][0] - point["means"][1], 3)

    rows = [
        [
            format_problem(point),
            format_number(point["rate"], 2),
            LABELS[point["policy"]] + (", early" if point["early"] else ""),
            format_number(point["predicted"]),
            format_mean(point["mean"], point["sem"]),
            f"{point['predicted'] / point['mean']:.2f}" if point["mean"] > 0 else "–",
        ]
        for point in points
    ]
    printer.table(
        f"predicted and simulated regret, {runs:,} runs, seed {seed}",
        [
            "best rate" if planned.rewards == "bernoulli" else "gap",
            "ε", "policy", "predicted", "simulated ± s.e.", "ratio",
        ],
        rows,
        lead=3,
        left=("policy",),
    )  # fmt: skip


# ----------------------------------------------------------------------------------------- changes


def print_change_plan(planned: "ChangePlan", is_recommended: bool = True) -> None:
    """Print a plan for changes; `is_recommended` is False if the user chose the rate of looks."""
    printer = Printer()
    is_clicks = planned.baseline is not None
    stages, unit = ("visitors", " clicks") if is_clicks else ("stages", "")

    def format_size(size: float) -> str:
        text = format_number(100 * size if is_clicks else size, 3)
        noun = " percentage point" if text == "1" else " percentage points"
        return text + (noun if is_clicks else "")

    def format_loss(value: float) -> str:
        return f"{format_number(value, 3)}{unit}"

    printer.text(
        f"{planned.n_arms:,} arms, gap {format_size(planned.gap)}. Every {planned.changes_every:,} "
        f"{stages}, an arm that is not pulled rises by {format_size(planned.change_size)}, so that "
        f"it is the best by {format_size(planned.change_size - planned.gap)}. A look costs "
        f"{format_loss(planned.cost)}."
    )
    printer.text()
    loss_without_looks = format_loss(planned.loss_without_looks)
    if planned.rate == 0:
        printer.text(
            "Recommendation: do not buy looks to detect changes, because they cannot pay. A change "
            f"that is not detected loses {loss_without_looks}. At every rate, the looks and the "
            "delay until they detect the change cost more."
        )
    else:
        lead_text = "Recommendation: use lookout" if is_recommended else "Prediction for lookout"
        printer.text(
            f"{lead_text} with looks at rate ε = {format_number(planned.rate, 2)}, "
            f"{format_number(round(planned.n_looks), 2)} looks between two changes. A change is "
            f"detected after about {format_number(round(planned.delay), 2)} {stages} and "
            f"{format_number(round(planned.n_observed), 2)} observations of the arm."
        )
        verdict = "" if planned.pays else " These looks do not pay."
        limits = (12, 23) if planned.n_arms < MANY_ARMS else (25, 50)
        printer.text(
            f"Per change, the looks cost {format_loss(planned.look_cost)} and the delay loses "
            f"{format_loss(planned.loss)}, {format_loss(planned.total)} in total. A change that is "
            f"not detected loses {loss_without_looks}.{verdict}"
        )
        printer.text(
            "The plan is rough, because the arm has few observations before the change: in "
            "simulations, the cost was within 25 % of the plan in nine settings of ten."
            if planned.is_rough
            else "Accuracy: in simulations at the recommended rate, the cost of a change was within "
            f"{limits[0]} % of the plan in nine settings of ten, and the delay within {limits[1]} %."
        )
    printer.text()
    rows = [
        [
            format_number(rate, 2),
            format_number(round(rate * planned.changes_every)),
            format_number(round(delay), 2) if delay < planned.changes_every else "not detected",
            format_number(total, 3),
        ]
        for rate, delay, total in list(
            zip(planned.rates, planned.delays, planned.totals, strict=True)
        )[40::20]
    ]
    printer.table(
        "per change",
        ["ε", "looks", f"detected after ({stages})", f"looks and delay cost{unit and ' (clicks)'}"],
        rows,
        lead=2,
    )
