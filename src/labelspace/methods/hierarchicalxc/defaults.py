"""Values of the parameters of `hierarchicalxc` that are "auto".

They were chosen on parts of training files; docs/methods/hierarchicalxc.md has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labelspace.classifiers.dual_descent import Loss
from labelspace.components.training_data import Shape
from labelspace.methods.defaults import autos
from labelspace.methods.parameters import AUTO

C_OF_LOSS: Mapping[Loss, float] = {"logistic": 6.0, "squared_hinge": 0.5}
MANY_LABELS = 10_000  # above, labels have few examples, and C is twice as large
# Up to MAX_FLAT labels, the tree is flat (one-vs-all): so few labels gain nothing from a tree.
LEAF_SIZE, MAX_FLAT = 100, 200
# Examples to hold out, at most this share of few examples, and at most so many of any share:
# two numbers are calibrated.
HELD_OUT, MAX_SHARE, MAX_HELD_OUT = 500, 0.1, 2000


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto".

    C becomes a pair: the value for the logistic loss, and that for the squared hinge.
    """
    factor = 2.0 if shape.labels > MANY_LABELS else 1.0
    share = params["validation"]
    if share == AUTO:
        share = min(MAX_SHARE, HELD_OUT / shape.points)
    C = params["C"]
    if C == AUTO:
        C = tuple(factor * own for own in C_OF_LOSS.values())
    values = {"leaf_size": MAX_FLAT if shape.labels <= MAX_FLAT else LEAF_SIZE}
    return {
        **autos(params, values),
        "C": C if isinstance(C, tuple) else (C, C),
        "validation": min(share, MAX_HELD_OUT / shape.points),
    }
