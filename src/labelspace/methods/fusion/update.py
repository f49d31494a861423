"""`partial_fit` of a fusion: every member learns as it can, and the combination is recalibrated.

Members that vote take the new examples at once. Linear classifiers and trees fit again what has
grown enough (`components/examples.py`), from all examples, which the fusion keeps for them. Other
members are updated by their own `partial_fit`, or stay as they are and do not know new labels.

Before a member learns the new examples they are ranked, as a hold-out: the slope and the intercept
of the combination are corrected by how well its probabilities fit them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import as_csr
from labelspace.components.examples import Examples
from labelspace.components.training_data import TrainingData
from labelspace.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labelspace.methods.base import Method
    from labelspace.methods.fusion.method import Fusion

# Fewer examples do not change the combination; so many count as much as the hold-out of `fit`.
MIN_EXAMPLES, EQUAL_EXAMPLES = 200, 2000


def update(model: Fusion, data: TrainingData) -> None:
    """Update the members and the combination by further examples; Y may have more labels."""
    X, Y = as_csr(data.X), data.Y
    labelled = np.flatnonzero(np.diff(Y.indptr))
    if len(labelled) >= MIN_EXAMPLES:
        share = len(labelled) / (len(labelled) + EQUAL_EXAMPLES)
        rankings = model.rankings(X[labelled])
        model.combiner_ = model.combiner_.recalibrated(rankings, Y[labelled], share)
    if model.examples_ is not None:
        model.examples_ = model.examples_.plus(model.columns_.texts(X), Y)
    in_parts = [member for member in model.members_ if member.can_refit_grown]
    for member in model.members_:
        own = model.columns_.of(member.name, X)
        if member.takes_name_matches:
            member.count_further(own, Y)
        elif member.can_update and not member.can_refit_grown:
            member.partial_fit(own, Y, callbacks=data.callbacks)
    if in_parts:
        examples = _all_examples(model)
        for member in in_parts:
            member.refit_grown(*examples)
    model.combiner_ = model.combiner_.plus(Y)
    model.round_members()


def check_updatable(model: Fusion) -> None:
    """Raise UnsupportedError if members need examples that the model does not keep."""
    if model.examples_ is None and _needed(model.members_):
        raise UnsupportedError(
            "this fusion model does not keep its training examples, as it was trained by an "
            "earlier version, and cannot be updated: train it again"
        )


def examples_to_keep(members: Sequence[Method], X: csr_matrix, Y: csr_matrix) -> Examples | None:
    """Return the examples if a member needs them for updates and none keeps them itself."""
    return Examples.of(X, Y) if _needed(members) else None


def _needed(members: Sequence[Method]) -> bool:
    fitted_in_parts = any(member.can_refit_grown for member in members)
    return fitted_in_parts and not any(member.keeps_examples for member in members)


def _all_examples(model: Fusion) -> tuple[csr_matrix, csr_matrix]:
    """Return features and labels of all training examples."""
    if model.examples_ is not None:
        return model.examples_.X, model.examples_.Y
    return next(member for member in model.members_ if member.keeps_examples).kept_examples()
