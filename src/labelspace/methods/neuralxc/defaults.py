"""Values of NeuralXC's parameters that are "auto"; docs/methods/neuralxc.md has the figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from labelspace.components.training_data import Shape
from labelspace.methods.defaults import autos, resolve_shared
from labelspace.methods.parameters import is_auto

FEW_EXAMPLES = 10_000  # below which several networks are affordable, and averaging them pays
FEW_NETWORKS = 3
LABEL_LR_SCALE = 0.05  # label vectors at the full learning rate memorise the training examples
# Widths of codes per square root of the columns, which the four set-ups of the authors' code are
# near to (4.6 to 7.1 and 2.2 to 3.2), and the largest widths of hidden layers and codes in them.
PER_ROOT_FEATURE, MAX_FEATURE_WIDTHS = 6.0, (2500, 500)
PER_ROOT_LABEL, MAX_LABEL_WIDTHS = 2.6, (1331, 141)


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto"."""
    # A label that is sampled in one step of ten is updated in a tenth of the steps.
    sampled = shape.labels > params["exact"]
    steps_per_update = shape.labels / params["samples"] if sampled else 1.0
    widths = {
        "input_layers": by_size(shape.features, PER_ROOT_FEATURE, MAX_FEATURE_WIDTHS),
        "output_layers": by_size(shape.labels, PER_ROOT_LABEL, MAX_LABEL_WIDTHS),
    }
    codes = [(widths[name] if is_auto(params[name]) else params[name])[-1] for name in widths]
    values = {
        **widths,
        "regressor_layers": (sum(codes) // 2,),
        "ensemble": FEW_NETWORKS if shape.points < FEW_EXAMPLES else 1,
        "label_lr_scale": min(1.0, LABEL_LR_SCALE * max(1.0, steps_per_update)),
    }
    return {**autos(params, values), **resolve_shared(params, shape)}


def by_size(columns: int, per_root: float, most: tuple[int, int]) -> tuple[int, int]:
    """Return the widths of a hidden layer and of a code for rows of so many columns."""
    code = max(1, min(columns, most[1], round(per_root * math.sqrt(columns))))
    return max(code, min(columns // 2, most[0])), code
