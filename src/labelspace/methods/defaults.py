"""What "auto" becomes for the parameters that several methods share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labelspace.components.holdout import held_out_share
from labelspace.components.training_counts import default_batch_size, default_damping
from labelspace.components.training_data import Shape
from labelspace.methods.parameters import is_auto


def autos(params: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `values` whose parameter is "auto"."""
    return {name: value for name, value in values.items() if is_auto(params.get(name))}


def resolve_shared(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return values for `validation`, `batch_size` and `feature_damping` where they are "auto".

    A share to hold out that would make more examples than are ever needed is lowered, too.
    """
    found = autos(
        params,
        {
            "batch_size": default_batch_size(shape.points),
            "feature_damping": default_damping(shape.label_nnz, shape.used_labels),
        },
    )
    if "validation" in params:
        given = params["validation"]
        found["validation"] = held_out_share(None if is_auto(given) else given, shape.points)
    return found
