"""The edges of a map: the taxonomy among labels, without nodes that are not labels."""

from __future__ import annotations

import numpy as np


def label_edges(edges: np.ndarray, n_labels: int) -> np.ndarray:
    """Return (m, 2) int32 pairs of label and nearest ancestor that is a label.

    Parameters
    ----------
    edges : (m, 2) array
        Child and parent, without cycles.
    n_labels : int
        Number of labels; nodes from this number on are not labels.
    """
    hidden = edges[edges[:, 0] >= n_labels]
    hidden = hidden[np.argsort(hidden[:, 0], kind="stable")]
    climbing, arrived = edges[edges[:, 0] < n_labels], []
    while len(climbing):
        at_label = climbing[:, 1] < n_labels
        arrived.append(climbing[at_label])
        climbing = _one_step_up(climbing[~at_label], hidden)
    found = np.concatenate(arrived) if arrived else np.empty((0, 2))
    return np.unique(found.astype(np.int32), axis=0)


def _one_step_up(climbing: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Return each (label, node) once for every parent of the node."""
    first = np.searchsorted(hidden[:, 0], climbing[:, 1], side="left")
    last = np.searchsorted(hidden[:, 0], climbing[:, 1], side="right")
    counts = last - first
    within = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    parents = hidden[np.repeat(first, counts) + within, 1]
    # A label that reaches a node by several paths is kept once.
    return np.unique(np.column_stack([np.repeat(climbing[:, 0], counts), parents]), axis=0)
