"""What "auto" becomes for the parameters of `dxml`; docs/methods/dxml.md has the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labelspace.components.training_data import Shape
from labelspace.labels.deepwalk import default_walks
from labelspace.methods.defaults import autos
from labelspace.methods.parameters import AUTO

FEW_FEATURES, FEW_EXAMPLES = 1000, 10_000
# Between the paper's small sets, which have at most 983 labels, and its large ones, which have at
# least 30,938. Their numbers of examples overlap.
FEW_LABELS = 5000
EXAMPLES_PER_CLUSTER = 6000  # of the paper's form
STEPS = 1000  # training steps to aim at, within these numbers of epochs
MIN_EPOCHS, MAX_EPOCHS = 6, 30


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto" and depends on the shape alone."""
    few = shape.points < FEW_EXAMPLES
    # More neighbours vote in a larger batch; with many examples, more steps are worth more.
    batch_size = params["batch_size"]
    if batch_size == AUTO:
        batch_size = 1024 if few else 512
    steps_per_epoch = -(-shape.points // batch_size)
    many_labels = shape.labels > FEW_LABELS
    values = {
        "dim": 300 if many_labels else 100,
        # Few features need a layer that combines them; on many, a linear encoder overfits less.
        "hidden": (512,) if shape.features < FEW_FEATURES else (),
        "walks": default_walks(shape.used_labels, params["walk_length"]),
        "epochs": min(max(STEPS // steps_per_epoch, MIN_EPOCHS), MAX_EPOCHS),
        "batch_size": batch_size,
        # An ensemble gains most on few examples, where it costs least.
        "ensemble": 5 if few else 1,
    }
    if params["preset"] == "paper":
        values["hidden"] = (512,) if many_labels else (256,)
        values["clusters"] = max(2, shape.points // EXAMPLES_PER_CLUSTER)
    return autos(params, values)
