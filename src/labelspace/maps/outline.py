"""A label tree as an HTML page: an outline with branches that open and close."""

from __future__ import annotations

import gzip
import heapq
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import save

from labelspace.errors import UnsupportedError
from labelspace.labels.tree import LabelTree, taxonomy_tree
from labelspace.maps.names import on_one_line
from labelspace.maps.page import filled, json_bytes

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.model.tagger import Tagger

_EXAMPLES = 3  # labels shown for a branch without a name


def tree_page(tagger: Tagger, title: str, taxonomy: Taxonomy | None = None) -> str:
    """Return the page of a model's label tree.

    Parameters
    ----------
    tagger : Tagger
        The model. The tree is the first one that its method built, or its taxonomy.
    title : str
        The title of the page.
    taxonomy : Taxonomy, optional
        A taxonomy of the model's labels, for a model that has none.

    Returns
    -------
    str
        The page, which needs no other file.

    Raises
    ------
    UnsupportedError
        If there is neither a tree nor a taxonomy.
    """
    named: dict[int, str] = {}
    taxonomy = tagger.taxonomy or taxonomy
    if tagger.method.has_label_trees:
        tree = tagger.method.trees_[0]
        what = f"the label tree of method {tagger.method.name}"
    elif taxonomy is not None:
        tree, named = _taxonomy_outline(taxonomy)
        what = "the taxonomy of the labels"
    else:
        raise UnsupportedError(
            f"{tagger.method.name} builds no label tree, and the model has no taxonomy: give "
            "training data that have one (--data TRAIN)"
        )
    counts = np.zeros(tree.n_labels, np.int64)
    if tagger.label_counts is not None:
        counts[:] = tagger.label_counts.widened(tree.n_labels)[: tree.n_labels]
    model = f"{what}, {len(tree):,} nodes, {tree.n_labels:,} labels"
    data = packed_tree(tree, tagger.names(), counts, named)
    scripts = ("data.js", "search.js", "tree.js")
    return filled("tree.html", scripts, {"title": title, "model": model}, data)


def _taxonomy_outline(taxonomy: Taxonomy) -> tuple[LabelTree, dict[int, str]]:
    """Return the branches that have labels, and the names of their nodes."""
    whole, nodes = taxonomy_tree(taxonomy)
    kept = whole.label_counts > 0
    kept[0] = True
    names = taxonomy.node_names
    named = {place: names[node] for place, node in enumerate(nodes[kept].tolist()) if node >= 0}
    return whole.trimmed(), named


def packed_tree(
    tree: LabelTree, label_names: list[str], counts: np.ndarray, named: dict[int, str]
) -> bytes:
    """Return the data of the page's script; `named` has the names of nodes without a label."""
    names = node_names(tree, label_names, counts, named)
    carried = np.maximum(tree.label, 0)
    arrays = {
        "parent": tree.parent.astype(np.int32),
        "labels": tree.label_counts.astype(np.uint32),
        "counts": np.where(tree.label >= 0, counts[carried], 0).astype(np.uint32),
        "is_label": (tree.label >= 0).astype(np.uint8),
        "names": json_bytes(names),
    }
    return gzip.compress(save(arrays), 6, mtime=0)


def node_names(
    tree: LabelTree, label_names: list[str], counts: np.ndarray, named: dict[int, str]
) -> list[str]:
    """Return for each node its label, its own name, or the most frequent labels below it."""
    best: list[list[tuple[int, int]]] = [[] for _ in range(len(tree))]
    for node in range(len(tree) - 1, -1, -1):  # children come behind their parents
        label = int(tree.label[node])
        if label >= 0:
            best[node] = heapq.nsmallest(_EXAMPLES, [*best[node], (-int(counts[label]), label)])
        if node:
            above = int(tree.parent[node])
            best[above] = heapq.nsmallest(_EXAMPLES, best[above] + best[node])
    names = []
    for node, label in enumerate(tree.label.tolist()):
        if label >= 0:
            names.append(label_names[label])
        elif node in named:
            names.append(named[node])
        elif node == 0:
            names.append("All labels")
        else:
            inside = [on_one_line(label_names[one]) for _, one in best[node]]
            more = len(inside) < int(tree.label_counts[node])
            names.append(", ".join(inside) + (", …" if more else ""))
    return names
