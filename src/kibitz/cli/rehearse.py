"""`kibitz rehearse`: an agent, with its store, against a simulated world."""

from pathlib import Path
from typing import Annotated, get_args

from kibitz.cli import parse
from kibitz.cli.parse import SEED, Numbers
from kibitz.cli.simulate import Rewards


def rehearse(
    means: Annotated[Numbers, parse.numbers("means", "Mean of each arm: 2,1.8,0.5")],
    policy: Annotated[
        str,
        parse.text("NAME[:PARAM=VALUE,...]", "A policy and its parameters (see `kibitz policies`)"),
    ],
    horizon: Annotated[int, parse.whole("horizon", "Number of stages, T")] = 1000,
    runs: Annotated[int, parse.whole("runs", "Number of runs")] = 5,
    seed: Annotated[int, parse.whole("seed", "Seed of all random numbers", least=0)] = SEED,
    rewards: Annotated[
        Rewards, parse.word("rewards", "Distribution of the rewards", get_args(Rewards))
    ] = "gaussian",
    sd: Annotated[
        Numbers | None,
        parse.numbers("sd", "Standard deviation, common (default: 1) or one for each arm"),
    ] = None,
    delay: Annotated[int, parse.whole("delay", "A report comes so many stages later", least=0)] = 0,
    loss: Annotated[float, parse.number("loss", "Probability that it never comes")] = 0.0,
    duplicates: Annotated[float, parse.number("duplicates", "Probability that it comes twice")] = 0.0,
    rate: Annotated[float, parse.number("rate", "How often the agent gets a look")] = 0.0,
    patience: Annotated[
        float | None, parse.number("patience", "Stages that the agent waits for a report")
    ] = None,
    store: Annotated[
        str, parse.text("PATH|URL", "Keep the agents here (default: a file that is thrown away)")
    ] = "",
    plot: Annotated[str, parse.text("FILE", "Draw regret against time to this PNG, SVG or PDF")] = "",
    as_json: Annotated[bool, parse.flag("--json", "Print one JSON object")] = False,
) -> None:
    """Play an agent, with its store, against a simulated world with late, lost and double reports."""
    from kibitz.cli.policies import policies_from
    from kibitz.cli.simulate import problem_from
    from kibitz.cli.tables import Page, print_json, progress_bar

    if plot:
        parse.check_plot(plot)
    [player] = policies_from([policy]).values()
    problem = problem_from(rewards, means, sd)
    from kibitz.live.agent.rehearse import rehearse as play
    from kibitz.model.feedback import active, bandit
    from kibitz.simulation.simulate import simulate

    with progress_bar() as progress:
        simulated = simulate(
            problem, active(rate) if rate else bandit(), {"simulator": player}, horizon=horizon,
            runs=runs, seed=seed, engine="step", progress=progress,
        )  # fmt: skip
        data = play(
            problem, player, horizon=horizon, runs=runs, seed=seed, delay=delay, loss=loss,
            duplicates=duplicates, rate=rate, patience=patience, store=store or None,
            beside=simulated, progress=progress,
        )  # fmt: skip
    if plot:
        from kibitz.plotting.figures import draw_regret_curves, save_figure

        title = f"{policy}: delay {delay}, loss {loss:g}, duplicates {duplicates:g}"
        save_figure(draw_regret_curves(data, title), Path(plot))
    final = {
        str(who): data["final_regret"].sel(policy=who).to_numpy() for who in data["policy"].to_numpy()
    }
    if as_json:
        print_json(
            {
                "regret": {who: values.tolist() for who, values in final.items()},
                "n_duplicates": data["n_duplicates"].to_numpy().tolist(),
            }
        )
        return
    page = Page(100)
    rows = [(who, f"{v.mean():.4g}", f"{v.min():.4g}", f"{v.max():.4g}") for who, v in final.items()]
    title = f"regret after {horizon} stages, {runs} runs"
    page.table(title, ("who", "mean", "smallest", "largest"), rows)
    page.text(
        f"seed {seed}; {int(data['n_duplicates'].sum())} reports came twice and were counted once; "
        "the log of each agent was checked"
    )
    if plot:
        print(f"written to {plot}")
