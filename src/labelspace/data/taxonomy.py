"""A hierarchy of labels: a tree or DAG of child-parent edges."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, identity

from labelspace._core.streams import PathLike, at_rest, limited_lines, opened, replacing
from labelspace.data.name_files import decoded, quoted, unquoted
from labelspace.errors import DataError

HIERARCHY_FILE = "hierarchy.tsv"

_SHOWN_NODES, _SHOWN_LETTERS = 6, 60  # of a cycle, in an error message


@dataclass(frozen=True)
class Taxonomy:
    """A tree or directed acyclic graph of labels.

    Parameters
    ----------
    node_names : tuple of str
        The labels of the data set, in its order, then parents that no example has.
    edges : ndarray of shape (n_edges, 2)
        (child, parent) pairs of node numbers, int64, sorted and unique.
    n_labels : int
        The number of nodes that are labels.

    Raises
    ------
    DataError
        If the edges have a cycle.

    Examples
    --------
    >>> from labelspace.data import Taxonomy
    >>> taxonomy = Taxonomy.from_names([("Shorts", "Clothing")], ["Clothing", "Shorts"])
    >>> taxonomy.depths().tolist(), taxonomy.is_tree
    ([0, 1], True)
    """

    node_names: tuple[str, ...]
    edges: np.ndarray
    n_labels: int

    def __post_init__(self) -> None:
        _refuse_cycles(self.edges, self.node_names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Taxonomy):
            return NotImplemented
        return (
            self.node_names == other.node_names
            and self.n_labels == other.n_labels
            and np.array_equal(self.edges, other.edges)
        )

    def __len__(self) -> int:
        return len(self.node_names)

    @property
    def is_tree(self) -> bool:
        """Return whether no node has two parents."""
        return len(np.unique(self.edges[:, 0])) == len(self.edges)

    def depths(self) -> np.ndarray:
        """Return the longest distance from a root, per node."""
        return longest_depths(self.edges, len(self.node_names))

    def ancestors(self) -> csr_matrix:
        """Return a (nodes, nodes) matrix with 1 for each node's ancestors and itself."""
        n, (children, parents) = len(self), self.edges.T
        up = csr_matrix((np.ones(len(children), np.float32), (children, parents)), (n, n))
        reached = (identity(n, np.float32, format="csr") + up).tocsr()
        for _ in range(int(self.depths().max(initial=0)).bit_length()):  # each doubles the distance
            reached = reached @ reached
            reached.data[:] = 1.0
        reached.sort_indices()
        return reached

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the edges as (child name, parent name)."""
        for child, parent in self.edges.tolist():
            yield self.node_names[child], self.node_names[parent]

    @classmethod
    def from_names(cls, pairs: Iterable[tuple[str, str]], label_names: Sequence[str]) -> Taxonomy:
        """Build from (child name, parent name) pairs; names of no label become further nodes."""
        index = {name: i for i, name in enumerate(label_names)}
        edges = [
            (index.setdefault(child, len(index)), index.setdefault(parent, len(index)))
            for child, parent in pairs
        ]
        array = np.unique(np.array(edges, dtype=np.int64).reshape(-1, 2), axis=0)
        return cls(tuple(index), array, len(label_names))


def joined(parts: Iterable[Taxonomy | None], label_names: Sequence[str]) -> Taxonomy | None:
    """Join the edges of several taxonomies over these labels; return None if there is none."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    pairs = (pair for part in present for pair in part.pairs())
    return Taxonomy.from_names(pairs, label_names)


def read_taxonomy(path: PathLike, label_names: Sequence[str]) -> Taxonomy:
    """Read a hierarchy file: `child TAB parent` per line; blank lines and `# ...` are skipped.

    Parameters
    ----------
    path : path
        The file.
    label_names : sequence of str
        The labels, in order; other names in the file become further nodes.

    Returns
    -------
    Taxonomy

    Raises
    ------
    DataError
        If a line is not a pair of names, or the edges have a cycle.
    """
    place = at_rest(path)
    pairs = list(_read_edges(place))
    try:
        return Taxonomy.from_names(pairs, label_names)
    except DataError as error:
        raise DataError(error.message, path=place) from None


def _read_edges(path: Path) -> Iterator[tuple[str, str]]:
    with opened(path) as stream:
        for number, raw in limited_lines(stream, path):
            text = decoded(raw, path, number).rstrip("\r\n")
            # A comment needs the blank, as a label may well begin with "#".
            if not text.strip() or text == "#" or text.startswith("# "):
                continue
            child, *parents = text.split("\t")
            if len(parents) != 1 or not child or not parents[0]:
                message = f"expected `child TAB parent`, found {text[:60]!r}"
                raise DataError(message, path=path, line=number)
            yield unquoted(child), unquoted(parents[0])


def write_taxonomy(taxonomy: Taxonomy, path: PathLike) -> None:
    """Write the edges as a hierarchy file that `read_taxonomy` understands."""
    with replacing(path) as stream:
        stream.writelines(taxonomy_lines(taxonomy))


def taxonomy_lines(taxonomy: Taxonomy) -> Iterator[bytes]:
    """Yield the lines of a hierarchy file."""
    return (f"{_cell(child)}\t{_cell(parent)}\n".encode() for child, parent in taxonomy.pairs())


def _cell(name: str) -> str:
    """Return a name as a hierarchy file holds it, quoted where it would be ambiguous."""
    empty_or_comment = not name.strip() or name.startswith("# ")
    return json.dumps(name) if empty_or_comment else quoted(name)


def longest_depths(edges: np.ndarray, n_nodes: int) -> np.ndarray:
    """Return the depth of each node in topological order; -1 for nodes on or below a cycle."""
    children, parents = edges[:, 0], edges[:, 1]
    order = np.argsort(parents, kind="stable")
    starts = np.searchsorted(parents[order], np.arange(n_nodes + 1))
    waiting = np.bincount(children, minlength=n_nodes)
    depths = np.where(waiting == 0, 0, -1)
    front = np.flatnonzero(waiting == 0)
    depth = 0
    while len(front):
        depth += 1
        below = [children[order[starts[node] : starts[node + 1]]] for node in front]
        reached = np.concatenate(below) if below else np.empty(0, np.int64)
        np.subtract.at(waiting, reached, 1)
        front = np.unique(reached[waiting[reached] == 0])
        depths[front] = depth
    return depths


def cycle_of(edges: np.ndarray, n_nodes: int) -> list[int]:
    """Return the nodes of a cycle, from child to parent, its first one again at the end.

    Examples
    --------
    >>> cycle_of(np.array([[0, 1], [1, 2], [2, 1]]), 3), cycle_of(np.array([[0, 1]]), 2)
    ([1, 2, 1], [])
    """
    depths = longest_depths(edges, n_nodes)
    if (depths >= 0).all():
        return []
    stuck = set(np.flatnonzero(depths < 0).tolist())
    parent_of = {int(c): int(p) for c, p in edges if int(c) in stuck and int(p) in stuck}
    node = next(iter(parent_of))
    place: dict[int, int] = {}  # of each node on the path upwards from the first one
    while node not in place:
        place[node] = len(place)
        node = parent_of[node]
    return [*list(place)[place[node] :], node]


def _refuse_cycles(edges: np.ndarray, names: Sequence[str]) -> None:
    cycle = cycle_of(edges, len(names))
    if not cycle:
        return
    shown = [
        names[i] if len(names[i]) <= _SHOWN_LETTERS else f"{names[i][:_SHOWN_LETTERS]}..."
        for i in cycle[:_SHOWN_NODES]
    ]
    if len(cycle) > _SHOWN_NODES:
        shown += [f"... ({len(cycle) - 1} names)"]
    raise DataError("the taxonomy has a cycle: " + " -> ".join(shown))


def label_ancestors(taxonomy: Taxonomy | None, n_labels: int) -> csr_matrix:
    """Return a (labels, labels) matrix with 1 for each label's ancestors, the topmost first."""
    if taxonomy is None:
        return csr_matrix((n_labels, n_labels), dtype=np.float32)
    cells = taxonomy.ancestors()[:n_labels, :n_labels].tocoo()
    rows, columns = cells.row[cells.row != cells.col], cells.col[cells.row != cells.col]
    order = np.lexsort((taxonomy.depths()[columns], rows))
    ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_labels))])
    ones = np.ones(len(order), np.float32)
    return csr_matrix((ones, columns[order], ends), shape=(n_labels, n_labels))
