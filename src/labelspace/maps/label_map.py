"""The content of a label map as arrays, which a page or a picture is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labelspace.errors import InputError, UnsupportedError
from labelspace.labels.propensity import LabelCounts
from labelspace.maps.edges import label_edges
from labelspace.maps.layout import layout
from labelspace.maps.nearest import Near, nearest_labels
from labelspace.methods.descriptions import methods_with

if TYPE_CHECKING:
    from labelspace.data.dataset import Dataset
    from labelspace.methods.base import Method
    from labelspace.model.tagger import Tagger

NEAREST = 10  # labels listed for each
_HOW = (
    "General labels lie near the centre, specific ones outside, similar ones side by side; "
    "colours are groups."
)

# Of groups, the largest first. On white, each has a contrast of at least 4.5 for its name.
COLOURS = (
    "#2f5fd0", "#b8500a", "#2b7a39", "#c2255c", "#6741d9", "#0b7285",
    "#8a5a2b", "#c92a2a", "#55720a", "#1971a6", "#9c36b5", "#8a6500",
)  # fmt: skip
OTHER = "#5f6875"  # of labels in no group
INK = "#1c2330"
QUIET = "#5f6875"
RIM = "#dfe4ea"


@dataclass(frozen=True)
class LabelMap:
    """Labels as points of the Poincare disk.

    Attributes
    ----------
    title : str
        The title of the map.
    notes : (str, str)
        Sentences on the model, and on where labels lie.
    names, ids : list of str
        Names of the labels, and how predictions name them.
    points : complex array
        One point per label, inside the unit circle.
    counts : int array or None
        Number of training examples per label, if known.
    parent : int array
        The parent of each label in the tree that is drawn; -1 without one.
    group : int array
        The group by which each label is coloured, the largest first; -1 in none.
    heads : int array
        The label that each group is named after.
    near : Near
        The nearest labels in the model's own space.
    """

    title: str
    notes: tuple[str, str]
    names: list[str]
    ids: list[str]
    points: np.ndarray
    counts: np.ndarray | None
    parent: np.ndarray
    group: np.ndarray
    heads: np.ndarray
    near: Near

    def __len__(self) -> int:
        return len(self.names)

    @property
    def weights(self) -> np.ndarray:
        """Return the priority of labels where not all can be shown: their counts, or 0."""
        return np.zeros(len(self), np.int64) if self.counts is None else self.counts

    def short_name(self, label: int) -> str:
        """Return the name of a label; of a path, what it has beyond that of its parent."""
        name, above = self.names[label], self.parent[label]
        path = f"{self.names[above]} > " if above >= 0 else ""
        return name[len(path) :] if path and name.startswith(path) and name != path else name


def label_map(tagger: Tagger, title: str, data: Dataset | None = None) -> LabelMap:
    """Compute the map of a model's label space.

    Parameters
    ----------
    tagger : Tagger
        The model.
    title : str
        The title of the map.
    data : Dataset, optional
        Labelled examples, read by `Tagger.read`, for label frequencies and a taxonomy that the
        model does not have.

    Returns
    -------
    LabelMap
        The map; `map_page` and `picture` draw it, `write_map` writes it to a file.

    Raises
    ------
    UnsupportedError
        If the method has no label vectors.
    """
    method, n_labels = tagger.method, tagger.method.n_labels_
    vectors = np.asarray(_vectors(method), np.float32)
    if len(vectors) == 0 or not np.isfinite(vectors).all():
        raise InputError("the model has no labels, or label vectors that are not finite")
    geometry = method.space_geometry
    near = nearest_labels(vectors, geometry, min(NEAREST, n_labels - 1))
    counts, edges = _counts(tagger, data), _edges(tagger, data)
    weights = np.zeros(n_labels, np.int64) if counts is None else counts
    placed = layout(vectors, weights, edges, near.labels)
    points, how = placed.points, _HOW
    if geometry == "hyperbolic" and vectors.shape[1] <= 2:
        points, how = _own_points(vectors), "The model's own dimensions, unchanged."
    lines = "the taxonomy" if len(edges) else "from the most frequent label of a cluster to others"
    return LabelMap(
        title,
        (_model_note(method, geometry, vectors), f"{how} Lines: {lines}."),
        tagger.names()[:n_labels],
        list(tagger.label_names[:n_labels]),
        points,
        counts,
        placed.parent,
        placed.group,
        placed.heads,
        near,
    )


def _own_points(vectors: np.ndarray) -> np.ndarray:
    """Return points of the Poincare ball of at most two dimensions as complex numbers."""
    plane = np.zeros((len(vectors), 2))
    plane[:, : vectors.shape[1]] = vectors
    return np.asarray(plane @ np.array([1, 1j]))


def _model_note(method: Method, geometry: str, vectors: np.ndarray) -> str:
    space = "" if geometry in ("euclidean", method.name) else f", {geometry}"
    return f"method {method.name}{space}, {vectors.shape[1]} dimensions, {len(vectors):,} labels"


def _vectors(method: Method) -> np.ndarray:
    if not method.has_space:
        raise UnsupportedError(
            f"{method.name} has no label vectors to map; methods that have: {methods_with('map')}"
        )
    return method.label_vectors_


def _counts(tagger: Tagger, data: Dataset | None) -> np.ndarray | None:
    known = tagger.label_counts
    if known is None and data is not None:
        known = LabelCounts.of(data.labels)
    n_labels = tagger.method.n_labels_
    return None if known is None else known.widened(n_labels)[:n_labels]


def _edges(tagger: Tagger, data: Dataset | None) -> np.ndarray:
    taxonomy = tagger.taxonomy
    if taxonomy is None and data is not None:
        taxonomy = data.taxonomy
    if taxonomy is None:
        return np.empty((0, 2), np.int32)
    return label_edges(taxonomy.edges, tagger.method.n_labels_)


def frequency_levels(counts: np.ndarray) -> np.ndarray:
    """Return 0 for labels with at most one example, 1 for the most frequent, by the log between."""
    logs = np.log(np.maximum(counts, 1).astype(np.float64))
    return np.asarray(logs / max(float(logs.max(initial=0.0)), 1e-9))


def frequency_ticks(most: int) -> list[int]:
    """Return the frequencies beside the colour scale: powers of ten below the largest, and it."""
    powers = [10**power for power in range(len(str(most))) if 10**power < most / 3]
    return [*powers, most] if powers else [max(most, 1)]
