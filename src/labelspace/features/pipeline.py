"""From a Dataset to the matrix a method takes: the part of a saved model that comes first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix, hstack

from labelspace.data.dataset import Dataset, Features
from labelspace.errors import InputError, ParameterError
from labelspace.features.parts import TextFeatures, make_features, restored
from labelspace.features.tokens import Tokens
from labelspace.features.written_names import written_names
from labelspace.sparse import checked_features

__all__ = ["FeaturePipeline", "TextFeatures", "make_features", "pipeline_for"]


class FeaturePipeline:
    """Vectors of the texts, then the numeric features as they are.

    text       how texts become vectors, or None to leave texts alone
    n_numeric  how many numeric features an example has, 0 if there are only texts
    """

    def __init__(self, text: TextFeatures | None, n_numeric: int = 0) -> None:
        if text is None and n_numeric < 1:
            raise ParameterError("no features: texts are not used and there are no numeric ones")
        self.text = text
        self.n_numeric = n_numeric

    @property
    def n_features(self) -> int:
        return self.n_numeric + (0 if self.text is None else self.text.n_features)

    def feature_names(self) -> list[str]:
        """A name for each column; numeric features have their number."""
        names = [] if self.text is None else self.text.feature_names()
        return names + [f"feature {i}" for i in range(self.n_numeric)]

    def fit(self, dataset: Dataset) -> Self:
        """Learn the vocabulary from the training texts."""
        self._numeric(dataset)
        if self.text is not None:
            self.text.fit(_texts(dataset))
        return self

    def fit_transform(self, dataset: Dataset) -> Features:
        """`fit` and `transform` of the same data, reading the texts once."""
        numeric = self._numeric(dataset)
        if self.text is None:
            return numeric
        return _beside(self.text.fit_transform(_texts(dataset)), numeric)

    def transform(self, dataset: Dataset) -> Features:
        """(n, n_features): CSR where there are texts, else the numeric features as given."""
        numeric = self._numeric(dataset)
        if self.text is None:
            return numeric
        return _beside(self.text.transform(_texts(dataset)), numeric)

    def transform_texts(self, texts: Iterable[str]) -> csr_matrix:
        """Vectors of bare texts, for a model that was trained on texts alone."""
        if self.text is None:
            raise InputError("the model was trained on numeric features and takes no texts")
        if self.n_numeric:
            raise InputError(
                f"the model takes {self.n_numeric} numeric features beside each text: "
                "pass a data set that has both"
            )
        return self.text.transform(texts)

    def label_names(self, dataset: Dataset) -> csr_matrix | None:
        """The labels as tokens, for a method that writes them; None if there are none to write.

        A row for each node of the taxonomy, or for each label where there is no taxonomy.
        """
        if not isinstance(self.text, Tokens):
            return None
        if dataset.taxonomy is not None:
            return self.text.transform_names(written_names(dataset.taxonomy))
        if dataset.label_names is not None:
            return self.text.transform_names(dataset.label_names)
        return None

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All that `from_state` needs: what goes into JSON, and the arrays."""
        params: dict[str, Any] = {"text": None, "n_numeric": self.n_numeric}
        arrays: dict[str, np.ndarray] = {}
        if self.text is not None:
            text_params, arrays = self.text.state()
            params["text"] = {"kind": self.text.kind, **text_params}
        return params, {f"text.{name}": values for name, values in arrays.items()}

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `state`."""
        if params["text"] is None:
            return cls(None, params["n_numeric"])
        return cls(restored(params["text"], arrays, "text."), params["n_numeric"])

    def _numeric(self, dataset: Dataset) -> Features:
        """The numeric features, (n, 0) where there are none; another width is an error."""
        width = dataset.n_features or 0
        if width != self.n_numeric:
            raise InputError(
                f"the data has {width} numeric features; the model takes {self.n_numeric}"
            )
        if dataset.features is None:
            return np.empty((len(dataset), 0), dtype=np.float32)
        return checked_features(dataset.features)


def pipeline_for(dataset: Dataset, spec: str | TextFeatures) -> FeaturePipeline:
    """An unfitted pipeline for what the data has; `spec` says how its texts become vectors."""
    text = make_features(spec) if isinstance(spec, str) else spec
    if dataset.texts is None:
        text = None
    return FeaturePipeline(text, dataset.n_features or 0)


def _texts(dataset: Dataset) -> Iterable[str]:
    if dataset.texts is None:
        raise InputError("the model is made for texts and the data has none")
    return dataset.texts


def _beside(vectors: csr_matrix, numeric: Features) -> csr_matrix:
    if numeric.shape[1] == 0:
        return vectors
    both: csr_matrix = hstack([vectors, csr_matrix(numeric)], format="csr", dtype=np.float32)
    return both
