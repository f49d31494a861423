"""What "auto" becomes for `dxml`; docs/methods/dxml.md has the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labelspace.components.training_data import Shape
from labelspace.labels.deepwalk import default_walks
from labelspace.methods.defaults import autos
from labelspace.methods.parameters import AUTO

FEW_FEATURES, FEW_EXAMPLES = 1000, 10_000
ENOUGH_STEPS, FEWEST_PASSES, MOST_PASSES = 1000, 6, 30


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto"."""
    few = shape.points < FEW_EXAMPLES
    # A larger batch holds more neighbours that vote; with many examples, steps are worth more.
    batch_size = params["batch_size"]
    if batch_size == AUTO:
        batch_size = 1024 if few else 512
    # Small sets need many passes to get anywhere, large ones few.
    steps = -(-shape.points // batch_size)
    values = {
        # Few features need a layer to combine them; with many a linear encoder overfits less.
        "hidden": (512,) if shape.features < FEW_FEATURES else (),
        "walks": default_walks(shape.used_labels, params["walk_length"]),
        "epochs": min(max(ENOUGH_STEPS // steps, FEWEST_PASSES), MOST_PASSES),
        "batch_size": batch_size,
        # Averages pay where examples are few, and are cheap there.
        "ensemble": 5 if few else 1,
    }
    return autos(params, values)
