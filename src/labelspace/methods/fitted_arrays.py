"""A fitted method as a flat dict of arrays: for checkpoints, and from other processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from labelspace._core.json_text import checked_json

if TYPE_CHECKING:
    from labelspace.methods.base import Method


def arrays_of(fitted: Method) -> dict[str, np.ndarray]:
    """Return the state of a fitted method, with its parameters and its history as JSON."""
    written = {"history": fitted.history_, **fitted.to_json()}
    document = np.frombuffer(json.dumps(written).encode(), np.uint8)
    return {**fitted.state(), "document": document}


def method_of(
    cls: type[Method], arrays: Mapping[str, np.ndarray], *, n_features: int, n_labels: int
) -> Method:
    """Return the fitted method of these sizes that `arrays_of` was given."""
    state = dict(arrays)
    document = checked_json(state.pop("document"))
    fitted = cls.restored(document, state, n_features=n_features, n_labels=n_labels)
    if document["history"] is not None:
        fitted.history_ = document["history"]
    return fitted
