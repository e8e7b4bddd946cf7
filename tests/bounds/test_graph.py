"""Tests of the bounds on graphs, against closed forms, exhaustive search and slow simulation."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import binom

from kibitz import active, bandit, bernoulli, every, full, gaussian, graph, passive
from kibitz.bounds import Bound, complexity, lower, upper
from kibitz.bounds.upper import _graph
from kibitz.model.graphs import load_graph

GAPS = np.array([0, 0.2, 1.5, 1.8])
PROBLEM = gaussian([2.0, 1.8, 0.5, 0.2])
WEIGHTS = [0.1, 0.2, 0.3, 0.4]
STAR_GAPS = np.array([0, 0.2, 0.5, 1, 1.5])


def make_star(hub, n_arms=5):
    """Return the graph in which the hub shows every arm, and every arm shows itself."""
    shows = np.eye(n_arms)
    shows[hub] = 1
    return shows


def make_hidden_star(n_leaves):
    """Return the graph in which only the last arm shows arms."""
    shows = np.zeros((n_leaves + 1, n_leaves + 1))
    shows[-1] = 1
    return shows


def make_cliques(n_arms, size):
    return (np.arange(n_arms)[:, None] // size == np.arange(n_arms) // size).astype(float)


def make_random(rng, n_arms, density=0.5):
    """Return random probabilities, a third of them equal to 1, with zeros."""
    shows = rng.random((n_arms, n_arms))
    shows[rng.random(shows.shape) < 1 / 3] = 1
    shows[rng.random(shows.shape) > density] = 0
    return shows


def search_vertices(costs, matrix, needs, limit=math.inf):
    """Return the smallest cost of n ≥ 0 with n @ matrix ≥ needs and sum(n) ≤ limit.

    The search tries every vertex of the set of feasible n.
    """
    n_variables = costs.size
    rows = [*matrix.T, *np.eye(n_variables)]
    sides = [*needs, *np.zeros(n_variables)]
    if limit < math.inf:
        rows.append(-np.ones(n_variables))
        sides.append(-limit)
    rows, sides = np.array(rows), np.array(sides)
    best = math.inf
    for chosen in itertools.combinations(range(len(rows)), n_variables):
        part = rows[list(chosen)]
        if abs(np.linalg.det(part)) > 1e-12:
            vertex = np.linalg.solve(part, sides[list(chosen)])
            if (rows @ vertex >= sides - 1e-9 * np.maximum(1, abs(sides))).all():
                best = min(best, float(costs @ vertex))
    return best


def search_constant(gaps, shows):
    """Return C* by its definition.

    Arm 0 must be the only optimal arm. It may hide its own reward.
    """
    is_free = shows[0] > 0
    must_buy = [j for j in range(1, gaps.size) if not is_free[j]]
    if is_free[0]:
        return search_vertices(gaps[1:], shows[1:, must_buy], 2 / gaps[must_buy] ** 2)

    def cost(s):
        needs = 1 / (gaps[must_buy] ** 2 / 2 - 1 / s)
        return search_vertices(gaps[1:], shows[1:, [*must_buy, 0]], np.append(needs, s))

    smallest = 2 / gaps[1:].min() ** 2
    inverse = np.concatenate([1 - np.geomspace(1e-6, 0.5, 30), np.geomspace(0.5, 1e-3, 30)])
    for _ in range(6):
        costs = [cost(smallest / z) for z in inverse]
        best = int(np.argmin(costs))
        low, high = inverse[min(best + 1, inverse.size - 1)], inverse[max(best - 1, 0)]
        inverse = np.linspace(high, low, 20)
    return min(costs)


# ---------------------------------------------------------------------- complexity.graph


def test_constant_of_the_bandit_is_the_sum_of_lai_and_robbins():
    result = complexity.graph(GAPS, np.eye(4))
    assert result.constant == pytest.approx((2 / GAPS[1:]).sum(), rel=1e-9)
    assert result.regime == "logarithmic"
    assert result.is_free.tolist() == [True, False, False, False]
    assert result.pulls == pytest.approx([0, *(2 / GAPS[1:] ** 2)], rel=1e-9)


@pytest.mark.parametrize(("hub", "constant"), [(0, 0), (1, 10), (2, 12.4), (3, 14.6), (4, 15.6)])
def test_regret_on_a_star_is_bounded_only_if_the_hub_is_the_best_arm(hub, constant):
    result = complexity.graph(STAR_GAPS, make_star(hub))
    assert result.constant == pytest.approx(constant, rel=1e-9)
    assert result.regime == ("logarithmic" if hub else "bounded")
    assert result.is_free.all() == (hub == 0)


def test_a_bad_hub_is_worth_pulling():
    gaps = np.array([0] + [0.2] * 18 + [0.5])
    result = complexity.graph(gaps, make_star(19, 20))
    assert result.constant == pytest.approx(25, rel=1e-9)
    assert result.pulls[19] == pytest.approx(50, rel=1e-9)
    assert complexity.graph(gaps, np.eye(20)).constant == pytest.approx(184, rel=1e-9)


@pytest.mark.parametrize("has_loop", [True, False])
def test_constant_agrees_with_exhaustive_search(has_loop):
    rng = np.random.default_rng(5)
    n_compared = 0
    for _ in range(40 if has_loop else 12):
        n_arms = int(rng.integers(2, 5))
        gaps = np.append(0, rng.uniform(0.1, 2, n_arms - 1))
        shows = make_random(rng, n_arms)
        shows[0, 0] = has_loop
        expected = search_constant(gaps, shows)
        assert complexity.graph(gaps, shows).constant == pytest.approx(expected, rel=1e-6, abs=1e-12)
        n_compared += 0 < expected < math.inf
    assert n_compared >= 6


@pytest.mark.parametrize("scale", [1e-20, 1, 1e20])
def test_constant_of_extreme_gaps_and_probabilities(scale):
    gaps = scale * np.array([0, 1, 3])
    shows = [[1, 0, 0], [0, 1e-12, 0], [0, 1e-12, 1]]
    expected = (2e12 + 0) / scale  # arm 1 is pulled 2·10¹² times to show itself
    expected += 2 / (3 * scale)
    assert complexity.graph(gaps, shows).constant == pytest.approx(expected, rel=1e-7)
    extreme_gaps = [0, 1e-50, 1e50]
    expected = 2e50 + 2e-50
    assert complexity.graph(extreme_gaps, np.eye(3)).constant == pytest.approx(expected, rel=1e-7)


def test_observations_of_the_best_arm_must_be_paid_for_if_it_hides_itself():
    for gap, hub_gap in [(0.3, 1.0), (0.5, 0.7), (1.0, 4.0)]:
        result = complexity.graph([0, gap, hub_gap], make_hidden_star(2))
        assert result.constant == pytest.approx(4 * hub_gap / gap**2, rel=1e-8)
        assert result.regime == "T^(2/3)"
    loopless_clique = complexity.graph([0, 0.3, 0.5, 0.5], 1 - np.eye(4))
    assert loopless_clique.constant == pytest.approx(2 / 0.3, rel=1e-8)
    assert loopless_clique.regime == "logarithmic"
    assert loopless_clique.is_free.tolist() == [False, True, True, True]


def test_a_tie_that_optimal_arms_do_not_show_makes_the_constant_infinite():
    """The constant grows without limit as the gap of a hidden arm tends to 0."""
    constants = [complexity.graph([0, gap, 1], make_hidden_star(2)).constant for gap in (1e-3, 1e-6)]
    assert constants == pytest.approx([4e6, 4e12], rel=1e-6)
    assert complexity.graph([0, 0, 1], make_hidden_star(2)).constant == math.inf
    shows = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1]])  # arm 1 is optimal and hidden
    assert complexity.graph([0, 0, 1], shows).constant == math.inf
    assert complexity.graph([0, 1e-6, 1], shows).constant > 1e11
    shown_tie = complexity.graph([0, 0, 1], 1 - np.eye(3))  # the optimal arms show each other
    assert shown_tie.constant == 0
    assert shown_tie.regime == "bounded"


@pytest.mark.parametrize(
    ("gaps", "shows", "regime"),
    [
        ([0, 1], np.ones((2, 2)), "bounded"),
        ([0, 1], [[1, 1e-9], [0, 1]], "bounded"),
        ([0, 1], [[1, 0], [1, 1]], "logarithmic"),
        ([0, 1], [[0, 1], [1, 0]], "logarithmic"),
        ([0, 1, 1], [[1, 1, 1], [0, 0, 0], [0, 0, 1]], "T^(2/3)"),  # arm 2 does not show arm 1
        ([0, 1], [[1, 0], [1, 0]], "linear"),
        ([0], [[1]], "bounded"),
        ([0], [[0]], "bounded"),
        ([0, 0, 0], np.eye(3), "bounded"),
    ],
)
def test_the_regime_follows_from_the_graph_and_the_gaps(gaps, shows, regime):
    assert complexity.graph(gaps, shows).regime == regime


def test_looks_make_arms_free():
    hidden = make_hidden_star(3)
    for options in ({"rate": 1e-9}, {"rate": 0.1, "observer": "active"}):
        result = complexity.graph(GAPS, hidden, **options)
        assert (result.constant, result.regime) == (0, "bounded")
        assert result.is_free.all()
    weights = [0, 0, 0.5, 0.5]
    result = complexity.graph(GAPS, np.eye(4), rate=0.1, weights=weights)
    assert result.constant == pytest.approx(2 / 0.2, rel=1e-9)
    assert result.is_free.tolist() == [True, False, True, True]


def test_constant_of_bernoulli_rewards_has_the_divergence():
    means = np.array([0.7, 0.5, 0.0])
    divergence = [0.5 * math.log(0.5 / 0.7) + 0.5 * math.log(0.5 / 0.3), math.log(1 / 0.3)]
    expected = 0.2 / divergence[0] + 0.7 / divergence[1]
    assert complexity.graph(bernoulli(means), bandit()).constant == pytest.approx(expected, rel=1e-9)
    assert complexity.graph(bernoulli([1.0, 0.5]), bandit()).constant == 0
    with pytest.raises(ValueError, match=r"^rewards must be 'gaussian' if the optimal arm does not"):
        complexity.graph(bernoulli(means), graph(1 - np.eye(3)))


def test_complexity_of_a_problem_with_a_feedback():
    scaled_problem = gaussian([8.0, 4.0, 0.0], sd=4)
    unscaled_result = complexity.graph([0, 1, 2], make_star(2, 3))
    result = complexity.graph(scaled_problem, graph(make_star(2, 3)))
    assert result.constant == pytest.approx(4 * unscaled_result.constant)
    assert result.pulls == pytest.approx(unscaled_result.pulls)
    assert complexity.graph(PROBLEM, full()).regime == "bounded"
    assert complexity.graph(PROBLEM, graph(np.eye(4), looks=passive(every(10)))).regime == "bounded"
    with pytest.raises(ValueError, match=r"^problem must be Gaussian with equal standard dev"):
        complexity.graph(gaussian([1, 0], sd=[1, 2]), bandit())
    with pytest.raises(ValueError, match=r"^feedback must be a graph with 4 arms, one per arm of"):
        complexity.graph(PROBLEM, graph(np.eye(3)))
    with pytest.raises(ValueError, match=r"^feedback must be a model with one free look per"):
        complexity.graph(PROBLEM, graph(np.eye(4), looks=passive(0.1, paid=True)))


@pytest.mark.parametrize(
    "shows",
    [np.eye(3), np.ones(4), 2 * np.eye(4), -np.eye(4), np.nan * np.eye(4), "ring", None,
     1e-60 * np.ones((4, 4)), np.eye(4).astype(complex), sparse.eye_array(3), [[1], [1, 2]],
     np.ma.masked_array(np.eye(4))],
)  # fmt: skip
def test_invalid_matrices_raise(shows):
    for function in (complexity.graph, lower.graph_fixed_stage, upper.ucb_graph):
        arguments = (GAPS, shows) if function is complexity.graph else (GAPS, shows, 100)
        with pytest.raises(ValueError, match=r"^shows must be a matrix of probabilities for 4 arms"):
            function(*arguments)


def test_duplicates_of_a_sparse_matrix_are_added():
    entries = ([0.5, 0.5, 1.0], ([0, 0, 1], [1, 1, 1]))
    shows = sparse.coo_array(entries, (2, 2))
    expected = complexity.graph([0, 1], [[0, 1], [0, 1]])
    assert complexity.graph([0, 1], shows).constant == expected.constant
    assert shows.nnz == 3  # the caller's matrix is unchanged
    rows = sparse.csr_array(([0.5, 0.5, 1.0], [1, 1, 1], [0, 2, 3]), (2, 2))
    assert complexity.graph([0, 1], rows).constant == expected.constant
    assert rows.indptr.tolist() == [0, 2, 3]


def make_damaged_matrices():
    """Return sparse matrices whose index arrays contradict their shape, as in a damaged file."""
    for name, position, value in (("indptr", 1, 10**8), ("indices", 4, 10**8), ("indices", 4, -1)):
        for kind in (sparse.csr_array, sparse.csc_array):
            matrix = kind(np.full((4, 4), 0.5))
            getattr(matrix, name)[position] = value
            yield matrix
    matrix = sparse.coo_array(np.full((4, 4), 0.5))
    matrix.row[3] = 10**8
    yield matrix


def test_damaged_sparse_matrices_are_rejected():
    """Without the check, SciPy's compiled code would access memory out of bounds and crash."""
    for matrix in make_damaged_matrices():
        for function in (graph, lambda shows: complexity.graph(GAPS, shows)):
            with pytest.raises(
                ValueError, match=r"^shows must be a sparse matrix with valid indices \("
            ):
                function(matrix)


def test_a_matrix_that_is_not_square_is_rejected_before_it_is_read():
    with pytest.raises(ValueError, match=r"^shows must be a matrix of probabilities for 4 arms"):
        complexity.graph(GAPS, np.broadcast_to(0.5, (4, 2**40)))


# ---------------------------------------------------------------------- lower bounds


@pytest.mark.parametrize("rate", [0.0, 1e-6, 1e-5, 1e-4])
@pytest.mark.parametrize("horizon", [2, 10**4, 10**6, 10**9, 2**53])
def test_lemmas_of_the_paper_come_out_of_the_graph_bound(rate, horizon):
    """With looks, the graph without edges is the paper's passive or active observer."""
    passive_looks, active_looks = passive(rate, WEIGHTS), active(rate)
    pairs = [
        (lower.graph_fixed_stage, lower.passive_fixed_stage, passive_looks),
        (lower.graph_fixed_stage, lower.active_fixed_stage, active_looks),
        (lower.graph_multi_period, lower.passive_maximum, passive_looks),
    ]
    for graph_bound, bound, looks in pairs:
        expected = bound(PROBLEM, looks, horizon)
        with_graph = graph(np.eye(4), looks=looks)
        assert graph_bound(PROBLEM, looks, horizon) == pytest.approx(expected, rel=1e-12, abs=1e-12)
        result = graph_bound(PROBLEM, with_graph, horizon)
        assert result == pytest.approx(expected, rel=1e-12, abs=1e-12)
    expected = lower.active_multi_period(PROBLEM, active_looks, horizon, details=True)
    result = lower.graph_multi_period(PROBLEM, active_looks, horizon, stages=expected.stages)
    assert result == pytest.approx(expected.total, rel=1e-9, abs=1e-9)


def test_lemma_2_comes_out_of_the_matrix_of_expected_shows():
    """In expectation, passive looks at rate ε add ε p_j to column j of the identity matrix.

    With looks, a pull of arm j shows this arm 1 + ε p_j times on average. `shows` cannot contain
    probabilities above 1, so the matrix of the first comparison keeps 1 on the diagonal. The second
    comparison passes the looks by options instead.
    """
    rate, horizon = 1e-5, 10**6
    expected = lower.passive_fixed_stage(GAPS, rate, WEIGHTS, horizon)
    shows = np.eye(4) + rate * np.array(WEIGHTS) * (1 - np.eye(4))
    assert expected > 10
    assert lower.graph_fixed_stage(GAPS, shows, horizon) == pytest.approx(expected, rel=1e-4)
    result = lower.graph_fixed_stage(GAPS, np.eye(4), horizon, rate=rate, weights=WEIGHTS)
    assert result == pytest.approx(expected, rel=1e-12)


def test_fixed_stage_agrees_with_exhaustive_search():
    rng = np.random.default_rng(3)
    n_positive = n_infinite = 0
    for _ in range(40):
        n_arms = int(rng.integers(2, 5))
        gaps = np.append(0, rng.uniform(0.3, 2, n_arms - 1))
        shows = make_random(rng, n_arms, 0.6) * rng.choice([1, 0.01])
        horizon = int(rng.integers(20, 2000))
        constants = {"C": 0.1, "C_0": 0.1}
        needs = lower.required_observations(gaps, horizon, **constants)[1:]
        expected = search_vertices(gaps, shows[:, 1:], needs, horizon)
        result = lower.graph_fixed_stage(gaps, shows, horizon, **constants)
        assert result == pytest.approx(expected, rel=1e-7, abs=1e-9)
        n_positive += 0 < expected < math.inf
        n_infinite += expected == math.inf
    assert n_positive >= 10
    assert n_infinite >= 3


def test_multi_period_is_at_least_every_fixed_stage():
    shows = make_star(2, 4) * 0.5 + 0.5 * np.eye(4)
    shows[0, 3] = 1e-4
    stages = np.array([10**3, 10**4, 10**5, 10**6])
    fixed = lower.graph_fixed_stage(GAPS, shows, stages)
    multi = lower.graph_multi_period(GAPS, shows, 10**6, details=True)
    assert multi.total >= fixed.max() > 0
    joined = lower.graph_multi_period(GAPS, shows, 10**6, stages=stages)
    assert joined >= fixed.max() * (1 - 1e-9)
    assert joined <= multi.total * (1 + 1e-9) or set(stages) - set(multi.stages)
    assert multi.total == pytest.approx(multi.terms.sum())


def test_fixed_stage_of_a_long_horizon_grows_as_the_constant():
    """The bound grows like C* log T / 4, because it raises each arm j by 2 Δ_j."""
    shows = make_star(3, 5)
    constant = complexity.graph(STAR_GAPS, shows).constant
    bounds = lower.graph_fixed_stage(STAR_GAPS, shows, [10**12, 10**15])
    slope = (bounds[1] - bounds[0]) / math.log(1000)
    assert slope == pytest.approx(constant / 4, rel=0.05)


def test_the_bound_is_infinite_if_no_algorithm_satisfies_definition_1():
    result = lower.graph_fixed_stage([0, 1], [[1, 0], [1, 0]], 10**6, details=True)
    assert isinstance(result, Bound)
    assert result.total == math.inf
    assert lower.graph_multi_period([0, 1], [[1, 0], [1, 0]], 10**6) == math.inf
    assert lower.graph_fixed_stage([0, 1], [[1, 0], [1, 0]], 2) == 0


def test_lower_bounds_use_the_scale_of_the_problem():
    feedback = graph(make_star(2, 3))
    scaled = lower.graph_fixed_stage(gaussian([4.0, 2.0, 0.0], sd=4), feedback, 10**6)
    assert scaled == pytest.approx(
        4 * lower.graph_fixed_stage([0, 0.5, 1], make_star(2, 3), 10**6), rel=1e-12
    )
    with pytest.raises(ValueError, match=r"^problem must be Gaussian"):
        lower.graph_fixed_stage(bernoulli([0.5, 0.2, 0.1]), feedback, 100)
    with pytest.raises(ValueError, match=r"^rate and horizon must be single numbers, got"):
        lower.graph_multi_period([0, 1], np.eye(2), [10, 20])


def test_worst_case_on_weakly_observable_graphs():
    horizon = np.array([10**3, 10**6])
    bound = lower.graph_worst_case(make_hidden_star(2), horizon)
    assert bound == pytest.approx(0.14218 * horizon ** (2 / 3), rel=1e-4)
    assert lower.graph_worst_case(make_hidden_star(2), 10**6, gap=8.0) == pytest.approx(
        2 * bound[1], rel=1e-9
    )
    one_hidden = np.array([[1, 0, 0], [0, 0, 0], [0, 0.5, 1]])  # only arm 1 is hidden
    assert lower.graph_worst_case(one_hidden, 10**6) == pytest.approx(bound[1], rel=1e-9)
    two_hubs = np.zeros((4, 4))
    two_hubs[2, 0] = two_hubs[3, 1] = two_hubs[2, 2] = two_hubs[3, 3] = 1  # each hub shows one leaf
    assert lower.graph_worst_case(two_hubs, 10**6) == pytest.approx(2 ** (1 / 3) * bound[1], rel=1e-9)
    assert lower.graph_worst_case(np.eye(3), horizon).tolist() == [0, 0]
    assert lower.graph_worst_case(1 - np.eye(3), 100) == 0
    assert lower.graph_worst_case([[1, 0], [1, 0]], 100, gap=0.5) == 25
    large = sparse.csr_array(make_hidden_star(2000))
    assert lower.graph_worst_case(large, 10**6) == pytest.approx(bound[1], rel=1e-9)


@pytest.mark.parametrize("horizon", [1, 3, 10, 1000])
def test_worst_case_is_the_solution_of_its_game(horizon):
    """The algorithm chooses n, and then the adversary chooses the larger of the two regrets."""
    gap, best = 0.7, 0.0
    pulls = np.linspace(0, horizon / 8, 200_001)
    for difference in np.geomspace(gap / 100, gap, 400):
        regret = np.maximum(
            pulls * gap, horizon * difference / 8 * np.exp(-pulls * difference**2)
        ).min()
        best = max(best, regret)
    bound = lower.graph_worst_case(make_hidden_star(2), horizon, gap=gap)
    assert bound == pytest.approx(best, rel=1e-3)


# ---------------------------------------------------------------------- upper.ucb_graph


def search_costliest_sequence(gaps, counts, is_sure):
    """Return the largest cost of a sequence of exploring pulls.

    An arm may be pulled while it has been shown fewer than `counts[arm]` times.
    """

    @cache
    def largest(seen):
        best = 0.0
        for arm, (n, limit) in enumerate(zip(seen, counts, strict=True)):
            if n < limit:
                after = tuple(min(m + int(is_sure[arm, j]), counts[j]) for j, m in enumerate(seen))
                best = max(best, gaps[arm] + largest(after))
        return best

    return largest((0,) * len(counts))


def test_shared_observations_bound_every_sequence_of_exploring_pulls():
    rng = np.random.default_rng(8)
    ratios = []
    for n in range(150):
        n_arms = int(rng.integers(2, 6))
        is_sure = rng.random((n_arms, n_arms)) < rng.choice([0.2, 0.5, 0.8])
        if n % 2:
            is_sure |= is_sure.T
        np.fill_diagonal(is_sure, True)
        gaps = np.sort(rng.choice([0.1, 0.3, 0.5, 1.0], n_arms))
        counts = np.sort(rng.integers(1, 5, n_arms))[::-1]
        largest = search_costliest_sequence(gaps, tuple(counts.tolist()), is_sure)
        bound = _graph.bound_exploration(gaps, counts.astype(float), sparse.csr_array(is_sure * 1.0))
        assert largest <= bound * (1 + 1e-12)
        ratios.append(largest / bound)
    assert np.mean(ratios) > 0.97


def test_shared_observations_in_closed_form():
    gaps, counts = np.array([0, 0.5, 1, 2]), np.array([0, 16.0, 4, 1])
    assert _graph.bound_exploration(gaps, counts, sparse.csr_array(np.eye(4))) == 8 + 4 + 2
    clique = sparse.csr_array(np.ones((4, 4)))
    expected = 0.5 * 16 + 0.5 * 4 + 1 * 1  # summation by parts
    assert _graph.bound_exploration(gaps, counts, clique) == expected
    one_way = sparse.csr_array(np.triu(np.ones((4, 4))))  # edges without a cycle do not help
    assert _graph.bound_exploration(gaps, counts, one_way) == 8 + 4 + 2


def test_the_bound_by_a_clique_cover_is_never_below_the_exact_bound(monkeypatch):
    rng = np.random.default_rng(2)
    for n in range(30):
        is_sure = rng.random((8, 8)) < 0.6
        is_sure |= is_sure.T | np.eye(8, dtype=bool)
        shows = make_cliques(8, 3) if n == 0 else is_sure * 1.0
        gaps = np.sort(rng.uniform(0.1, 1, 8))
        counts = np.ceil(4 / gaps**2)
        monkeypatch.setattr(_graph, "MAX_EXACT_ARMS", 18)
        exact_bound = _graph.bound_exploration(gaps, counts, sparse.csr_array(shows))
        monkeypatch.setattr(_graph, "MAX_EXACT_ARMS", 1)
        cover_bound = _graph.bound_exploration(gaps, counts, sparse.csr_array(shows))
        assert exact_bound <= cover_bound * (1 + 1e-12)
        assert cover_bound <= (gaps * counts).sum() * (1 + 1e-12)
        assert n > 0 or cover_bound == pytest.approx(exact_bound)


def test_the_failure_bound_holds_on_random_walks():
    """Check that P(S_n ≥ √(2 a n log t) for some n ≤ t) is at most the bound f(t).

    S_n is a Gaussian random walk and a is `power`. The probability is at least 0.004 in each case,
    and f(t) is twice the probability. With 20,000 walks and a random seed, the test therefore fails
    with probability below 10⁻⁶.
    """
    walks = np.cumsum(np.random.default_rng(4).normal(size=(20_000, 50)), axis=1)
    for power, t in [(0.9, 50), (1.5, 20), (2.1, 8), (3.0, 4)]:
        heights = np.sqrt(2 * power * np.log(t) * np.arange(1, t + 1))
        share = (walks[:, :t] >= heights).any(axis=1).mean()
        assert 0.002 < share <= _graph._bound_failure(np.array(float(t)), power, 1)


def test_sums_of_failures_agree_with_a_long_sum():
    t = np.arange(1.0, 3_000_001)
    for power, max_seen in [(3.0, 1), (3.0, 2), (2.2, 1)]:
        values = _graph._bound_failure(t, power, max_seen)
        for first in (1, 2, 77, 200_000):
            exact = values[first - 1 :].sum()
            bound = _graph.sum_failures(first, math.inf, power, max_seen)
            assert exact <= bound <= 1.25 * exact + 1e-4
        bound = _graph.sum_failures(5, 1000, power, max_seen)
        assert bound == pytest.approx(values[4:1000].sum(), rel=1e-9)
        assert _graph.sum_failures(2, 1, power, max_seen) == 0


@pytest.mark.parametrize(("q", "look_rate"), [(1.0, 0.0), (0.2, 0.0), (0.0, 0.3), (0.1, 0.1)])
def test_free_exploration_agrees_with_a_sum_stage_by_stage(q, look_rate):
    slopes, power, horizon = np.array([0, 24 / 4, 24 / 9]), 3.0, 20_000
    max_seen = 2 if look_rate else 1
    t = np.arange(2.0, horizon + 1)
    sums = np.concatenate(
        ([0.0], np.cumsum(_graph._bound_failure(np.arange(1.0, horizon + 1), power, max_seen)))
    )
    failures = 3 * (sums[t.astype(int)] - sums[np.ceil(t / 4).astype(int) - 1])
    needs = np.ceil(slopes[1] * np.log(t))
    all_needs = np.ceil(slopes * np.log(t)[:, None]).sum(axis=1)
    n_trials = np.maximum(np.floor(0.75 * t - 1 - all_needs), 0)
    chances = binom.cdf(needs - 1, n_trials, q + look_rate - q * look_rate) + failures
    if look_rate:
        chances = np.minimum(chances, binom.cdf(needs - 1, t - 1, look_rate))
    chances = np.minimum(chances, 1)
    expected = (needs - 1 + np.append(np.cumsum(chances[::-1])[::-1][1:], 0)).min()
    arguments = (np.array([1, q, q]), np.full(3, look_rate), slopes, np.ones(3))
    bound = _graph.bound_free_exploration(*arguments, horizon, power, max_seen)[1]
    assert expected <= bound <= 1.06 * expected


def test_few_shows_is_the_binomial_probability_or_above():
    for q, n in [(0.01, 10**4), (1e-7, 10**9), (0.5, 40), (1.0, 30)]:
        needs = np.ceil(np.array([0.2, 0.5, 0.9]) * n * q)
        values = _graph.bound_few_shows(needs, np.array(float(n)), np.array(q))
        assert values == pytest.approx(binom.cdf(needs - 1, n, q), rel=1e-6, abs=1e-300)
    needs = np.array([10.0, 1000])
    large = _graph.bound_few_shows(needs, np.array(1e12), np.array(2e-9))
    assert (large >= binom.cdf(needs - 1, 1e12, 2e-9)).all()
    assert (large < 1e-100).all()


def test_regret_is_bounded_if_and_only_if_every_optimal_arm_shows_every_arm():
    for hub in range(5):
        bound = upper.ucb_graph(STAR_GAPS, make_star(hub))
        assert (bound < math.inf) == (hub == 0)
        assert (bound < math.inf) == (complexity.graph(STAR_GAPS, make_star(hub)).constant == 0)
    assert upper.ucb_graph([0, 0, 1], [[1, 0, 0.1], [0, 1, 0], [0, 0, 1]]) == math.inf
    bound_of_tie = upper.ucb_graph([0, 0, 1], [[1, 0, 0.1], [0, 1, 0.2], [0, 0, 1]])
    assert bound_of_tie < math.inf
    long_horizon = upper.ucb_graph(STAR_GAPS, make_star(0), 2**53)
    assert long_horizon == pytest.approx(upper.ucb_graph(STAR_GAPS, make_star(0)), rel=1e-2)
    assert upper.ucb_graph(STAR_GAPS, np.eye(5), rate=0.1) < math.inf


def test_ucb_graph_is_below_the_bound_without_a_graph():
    horizons = np.array([1, 10, 10**3, 10**6])
    without_graph = upper.ucb_graph(STAR_GAPS, np.eye(5), horizons)
    assert (without_graph <= np.maximum(upper.ucb_log(STAR_GAPS, horizons), 1.5 * horizons)).all()
    for shows in (make_star(3), make_cliques(5, 2), load_graph("ring", 5), np.full((5, 5), 0.2)):
        shows = sparse.csr_array(shows).toarray()
        np.fill_diagonal(shows, 1)
        assert (upper.ucb_graph(STAR_GAPS, shows, horizons) <= without_graph * (1 + 1e-12)).all()
    assert upper.ucb_graph(STAR_GAPS, np.ones((5, 5)), 10**9) < 60
    details = upper.ucb_graph(STAR_GAPS, make_cliques(5, 2), horizons, details=True)
    assert details.terms.shape == (4, 5)
    assert (details.total <= details.terms.sum(axis=-1) * (1 + 1e-12)).all()


def test_ucb_needs_more_pulls_of_an_arm_that_hides_its_reward():
    sure, hidden = np.eye(3), np.diag([0.1, 1, 0.25])
    gaps = np.array([0, 0.5, 1])
    terms = [upper.ucb_graph(gaps, q, 10**6, details=True).terms for q in (sure, hidden)]
    n_exploring = math.ceil(24 * math.log(10**6))
    assert terms[1][1] == terms[0][1]  # hidden rewards of the best arm do not matter
    assert terms[1][2] - terms[0][2] == pytest.approx(3 * n_exploring)
    clique, loops = np.ones((4, 4)), np.eye(4)
    clique[3, 3] = loops[3, 3] = 0.5
    gaps = [0, 0.5, 0.5, 1]
    assert upper.ucb_graph(gaps, clique, 10**6) < 0.7 * upper.ucb_graph(gaps, loops, 10**6)


def test_ucb_graph_of_a_problem():
    feedback = graph(make_star(0), looks=passive(0.01))
    problem = gaussian(2 - STAR_GAPS)
    expected = upper.ucb_graph(STAR_GAPS, make_star(0), 10**4, rate=0.01)
    assert upper.ucb_graph(problem, feedback, 10**4) == pytest.approx(expected)
    scaled = upper.ucb_graph(gaussian(6 - 3 * STAR_GAPS, sd=3), graph(make_star(0)), 10**4)
    assert scaled == pytest.approx(3 * upper.ucb_graph(STAR_GAPS, make_star(0), 10**4))
    assert upper.ucb_graph(bernoulli([0.5, 0.2]), full(), 100) < 50
    with pytest.raises(ValueError, match=r"^shows must be positive on the diagonal for UCB, which"):
        upper.ucb_graph([0, 1], [[1, 1], [1, 0]], 100)
    with pytest.raises(ValueError, match=r"^feedback must be passive for this bound"):
        upper.ucb_graph(problem, graph(np.eye(5), looks=active(0.1)), 100)


@pytest.mark.parametrize(
    "bound", [lower.passive_theorem, lower.active_maximum, upper.ucb_sharp, upper.kibitzer]
)
def test_bounds_without_a_graph_reject_a_graph(bound):
    with pytest.raises(ValueError, match=r"^feedback must be a model without a graph for this bound"):
        bound(PROBLEM, graph(np.eye(4), looks=passive(0.1)), 100)


def test_five_thousand_arms():
    """Check that a sparse graph stays sparse. A dense matrix would have 25 million entries."""
    n_arms = 5000
    shows = load_graph("ring", n_arms)
    gaps = np.append(0, np.random.default_rng(1).uniform(0.1, 1, n_arms - 1))
    result = complexity.graph(gaps, shows)
    assert 0 < result.constant < (2 / gaps[1:]).sum()
    assert result.is_free.sum() == 3
    bound = upper.ucb_graph(gaps, shows, 10**9)
    assert bound < upper.ucb_graph(gaps, sparse.eye_array(n_arms), 10**9)
    assert lower.graph_fixed_stage(gaps, shows, 10**9) < bound


# ---------------------------------------------------------------------- simulation


def simulate_ucb(gaps, shows, horizon, runs, seed):
    """Return the mean regret of UCB on a graph and its standard error, by a slow loop."""
    rng = np.random.default_rng(seed)
    n_arms = gaps.size
    counts, sums, regret = np.zeros((runs, n_arms)), np.zeros((runs, n_arms)), np.zeros(runs)
    for stage in range(1, horizon + 1):
        safe_counts = np.maximum(counts, 1)
        index = sums / safe_counts + np.sqrt(6 * math.log(stage) / safe_counts)
        arms = np.where(counts == 0, np.inf, index).argmax(axis=1)
        regret += gaps[arms]
        is_shown = rng.random((runs, n_arms)) < shows[arms]
        counts += is_shown
        sums += is_shown * (rng.normal(size=(runs, n_arms)) - gaps)
    return regret.mean(), regret.std(ddof=1) / math.sqrt(runs)


@pytest.mark.parametrize(
    "shows",
    [make_star(0), make_star(4), make_cliques(5, 2), np.ones((5, 5)),
     np.full((5, 5), 0.2) + 0.8 * np.eye(5), 0.3 * np.eye(5)],
    ids=["best hub", "worst hub", "cliques", "complete", "redrawn", "hidden rewards"],
)  # fmt: skip
def test_regret_of_ucb_is_between_its_bounds(shows):
    """If a bound is valid, the test fails with probability 3·10⁻⁷ with a random seed."""
    gaps, horizon = 2 * STAR_GAPS, 3000
    mean, error = simulate_ucb(gaps, shows, horizon, 60, seed=1)
    constants = {"C": 24.0, "C_0": 1 + 2 * math.pi**2 / 3}  # for which UCB satisfies Definition 1
    assert mean >= lower.graph_multi_period(gaps, shows, horizon, **constants) - 5 * error
    assert mean <= upper.ucb_graph(gaps, shows, horizon) + 5 * error
    assert mean <= upper.ucb_graph(gaps, shows) + 5 * error
