"""What "auto" becomes for `treespace`; docs/methods/treespace.md has the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labelspace.components.training_counts import default_damping
from labelspace.components.training_data import Shape
from labelspace.methods.defaults import autos, resolve_shared


def resolve(params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a value for each parameter that is "auto".

    Features are damped less than in `glas` if labels have few examples, since such labels depend on
    their rare features. `projections` and `tail_bias` are chosen in `fit`.
    """
    damping = default_damping(shape.label_nnz, shape.used_labels, few_undamped=True)
    values = {"feature_damping": damping}
    return {**resolve_shared(params, shape), **autos(params, values)}
