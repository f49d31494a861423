"""Values of the parameters of GLaS that are "auto".

The rules were chosen on hold-outs of bibtex, delicious, debtags, wordnet and tib-gnd;
docs/methods/glas.md has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labelspace.components.training_data import Shape
from labelspace.methods.defaults import autos, resolve_shared

MANY_LABELS = 25_000  # labels with examples, above which 1024 dimensions pay
# Approximate search misses rare labels first, which the votes of training examples add again.
RECALL_WITH_VOTES, RECALL_ALONE = 0.95, 0.998


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto"."""
    values = {
        "dim": 512 if shape.used_labels <= MANY_LABELS else 1024,
        "recall": RECALL_WITH_VOTES if params["neighbours"] else RECALL_ALONE,
    }
    return {**autos(params, values), **resolve_shared(params, shape)}
