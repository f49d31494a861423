"""A small label map, for tests of what is drawn from it."""

from __future__ import annotations

import numpy as np

from labelspace.maps.label_map import LabelMap
from labelspace.maps.layout import layout
from labelspace.maps.nearest import nearest_labels

RUDE = '</script><img src=x onerror=alert(1)> $\\frac{1}$ "{{data}}" 漢字\n&'


def small_map(n=12, *, title="shop", counted=True, seed=0):
    rng = np.random.default_rng(seed)
    vectors = (rng.uniform(-0.4, 0.4, (n, 3))).astype(np.float32)
    near = nearest_labels(vectors, "hyperbolic", min(4, n - 1))
    names = [f"label {i}" for i in range(n - 1)] + [RUDE]
    edges = np.array([[i, i // 3] for i in range(1, n)], np.int32).reshape(-1, 2)
    counts = rng.permutation(n) * 10
    placed = layout(vectors, counts, edges, near.labels)
    return LabelMap(
        title,
        ("a model", "General labels lie near the centre."),
        names,
        names,
        placed.points,
        counts if counted else None,
        placed.parent,
        placed.group,
        placed.heads,
        near,
    )
