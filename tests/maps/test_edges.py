"""The lines between labels pass over taxonomy nodes that are no labels."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from labelspace.maps.edges import label_edges


def climbed(edges, n_labels):
    """Return the same by walking up from every label."""
    above = {}
    for child, parent in edges:
        above.setdefault(child, []).append(parent)
    found = set()
    for label in range(n_labels):
        front = list(above.get(label, []))
        while front:
            node = front.pop()
            if node < n_labels:
                found.add((label, node))
            else:
                front.extend(above.get(node, []))
    return sorted(found)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_lines_lead_to_the_nearest_labels_above(data):
    n_nodes = data.draw(st.integers(1, 12))
    n_labels = data.draw(st.integers(1, n_nodes))
    shuffled = data.draw(st.permutations(range(n_nodes)))
    pairs = data.draw(st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=25))
    edges = sorted((shuffled[a], shuffled[b]) for a, b in pairs if b < a < n_nodes)
    found = label_edges(np.array(edges, np.int64).reshape(-1, 2), n_labels)
    assert found.dtype == np.int32
    assert [tuple(edge) for edge in found.tolist()] == climbed(edges, n_labels)
