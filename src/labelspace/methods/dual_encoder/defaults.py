"""Values of the parameters of the dual encoder that are "auto".

The batch size was measured on 22,500 and 32,400 examples; docs/methods/dual-encoder.md has figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from labelspace.components.training_data import Shape
from labelspace.methods.defaults import autos, resolve_shared

STEPS_PER_EPOCH = 40  # at least, if examples are few
MIN_BATCH_BITS, MAX_BATCH_BITS = 5, 9  # batches of 32 to 512 examples


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto"."""
    shared = resolve_shared(params, shape)
    return {**shared, **autos(params, {"batch_size": batch_size(shape.points)})}


def batch_size(n_examples: int) -> int:
    """Return a power of two from 32 to 512: the labels of a batch are each other's negatives."""
    bits = np.floor(np.log2(max(1.0, n_examples / STEPS_PER_EPOCH)))
    return int(2 ** np.clip(bits, MIN_BATCH_BITS, MAX_BATCH_BITS))
