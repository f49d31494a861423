"""What "auto" becomes for `treespace`; docs/methods/treespace.md has the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labelspace.components.training_counts import MANY_EXAMPLES, RARE_PER_LABEL
from labelspace.components.training_data import Shape
from labelspace.methods.defaults import autos, resolve_shared


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto".

    Features are damped less than in `glas` where labels have few examples: these need all of their
    rare features.
    """
    mean = shape.label_nnz / max(1, shape.used_labels)
    values = {"feature_damping": RARE_PER_LABEL * mean**2 / MANY_EXAMPLES}
    return {**resolve_shared(params, shape), **autos(params, values)}
