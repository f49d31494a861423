"""All that a map shows, as arrays: made once from a model, then written as a page or a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labelspace.errors import InputError, UnsupportedError
from labelspace.labels.propensity import LabelCounts
from labelspace.maps.edges import label_edges
from labelspace.maps.placing import Near, nearest_labels, place
from labelspace.methods.descriptions import methods_with

if TYPE_CHECKING:
    from labelspace.data.dataset import Dataset
    from labelspace.methods.base import Method
    from labelspace.model.tagger import Tagger

NEAREST = 10  # labels listed for each


@dataclass(frozen=True)
class LabelMap:
    """Labels in the Poincare disk.

    points  complex, inside the unit circle
    counts  training examples of each label, or None where nobody knows
    edges   (m, 2) int32: label and the label above it
    near    the nearest labels in the model's own space
    notes   on the model, and on how its labels came to the disk
    """

    title: str
    notes: tuple[str, str]
    names: list[str]
    points: np.ndarray
    counts: np.ndarray | None
    edges: np.ndarray
    near: Near

    def __len__(self) -> int:
        return len(self.names)

    @property
    def weights(self) -> np.ndarray:
        """What goes first where there is not room for all: the counts, or all alike."""
        return np.zeros(len(self), np.int64) if self.counts is None else self.counts


def label_map(tagger: Tagger, title: str, data: Dataset | None = None) -> LabelMap:
    """The map of a model.

    data  examples to count labels in and to take a taxonomy from, where the model keeps none;
          its first labels are those of the model
    """
    method, n_labels = tagger.method, len(tagger.label_names)
    vectors = np.asarray(_vectors(method), np.float32)
    if len(vectors) == 0 or not np.isfinite(vectors).all():
        raise InputError("the model has no labels, or label vectors that are not finite")
    geometry = method.space_geometry
    near = nearest_labels(vectors, geometry, min(NEAREST, n_labels - 1))
    points, how = place(vectors, geometry, near.labels)
    return LabelMap(
        title,
        (_model_note(method, geometry, vectors), how),
        list(tagger.label_names),
        points,
        _counts(tagger, data),
        _edges(tagger, data),
        near,
    )


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
    n_labels = len(tagger.label_names)
    return None if known is None else known.widened(n_labels)[:n_labels]


def _edges(tagger: Tagger, data: Dataset | None) -> np.ndarray:
    taxonomy = tagger.taxonomy
    if taxonomy is None and data is not None:
        taxonomy = data.taxonomy
    if taxonomy is None:
        return np.empty((0, 2), np.int32)
    return label_edges(taxonomy.edges, len(tagger.label_names))
