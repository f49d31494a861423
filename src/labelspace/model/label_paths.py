"""The places of labels in the taxonomy: paths from the top, and nodes below one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labelspace._core.suggest import did_you_mean
from labelspace.errors import ParameterError

if TYPE_CHECKING:
    from labelspace.model.model_labels import ModelLabels


@dataclass(frozen=True)
class LabelNode:
    """A node of the taxonomy.

    Attributes
    ----------
    id : str
        The label as the data have it, or the name of a node that is not a label.
    name : str
        Its preferred name.
    is_label : bool
        Whether it is a label; other nodes only group labels.
    count : int or None
        Number of training examples; None if it is not a label or the model has no counts.
    children : int
        Number of nodes directly below it.
    """

    id: str
    name: str
    is_label: bool
    count: int | None
    children: int


class LabelPaths:
    """Paths and children of labels, with names in one language.

    Parameters
    ----------
    tagger : ModelLabels
        The model; without a taxonomy, all labels are at the top and have no path.
    language : str, optional
        The language of the names.
    """

    def __init__(self, tagger: ModelLabels, language: str | None = None) -> None:
        names, taxonomy = tagger.names(language), tagger.taxonomy
        self.n_labels = len(names)
        self._counts = None if tagger.label_counts is None else tagger.label_counts.counts
        self._has_paths = taxonomy is not None
        # Nodes that are not labels follow the labels.
        self._ids = tagger.label_names if taxonomy is None else list(taxonomy.node_names)
        self._names = [*names, *self._ids[self.n_labels :]]
        edges = [] if taxonomy is None else taxonomy.edges.tolist()
        self._first_parent = dict(reversed(edges))
        self._below: dict[int, list[int]] = defaultdict(list)
        for child, parent in edges:
            self._below[parent].append(child)

    def path(self, label: int) -> list[str]:
        """Return the names from the top to a label; one path of several, [] without taxonomy."""
        if not self._has_paths:
            return []
        path = [label]
        while path[-1] in self._first_parent:
            path.append(self._first_parent[path[-1]])
        return [self._names[node] for node in reversed(path)]

    def children(self, parent: str | None) -> list[LabelNode]:
        """Return the nodes directly below a node; see `Tagger.label_children`."""
        if parent is None:
            nodes = [node for node in range(len(self._ids)) if node not in self._first_parent]
        else:
            place = {name: node for node, name in enumerate(self._ids)}
            if parent not in place:
                raise ParameterError(
                    f"the taxonomy has no node {parent!r}{did_you_mean(parent, place)}"
                )
            nodes = self._below.get(place[parent], [])
        found = [self._node(node) for node in nodes]
        return sorted(found, key=lambda node: (not node.children, node.name.casefold(), node.id))

    def _node(self, node: int) -> LabelNode:
        is_label = node < self.n_labels
        return LabelNode(
            self._ids[node],
            self._names[node],
            is_label,
            int(self._counts[node]) if is_label and self._counts is not None else None,
            len(self._below.get(node, ())),
        )
