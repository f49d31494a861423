"""Fitted methods without a file: restored from their state, or with resolved parameters alone."""

from __future__ import annotations

import json
from types import SimpleNamespace

from labelspace.components.training_data import Shape


def restored(method, state=None, **changes):
    """Return a method as it is after a load; `changes` replace its parameters."""
    document = json.loads(json.dumps(method.to_json()))
    for part in document.values():
        part |= changes
    return type(method).restored(
        document,
        method.state() if state is None else state,
        n_features=method.n_features_in_,
        n_labels=method.n_labels_,
    )


def resolved(method, X, Y):
    """Return the method with `params_` as `fit` on these data sets them."""
    method.params_ = SimpleNamespace(**method.resolve(method.get_params(), Shape.of(X, Y)))
    return method
