"""Kinds of labels outside of a taxonomy, such as brands beside categories, by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from labelspace.data.columns import KIND_JOINT
from labelspace.data.taxonomy import Taxonomy

MOST_KINDS = 16  # with more prefixes than this, rare ones are taken as parts of names


def label_kinds(taxonomy: Taxonomy, label_names: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return the kinds of labels that have no edges, and the kind of each label.

    Parameters
    ----------
    taxonomy : Taxonomy
    label_names : sequence of str
        A kind is what stands before a colon, as in `brand: Nike`.

    Returns
    -------
    kinds : list of str
        In order of appearance.
    of : ndarray of shape (n_labels,)
        int64 position in `kinds`; -1 for labels of the taxonomy, and for others without a kind.

    Examples
    --------
    >>> names = ["Shoes", "Shoes > Boots", "brand: Nike"]
    >>> kinds, of = label_kinds(Taxonomy.from_names([("Shoes > Boots", "Shoes")], names), names)
    >>> kinds, of.tolist()
    (['brand'], [-1, -1, 0])
    """
    connected = np.zeros(len(taxonomy), dtype=bool)
    connected[taxonomy.edges.ravel()] = True
    lone = np.flatnonzero(~connected[: len(label_names)]).tolist()
    kinds = _kinds([label_names[label] for label in lone])
    of = np.full(len(label_names), -1, np.int64)
    for label in lone:
        kind, joint, _ = label_names[label].partition(KIND_JOINT)
        if joint and kind in kinds:
            of[label] = kinds[kind]
    return list(kinds), of


def _kinds(names: Sequence[str]) -> dict[str, int]:
    """Number the kinds before a colon in the names, in order of appearance.

    Not every colon marks a kind: of many prefixes, only those that many names share count.
    """
    split = (name.partition(KIND_JOINT) for name in names)
    counts = Counter(kind for kind, joint, _ in split if joint)
    if len(counts) > MOST_KINDS:
        least = counts.total() / MOST_KINDS
        counts = Counter({kind: count for kind, count in counts.items() if count > least})
    return {kind: place for place, kind in enumerate(counts)}
