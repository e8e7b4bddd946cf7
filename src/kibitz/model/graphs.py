"""Named graphs and graphs in files, for the option --graph of the command line.

All named graphs have self-loops: every pull shows its own reward.

- `star:3`: arm 3 shows every arm, and every arm shows arm 3; `star` is `star:0`.
- `ring`: every arm shows the arm before it and the arm after it.
- `cliques:3`: groups of 3 consecutive arms, which show each other; the last group may be smaller.
- `complete`: every arm shows every arm; `kibitz.full` is cheaper.
- `erdos:0.1`: a pull shows each other arm with probability 0.1, as in an Erdős-Rényi graph that is
  drawn again at each stage.

`complete` and `erdos` have an edge between any two arms and are limited to 2000 arms.

A file holds a sparse matrix that `scipy.sparse.save_npz` wrote (`.npz`), or it is a CSV file with
either the matrix or a list of edges. Each line of an edge list is `i,j` or `i,j,probability`; without
a probability, a pull of arm i always shows arm j. A CSV file with K rows and K columns of
probabilities is read as a matrix; the header `i,j` or `i,j,probability` marks an edge list.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kibitz._validation import short_repr, suggest

NAMES = ("star", "ring", "cliques", "complete", "erdos")
MAX_DENSE_ARMS = 2000  # of graphs with an edge between any two arms
EDGE_HEADERS = (["i", "j"], ["i", "j", "probability"])


def load_graph(source: str, n_arms: int, loops: bool = False) -> Any:
    """Return the matrix of a named graph or of a file, for `kibitz.graph`.

    With `loops`, every pull also shows its own reward.
    """
    name, _, argument = source.partition(":")
    if name in NAMES:
        return make_named_graph(name, argument, n_arms)
    path = Path(source)
    if not path.is_file():
        raise ValueError(
            f"there is no file or named graph {short_repr(source)}; use a file or star:3, ring, "
            f"cliques:3, complete or erdos:0.1{suggest(name, NAMES)}"
        )
    matrix = _read_npz(path) if path.suffix == ".npz" else _read_csv(path, n_arms)
    if matrix.shape != (n_arms, n_arms):
        raise ValueError(
            f"the matrix in {short_repr(source)} must have one row and one column for each of "
            f"{n_arms} arms, got {matrix.shape[0]} rows and {matrix.shape[1]} columns"
        )
    if loops:
        from scipy.sparse import eye_array, issparse

        loop_matrix = eye_array(n_arms, format="csr")
        return loop_matrix.maximum(matrix) if issparse(matrix) else np.maximum(matrix, np.eye(n_arms))
    return matrix


def make_named_graph(name: str, argument: str, n_arms: int) -> Any:
    """Return the matrix of a named graph; `argument` is the 3 of "star:3", or "" if there is none."""
    arms = np.arange(n_arms)
    if name == "star":
        hub = _parse_int(name, argument or "0", 0, n_arms - 1)
        return _make_sparse(np.r_[arms, arms * 0 + hub], np.r_[arms * 0 + hub, arms], n_arms)
    if name == "cliques":
        size = _parse_int(name, argument, 1, n_arms)
        starts = arms - arms % size
        sizes = np.minimum(starts + size, n_arms) - starts
        pulled_arms = np.repeat(arms, sizes)
        nth_in_row = np.arange(pulled_arms.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return _make_sparse(pulled_arms, starts[pulled_arms] + nth_in_row, n_arms)
    if name in ("erdos", "complete") and n_arms > MAX_DENSE_ARMS:
        raise ValueError(
            f"{name} has an edge between any two arms, which is {n_arms**2:,} edges for {n_arms:,} "
            f"arms; use at most {MAX_DENSE_ARMS:,} arms, or a sparser graph"
        )
    if name == "erdos":
        matrix = np.full((n_arms, n_arms), _parse_probability(argument))
        np.fill_diagonal(matrix, 1.0)
        return matrix
    if argument:
        raise ValueError(f"{name} takes no number, got {short_repr(f'{name}:{argument}')}")
    if name == "ring":
        return _make_sparse(np.r_[arms, arms], np.r_[(arms + 1) % n_arms, arms - 1] % n_arms, n_arms)
    return np.ones((n_arms, n_arms))


def _make_sparse(rows: NDArray[np.int64], columns: NDArray[np.int64], n_arms: int) -> Any:
    """Return a sparse matrix with ones at the given rows and columns, and on the diagonal."""
    from scipy.sparse import coo_array

    arms = np.arange(n_arms)
    keys = np.unique(np.r_[rows * n_arms + columns, arms * n_arms + arms])
    return coo_array((np.ones(keys.size), (keys // n_arms, keys % n_arms)), (n_arms, n_arms))


def _parse_int(name: str, argument: str, minimum: int, maximum: int) -> int:
    if not (argument.isdecimal() and minimum <= int(argument) <= maximum):
        raise ValueError(
            f"{name} takes a whole number from {minimum} to {maximum}, as in {name}:{maximum}, "
            f"got {short_repr(f'{name}:{argument}'.rstrip(':'))}"
        )
    return int(argument)


def _parse_probability(argument: str) -> float:
    try:
        probability = float(argument)
    except ValueError:
        probability = float("nan")
    if not 0 <= probability <= 1:
        raise ValueError(
            "erdos takes a probability in [0, 1], as in erdos:0.1, "
            f"got {short_repr(f'erdos:{argument}'.rstrip(':'))}"
        )
    return probability


def _read_npz(path: Path) -> Any:
    """Return the sparse matrix in a file that `scipy.sparse.save_npz` wrote."""
    from zipfile import BadZipFile

    from scipy.sparse import load_npz

    try:
        return load_npz(path)
    except (ValueError, OSError, KeyError, BadZipFile) as error:
        raise ValueError(
            f"{short_repr(str(path))} is not a sparse matrix ({error}); write it with "
            "scipy.sparse.save_npz"
        ) from None


def _read_csv(path: Path, n_arms: int) -> Any:
    """Return the matrix that a CSV file describes, by its entries or by a list of edges."""
    try:
        lines = [
            [cell.strip() for cell in line]
            for line in csv.reader(path.read_text(encoding="utf-8-sig").splitlines())
            if line
        ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{short_repr(str(path))} cannot be read as CSV ({error})") from None
    has_header = bool(lines) and lines[0] in EDGE_HEADERS
    is_edge_list = has_header or {len(line) for line in lines} == {2, 3}
    if is_edge_list:
        lines = [[*line, "1"] if len(line) == 2 else line for line in lines]
    numbers = _parse_numbers(path, lines[1:] if has_header else lines, has_header)
    is_matrix = numbers.shape == (n_arms, n_arms) and bool(np.all(numbers <= 1))
    if not is_edge_list and (is_matrix or numbers.shape[1] not in {2, 3}):
        return numbers
    return _make_matrix(path, numbers, n_arms)


def _parse_numbers(path: Path, lines: list[list[str]], has_header: bool) -> NDArray[np.float64]:
    rows: list[list[float]] = []
    for n, line in enumerate(lines, 1 + has_header):
        try:
            rows.append([float(cell) for cell in line])
        except ValueError:
            raise ValueError(
                f"{short_repr(str(path))} must contain numbers, got {short_repr(','.join(line))} in "
                f"line {n}"
            ) from None
        if len(rows[-1]) != len(rows[0]):
            raise ValueError(
                f"all lines of {short_repr(str(path))} must have the same number of columns, got "
                f"{len(rows[-1])} instead of {len(rows[0])} in line {n}"
            )
    if not rows:
        raise ValueError(f"{short_repr(str(path))} is empty; write one edge i,j per line")
    return np.array(rows)


def _make_matrix(path: Path, edges: NDArray[np.float64], n_arms: int) -> Any:
    """Return the sparse matrix of an array of edges with rows i, j or i, j, probability."""
    from scipy.sparse import coo_array

    arms = edges[:, :2]
    is_edge = ((arms >= 0) & (arms < n_arms) & (arms % 1 == 0)).all(axis=1)
    if edges.shape[1] not in {2, 3} or not is_edge.all():
        edge = edges[0 if is_edge.all() else int(is_edge.argmin())]
        raise ValueError(
            f"each line of {short_repr(str(path))} must be i,j or i,j,probability, with arms i and j "
            f"from 0 to {n_arms - 1}, got {short_repr(','.join(f'{x:g}' for x in edge))}; a matrix "
            f"must have {n_arms} rows and columns"
        )
    probabilities = edges[:, 2] if edges.shape[1] == 3 else np.ones(len(edges))
    rows, columns = arms.astype(np.int64).T
    return coo_array((probabilities, (rows, columns)), (n_arms, n_arms))
