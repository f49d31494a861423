"""What "auto" becomes for `seq2seq`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from labelspace.components.training_data import Shape
from labelspace.methods.defaults import autos, resolve_shared

SMALL = "small"  # the value of `model` for a new T5


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto"."""
    values = {
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "lr": 0.002 if params["model"] == SMALL else 0.0003,
    }
    return {**resolve_shared(params, shape), **autos(params, values)}
