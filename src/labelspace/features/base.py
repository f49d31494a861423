"""The base of all text features: the interface of a scikit-learn transformer of texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import fields
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin

from labelspace._core.not_fitted import NotFittedError
from labelspace.errors import ParameterError
from labelspace.features.ngrams import checked_texts


class TextTransformer(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the text features: a scikit-learn transformer from texts to CSR rows.

    Subclasses are keyword-only dataclasses whose fields are the parameters, so that `clone`,
    `set_params` and a grid search over a pipeline work. Parameters are checked when an object is
    made and again in `fit`.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # Without scikit-learn's `set_output`: rows are sparse, which no data frame holds, and its
        # wrapper would cost time with every single text.
        super().__init_subclass__(auto_wrap_output_keys=None, **kwargs)

    def __post_init__(self) -> None:
        self._check_parameters()

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Return the number of columns."""

    @abstractmethod
    def fit(self, texts: Iterable[str], y: Any = None) -> Self:
        """Fit the features to the texts; `y` is ignored."""

    @abstractmethod
    def transform(self, texts: Iterable[str]) -> csr_matrix:
        """Return (n, n_features) float32."""

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> csr_matrix:
        """Fit the features to the texts and return the rows of the same texts."""
        listed = checked_texts(texts)
        return self.fit(listed, y).transform(listed)

    @abstractmethod
    def feature_names(self) -> list[str]:
        """Return the name of each column."""

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:  # noqa: ARG002
        """Return the name of each column as an array, as scikit-learn's transformers do."""
        return np.array(self.feature_names(), dtype=object)

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that `from_state` needs: values for JSON, and arrays."""

    @classmethod
    @abstractmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the features whose `state` this is, after a way through JSON."""

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise ParameterError for the first parameter that is out of range."""

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters for JSON, numbers of numpy as Python's."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.init}
        return {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in values.items()
        }

    def __sklearn_is_fitted__(self) -> bool:
        try:
            _ = self.n_features
        except NotFittedError:
            return False
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


def check_count(name: str, value: Any, low: int = 1, high: int | None = None) -> None:
    """Raise ParameterError unless `value` is an integer from `low` to `high`."""
    holds = isinstance(value, Integral) and not isinstance(value, bool)
    if not holds or value < low or (high is not None and value > high):
        allowed = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ParameterError(f"{name}={value!r}: expected an integer {allowed}")
