"""Checks of what `fit` and `partial_fit` of a method are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scipy.sparse import csr_matrix

from labelspace._core.sparse import as_csr, checked_features, checked_labels
from labelspace.components.training_data import TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import InputError, UnsupportedError
from labelspace.features.name_codes import COLUMNS

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.methods.base import Method
    from labelspace.runs.callbacks import Callback

# The class variable by which a method declares that it takes a further argument.
_DECLARED_BY = {
    "label_names": "needs_label_names",
    "label_texts": "takes_label_texts",
    "name_matches": "takes_name_matches",
}


def refuse_not_taken(method: Method, **given: Any) -> None:
    """Raise UnsupportedError for the first further argument that the method does not take."""
    for argument, value in given.items():
        declared = _DECLARED_BY[argument]
        if value is not None and value is not False and not getattr(method, declared):
            raise UnsupportedError(
                f"{method.name} does not take {argument}: leave it out, or use a method whose "
                f"{declared} is True"
            )


def fit_data(
    X: Any,
    Y: Any,
    *,
    valid: tuple[Any, Any] | None,
    taxonomy: Taxonomy | None,
    label_names: Any,
    label_texts: Any,
    name_matches: bool,
    callbacks: Sequence[Callback],
) -> TrainingData:
    """Return the arguments of `fit` after all checks, without an identity."""
    if Y is None:
        raise InputError("fit requires y to be passed, but the target y is None")
    X = checked_features(X)
    Y = checked_labels(Y, X.shape[0])
    if X.shape[0] == 0:
        raise InputError("X has no rows: there is nothing to fit")
    if Y.nnz == 0:
        raise InputError("no example has a label: there is nothing to fit")
    if valid is not None:
        valid = _checked_valid(valid, X.shape[1], Y.shape[1])
    _check_match_columns(X, Y, name_matches)
    names = None if label_names is None else as_csr(checked_features(label_names))
    data = TrainingData(X, Y, valid, taxonomy, callbacks, "", names, name_matches)
    if label_texts is None:
        return data
    texts = _checked_label_texts(label_texts, Y.shape[1], data.n_text_features)
    return replace(data, label_texts=texts)


def update_data(
    X: Any,
    Y: Any,
    *,
    n_features: int | None,
    n_labels: int,
    name_matches: bool,
    callbacks: Sequence[Callback],
) -> TrainingData:
    """Return the arguments of `partial_fit` after checks, without an identity.

    X must have `n_features` columns, any number for None, and Y at least `n_labels`.
    """
    X = checked_features(X, n_features)
    Y = checked_labels(Y, X.shape[0])
    if Y.shape[1] < n_labels:
        raise InputError(
            f"Y has {Y.shape[1]} columns and the model {n_labels} labels: "
            "keep a column for every label of the model, and add new ones after them"
        )
    return TrainingData(X, Y, None, None, callbacks, "", name_matches=name_matches)


def _checked_valid(
    valid: tuple[Any, Any], n_features: int, n_labels: int
) -> tuple[Features, csr_matrix]:
    """Return held-out examples whose Y has as many columns as that of the training data."""
    try:
        X, Y = valid
    except (TypeError, ValueError):
        raise InputError("valid must be a pair (X, Y) of held-out examples") from None
    X = checked_features(X, n_features)
    Y = checked_labels(Y, X.shape[0])
    if Y.shape[1] > n_labels:
        raise InputError(
            f"valid has {Y.shape[1]} label columns and Y has {n_labels}: "
            "leave out labels that the training data do not have"
        )
    Y.resize(Y.shape[0], n_labels)
    return X, Y


def _check_match_columns(X: Features, Y: csr_matrix, name_matches: bool) -> None:
    """Raise InputError if X is too narrow for match columns."""
    if name_matches and X.shape[1] < COLUMNS * Y.shape[1]:
        raise InputError(
            f"name_matches: X has {X.shape[1]} columns, fewer than {COLUMNS} for each of "
            f"{Y.shape[1]} labels; append what NameMatcher.transform returns"
        )


def _checked_label_texts(given: Any, n_labels: int, n_features: int) -> csr_matrix:
    """Return the features of the labels' texts; raise InputError if they do not fit."""
    texts = as_csr(checked_features(given, n_features))
    if texts.shape[0] != n_labels:
        raise InputError(f"label_texts has {texts.shape[0]} rows for {n_labels} labels")
    return texts
