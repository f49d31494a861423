"""A small network at every inner node of a label tree: code, hidden layer with ReLU, children.

    margins = V relu(W x + b) + c

minimises the mean loss of the children over the examples that reach the node, plus
|weights|^2 / (2 C n), which for a linear classifier is the objective of `dual_descent.py`.
All nodes are trained by one compiled loop, each with Adam and a random order of its own, so that
threads share nothing and the result does not depend on their number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.adam import adam_update
from labelspace._core.checks import expect
from labelspace._core.compiled import loop, loop_part
from labelspace._core.schema import Schema, floats, ints
from labelspace._core.threads import parallel_blocks
from labelspace.classifiers.dual_descent import Loss
from labelspace.classifiers.tree_edges import reached
from labelspace.labels.tree import LabelTree

EPOCHS, MIN_STEPS = 10, 300  # per node; more epochs where examples are few
BATCH = 32  # examples per step
LR = 0.01  # of Adam; falls to zero linearly


class Networks(NamedTuple):
    """Weights of all networks of a tree.

    Attributes
    ----------
    number : ndarray of shape (n_nodes,)
        Number of an inner node's network; -1 for leaves.
    hidden : ndarray of shape (n_networks, code + 1, width)
        Weights of the hidden layers; the biases are last.
    outputs : ndarray of shape (n_nodes, width + 1)
        Weights of the output of each child, the bias last, so that siblings are adjacent; the
        root's row is not used.
    """

    number: np.ndarray
    hidden: np.ndarray
    outputs: np.ndarray


# For a tree whose edges have linear classifiers.
NO_NETWORKS = Networks(
    np.empty(0, np.int32), np.empty((0, 1, 0), np.float32), np.empty((0, 1), np.float32)
)


def network_schema(prefix: str, nodes: str, widest: str, inputs: str) -> Schema:  # noqa: ARG001
    """Declare `Networks` of a tree; `nodes` and `inputs` are names of sizes."""
    networks, width = f"{prefix}networks", f"{prefix}width"
    return [
        floats(f"{prefix}hidden", networks, f"{inputs} + 1", width),
        ints(f"{prefix}number", nodes, low=-1, limit=networks),
        floats(f"{prefix}outputs", nodes, f"{width} + 1"),
    ]


def check_networks(networks: Networks, tree: LabelTree) -> None:
    """Raise ModelFormatError unless every inner node of the tree has a network."""
    holds = bool((networks.number[~tree.is_leaf] >= 0).all())
    expect(holds, "the networks do not match the label tree")


class _Rule(NamedTuple):
    hinge: bool
    C: float
    seed: int


def train_networks(
    X: csr_matrix, Y: csr_matrix, tree: LabelTree, *, width: int, loss: Loss, C: float, seed: int
) -> Networks:
    """Train a network with a hidden layer of this width per inner node, on codes of length 1."""
    inner = np.flatnonzero(~tree.is_leaf)
    number = np.full(len(tree), -1, np.int32)
    number[inner] = np.arange(len(inner))
    networks = _fresh(number, X.shape[1], width, np.random.default_rng([seed, len(inner)]))
    reach = reached(Y, tree)
    paths = csr_matrix(reach.T)  # sorted, for a binary search for the children of a node
    rule = _Rule(loss == "squared_hinge", C, seed)

    def block(start: int, stop: int) -> None:
        _train(
            *((X.indptr, X.indices, X.data), (reach.indptr, reach.indices)),
            *((paths.indptr, paths.indices), tree.first_child, inner[start:stop], networks, rule),
        )

    parallel_blocks(len(inner), block, block=1)
    return networks


def _fresh(number: np.ndarray, code: int, width: int, rng: np.random.Generator) -> Networks:
    """Return random weights that about keep the length of a code; biases are zero."""
    hidden = rng.standard_normal((number.max() + 1, code + 1, width), np.float32)
    outputs = rng.standard_normal((len(number), width + 1), np.float32)
    outputs /= np.sqrt(np.float32(width))
    hidden[:, -1], outputs[:, -1] = 0.0, 0.0
    return Networks(number, hidden, outputs)


@loop_part
def network_margins(x, networks, node, first, width, margins):  # type: ignore[no-untyped-def]
    """Write the margins of the `width` children of a node, from `first` on, to `margins`."""
    hidden = networks.hidden[networks.number[node]]
    active = np.empty(hidden.shape[1], np.float32)
    _forward(x, hidden, networks.outputs[first : first + width], active, margins)


@loop_part(fastmath={"reassoc", "contract"})
def _forward(x, hidden, outputs, active, margins):  # type: ignore[no-untyped-def]
    """Write the activations of the hidden layer and the margins of the children."""
    indices, data = x
    active[:] = hidden[-1]
    for i in range(len(indices)):
        value, source = data[i], hidden[indices[i]]
        for j in range(len(active)):
            active[j] += value * source[j]
    for j in range(len(active)):
        active[j] = max(active[j], np.float32(0.0))
    for n in range(len(outputs)):
        total, vector = outputs[n, -1], outputs[n]
        for j in range(len(active)):
            total += active[j] * vector[j]
        margins[n] = total


@loop
def _train(examples, reach, paths, first_child, nodes, networks, rule):  # type: ignore[no-untyped-def]
    """Train the networks of these nodes, each with an optimiser of its own."""
    for node in nodes:
        first, last = first_child[node], first_child[node + 1]
        rows = reach[1][reach[0][node] : reach[0][node + 1]]
        hidden, outputs = networks.hidden[networks.number[node]], networks.outputs[first:last]
        if len(rows) == 0:
            continue
        np.random.seed((rule.seed + 1_000_003 * node) % (1 << 32))  # the state is per thread
        steps = max(MIN_STEPS, EPOCHS * len(rows) // BATCH)
        decay = np.float32(1.0 / (rule.C * len(rows)))
        gradients = np.zeros_like(hidden), np.zeros_like(outputs)
        moment1 = np.zeros_like(hidden), np.zeros_like(outputs)
        moment2 = np.zeros_like(hidden), np.zeros_like(outputs)
        order, place = np.random.permutation(rows), 0
        for step in range(steps):
            if place >= len(order):
                order, place = np.random.permutation(rows), 0
            batch = order[place : place + BATCH]
            place += BATCH
            _add_gradients(examples, paths, batch, first, hidden, outputs, gradients, rule.hinge)
            lr = LR * (1.0 - step / steps)
            _update(hidden, gradients[0], moment1[0], moment2[0], decay, lr, step + 1)
            _update(outputs, gradients[1], moment1[1], moment2[1], decay, lr, step + 1)


@loop_part(fastmath={"reassoc", "contract"})
def _add_gradients(  # type: ignore[no-untyped-def]
    examples, paths, batch, first, hidden, outputs, gradients, hinge
):
    """Add the gradients of a batch's mean loss, of the hidden layer and of the outputs."""
    active = np.empty(hidden.shape[1], np.float32)
    back = np.empty(hidden.shape[1], np.float32)
    errors = np.empty(len(outputs), np.float32)
    share = np.float32(1.0 / len(batch))
    for row in batch:
        cells = slice(examples[0][row], examples[0][row + 1])
        x = examples[1][cells], examples[2][cells]
        _forward(x, hidden, outputs, active, errors)
        _margins_to_errors(errors, paths[1][paths[0][row] : paths[0][row + 1]], first, hinge)
        back[:] = 0.0
        for n in range(len(outputs)):
            error, vector, gradient = share * errors[n], outputs[n], gradients[1][n]
            for j in range(len(active)):
                back[j] += error * vector[j]
                gradient[j] += error * active[j]
            gradient[-1] += error
        for j in range(len(active)):
            back[j] = back[j] if active[j] > 0.0 else np.float32(0.0)
        for i in range(len(x[0])):
            value, gradient = x[1][i], gradients[0][x[0][i]]
            for j in range(len(back)):
                gradient[j] += value * back[j]
        gradients[0][-1] += back


@loop_part
def _margins_to_errors(margins, path, first, hinge):  # type: ignore[no-untyped-def]
    """Replace margins by the derivative of the loss; `path` are the nodes an example reaches."""
    at = np.searchsorted(path, first)
    for n in range(len(margins)):
        right = at < len(path) and path[at] == first + n
        at += right
        if hinge:
            sign = 1.0 if right else -1.0
            margins[n] = -2.0 * sign * max(0.0, 1.0 - sign * margins[n])
        else:
            margins[n] = 1.0 / (1.0 + np.exp(-margins[n])) - right


@loop_part(fastmath={"contract"})
def _update(weights, gradients, moment1, moment2, decay, lr, step):  # type: ignore[no-untyped-def]
    """Make one step of Adam with weight decay, and set the gradients to zero."""
    for row in range(len(weights)):
        adam_update(weights[row], gradients[row], moment1[row], moment2[row], decay, lr, step)
        gradients[row] = 0.0
