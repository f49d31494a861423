"""`partial_fit` of a fusion: every member learns as it can, and the combination is recalibrated.

Members that vote take the new examples at once. Linear classifiers and trees fit again what has
grown enough (`components/examples.py`), from all examples, which the fusion keeps for them. Other
members are updated by their own `partial_fit`, or stay as they are and do not know new labels.

A tenth of the examples, drawn at random, is learned after the others. In between it is ranked, as a
hold-out, and slope and intercept of the combination are corrected by how well its probabilities fit
there, in proportion to the new examples among all. All new examples, ranked before any is learned,
are no such hold-out: files are often ordered, and nothing like them is known then.
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
    from labelspace.runs.callbacks import Callback

HELD_OUT = 0.1  # share of the examples of an update that the combination is corrected on
MIN_HELD_OUT = 100  # examples; with fewer, the combination stays as it is


def update(model: Fusion, data: TrainingData) -> None:
    """Update the members and the combination by further examples; Y may have more labels."""
    X, Y = as_csr(data.X), data.Y
    n_new = X.shape[0]
    _add_labels(model, X.shape[1], Y.shape[1])
    held = _held_out(model, Y)
    if len(held) == 0:
        if n_new:
            _learn(model, X, Y, data.callbacks)
        return
    rest, n_before = np.setdiff1d(np.arange(n_new), held), _all_examples(model).Y.shape[0]
    _learn(model, X[rest], Y[rest], data.callbacks)
    share, (rankings, matches) = n_new / (n_before + n_new), model.rankings(X[held])
    model.combiner_ = model.combiner_.recalibrated(rankings, Y[held], share, matches)
    _learn(model, X[held], Y[held], data.callbacks)
    known = np.append(model.row_order_, np.arange(len(model.row_order_), n_before))
    model.row_order_ = np.concatenate([known, n_before + rest, n_before + held])


def _held_out(model: Fusion, Y: csr_matrix) -> np.ndarray:
    """Return the examples to correct the combination on, sorted; none if they would be too few."""
    labelled = np.flatnonzero(np.diff(Y.indptr))
    size = round(HELD_OUT * len(labelled))
    if size < MIN_HELD_OUT or not _keep_examples(model):
        return labelled[:0]
    rng = np.random.default_rng([model.params_.seed, *Y.shape])
    return np.sort(rng.choice(labelled, size, replace=False))


def _learn(model: Fusion, X: csr_matrix, Y: csr_matrix, callbacks: Sequence[Callback]) -> None:
    """Update the members, and the counts of the combination."""
    if model.examples_ is not None:
        model.examples_ = model.examples_.plus(model.columns_.texts(X), Y)
    in_parts = [member for member in model.members_ if member.can_refit_grown]
    for member in model.members_:
        own = model.columns_.of(member.name, X)
        if member.takes_name_matches:
            member.count_further(own, Y)
        elif member.can_update and not member.can_refit_grown:
            member.partial_fit(own, Y, callbacks=callbacks)
    if in_parts:
        examples = _all_examples(model)
        for member in in_parts:
            member.refit_grown(examples)
    model.combiner_ = model.combiner_.plus(Y)
    model.round_members(after_update=True)


def _add_labels(model: Fusion, n_features: int, n_labels: int) -> None:
    """Let the combination and the members that use label texts know new labels.

    They may rank these by their names before there is an example.
    """
    model.combiner_ = model.combiner_.plus(csr_matrix((0, n_labels), dtype=np.float32))
    for member in model.members_:
        if member.takes_name_matches:
            sizes = model.columns_.sizes(member.name, n_features, n_labels)
            member.add_labels(**sizes)


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


def _keep_examples(model: Fusion) -> bool:
    """Return whether there is `_all_examples`."""
    return model.examples_ is not None or any(member.keeps_examples for member in model.members_)


def _all_examples(model: Fusion) -> Examples:
    """Return features and labels of all training examples."""
    if model.examples_ is not None:
        return model.examples_
    return next(member for member in model.members_ if member.keeps_examples).kept_examples()
