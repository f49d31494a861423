"""Values of the parameters of `hyperbolic` that are "auto"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labelspace.components.training_data import Shape
from labelspace.methods.defaults import autos, resolve_shared


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto"."""
    ratio = 1.0
    if params["geometry"] == "hyperbolic":
        # Steps at the centre of the ball are then as long as in Euclidean space.
        ratio = 2.0 * params["dim"] ** 0.5 if params["optimiser"] == "riemannian-adam" else 4.0
    return {**autos(params, {"label_lr_ratio": ratio}), **resolve_shared(params, shape)}
