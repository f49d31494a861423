"""What "auto" becomes for `neuralxc`; docs/methods/neuralxc.md has the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labelspace.components.training_data import Shape
from labelspace.methods.defaults import autos, resolve_shared

FEW_EXAMPLES = 10_000
LABEL_LR_SCALE = 0.05


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto"."""
    # A label that is sampled in one step of ten has a tenth of the steps to get anywhere.
    sampled = shape.labels > params["exact"]
    rarely = shape.labels / params["samples"] if sampled else 1.0
    values = {
        # Averages pay where examples are few, and are cheap there.
        "ensemble": 3 if shape.points < FEW_EXAMPLES else 1,
        "label_lr_scale": min(1.0, LABEL_LR_SCALE * max(1.0, rarely)),
    }
    return {**autos(params, values), **resolve_shared(params, shape)}
