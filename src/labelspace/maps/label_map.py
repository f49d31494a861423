"""The content of a label map as arrays, which a page or a picture is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labelspace.errors import InputError, UnsupportedError
from labelspace.labels.propensity import LabelCounts
from labelspace.maps.alike import most_alike
from labelspace.maps.edges import label_edges
from labelspace.maps.layout import layout
from labelspace.maps.nearest import Near, nearest_labels
from labelspace.methods.descriptions import methods_with

if TYPE_CHECKING:
    from labelspace.data.dataset import Dataset
    from labelspace.methods.base import Method
    from labelspace.model.tagger import Tagger

NEAREST = 10  # labels listed for each
BELOW = " > "  # between the levels of a path
_FAR_MORE = 2  # times the examples of the head: a label that the name of a group mentions
_NEARLY_ALL = 0.8  # of the labels below the head of a group: a child that names it better
_HOW = (
    "General labels lie near the centre, specific ones outside, similar ones side by side; "
    "colours are groups."
)

# Of groups. On white, each has a contrast of at least 4.5 for its name.
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

    @property
    def colours(self) -> list[str]:
        """Return a colour per group, then that of labels in none.

        Groups that have to share a colour lie on opposite sides of the disk.
        """
        place = np.argsort(np.argsort(np.angle(self.points[self.heads]), kind="stable"))
        n_colours = len(place) if len(place) <= len(COLOURS) else (len(place) + 1) // 2
        return [*(COLOURS[i % n_colours % len(COLOURS)] for i in place.tolist()), OTHER]

    def short_name(self, label: int) -> str:
        """Return the name of a label; of a path, the levels that its relatives do not have.

        These are its parent and the label that its group is named after.
        """
        levels = self.names[label].split(BELOW)
        above, group = self.parent[label], self.group[label]
        relatives = [above] if above >= 0 else []
        relatives += [self.heads[group]] if group >= 0 else []
        paths = (self.names[each].split(BELOW) for each in relatives)
        shared = max((_n_shared(levels, path) for path in paths), default=0)
        return BELOW.join(levels[min(shared, len(levels) - 1) :])

    @property
    def names_left(self) -> np.ndarray:
        """Return whether the name of each label is best written on the left of its point.

        Lines to children lead outwards, so that the name of a label with children is written
        inwards, and that of others outwards.
        """
        towards = self.points.real - np.where(self.parent >= 0, self.points[self.parent].real, 0.0)
        has_children = np.zeros(len(self), bool)
        has_children[self.parent[self.parent >= 0]] = True
        return (towards < 0) ^ has_children

    @property
    def titles(self) -> list[str]:
        """Return the names of the groups, no two of them the same.

        Of a path this is the last level, with as many before it as tell groups apart. A label of
        the group that is far more frequent than its head follows. Where names are still the same,
        the most frequent other label of the group follows in brackets, then the id.
        """
        paths = [self.names[head].split(BELOW) for head in self.heads]
        titles = [path[-1] for path in paths]
        for n_levels in range(2, max(map(len, paths), default=0) + 1):
            taken = Counter(titles)
            titles = [
                BELOW.join(path[-n_levels:]) if taken[title] > 1 else title
                for path, title in zip(paths, titles, strict=True)
            ]
        heads, frequent = self.heads.tolist(), self._frequent()
        titles = [
            f"{title}, {self.short_name(most)}"
            if self.weights[most] >= _FAR_MORE * max(self.weights[head], 1)
            else title
            for head, most, title in zip(heads, frequent, titles, strict=True)
        ]
        for beside in ([self.short_name(most) for most in frequent], [self.ids[h] for h in heads]):
            taken = Counter(titles)
            titles = [
                f"{title} ({other})" if taken[title] > 1 else title
                for title, other in zip(titles, beside, strict=True)
            ]
        return titles

    def _frequent(self) -> list[int]:
        """Return for each group its most frequent label with another name than its head."""
        found = []
        for group, head in enumerate(self.heads.tolist()):
            members = np.flatnonzero(self.group == group)
            frequent = members[np.argsort(-self.weights[members], kind="stable")].tolist()
            name = self.names[head]
            found.append(next((each for each in frequent if self.names[each] != name), head))
        return found


def _n_shared(levels: list[str], others: list[str]) -> int:
    """Return the number of leading levels that two paths share."""
    pairs = enumerate(zip(levels, others, strict=False))
    return next((i for i, (one, other) in pairs if one != other), min(len(levels), len(others)))


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
    method = tagger.method
    vectors = np.asarray(_vectors(method), np.float32)
    if len(vectors) == 0 or not np.isfinite(vectors).all():
        raise InputError("the model has no labels, or label vectors that are not finite")
    geometry, edges = method.space_geometry, _edges(tagger, data)
    own_plane = geometry == "hyperbolic" and vectors.shape[1] <= 2
    names, counts = tagger.names()[: len(vectors)], _counts(tagger, data)
    shown, alike = _placed(names, vectors, np.empty((0, 2), np.int32) if own_plane else edges)
    if own_plane:
        shown, alike = shown[alike[shown] < 0], np.full(len(vectors), -1)
    number = np.full(len(vectors) + 1, -1)
    number[shown] = np.arange(len(shown))  # the pad -1 stays -1
    kept, alike = vectors[shown], number[alike[shown]]
    edges = number[edges]
    edges = edges[(edges >= 0).all(axis=1)]
    near = _near(kept, geometry)
    counts = None if counts is None else counts[shown]
    weights = np.zeros(len(shown), np.int64) if counts is None else counts
    placed = layout(kept, weights, edges, near.labels, alike)
    points, how = placed.points, _HOW
    if own_plane:
        points, how = _own_points(kept), "The model's own dimensions, unchanged."
    lines = "the taxonomy" if len(edges) else "from a general label of a cluster to others"
    how = f"{how} Lines: {lines}.{_without(int((alike >= 0).sum()), len(vectors) - len(shown))}"
    return LabelMap(
        title,
        (_model_note(method, geometry, vectors), how),
        [names[label] for label in shown],
        [tagger.label_names[label] for label in shown],
        points,
        counts,
        placed.parent,
        placed.group,
        _telling(placed.heads, placed.parent, weights, [names[label] for label in shown]),
        near,
    )


def _telling(
    heads: np.ndarray, parent: np.ndarray, weights: np.ndarray, names: Sequence[str]
) -> np.ndarray:
    """Return the labels that groups are named after: of a chain, the most specific one.

    Where nearly all labels of a group are below one child of its head, as those of `causal agent`
    are below `person`, the child tells more. The first level of a path tells enough.
    """
    children: dict[int, list[int]] = {}
    for label, above in enumerate(parent.tolist()):
        children.setdefault(above, []).append(label)

    def size(label: int) -> int:
        found, waiting = 0, [label]
        while waiting:
            found += 1
            waiting += children.get(waiting.pop(), ())
        return found

    def named(head: int) -> int:
        n_labels = size(head)
        while below := children.get(head):
            most = max(below, key=size)
            n_below = size(most)
            is_path = names[most].startswith(names[head] + BELOW)
            if is_path or n_below < _NEARLY_ALL * n_labels or 2 * weights[most] < weights[head]:
                break
            head, n_labels = most, n_below
        return head

    return np.array([named(head) for head in heads.tolist()], np.int64)


def _placed(
    names: Sequence[str], vectors: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels that have a place on the map, and for each label one with a similar name.

    Training may leave labels without a vector, as those that no example has. They have a place if
    the taxonomy or their name gives one; the second array is -1 for all others.
    """
    has_vector = np.asarray(vectors.any(axis=1), bool)
    if not has_vector.any():
        has_vector[:] = True
    has_place = has_vector.copy()
    has_place[edges.ravel()] = True
    lacking, alike = np.flatnonzero(~has_place), np.full(len(vectors), -1)
    alike[lacking] = most_alike(names, lacking, np.flatnonzero(has_vector))
    return np.flatnonzero(has_place | (alike >= 0)), alike


def _near(vectors: np.ndarray, geometry: str) -> Near:
    """Return the nearest labels, of and among those with a vector."""
    some = np.flatnonzero(vectors.any(axis=1))
    if len(some) in (0, len(vectors)):
        return nearest_labels(vectors, geometry, min(NEAREST, len(vectors) - 1))
    found = nearest_labels(vectors[some], geometry, min(NEAREST, len(some) - 1))
    shape = (len(vectors), found.labels.shape[1])
    near = Near(np.full(shape, -1, np.int32), np.full(shape, np.inf, np.float32))
    near.labels[some] = np.where(found.labels >= 0, some[found.labels], -1)
    near.distances[some] = found.distances
    return near


def _without(beside: int, left_out: int) -> str:
    """Return sentences on labels without a vector, if there are any."""
    said = ""
    if beside:
        said += (
            f" {beside:,} labels without a vector lie beside the one with the most similar name."
        )
    if left_out:
        said += f" {left_out:,} labels without a vector are left out."
    return said


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
