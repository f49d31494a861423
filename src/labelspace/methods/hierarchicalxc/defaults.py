"""What "auto" becomes for the parameters of `hierarchicalxc`, from held-out training examples.

docs/methods/hierarchicalxc.md has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labelspace.classifiers.dual_descent import Loss
from labelspace.components.training_data import Shape
from labelspace.methods.defaults import autos
from labelspace.methods.parameters import AUTO

C_OF_LOSS: Mapping[Loss, float] = {"logistic": 6.0, "squared_hinge": 0.5}
MANY_LABELS = 10_000  # above, a label has few examples, and losses weigh twice that
LEAF_SIZE, FLAT = 100, 200  # so few labels gain nothing from a tree
# Two numbers need no more examples to calibrate; of few examples, this share.
HELD_OUT, LARGEST_SHARE, MOST_HELD_OUT = 500, 0.1, 2000


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto".

    C becomes a pair: that of the logistic loss and that of the squared hinge.
    """
    factor = 2.0 if shape.labels > MANY_LABELS else 1.0
    share = params["validation"]
    if share == AUTO:
        share = min(LARGEST_SHARE, HELD_OUT / shape.points)
    given = params["C"]
    C = tuple(factor * own if given == AUTO else given for own in C_OF_LOSS.values())
    values = {"leaf_size": FLAT if shape.labels <= FLAT else LEAF_SIZE}
    return {
        **autos(params, values),
        "C": C,
        "validation": min(share, MOST_HELD_OUT / shape.points),
    }
