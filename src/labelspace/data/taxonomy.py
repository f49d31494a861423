"""Labels that hang under other labels: a tree or a DAG of child-parent edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labelspace.data._files import PathLike, opened, replacing
from labelspace.errors import DataError

HIERARCHY_FILE = "hierarchy.tsv"


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
    pairs = list(_read_edges(Path(path)))
    try:
        return Taxonomy.from_names(pairs, label_names)
    except DataError as error:
        raise DataError(error.message, path=Path(path)) from None


def find_taxonomy(choice: PathLike, folder: Path, label_names: Sequence[str]) -> Taxonomy | None:
    """The hierarchy file `choice`; "auto": hierarchy.tsv in the folder, if it knows the labels."""
    path = folder / HIERARCHY_FILE if choice == "auto" else Path(choice)
    if choice == "auto" and not path.is_file():
        return None
    taxonomy = read_taxonomy(path, label_names)
    if (taxonomy.edges < taxonomy.n_labels).any():
        return taxonomy
    if choice == "auto":
        return None
    raise DataError("none of the names in it is a label of the data", path=path)


def _read_edges(path: Path) -> Iterator[tuple[str, str]]:
    with opened(path) as stream:
        for number, raw in enumerate(stream, 1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                message = "not UTF-8; save the file as UTF-8"
                raise DataError(message, path=path, line=number, column=error.start + 1) from None
            # A comment needs the blank, as a label may well begin with "#".
            if not text.strip() or text == "#" or text.startswith("# "):
                continue
            child, *parents = text.split("\t")
            if len(parents) != 1 or not child or not parents[0]:
                message = f"expected `child TAB parent`, found {text[:60]!r}"
                raise DataError(message, path=path, line=number)
            yield child, parents[0]


def write_taxonomy(taxonomy: Taxonomy, path: PathLike) -> None:
    """The edges as a hierarchy file that `read_taxonomy` understands."""
    names = taxonomy.node_names
    for name in {names[node] for node in np.unique(taxonomy.edges)}:
        if not name or name.startswith("# ") or any(mark in name for mark in "\t\n\r"):
            raise DataError(
                f"{name!r} cannot stand in a hierarchy file; rename it", path=Path(path)
            )
    with replacing(path) as stream:
        for child, parent in taxonomy.edges.tolist():
            stream.write(f"{names[child]}\t{names[parent]}\n".encode())


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
    seen: list[int] = []
    while node not in seen:
        seen.append(node)
        node = parent_of[node]
    cycle = [*seen[seen.index(node) :], node]
    raise DataError("the taxonomy has a cycle: " + " -> ".join(names[i] for i in cycle))
