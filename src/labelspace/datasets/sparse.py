"""Generated sparse data of any shape with structure that can be learned.

Labels form clusters. A point draws a cluster, takes its labels from it (sometimes one from another
cluster), and has some of the features that belong to these labels and to the cluster among common
ones. Both draws follow power laws, and so do the labels as a whole. Features are assigned to labels
by a hash, so that memory does not grow with the number of labels; point i depends on the seed and i
alone, and batches of any size give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.random64 import GOLDEN, mix
from labelspace._core.streams import PathLike, replacing
from labelspace.data.dataset import Dataset
from labelspace.data.formats.number_text import BYTES_PER_INDEX, BYTES_PER_VALUE, print_rows
from labelspace.data.formats.scan import kernel
from labelspace.datasets.catalogue import PUBLIC_SETS
from labelspace.errors import ParameterError

BATCH = 16_384

LABEL_SHARE, CLUSTER_SHARE = 0.45, 0.15  # of a point's features; the rest are common words
FEATURES_OF_LABEL, FEATURES_OF_CLUSTER = 8, 32
FROM_ELSEWHERE = 0.1  # how often a label comes from another cluster
UNIT = 100_000  # values are multiples of 1/UNIT, so that text holds them exactly


@dataclass(frozen=True)
class SparseShape:
    """The size and skew of generated data.

    Parameters
    ----------
    points, features, labels : int
        The sizes.
    nnz : float, default 76
        Mean number of features per point; a point has from half to one and a half times as many.
    labels_per_point : float, default 5
        Mean number of labels per point; a point has from one to twice as many.
    tail_exponent : float, default 1
        Exponent of the power laws by which clusters and their labels are drawn. The label of rank
        r occurs about r ** -tail_exponent times as often, a little less steeply in the head.

    Raises
    ------
    ParameterError
        If a value is out of range.
    """

    points: int
    features: int
    labels: int
    nnz: float = 76.0
    labels_per_point: float = 5.0
    tail_exponent: float = 1.0

    def __post_init__(self) -> None:
        limits = {
            "points": (1, math.inf),
            "features": (4, 2**31 - 1),
            "labels": (2, 2**31 - 1),
            "nnz": (1, self.features / 2),  # above half, free features become hard to find
            "labels_per_point": (1, self.labels / 2),
            "tail_exponent": (0, 4),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ParameterError(f"{name} must be between {low} and {high:g}, not {value}")

    @property
    def clusters(self) -> int:
        """Return the number of clusters; each has at least twice the labels that a point has."""
        return max(1, self.labels // max(16, math.ceil(4 * self.labels_per_point)))


def _public(name: str, tail_exponent: float = 1.0) -> SparseShape:
    public = PUBLIC_SETS[name]
    return SparseShape(
        public.train,
        public.features,
        public.labels,
        labels_per_point=public.labels_per_point,
        tail_exponent=tail_exponent,
    )


# The repository does not give the number of features per point: all have Amazon-670K's 76.
EURLEX_4K = _public("eurlex-4k")
WIKI10_31K = _public("wiki10-31k")
AMAZONCAT_13K = _public("amazoncat-13k")
DELICIOUS_200K = _public("delicious-200k")
WIKILSHTC_325K = _public("wikilshtc-325k")
WIKIPEDIA_500K = _public("wikipedia-500k")
# At 0.6 the most common label is on about as few points (0.3 %) as in the real set.
AMAZON_670K = _public("amazon-670k", tail_exponent=0.6)
AMAZON_3M = _public("amazon-3m", tail_exponent=0.6)


def iter_sparse(
    shape: SparseShape, *, seed: int = 0, start: int = 0, batch: int = BATCH
) -> Iterator[tuple[csr_matrix, csr_matrix]]:
    """Yield (features, labels) of generated points, in batches.

    Parameters
    ----------
    shape : SparseShape
        The size and skew of the data.
    seed : int, default 0
        Another seed gives other data.
    start : int, default 0
        Number of the first point; `start=shape.points` gives a test set of the same kind.
    batch : int
        Points per batch; it does not change the points.

    Yields
    ------
    features, labels : csr_matrix
    """
    if batch < 1:
        raise ParameterError(f"batch must be at least 1, not {batch}")
    stop = start + shape.points
    for first in range(start, stop, batch):
        yield _points(shape, seed, first, min(first + batch, stop))


def make_sparse(shape: SparseShape, seed: int = 0, *, start: int = 0) -> Dataset:
    """Return all points at once, in memory.

    Parameters
    ----------
    shape, seed, start
        As for `iter_sparse`.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> make_sparse(SparseShape(points=100, features=200, labels=50))
    Dataset(100 examples, 50 labels, 200 features, source='synthetic, seed 0')
    """
    features, labels = _points(shape, seed, start, start + shape.points)
    return Dataset(labels, features, source=f"synthetic, seed {seed}")


def write_sparse(shape: SparseShape, path: PathLike, seed: int = 0, *, start: int = 0) -> None:
    """Write all points as XC text, batch by batch; compressed if the name ends in .gz.

    Parameters
    ----------
    shape, seed, start
        As for `iter_sparse`.
    path : path
        The file.
    """
    with replacing(path) as file:
        file.write(f"{shape.points} {shape.features} {shape.labels}\n".encode())
        for features, labels in iter_sparse(shape, seed=seed, start=start):
            indices, values = labels.nnz + features.nnz, features.nnz
            capacity = 2 * labels.shape[0] + BYTES_PER_INDEX * indices + BYTES_PER_VALUE * values
            text = np.empty(capacity, np.uint8)
            length = print_rows(
                labels.indptr[1:].astype(np.int64),
                labels.indices,
                features.indptr[1:].astype(np.int64),
                features.indices,
                features.data,
                text,
            )
            file.write(text[:length].data)


def _points(shape: SparseShape, seed: int, first: int, stop: int) -> tuple[csr_matrix, csr_matrix]:
    n = stop - first
    point_key, word_key = _keys(seed)
    feature_starts, label_starts = _row_starts(
        point_key, first, n, shape.nnz, shape.labels_per_point
    )
    features = np.empty(feature_starts[-1], np.int32)
    values = np.empty(feature_starts[-1], np.float32)
    labels = np.empty(label_starts[-1], np.int32)
    _fill(
        (point_key, word_key),
        first,
        (feature_starts, features, values),
        (label_starts, labels),
        (shape.features, shape.labels, shape.clusters),
        shape.tail_exponent,
    )
    # Small ids are not the frequent ones: ranks are spread over the ids by a fixed permutation.
    features = _spread(features, shape.features)
    labels = _spread(labels, shape.labels)
    x = csr_matrix((values, features, feature_starts), shape=(n, shape.features))
    y = csr_matrix((np.ones(len(labels), np.float32), labels, label_starts), (n, shape.labels))
    x.sort_indices()
    y.sort_indices()
    return x, y


def _spread(ranks: np.ndarray, size: int) -> np.ndarray:
    """Multiply by a number near the golden section that has no divisor in common with `size`."""
    step = max(1, round(size * 0.6180339887))
    while math.gcd(step, size) != 1:
        step += 1
    return (ranks.astype(np.int64) * step % size).astype(np.int32)


def _keys(seed: int) -> tuple[np.uint64, np.uint64]:
    """Return independent keys for the points, and for the features of labels and clusters."""
    if seed < 0:
        raise ParameterError(f"seed must not be negative, but is {seed}")
    point_key, word_key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    return point_key, word_key


S11 = np.uint64(11)
# Counters below a point's key, far enough apart not to overlap.
SIZES, LABELS, FEATURES, TERM_COUNTS = 0, 1 << 8, 1 << 32, 1 << 33


@kernel
def _hash(key: np.uint64, counter: int) -> np.uint64:
    """Return the counter-th number of the stream that starts at `key`."""
    return mix(key + np.uint64(counter) * GOLDEN)  # type: ignore[no-any-return]


@kernel
def _uniform(key: np.uint64, counter: int) -> float:
    return (_hash(key, counter) >> S11) * 2.0**-53


@kernel
def _below(dice: np.uint64, n: int) -> int:
    return np.int64(dice % np.uint64(n))  # type: ignore[return-value]  # compiled: one type


@kernel
def _zipf(u: float, n: int, exponent: float) -> int:
    """Draw a rank in 0..n-1 with probability near (rank + 1) ** -exponent, by inversion."""
    if abs(exponent - 1.0) < 1e-9:
        x = math.exp(u * math.log(n + 1.0))
    else:
        power = 1.0 - exponent
        x = (1.0 + u * ((n + 1.0) ** power - 1.0)) ** (1.0 / power)
    return min(n - 1, max(0, int(x) - 1))


@kernel
def _row_starts(
    point_key: np.uint64, first: int, n: int, nnz: float, labels_per_point: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return row pointers of features and labels; sizes are uniform around the mean."""
    feature_starts = np.zeros(n + 1, np.int64)
    label_starts = np.zeros(n + 1, np.int64)
    for row in range(n):
        key = _hash(point_key, first + row)
        size = nnz * (0.5 + _uniform(key, SIZES)) + _uniform(key, SIZES + 1)
        feature_starts[row + 1] = feature_starts[row] + max(1, int(size))
        size = 1 + 2 * (labels_per_point - 1) * _uniform(key, SIZES + 2) + _uniform(key, SIZES + 3)
        label_starts[row + 1] = label_starts[row] + int(size)
    return feature_starts, label_starts


@kernel
def _fill(
    keys: tuple[np.uint64, np.uint64],
    first: int,
    feature_rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    label_rows: tuple[np.ndarray, np.ndarray],
    sizes: tuple[int, int, int],
    exponent: float,
) -> None:
    """Draw the rows whose starts are given; features and labels are ranks, not yet ids."""
    point_key, word_key = keys
    feature_starts, features, values = feature_rows
    label_starts, labels = label_rows
    n_features, n_labels, n_clusters = sizes
    taken_by = np.full(n_features, -1, np.int32)  # the last row that used a feature
    for row in range(len(feature_starts) - 1):
        key = _hash(point_key, first + row)
        own_labels = labels[label_starts[row] : label_starts[row + 1]]
        here = slice(feature_starts[row], feature_starts[row + 1])
        cluster = _zipf(_uniform(key, LABELS - 1), n_clusters, exponent)
        _draw_labels(key, own_labels, cluster, n_labels, n_clusters, exponent)
        _draw_features(key, word_key, features[here], own_labels, cluster, taken_by, row)
        _weigh(key, features[here], values[here], n_features)


@kernel
def _draw_labels(
    key: np.uint64,
    labels: np.ndarray,
    own_cluster: int,
    n_labels: int,
    n_clusters: int,
    exponent: float,
) -> None:
    """Draw distinct labels; cluster c holds the labels c, c + n_clusters, c + 2 n_clusters, ..."""
    for i in range(len(labels)):
        cluster = own_cluster
        if _uniform(key, LABELS + 3 * i) < FROM_ELSEWHERE:
            cluster = _zipf(_uniform(key, LABELS + 3 * i + 1), n_clusters, exponent)
        size = (n_labels - cluster + n_clusters - 1) // n_clusters
        rank = _zipf(_uniform(key, LABELS + 3 * i + 2), size, exponent)
        while _contains(labels[:i], cluster + rank * n_clusters):
            rank = (rank + 1) % size
        labels[i] = cluster + rank * n_clusters


@kernel
def _contains(array: np.ndarray, value: int) -> bool:
    for other in array:  # noqa: SIM110 - numba has no any() over generators
        if other == value:
            return True
    return False


@kernel
def _draw_features(
    key: np.uint64,
    word_key: np.uint64,
    features: np.ndarray,
    labels: np.ndarray,
    cluster: int,
    taken_by: np.ndarray,
    row: int,
) -> None:
    """Draw distinct features: of the labels in turn, then of the cluster, then common ones."""
    n_features = len(taken_by)
    until_label = LABEL_SHARE * len(features)
    until_cluster = until_label + CLUSTER_SHARE * len(features)
    for i in range(len(features)):
        dice = _hash(key, FEATURES + 2 * i)
        feature = -1
        if i < until_label:
            label = labels[i % len(labels)]
            word = label * FEATURES_OF_LABEL + _below(dice, FEATURES_OF_LABEL)
            feature = _below(_hash(word_key, 2 * word), n_features)
        elif i < until_cluster:
            word = cluster * FEATURES_OF_CLUSTER + _below(dice, FEATURES_OF_CLUSTER)
            feature = _below(_hash(word_key, 2 * word + 1), n_features)
        if feature < 0 or taken_by[feature] == row:
            feature = _zipf(_uniform(key, FEATURES + 2 * i + 1), n_features, 1.0)
        while taken_by[feature] == row:
            feature = (feature + 1) % n_features
        taken_by[feature] = row
        features[i] = feature


@kernel
def _weigh(key: np.uint64, features: np.ndarray, values: np.ndarray, n_features: int) -> None:
    """Set tf-idf-like values: some terms occur more than once, frequent ones weigh less; norm 1."""
    total = 0.0
    for i in range(len(features)):
        u = _uniform(key, TERM_COUNTS + i)
        count = 1 if u < 0.6 else 2 if u < 0.85 else 3 if u < 0.95 else 5
        value = (1.0 + math.log(count)) * math.log(2.0 + features[i]) / math.log(2.0 + n_features)
        total += value * value
        values[i] = value
    scale = UNIT / math.sqrt(total)
    for i in range(len(features)):
        values[i] = np.float32(max(1.0, np.rint(values[i] * scale))) / np.float32(UNIT)
