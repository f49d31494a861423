"""Values of NeuralXC's parameters that are "auto"; docs/methods/neuralxc.md has the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labelspace.components.training_data import Shape
from labelspace.methods.defaults import autos, resolve_shared

FEW_EXAMPLES = 10_000  # below which several networks are affordable, and averaging them pays
FEW_NETWORKS = 3
LABEL_LR_SCALE = 0.05  # label vectors at the full learning rate memorise the training examples


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto"."""
    # A label that is sampled in one step of ten is updated in a tenth of the steps.
    sampled = shape.labels > params["exact"]
    steps_per_update = shape.labels / params["samples"] if sampled else 1.0
    values = {
        "ensemble": FEW_NETWORKS if shape.points < FEW_EXAMPLES else 1,
        "label_lr_scale": min(1.0, LABEL_LR_SCALE * max(1.0, steps_per_update)),
    }
    return {**autos(params, values), **resolve_shared(params, shape)}
