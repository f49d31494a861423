"""A report of a comparison as `compare` makes it, without running any."""

from __future__ import annotations

import numpy as np

from labelspace.comparison.compare import COSTS, METRICS
from labelspace.comparison.significance import hits_as_text, significance


def report_of(names, shares, seeds=(0,), n=400):
    """Return a report of systems whose first label is right in these shares of the examples.

    Figures have one to five digits before the point, and differ from each other.
    """
    easy = np.random.default_rng(0).random(n)
    hits = [(easy < share).astype(np.uint8) for share in shares]
    data = {"points": 1000, "test_points": n, "labels": 50, "features": 30}
    data |= {"head_labels": 5, "torso_labels": 15, "tail_labels": 30}
    report = {
        "date": "2024-05-01T10:00:00+00:00",
        "data": {"name": "set_1", "labels_per_point": 1.5, "points_per_label": 30.0, **data},
        "settings": {
            "features": None,
            "propensity": [0.55, 1.5],
            "propensity_from": "train",
            "seeds": list(seeds),
        },
        "machine": {
            "cores": 2,
            "memory_gb": 8.0,
            "processor": "x",
            "python": "3.12",
            "versions": {},
        },
        "entrants": [
            _entrant(name, place, hits[place], len(seeds)) for place, name in enumerate(names)
        ],
    }
    if len(names) > 1:
        texts = {place: [hits_as_text(each)] for place, each in enumerate(hits)}
        report["significance"] = significance(texts, names, np.ones(n, np.int64))
    return report


def _entrant(name, place, hits, n_seeds):
    first = 100.0 * float(hits.mean())
    entrant = {
        "name": name,
        "kind": "method",
        "method": "knn",
        "params": {"neighbours": 3},
        **{key: first - i / 3 for i, key in enumerate(METRICS)},
        **{key: 98765.4 / 7**i + place for i, key in enumerate(COSTS)},
        "ECE": 2.0 + place,
        "bands": {"tail": {"P@1": first - 20, "recall@5": first - 10}},
    }
    if n_seeds > 1:
        entrant["std"] = {
            **{key: entrant[key] / 9 for key in METRICS},
            **dict.fromkeys((*COSTS, "ECE"), 0.25),
            "bands": {"tail": {"P@1": 0.5, "recall@5": 0.75}},
        }
    return entrant
