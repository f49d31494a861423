"""Weights of the linear classifiers of a tree, stored to score all children of a node at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

from labelspace._core.checks import all_within, are_numbers, are_offsets, expect
from labelspace.labels.tree import LabelTree

# Margins of the squared hinge times this are used as log odds. Parabel's exp(-max(0, 1 - m)^2) is
# 1 for every margin m above 1, and so does not rank these.
HINGE_SLOPE = 4.0


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


# For a tree whose nodes have networks.
NO_EDGE_WEIGHTS = EdgeWeights(
    *(np.empty(0, np.float32), np.empty(0, np.int32), np.empty(0, np.int32)),
    *(np.empty(0, np.int32), np.empty(0, np.uint16), np.empty(0, np.float32)),
)


def lay_out(tree: LabelTree, weights: csr_matrix) -> EdgeWeights:
    """Return weights (nodes, features + 1), whose last column is the bias, by parent."""
    width = weights.shape[1] - 1
    bias = weights[:, width].toarray().ravel()
    weights = weights[:, :width]
    widest = int(np.diff(tree.first_child).max())
    sibling = np.empty(weights.nnz, np.uint16 if widest < 1 << 16 else np.int32)
    features, values = np.empty(weights.nnz, np.int32), np.empty(weights.nnz, np.float32)
    parts = (weights.indptr, weights.indices, weights.data, tree.first_child)
    _by_feature(*parts, features, sibling, values)
    # A run of cells begins with each chunk, and where the feature changes within a chunk.
    borders = weights.indptr[tree.first_child].astype(np.int64)
    begins = np.zeros(weights.nnz + 1, np.bool_)
    begins[1:-1] = features[1:] != features[:-1]
    begins[borders] = True
    begins[-1] = False
    cells = np.flatnonzero(begins)
    chunks = np.searchsorted(cells, borders)
    small = weights.nnz <= np.iinfo(np.int32).max
    return EdgeWeights(
        bias,
        chunks.astype(np.int32 if small else np.int64),
        features[cells],
        np.append(cells, weights.nnz).astype(np.int32 if small else np.int64),
        sibling,
        values,
    )


def check_edge_weights(model: EdgeWeights, tree: LabelTree, width: int) -> None:
    """Raise ModelFormatError unless the weights match the tree and inputs of this width."""
    widest = int(np.diff(tree.first_child).max())
    n_cells = len(model.weights)
    holds = (
        are_numbers(model.bias, len(tree))
        and are_numbers(model.weights, None)
        and model.features.ndim == 1
        and are_offsets(model.chunks, len(tree), len(model.features))
        and all_within(model.features, 0, width)
        and are_offsets(model.cells, len(model.features), n_cells)
        and model.sibling.shape == (n_cells,)
        and all_within(model.sibling, 0, widest)
    )
    expect(holds, "the classifiers do not match the label tree")


@njit(cache=True, nogil=True)
def edge_margins(x, model, node, first, width, margins):  # type: ignore[no-untyped-def]
    """Write the margins of the `width` children of a node, from `first` on, to `margins`."""
    for n in range(width):
        margins[n] = model.bias[first + n]
    indices, data = x
    low, end = np.int64(model.chunks[node]), np.int64(model.chunks[node + 1])
    for i in range(len(indices)):
        wanted, high = indices[i], end
        while low < high:
            middle = (low + high) >> 1
            if model.features[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        if low == end:
            break
        if model.features[low] == wanted:
            for cell in range(model.cells[low], model.cells[low + 1]):
                margins[model.sibling[cell]] += data[i] * model.weights[cell]


@njit(cache=True, nogil=True)
def _by_feature(indptr, indices, data, first_child, features, sibling, values):  # type: ignore[no-untyped-def]
    """Write the weights of each node's children, sorted by feature."""
    for node in range(len(first_child) - 1):
        first, last = first_child[node], first_child[node + 1]
        start, stop = indptr[first], indptr[last]
        if start == stop:
            continue
        number = np.empty(stop - start, np.int32)
        for child in range(first, last):
            number[indptr[child] - start : indptr[child + 1] - start] = child - first
        order = np.argsort(indices[start:stop], kind="mergesort")
        for place in range(len(order)):
            features[start + place] = indices[start + order[place]]
            values[start + place] = data[start + order[place]]
            sibling[start + place] = number[order[place]]
