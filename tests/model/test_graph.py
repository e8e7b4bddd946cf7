"""Tests of graph feedback: matrices, named graphs, files and invalid input."""

import copy
import json
import pickle

import numpy as np
import pytest
from junk import JUNK, call_or_reject
from scipy import sparse

import kibitz
from kibitz.model.feedback import Shows, active, full, graph, passive
from kibitz.model.graphs import load_graph


def to_dense(shows: Shows) -> np.ndarray:
    matrix = np.zeros((shows.n_arms, shows.n_arms))
    matrix[shows.pulled_arms, shows.arms] = shows.probabilities
    return matrix


RANDOM = np.random.default_rng(1).random((6, 6)) * (np.random.default_rng(2).random((6, 6)) < 0.7)


@pytest.mark.parametrize(
    "matrix",
    [
        [[True, False], [True, True]],
        [[1, 1], [0, 1]],
        [[1.0, 0.5], [0.25, 0]],
        [[True, 0.5], [1, 0]],
        np.eye(4, dtype=np.uint8),
        RANDOM.astype(np.float32),
        RANDOM,
    ],
    ids=["bools", "ints", "floats", "mixed", "uint8", "float32", "random"],
)
def test_dense_and_sparse_matrices_give_the_same_graph(matrix):
    expected = np.asarray(matrix).astype(float)
    formats = [sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.lil_array]
    feedbacks = [graph(matrix), *(graph(make(np.asarray(matrix))) for make in formats)]
    for feedback in feedbacks:
        assert np.array_equal(to_dense(feedback.shows), expected)
        assert np.array_equal(feedback.shows.own, np.diag(expected))
        assert feedback.spec == feedbacks[0].spec


def test_duplicates_of_a_sparse_matrix_are_added():
    entries = ([0.5, 0.25, 1.0, 0.0], ([0, 0, 1, 1], [1, 1, 0, 1]))
    shows = graph(sparse.coo_array(entries, (2, 2))).shows
    assert np.array_equal(to_dense(shows), [[0, 0.75], [1, 0]])
    assert shows.arms.size == 2  # an explicit zero is no edge


def test_loops_sets_the_diagonal_to_one():
    assert np.array_equal(to_dense(graph([[0, 0.5], [0, 0.1]], loops=True).shows), [[1, 0.5], [0, 1]])


def test_five_thousand_arms_are_never_converted_to_a_dense_matrix():
    n_arms = 5000
    ring = load_graph("ring", n_arms)
    ring.toarray = ring.todense = None  # calling one of these methods would fail
    shows = graph(ring).shows
    assert shows.arms.size == 3 * n_arms
    assert sum(array.nbytes for array in shows[:3]) < 10**6
    spec = graph(ring).spec["graph"]
    assert spec["arms"] == n_arms
    assert len(json.dumps(spec)) < 200


def test_the_spec_of_a_large_graph_depends_on_its_probabilities():
    matrix = np.full((40, 40), 0.5)
    changed = matrix.copy()
    changed[3, 4] = 0.25
    assert graph(matrix).spec == graph(matrix.copy()).spec
    assert graph(matrix).spec != graph(changed).spec


def test_a_function_describes_a_graph_that_varies():
    def by_day(stage, pulled, arm):
        return 1.0 if pulled == arm else 0.5 * (stage % 2)

    feedback = graph(by_day, looks=active(0.1))
    assert "graph(<function by_day>, looks=active" in repr(feedback)
    assert feedback.spec["graph"]["function"] == "by_day"
    with pytest.raises(ValueError, match="loops=True needs a matrix; let the function return 1"):
        graph(by_day, loops=True)


def test_looks_come_on_top_of_the_graph():
    looks = passive(0.1, "optimal", looks=2, paid=True)
    feedback = graph(np.eye(3), looks=looks)
    assert (feedback.observer, feedback.rate, feedback.weights) == ("passive", 0.1, "optimal")
    assert (feedback.looks, feedback.paid) == (2, True)
    assert {k: v for k, v in feedback.spec.items() if k != "graph"} == looks.spec
    assert graph(np.eye(3)).spec == {
        "observer": "bandit",
        "graph": {"arms": 3, "edges": [[0, 0, 1.0], [1, 1, 1.0], [2, 2, 1.0]]},
    }


def test_the_repr_names_missing_self_loops():
    assert repr(graph(np.ones((3, 3)))) == "graph(<3 arms, 6 edges>)"
    loopless = graph(1 - np.eye(7), looks=active(0.5))
    assert "no self-loop at arms 0, 1, 2, 3, 4 and 2 more" in repr(loopless)
    assert "looks=active(rate=0.5" in repr(loopless)
    assert "no self-loop at arm 1, self-loop below 1 at arm 0>" in repr(graph([[0.5, 1], [1, 0]]))


def test_a_graph_can_be_pickled_and_copied():
    feedback = graph(RANDOM, looks=active(0.1), loops=True)
    for clone in (pickle.loads(pickle.dumps(feedback)), copy.deepcopy(feedback)):
        assert clone.spec == feedback.spec
        assert all(map(np.array_equal, clone.shows, feedback.shows))


@pytest.mark.parametrize(
    ("shows", "message"),
    [
        ([[1, 0]], r"square matrix with one row per arm, for at least 2 arms, got \[\[1, 0\]\]"),
        ([[1]], "at least 2 arms"),
        (np.zeros((0, 0)), "at least 2 arms"),
        (np.ones((2, 2, 2)), "square matrix"),
        (sparse.csr_array((2, 3)), "square matrix"),
        ([[1, -0.1], [1, 1]], r"probabilities in \[0, 1\], got -0.1"),
        ([[1, 1.5], [1, 1]], r"probabilities in \[0, 1\], got 1.5"),
        ([[1, np.nan], [1, 1]], r"probabilities in \[0, 1\], got nan"),
        (sparse.csr_array([[1, 2], [1, 1]]), r"in \[0, 1\], got 2"),
        (sparse.csr_array([[1, np.nan], [1, 1]]), r"in \[0, 1\], got nan"),
        ([["a", "b"], ["c", "d"]], "numbers or booleans"),
        ([[1j, 0], [0, 1]], "numbers or booleans"),
        (np.ma.array(np.eye(2), mask=np.eye(2)), "numbers or booleans"),
        ([[1, 0], [1, 0]], "no pull shows arm 1, so no policy can learn"),
        (np.zeros((3, 3)), "no pull shows arm 0"),
    ],
)
def test_invalid_matrices_are_rejected(shows, message):
    with pytest.raises(ValueError, match=message):
        graph(shows)


def test_duplicates_that_add_up_to_more_than_one_are_rejected():
    entries = ([0.6, 0.6, 1.0], ([0, 0, 1], [1, 1, 0]))
    with pytest.raises(ValueError, match=r"in \[0, 1\], got 1.2"):
        graph(sparse.coo_array(entries, (2, 2)))


@pytest.mark.parametrize("looks", [full(), graph(np.eye(2))], ids=["full", "graph"])
def test_a_graph_on_full_feedback_or_on_a_graph_is_rejected(looks):
    with pytest.raises(ValueError, match=r"looks must be passive\(...\) or active\(...\)"):
        graph(np.eye(2), looks=looks)


@pytest.mark.parametrize("name", ["shows", "looks", "loops"])
def test_junk_is_rejected_cleanly(name):
    for value in JUNK:
        call_or_reject(graph, **{"shows": np.eye(2), name: value})


# ------------------------------------------------------------------------------------- named graphs


def load_dense(source, n_arms):
    return to_dense(graph(load_graph(source, n_arms)).shows)


def test_named_graphs_are_as_their_definitions_say():
    arms = range(7)
    definitions = {
        "star:3": lambda i, j: 3 in {i, j},
        "star": lambda i, j: 0 in {i, j},
        "ring": lambda i, j: (i - j) % 7 in {1, 6},
        "cliques:3": lambda i, j: i // 3 == j // 3,
        "complete": lambda i, j: True,
        "erdos:0.1": lambda i, j: 0.1,
    }
    for source, shows in definitions.items():
        expected = [[1.0 if i == j else float(shows(i, j)) for j in arms] for i in arms]
        assert np.array_equal(load_dense(source, 7), expected), source


def test_a_ring_of_two_arms_is_complete():
    assert np.array_equal(load_dense("ring", 2), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("star:7", "star takes a whole number from 0 to 4"),
        ("star:-1", "star takes a whole number"),
        ("cliques", "cliques takes a whole number from 1 to 5, as in cliques:5, got 'cliques'"),
        ("cliques:0", "cliques takes a whole number"),
        ("ring:3", "ring takes no number"),
        ("erdos", "erdos takes a probability .* got 'erdos'"),
        ("erdos:2", r"erdos takes a probability in \[0, 1\]"),
        ("erdos:nan", "erdos takes a probability"),
        ("cliqes:3", "there is no file or named graph 'cliqes:3'.*did you mean 'cliques'"),
        ("", "there is no file or named graph"),
    ],
)
def test_invalid_names_are_rejected(source, message):
    with pytest.raises(ValueError, match=message):
        load_graph(source, 5)


# -------------------------------------------------------------------------------------------- files


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,0,0.5\n1,1,0\n0,0,1\n", [[1, 0, 0.5], [1, 1, 0], [0, 0, 1]]),
        ("0,1\n1,2\n2,0\n2,2\n", [[0, 1, 0], [0, 0, 1], [1, 0, 1]]),
        ("0,1,0.5\n1,2,0.25\n2,0,1\n", [[0, 0.5, 0], [0, 0, 0.25], [1, 0, 0]]),
        ("i,j,probability\n0,1,1\n1,0,1\n0,2,1\n", [[0, 1, 1], [1, 0, 0], [0, 0, 0]]),
        ("\ufeffi,j\r\n0, 1\r\n\r\n1, 0\r\n0, 2\r\n", [[0, 1, 1], [1, 0, 0], [0, 0, 0]]),
    ],
    ids=["matrix", "edges", "probabilities", "header", "windows"],
)
def test_a_csv_file_holds_a_matrix_or_edges(tmp_path, text, expected):
    matrix = load_graph(write(tmp_path / "graph.csv", text), 3)
    dense = matrix.toarray() if sparse.issparse(matrix) else matrix
    assert np.array_equal(dense, expected)


def test_an_npz_file_holds_a_sparse_matrix(tmp_path):
    sparse.save_npz(tmp_path / "graph.npz", sparse.csr_array(RANDOM))
    matrix = load_graph(str(tmp_path / "graph.npz"), 6)
    assert sparse.issparse(matrix)
    assert np.array_equal(matrix.toarray(), RANDOM)


def test_loops_of_the_command_line_set_the_diagonal_of_every_file_to_one(tmp_path):
    edges = [[0, 1, 0], [0.25, 0.5, 1], [1, 0, 0]]
    expected = [[1, 1, 0], [0.25, 1, 1], [1, 0, 1]]
    sparse.save_npz(tmp_path / "graph.npz", sparse.csr_array(edges))
    matrix = write(tmp_path / "matrix.csv", "0,1,0\n0.25,0.5,1\n1,0,0\n")
    edge_list = write(tmp_path / "edges.csv", "0,1\n1,0,0.25\n1,1,0.5\n1,2\n2,0\n")
    for file in (matrix, edge_list, str(tmp_path / "graph.npz")):
        assert np.array_equal(to_dense(graph(load_graph(file, 3, loops=True)).shows), expected)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "i,j\n", "is empty"),
        ("a.csv", "1,0\n1\n", "same number of columns, got 1 instead of 2 in line 2"),
        ("a.csv", "1,x\n", "must contain numbers, got '1,x' in line 1"),
        ("a.csv", "0,5\n", "with arms i and j from 0 to 2"),
        ("a.csv", "0,0.5\n", "must be i,j or i,j,probability"),
        ("a.csv", "0,nan\n", "must be i,j or i,j,probability"),
        ("a.csv", "1,0,0,1\n0,1,0,1\n", "each of 3 arms, got 2 rows and 4"),
        ("a.npz", "junk", "is not a sparse matrix"),
    ],
)
def test_invalid_files_are_rejected(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        load_graph(write(tmp_path / name, text), 3)


def test_graph_is_public():
    assert kibitz.graph is graph
