"""The texts that a generative method writes for labels: path by path, or as one record.

A record has a field for every kind of label outside of the taxonomy and for every level of it:

    details_Brand: Alisha L0_category: Clothing L1_category: Women's Clothing L2_category: NA

A field without a label is NA.
"""

from __future__ import annotations

import re

import numpy as np

from labelspace.data.columns import KIND_JOINT
from labelspace.data.kinds import label_kinds
from labelspace.data.taxonomy import Taxonomy

NA = "NA"
# What separates a parent's name from its child's in names that contain the path.
_SEPARATOR = re.compile(r"\s*(?:>|/|\||:)+\s*")


def written_names(taxonomy: Taxonomy) -> list[str]:
    """Return the text that a generative method writes per node, such as `L1: Women's Clothing`.

    It is the level and the node's own name. A name that begins with its parent's, as in
    `Clothing > Women's Clothing`, loses that part; a node without edges keeps its name.
    """
    depths, own = taxonomy.depths(), _own_names(taxonomy)
    connected = np.zeros(len(taxonomy), dtype=bool)
    connected[taxonomy.edges.ravel()] = True
    return [
        f"L{depths[node]}: {name}" if connected[node] else name for node, name in enumerate(own)
    ]


def record_fields(taxonomy: Taxonomy) -> list[str]:
    """Return what begins each field of a record, in order: kinds, then levels.

    Examples
    --------
    >>> names = ["Shoes", "Shoes > Boots", "brand: Nike"]
    >>> record_fields(Taxonomy.from_names([("Shoes > Boots", "Shoes")], names))
    ['details_Brand:', 'L0_category:', 'L1_category:']
    """
    kinds, _ = label_kinds(taxonomy, taxonomy.node_names[: taxonomy.n_labels])
    levels = range(int(taxonomy.depths().max(initial=0)) + 1)
    return [
        *(f"details_{kind[:1].upper()}{kind[1:]}:" for kind in kinds),
        *(f"L{level}_category:" for level in levels),
    ]


def record_texts(taxonomy: Taxonomy) -> list[str]:
    """Return the texts of which records consist: the nodes' names, the fields, and NA.

    Names have neither the part that is the parent's nor the kind, both of which the record has
    already.
    """
    kinds, of = label_kinds(taxonomy, taxonomy.node_names[: taxonomy.n_labels])
    names = _own_names(taxonomy)
    for label in np.flatnonzero(of >= 0).tolist():
        names[label] = names[label].removeprefix(kinds[of[label]] + KIND_JOINT)
    return [*names, *record_fields(taxonomy), NA]


def _own_names(taxonomy: Taxonomy) -> list[str]:
    names = taxonomy.node_names
    own = list(names)
    for child, parent in taxonomy.edges.tolist():
        shorter = _without(names[child], names[parent])
        own[child] = min(own[child], shorter, key=len)
    return own


def _without(name: str, parent: str) -> str:
    """Return the name without its parent's and the separator."""
    if not name.startswith(parent):
        return name
    separator = _SEPARATOR.match(name, len(parent))
    return name[separator.end() :] or name if separator else name
