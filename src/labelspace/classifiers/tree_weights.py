"""Weights of the linear classifiers of a tree, stored to score all children of a node at once."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.compiled import loop, loop_part
from labelspace._core.schema import Schema, floats, ints, offsets
from labelspace._core.sorting import stable_order
from labelspace._core.sparse import rows_of
from labelspace.labels.tree import LabelTree

# Margins of the squared hinge times this are used as log odds. Parabel's exp(-max(0, 1 - m)^2) is
# 1 for every margin m above 1, and so does not rank these.
HINGE_SLOPE = 4.0
_PER_BUCKET = 8  # features of a bucket, on average, at most


class EdgeWeights(NamedTuple):
    """Weights of a tree's edges by parent and feature, in chunks of siblings as in PECOS.

    The features with a weight at any child of node p are features[chunks[p]:chunks[p + 1]]. The
    weights of the f-th entry of `features` are weights[cells[f]:cells[f + 1]], and `sibling` has
    the number of the child among its siblings for each. `bias` has one entry per node.
    """

    bias: np.ndarray
    chunks: np.ndarray
    features: np.ndarray
    cells: np.ndarray
    sibling: np.ndarray
    weights: np.ndarray


class FeatureBuckets(NamedTuple):
    """Where the features of each chunk of `EdgeWeights` are; made of these, not stored.

    The features of node p from b << shifts[p] on begin at buckets[begins[p] + b] of its chunk.
    A binary search in whole chunks would wait for memory a dozen times per feature.
    """

    begins: np.ndarray
    shifts: np.ndarray
    buckets: np.ndarray

    @classmethod
    def of(cls, model: EdgeWeights) -> Self:
        """Return buckets of a few features each."""
        counts = np.diff(model.chunks).astype(np.int64)
        width = int(model.features.max(initial=0)) + 1
        inner = counts > 0
        wanted = np.log2(width * _PER_BUCKET / np.maximum(counts, 1))
        shifts = np.clip(np.ceil(wanted), 0, 31).astype(np.int64)
        sizes = np.where(inner, ((width - 1) >> shifts) + 2, 0)
        begins = np.concatenate([[0], sizes.cumsum()])
        buckets = np.empty(int(begins[-1]), np.int32)
        _fill_buckets(model.chunks, model.features, begins, shifts, buckets)
        return cls(begins, shifts, buckets)


# For a tree whose nodes have networks.
NO_EDGE_WEIGHTS = EdgeWeights(
    *(np.empty(0, np.float32), np.empty(0, np.int32), np.empty(0, np.int32)),
    *(np.empty(0, np.int32), np.empty(0, np.uint16), np.empty(0, np.float32)),
)


def lay_out(tree: LabelTree, weights: csr_matrix) -> EdgeWeights:
    """Return weights (nodes, features + 1), whose last column is the bias, by parent."""
    return lay_out_children(tree.first_child, weights)


def lay_out_children(first_child: np.ndarray, weights: csr_matrix) -> EdgeWeights:
    """Return weights by parent; the children of parent p are rows first_child[p] and following."""
    width = weights.shape[1] - 1
    bias = weights[:, width].toarray().ravel()
    weights = weights[:, :width]
    sibling = np.empty(weights.nnz, _sibling_type(first_child))
    features, values = np.empty(weights.nnz, np.int32), np.empty(weights.nnz, np.float32)
    parts = (weights.indptr, weights.indices, weights.data, first_child)
    _by_feature(*parts, features, sibling, values)
    borders = weights.indptr[first_child].astype(np.int64)
    return _in_chunks(bias, borders, features, sibling, values)


def _in_chunks(
    bias: np.ndarray,
    borders: np.ndarray,
    features: np.ndarray,
    sibling: np.ndarray,
    values: np.ndarray,
) -> EdgeWeights:
    """Return weights that are sorted by parent and feature; those of a parent are at `borders`."""
    # A run of cells begins with each chunk, and where the feature changes within a chunk.
    begins = np.zeros(len(values) + 1, np.bool_)
    begins[1:-1] = features[1:] != features[:-1]
    begins[borders] = True
    begins[-1] = False
    cells = np.flatnonzero(begins)
    chunks = np.searchsorted(cells, borders)
    offsets = _offset_type(len(values))
    cells_and_end: np.ndarray = np.append(cells, len(values)).astype(offsets)
    return EdgeWeights(
        bias, chunks.astype(offsets), features[cells], cells_and_end, sibling, values
    )


def replaced_children(
    model: EdgeWeights,
    first_row: np.ndarray,
    parents: np.ndarray,
    rows: np.ndarray,
    found: csr_matrix,
    bias: np.ndarray,
) -> EdgeWeights:
    """Return the weights of all children of some nodes, some of them replaced, by parent.

    Parameters
    ----------
    model : EdgeWeights
    first_row : ndarray of shape (len(parents) + 1,)
        The rows of the children of each; there may be room for more than it has.
    parents : ndarray
        Nodes, sorted.
    rows : ndarray
        The rows to replace, sorted.
    found : csr_matrix of shape (len(rows), features + 1)
        Their weights, with the biases in the last column.
    bias : ndarray of shape (first_row[-1],)
        The biases of the others.
    """
    width = found.shape[1] - 1
    bias = bias.copy()
    bias[rows] = found[:, width].toarray().ravel()
    is_replaced = np.zeros(int(first_row[-1]), np.bool_)
    is_replaced[rows] = True
    own = found[:, :width]
    row = rows[rows_of(own)]
    place = np.searchsorted(first_row, row, side="right") - 1
    siblings = row - first_row[place]
    order = np.lexsort((siblings, own.indices, place))
    new = (
        np.searchsorted(place[order], np.arange(len(parents) + 1)),
        own.indices[order].astype(np.int32),
        siblings[order].astype(_sibling_type(first_row)),
        own.data[order].astype(np.float32),
    )
    old = model.cells[model.chunks[parents + 1]] - model.cells[model.chunks[parents]]
    size = int(old.sum(dtype=np.int64)) + own.nnz
    merged = tuple(np.empty(size, part.dtype) for part in new[1:])
    borders = np.zeros(len(parents) + 1, np.int64)
    _merge(model, parents, first_row, is_replaced, new, merged, borders)
    return _in_chunks(bias, borders, *(part[: borders[-1]].copy() for part in merged))


def weights_of_children(
    model: EdgeWeights, first_row: np.ndarray, parents: np.ndarray, width: int
) -> csr_matrix:
    """Return the weights of the children of some nodes, without biases.

    Parameters
    ----------
    model : EdgeWeights
    first_row : ndarray of shape (len(parents) + 1,)
        The rows of the children of each; there may be room for more than it has.
    parents : ndarray
        Nodes, sorted.
    width : int
        Number of features.

    Returns
    -------
    csr_matrix of shape (first_row[-1], width + 1)
        The last column is empty.
    """
    rows, entries, cells = _cells_of_children(model, first_row, parents)
    sizes = (model.cells[entries + 1] - model.cells[entries]).astype(np.int64)
    columns = np.repeat(model.features[entries], sizes)
    shape = (int(first_row[-1]), width + 1)
    return csr_matrix((model.weights[cells], (rows, columns)), shape=shape, dtype=np.float32)


def numbers_of_weights(
    model: EdgeWeights, first_row: np.ndarray, parents: np.ndarray
) -> np.ndarray:
    """Return how many weights each row of `weights_of_children` has."""
    rows, _, _ = _cells_of_children(model, first_row, parents)
    return np.bincount(rows, minlength=int(first_row[-1]))


def _cells_of_children(
    model: EdgeWeights, first_row: np.ndarray, parents: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of all weights of the children, the places of features, and of weights."""
    entries = _ranges(model.chunks[parents], model.chunks[parents + 1])
    borders = model.cells[model.chunks[parents]], model.cells[model.chunks[parents + 1]]
    cells = _ranges(*borders)
    per_parent = borders[1].astype(np.int64) - borders[0]
    rows = np.repeat(first_row[:-1], per_parent) + model.sibling[cells].astype(np.int64)
    return rows, entries, cells


def with_chunks(
    model: EdgeWeights, tree: LabelTree, number: np.ndarray, parents: np.ndarray, own: EdgeWeights
) -> EdgeWeights:
    """Return the weights of a tree that has grown by leaves.

    Parameters
    ----------
    model : EdgeWeights
        The weights of the tree before.
    tree : LabelTree
        The tree now.
    number : ndarray
        The node now of each node before, rising.
    parents : ndarray
        Nodes of the tree now, sorted, whose children's weights are replaced.
    own : EdgeWeights
        These weights, as `lay_out_children` returns them.
    """
    counts = np.zeros(len(tree), np.int64)
    counts[number] = np.diff(model.chunks)
    counts[parents] = np.diff(own.chunks)
    bias = np.zeros(len(tree), np.float32)
    bias[number] = model.bias
    children = _ranges(tree.first_child[parents], tree.first_child[parents + 1])
    bias[children] = own.bias
    # Pieces of both in turn: what is before each of the parents, then its own; the rest last.
    before = np.searchsorted(number, parents)
    starts, stops = np.append(0, before + 1), np.append(before, len(number))
    pieces: list[tuple[EdgeWeights, slice]] = []
    for place, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        pieces.append((model, slice(model.chunks[start], model.chunks[stop])))
        if place < len(parents):
            pieces.append((own, slice(own.chunks[place], own.chunks[place + 1])))
    of_cells = [
        (part, slice(part.cells[piece.start], part.cells[piece.stop])) for part, piece in pieces
    ]
    sizes = [np.diff(part.cells[piece.start : piece.stop + 1]) for part, piece in pieces]
    ends = np.concatenate([[0], *sizes]).cumsum()
    offsets = _offset_type(int(ends[-1]))
    sibling = np.concatenate([part.sibling[piece] for part, piece in of_cells])
    return EdgeWeights(
        bias,
        np.concatenate([[0], counts.cumsum()]).astype(offsets),
        np.concatenate([part.features[piece] for part, piece in pieces]),
        ends.astype(offsets),
        sibling.astype(_sibling_type(tree.first_child)),
        np.concatenate([part.weights[piece] for part, piece in of_cells]),
    )


def _ranges(starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Return the numbers of all ranges, one after the other."""
    sizes = stops.astype(np.int64) - starts
    shifts = np.repeat(starts - (sizes.cumsum() - sizes), sizes)
    return np.asarray(shifts + np.arange(len(shifts)))


def _sibling_type(first_child: np.ndarray) -> type:
    return np.uint16 if int(np.diff(first_child).max(initial=0)) < 1 << 16 else np.int32


def _offset_type(most: int) -> type:
    return np.int32 if most <= np.iinfo(np.int32).max else np.int64


def edge_schema(prefix: str, nodes: str, widest: str, inputs: str) -> Schema:
    """Declare `EdgeWeights` of a tree; `nodes`, `widest` and `inputs` are names of sizes."""
    entries, cells = f"{prefix}entries", f"{prefix}weights of edges"
    return [
        floats(f"{prefix}bias", nodes),
        ints(f"{prefix}features", entries, limit=inputs),
        offsets(f"{prefix}chunks", nodes, entries),
        floats(f"{prefix}weights", cells),
        offsets(f"{prefix}cells", entries, cells),
        ints(f"{prefix}sibling", cells, limit=widest, types="u2 i4"),
    ]


@loop_part
def edge_margins(x, model, places, node, first, width, margins):  # type: ignore[no-untyped-def]
    """Write the margins of the `width` children of a node, from `first` on, to `margins`.

    `places` are the `FeatureBuckets` of the model.
    """
    for n in range(width):
        margins[n] = model.bias[first + n]
    indices, data = x
    begin, shift = places.begins[node], places.shifts[node]
    chunk, last = np.int64(model.chunks[node]), places.begins[node + 1] - begin - 1
    for i in range(len(indices)):
        wanted = indices[i]
        bucket = np.int64(wanted) >> shift
        if bucket >= last:
            break
        low = chunk + places.buckets[begin + bucket]
        end = chunk + places.buckets[begin + bucket + 1]
        high = end
        while low < high:
            middle = (low + high) >> 1
            if model.features[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        if low < end and model.features[low] == wanted:
            for cell in range(model.cells[low], model.cells[low + 1]):
                margins[model.sibling[cell]] += data[i] * model.weights[cell]


@loop
def _fill_buckets(chunks, features, begins, shifts, buckets):  # type: ignore[no-untyped-def]
    """Write where the features of each bucket begin in their chunk; the last entry is its end."""
    for node in range(len(shifts)):
        place, end = chunks[node], chunks[node + 1]
        for bucket in range(begins[node], begins[node + 1]):
            least = (bucket - begins[node]) << shifts[node]
            while place < end and features[place] < least:
                place += 1
            buckets[bucket] = place - chunks[node]


@loop
def _merge(model, parents, first_row, is_replaced, new, merged, borders):  # type: ignore[no-untyped-def]
    """Write the weights of the children, old and new, sorted by parent, feature and sibling."""
    ends, new_features, new_siblings, new_values = new
    features, siblings, values = merged
    at = 0
    for place in range(len(parents)):
        more, last, parent = ends[place], ends[place + 1], parents[place]
        for entry in range(model.chunks[parent], model.chunks[parent + 1]):
            feature = model.features[entry]
            for cell in range(model.cells[entry], model.cells[entry + 1]):
                sibling = model.sibling[cell]
                if is_replaced[first_row[place] + sibling]:
                    continue
                while more < last and (
                    new_features[more] < feature
                    or (new_features[more] == feature and new_siblings[more] < sibling)
                ):
                    features[at], siblings[at] = new_features[more], new_siblings[more]
                    values[at] = new_values[more]
                    more, at = more + 1, at + 1
                features[at], siblings[at] = feature, sibling
                values[at] = model.weights[cell]
                at += 1
        while more < last:
            features[at], siblings[at] = new_features[more], new_siblings[more]
            values[at] = new_values[more]
            more, at = more + 1, at + 1
        borders[place + 1] = at


@loop
def _by_feature(indptr, indices, data, first_child, features, sibling, values):  # type: ignore[no-untyped-def]
    """Write the weights of each node's children, sorted by feature."""
    for node in range(len(first_child) - 1):
        first, last = first_child[node], first_child[node + 1]
        start, stop = indptr[first], indptr[last]
        if start == stop:
            continue
        number = np.empty(stop - start, np.int32)
        for child in range(first, last):
            for cell in range(indptr[child], indptr[child + 1]):
                number[cell - start] = child - first
        order = stable_order(indices[start:stop])
        for place in range(len(order)):
            features[start + place] = indices[start + order[place]]
            values[start + place] = data[start + order[place]]
            sibling[start + place] = number[order[place]]
