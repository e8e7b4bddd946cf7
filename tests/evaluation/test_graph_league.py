"""Tests of the league on graphs: random graphs, settings and invalid arguments."""

import numpy as np
import pytest

from kibitz import ftl, kl_ucb
from kibitz.evaluation.graph_league import (
    ENSEMBLE_ARMS,
    ENSEMBLE_HORIZONS,
    HIDDEN,
    HIDDEN_KINDS,
    KINDS,
    RANDOM,
    draw_setting,
    entrants,
    play_graph_league,
)
from kibitz.evaluation.league import standings


@pytest.mark.parametrize("name", [*KINDS, *HIDDEN_KINDS])
@pytest.mark.parametrize("n_arms", [2, 5, 40])
def test_random_graphs_are_probabilities_and_show_every_arm(name, n_arms):
    draw = {**KINDS, **HIDDEN_KINDS}[name]
    shows = draw(np.random.default_rng(1), n_arms)
    assert shows.shape == (n_arms, n_arms)
    assert ((shows >= 0) & (shows <= 1)).all()
    assert (shows.sum(axis=0) > 0).all()
    assert (np.diag(shows) == 1).all() == (name in KINDS)
    assert np.array_equal(shows, draw(np.random.default_rng(1), n_arms))


def test_the_ensembles_have_all_kinds_sizes_horizons_and_rewards():
    for ensemble, kinds in ((RANDOM, KINDS), (HIDDEN, HIDDEN_KINDS)):
        n_settings = len(kinds) * len(ENSEMBLE_ARMS)
        settings = [draw_setting(ensemble, n, 1, None, None) for n in range(n_settings)]
        assert {(kind, problem.n_arms) for kind, problem, _, _ in settings} == {
            (kind, n_arms) for kind in kinds for n_arms in ENSEMBLE_ARMS
        }
        assert {horizon for *_, horizon in settings} == set(ENSEMBLE_HORIZONS)
        assert {problem.kind for _, problem, _, _ in settings} == {"gaussian", "bernoulli"}
    kind, problem, feedback, horizon = draw_setting(RANDOM, 3, 1, 7, 90)
    assert (kind, problem.n_arms, horizon) == (list(KINDS)[3], 7, 90)
    assert feedback.shows.n_arms == 7


def test_named_graphs_are_settings_of_the_same_problems():
    options = {"problems": 2, "arms": 4, "horizon": 50, "runs": 3, "seed": 7}
    data = play_graph_league([ftl(), kl_ucb()], graphs=["ring", "star:3", "ring"], **options)
    table = standings(data)
    assert list(table["policies"]["ftl"]["by_looks"]) == ["ring", "star:3"]
    assert (table["setting"]["settings"], table["setting"]["rates"]) == (4, [])
    assert (table["setting"]["horizon"], table["setting"]["min_horizon"]) == (50, 50)
    assert {len(means) for means in table["setting"]["problems"].values()} == {4}
    alone = play_graph_league([ftl(), kl_ucb()], graphs=["star:3"], **options)
    for name, part in data.items():
        regret = part["final_regret"].isel(point=1).to_numpy()
        assert np.array_equal(regret, alone[name]["final_regret"].isel(point=0).to_numpy())


def test_index_policies_do_not_enter_graphs_that_hide_rewards():
    assert set(entrants()) >= {"kibitzer", "scout", "UCB-N", "UCB-MaxN", "TS-N", "TS-MaxN"}
    assert all(policy.name == "scout" for policy in entrants([HIDDEN]).values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graphs": []}, "graphs must be names or files, or only 'random'"),
        ({"graphs": "ring"}, "graphs must be a list of names or files"),
        ({"graphs": [3]}, "graphs must be a list of names or files"),
        ({"graphs": ["ring", "random"]}, "graphs must be names or files, or only 'random'"),
        ({"graphs": ["rnig"]}, "there is no file or named graph 'rnig'"),
        ({"graphs": ["star:7"], "arms": 4}, "star takes a whole number from 0 to 3"),
        ({"graphs": ["random"], "arms": 1}, "arms must be a whole number of at least 2"),
        ({"graphs": ["random"], "problems": 0}, "problems must be a whole number of at least 1"),
    ],
)
def test_invalid_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        play_graph_league([ftl(), kl_ucb()], runs=2, seed=1, **arguments)
