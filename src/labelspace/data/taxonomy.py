"""Labels that hang under other labels: a tree or a DAG of child-parent edges."""

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
    """Nodes and child-parent edges.

    The first `n_labels` nodes are the labels of the data set, in its order; further nodes are
    parents that no example carries. `edges` is (m, 2) int64, a row (child, parent), sorted, unique.
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
        """True if no node has two parents."""
        return len(np.unique(self.edges[:, 0])) == len(self.edges)

    def depths(self) -> np.ndarray:
        """Longest distance from a root, per node."""
        return longest_depths(self.edges, len(self.node_names))

    def ancestors(self) -> csr_matrix:
        """(nodes, nodes) a one for each node's ancestors and for itself."""
        n, (children, parents) = len(self), self.edges.T
        up = csr_matrix((np.ones(len(children), np.float32), (children, parents)), (n, n))
        reached = (identity(n, np.float32, format="csr") + up).tocsr()
        for _ in range(int(self.depths().max(initial=0)).bit_length()):  # each doubles the way
            reached = reached @ reached
            reached.data[:] = 1.0
        reached.sort_indices()
        return reached

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The edges as (child name, parent name)."""
        for child, parent in self.edges.tolist():
            yield self.node_names[child], self.node_names[parent]

    @classmethod
    def from_names(cls, pairs: Iterable[tuple[str, str]], label_names: Sequence[str]) -> Taxonomy:
        """From (child name, parent name) pairs; names that are no labels become further nodes."""
        index = {name: i for i, name in enumerate(label_names)}
        edges = [
            (index.setdefault(child, len(index)), index.setdefault(parent, len(index)))
            for child, parent in pairs
        ]
        array = np.unique(np.array(edges, dtype=np.int64).reshape(-1, 2), axis=0)
        return cls(tuple(index), array, len(label_names))


def joined(parts: Iterable[Taxonomy | None], label_names: Sequence[str]) -> Taxonomy | None:
    """The edges of several taxonomies over these labels; None if there is none."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    pairs = (pair for part in present for pair in part.pairs())
    return Taxonomy.from_names(pairs, label_names)


def read_taxonomy(path: PathLike, label_names: Sequence[str]) -> Taxonomy:
    """A hierarchy file: `child TAB parent` a line; blank lines and `# ...` are skipped."""
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
    """The lines of a hierarchy file."""
    return (f"{_cell(child)}\t{_cell(parent)}\n".encode() for child, parent in taxonomy.pairs())


def _cell(name: str) -> str:
    """A name as a hierarchy file holds it; quoted where it would read as something else."""
    empty_or_comment = not name.strip() or name.startswith("# ")
    return json.dumps(name) if empty_or_comment else quoted(name)


def longest_depths(edges: np.ndarray, n_nodes: int) -> np.ndarray:
    """Depth by peeling off nodes whose parents are all done; -1 marks nodes on or below a cycle."""
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


def _refuse_cycles(edges: np.ndarray, names: Sequence[str]) -> None:
    depths = longest_depths(edges, len(names))
    if (depths >= 0).all():
        return
    stuck = set(np.flatnonzero(depths < 0).tolist())
    parent_of = {int(c): int(p) for c, p in edges if int(c) in stuck and int(p) in stuck}
    node = next(iter(parent_of))
    place: dict[int, int] = {}  # of each node on the way from the first one up
    while node not in place:
        place[node] = len(place)
        node = parent_of[node]
    cycle = [*list(place)[place[node] :], node]
    shown = [
        names[i] if len(names[i]) <= _SHOWN_LETTERS else f"{names[i][:_SHOWN_LETTERS]}..."
        for i in cycle[:_SHOWN_NODES]
    ]
    if len(cycle) > _SHOWN_NODES:
        shown += [f"... ({len(cycle) - 1} names)"]
    raise DataError("the taxonomy has a cycle: " + " -> ".join(shown))


def label_ancestors(taxonomy: Taxonomy | None, n_labels: int) -> csr_matrix:
    """(labels, labels) a one for each label's ancestors among the labels, the topmost first."""
    if taxonomy is None:
        return csr_matrix((n_labels, n_labels), dtype=np.float32)
    cells = taxonomy.ancestors()[:n_labels, :n_labels].tocoo()
    rows, columns = cells.row[cells.row != cells.col], cells.col[cells.row != cells.col]
    order = np.lexsort((taxonomy.depths()[columns], rows))
    ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_labels))])
    ones = np.ones(len(order), np.float32)
    return csr_matrix((ones, columns[order], ends), shape=(n_labels, n_labels))
