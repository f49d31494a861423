"""How labels are written by a method that writes them: level by level, each name once."""

from __future__ import annotations

import re

import numpy as np

from labelspace.data.taxonomy import Taxonomy

# What joins a parent's name and its child's in names that spell out the path.
_JOINT = re.compile(r"\s*(?:>|/|\||:)+\s*")


def written_names(taxonomy: Taxonomy) -> list[str]:
    """A text for each node: its level and its own name, such as `L1: Women's Clothing`.

    A name that begins with its parent's, as in `Clothing > Women's Clothing`, loses that part; one
    outside of the taxonomy, such as `brand: Nike`, stays as it is.
    """
    names, depths = taxonomy.node_names, taxonomy.depths()
    connected = np.zeros(len(taxonomy), dtype=bool)
    connected[taxonomy.edges.ravel()] = True
    own = list(names)
    for child, parent in taxonomy.edges.tolist():
        shorter = _without(names[child], names[parent])
        own[child] = min(own[child], shorter, key=len)
    return [
        f"L{depths[node]}: {own[node]}" if connected[node] else names[node]
        for node in range(len(names))
    ]


def _without(name: str, parent: str) -> str:
    """The name without its parent's and what joins them."""
    if not name.startswith(parent):
        return name
    joint = _JOINT.match(name, len(parent))
    return name[joint.end() :] or name if joint else name
