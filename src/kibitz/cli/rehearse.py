"""`kibitz rehearse`: run an agent and its store in a simulated environment."""

from pathlib import Path
from typing import Annotated, Literal, get_args

from kibitz.cli import option
from kibitz.cli.option import LOOKS, PROBLEM, RUN, SEED, Numbers

Rewards = Literal["gaussian", "bernoulli"]

REPORTS = "Reports"  # title of a panel in the help
EXAMPLES = """\
kibitz rehearse --means 0.1,0.3 --rewards bernoulli --horizon 200 \\
    --delay 20 --loss 0.1 --duplicates 0.1
kibitz rehearse --means 0.1,0.3 --rewards bernoulli --horizon 200 \\
    --delay 20 --patience 50 --silence 0
kibitz rehearse --means 0.9,0.2 --change 201:0.05,0.2 --rewards bernoulli \\
    --horizon 400 --delay 5 --loss 0.1 --alarms 0.1
"""


def rehearse(
    means: Annotated[
        Numbers | None, option.numbers("--means", "Mean of each arm: 2,1.8,0.5", PROBLEM)
    ] = None,
    policy: Annotated[
        str,
        option.policy(
            "A policy, such as ucb:exploration=2 (see `kibitz policies`; default: kibitzer for these "
            "rewards)"
        ),
    ] = "",
    horizon: Annotated[int, option.simulation_option("horizon")] = 1000,
    runs: Annotated[int, option.simulation_option("runs")] = 5,
    seed: Annotated[int, option.simulation_option("seed")] = SEED,
    rewards: Annotated[
        Rewards,
        option.choice(
            "--rewards", "Reward distribution: gaussian or bernoulli", get_args(Rewards), PROBLEM
        ),
    ] = "gaussian",
    sd: Annotated[
        Numbers | None,
        option.numbers(
            "--sd", "Standard deviation: one for all arms (default: 1) or one for each", PROBLEM
        ),
    ] = None,
    change: Annotated[list[str] | None, option.change()] = None,
    problem_file: Annotated[str, option.problem_file()] = "",
    delay: Annotated[
        int, option.integer("--delay", "Stages until a reward is reported", REPORTS, minimum=0)
    ] = 0,
    loss: Annotated[float, option.number("--loss", "Probability that a report is lost", REPORTS)] = 0,
    duplicates: Annotated[
        float, option.number("--duplicates", "Probability that a report arrives twice", REPORTS)
    ] = 0,
    patience: Annotated[
        float | None, option.number("--patience", "Stages that the agent waits for a report", REPORTS)
    ] = None,
    silence: Annotated[
        str,
        option.text(
            "--silence",
            "forget|NUMBER",
            "The reward that a missing report means; this reward is never reported",
            REPORTS,
        ),
    ] = "forget",
    bucket: Annotated[
        float,
        option.number("--bucket", "Probability of a random arm instead of the policy's arm", REPORTS),
    ] = 0,
    alarms: Annotated[
        float | None,
        option.number(
            "--alarms",
            "Watch for changes of the means, with this probability of a false alarm (default: no "
            "alarms)",
            REPORTS,
        ),
    ] = None,
    rate: Annotated[
        float, option.number("--rate", "Probability of a look at a stage, ε from 0 to 1", LOOKS)
    ] = 0,
    store: Annotated[
        str,
        option.text(
            "--store", "PATH|URL", "Keep the agents in this store (default: a temporary file)", RUN
        ),
    ] = "",
    plot: Annotated[str, option.plot("Plot regret against time")] = "",
    as_json: Annotated[bool, option.as_json()] = False,
) -> None:
    """Run a live agent against a simulation with delayed, lost and duplicate reports."""
    from kibitz.cli.output import Printer, format_number, print_json, progress_bar
    from kibitz.cli.policies import parse_policies
    from kibitz.cli.simulate import read_problem

    if plot:
        option.check_plot(plot)
    if means is None and not problem_file:
        raise option.OptionError(
            "no problem given; use --means, as in --means 0.1,0.3, or --problem FILE"
        )
    policy = policy or f"kibitzer:rewards={rewards}"
    [policy_object] = parse_policies([policy]).values()
    problem = read_problem("", means, sd, rewards, change, problem_file)
    from kibitz.live.agent.rehearse import rehearse as run
    from kibitz.model.feedback import active, bandit
    from kibitz.simulation.simulate import simulate

    with progress_bar() as progress:
        simulated_data = simulate(
            problem, active(rate) if rate else bandit(), {"simulator": policy_object},
            horizon=horizon, runs=runs, seed=seed, engine="step", progress=progress,
        )  # fmt: skip
        data = run(
            problem, policy_object, horizon=horizon, runs=runs, seed=seed, delay=delay, loss=loss,
            duplicates=duplicates, rate=rate, patience=patience,
            silence=option.parse_silence(silence), bucket=bucket, alarms=alarms, store=store or None,
            beside=simulated_data, progress=progress,
        )  # fmt: skip
    if plot:
        from kibitz.plot import regret
        from kibitz.plotting.figures import draw_chart, save_figure

        title = f"{policy}: delay {delay}, loss {loss:g}, duplicates {duplicates:g}"
        save_figure(draw_chart(lambda axes: regret(data, ax=axes), title), Path(plot))
    final_regret = {
        str(label): data["final_regret"].sel(policy=label).to_numpy()
        for label in data["policy"].to_numpy()
    }
    n_duplicates = data["n_duplicates"].to_numpy()
    if as_json:
        print_json(
            {
                "regret": {label: values.tolist() for label, values in final_regret.items()},
                "n_duplicates": n_duplicates.tolist(),
                "n_alarms": data["n_alarms"].to_numpy().tolist(),
            }
        )
        return
    printer = Printer(100)
    rows = [
        [label, *(format_number(value) for value in (v.mean(), v.min(), v.max()))]
        for label, v in final_regret.items()
    ]
    title = f"regret after {horizon:,} stages, {runs:,} runs"
    printer.table(title, ("", "mean", "smallest", "largest"), rows)
    printer.text("simulator: the same policy without an agent, when every report arrives at once")
    printer.text(
        f"seed {seed}; the agent ignored {int(n_duplicates.sum()):,} duplicate reports; its state "
        "agrees with the event log in every run"
    )
    if alarms is not None:
        n_alarms = data["n_alarms"].to_numpy().tolist()
        printer.text(f"alarms of the monitor in each run: {', '.join(map(str, n_alarms))}")
    if plot:
        print(f"written to {plot}")
