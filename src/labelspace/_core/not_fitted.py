"""The error of a model that is not fitted, which scikit-learn's tools recognise as theirs."""

from __future__ import annotations

from sklearn import exceptions

from labelspace import errors


class NotFittedError(errors.NotFittedError, exceptions.NotFittedError):  # type: ignore[misc]
    """A model is not fitted; `except` catches it by labelspace's class and by scikit-learn's.

    It is not in `labelspace.errors`, which the command line imports before it needs scikit-learn.
    """
