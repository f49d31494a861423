"""A small label map, for tests of what is drawn from it."""

from __future__ import annotations

import numpy as np

from labelspace.maps.label_map import LabelMap
from labelspace.maps.placing import nearest_labels, place

RUDE = '</script><img src=x onerror=alert(1)> $\\frac{1}$ "{{data}}" 漢字\n&'


def small_map(n=12, *, title="shop", counted=True, seed=0):
    rng = np.random.default_rng(seed)
    vectors = (rng.uniform(-0.4, 0.4, (n, 3))).astype(np.float32)
    near = nearest_labels(vectors, "hyperbolic", min(4, n - 1))
    points, how = place(vectors, "hyperbolic", near.labels)
    names = [f"label {i}" for i in range(n - 1)] + [RUDE]
    edges = np.array([[i, i // 3] for i in range(1, n)], np.int32).reshape(-1, 2)
    counts = rng.permutation(n) * 10 if counted else None
    return LabelMap(title, ("a model", how), names, points, counts, edges, near)
