"""The feature pipeline, from a Dataset to the matrix of a method: the first part of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix, hstack

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.sparse import beside, checked_features, with_columns
from labelspace.data.dataset import Dataset, Features
from labelspace.errors import InputError, ModelFormatError, ParameterError
from labelspace.features.label_texts import record_texts, written_names
from labelspace.features.name_matcher import NameMatcher
from labelspace.features.numbers import WEIGHT, Numbers
from labelspace.features.spec import TextFeatures, make_features, restored
from labelspace.features.tokens import Tokens

__all__ = ["FeaturePipeline", "TextFeatures", "make_features", "pipeline_for", "written_names"]


class FeaturePipeline:
    """Transform the texts of a data set, and append its numeric features.

    Dense numeric features are columns of numbers, which are scaled; sparse ones are left as they
    are. Match columns come last.

    Parameters
    ----------
    text : TextFeatures or None
        The features of the texts; None ignores texts.
    n_numeric : int, default 0
        The number of numeric features of an example.
    numbers : Numbers, optional
        The scale of dense numeric features, which `fit` learns; None leaves them as they are.
    matcher : NameMatcher, optional
        What finds the names of labels in the texts; None for no match columns.

    Examples
    --------
    >>> from scipy.sparse import identity
    >>> from labelspace.data.dataset import Dataset
    >>> from labelspace.features import FeaturePipeline, Tfidf
    >>> pipeline = FeaturePipeline(Tfidf())
    >>> data = Dataset(identity(2, format="csr"), texts=["red shoes", "blue shoes"])
    >>> pipeline.fit_transform(data).shape
    (2, 3)
    """

    def __init__(
        self,
        text: TextFeatures | None,
        n_numeric: int = 0,
        numbers: Numbers | None = None,
        matcher: NameMatcher | None = None,
    ) -> None:
        if isinstance(text, type):
            raise ParameterError(f"features={text.__name__}: expected {text.__name__}(), an object")
        if text is None and n_numeric < 1:
            raise ParameterError("no features: texts are not used and there are no numeric ones")
        self.text = text
        self.n_numeric = n_numeric
        self.numbers = numbers
        self.matcher = matcher

    @property
    def n_features(self) -> int:
        """Return the number of columns."""
        matches = 0 if self.matcher is None else self.matcher.n_columns
        return self.n_numeric + matches + (0 if self.text is None else self.text.n_features)

    def feature_names(self, label_names: Sequence[str] = ()) -> list[str]:
        """Return the name of each column; numeric features without a name have a number.

        `label_names` are needed where there are match columns.
        """
        names = [] if self.text is None else self.text.feature_names()
        if self.numbers is not None:
            names = [*names, *self.numbers.names]
        else:
            names = names + [f"feature {i}" for i in range(self.n_numeric)]
        return names if self.matcher is None else names + self.matcher.feature_names(label_names)

    def fit(self, dataset: Dataset) -> Self:
        """Learn the vocabulary from the training texts, and the scale of the numbers."""
        self._fit_numbers(dataset)
        if self.text is not None:
            self.text.fit(_texts(dataset))
        return self

    def fit_transform(self, dataset: Dataset) -> Features:
        """Fit to the data and return their rows, reading the texts once."""
        self._fit_numbers(dataset)
        numeric = self._numeric(dataset)
        if self.text is None:
            return numeric
        return self._joined(self.text.fit_transform(_texts(dataset)), numeric, _texts(dataset))

    def transform(self, dataset: Dataset) -> Features:
        """Return (n, n_features): CSR with texts, else dense or CSR as the numbers are."""
        numeric = self._numeric(dataset)
        if self.text is None:
            return numeric
        return self._joined(self.text.transform(_texts(dataset)), numeric, _texts(dataset))

    def _joined(self, vectors: csr_matrix, numeric: Features, texts: Iterable[str]) -> csr_matrix:
        """Return the vectors of texts, their numeric features and their matches side by side."""
        if numeric.shape[1]:
            vectors = hstack([vectors, csr_matrix(numeric)], format="csr", dtype=np.float32)
        return vectors if self.matcher is None else beside(vectors, self.matcher.transform(texts))

    def transform_texts(self, texts: Iterable[str]) -> csr_matrix:
        """Return the rows of texts, for a model that was trained on texts alone."""
        if self.text is None:
            raise InputError("the model was trained on numeric features and takes no texts")
        if self.n_numeric:
            raise InputError(
                f"the model takes {self.n_numeric} numeric features beside each text: "
                "pass a data set that has both"
            )
        listed = list(texts) if self.matcher is not None else texts
        none = np.empty((0, 0), np.float32)
        return self._joined(self.text.transform(listed), none, listed)

    def label_names(self, dataset: Dataset) -> csr_matrix | None:
        """Return the label names as tokens, for a generative method; None without names.

        There is a row per node of the taxonomy, or per label where there is no taxonomy. For
        records, the rows of `record_texts` that are no nodes follow.
        """
        if not isinstance(self.text, Tokens):
            return None
        if dataset.taxonomy is not None:
            written = record_texts if self.text.names == "record" else written_names
            return self.text.transform_names(written(dataset.taxonomy))
        if dataset.label_names is not None:
            return self.text.transform_names(dataset.label_names)
        return None

    def label_texts(self, dataset: Dataset) -> csr_matrix | None:
        """Return the features of the labels' texts: all names and the description of each.

        A row per label, and the columns before match columns; None without label texts.
        """
        if self.text is None or dataset.label_texts is None:
            return None
        vectors = self.text.transform(dataset.label_texts.documents())
        return with_columns(csr_matrix(vectors), vectors.shape[1] + self.n_numeric)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that `from_state` needs: parameters for JSON, and the arrays."""
        params: dict[str, Any] = {"text": None, "n_numeric": self.n_numeric}
        arrays: dict[str, np.ndarray] = {}
        if self.text is not None:
            text_params, arrays = self.text.state()
            params["text"] = {"kind": self.text.kind, **text_params}
        if self.numbers is not None:
            params["numbers"] = self.numbers.state()
        arrays = prefixed("text.", arrays)
        if self.matcher is not None:
            params["names"], own = self.matcher.state()
            arrays |= prefixed("names.", own)
        return params, arrays

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the pipeline whose `state` this is; without a scale, numbers are not scaled."""
        n_numeric, kept = params["n_numeric"], params.get("numbers")
        if type(n_numeric) is not int or n_numeric < 0:
            raise ModelFormatError(f"n_numeric={n_numeric!r}: expected a number of features")
        numbers = None if kept is None else Numbers.from_state(kept, n_numeric)
        text = None if params["text"] is None else restored(params["text"], arrays, "text.")
        names = params.get("names")
        if names is not None:
            names = NameMatcher.from_state(names, with_prefix("names.", arrays))
        return cls(text, n_numeric, numbers, names)

    def _fit_numbers(self, dataset: Dataset) -> None:
        self._check_width(dataset)
        self.numbers = None
        if dataset.number_names is not None:
            weight = 1.0 if self.text is None else WEIGHT
            self.numbers = Numbers.fit(dataset.features, dataset.number_names, weight)

    def _numeric(self, dataset: Dataset) -> Features:
        """Return the numeric features, (n, 0) where there are none."""
        self._check_width(dataset)
        if dataset.features is None:
            return np.empty((len(dataset), 0), dtype=np.float32)
        if self.numbers is None:
            return checked_features(dataset.features)
        if isinstance(dataset.features, csr_matrix):
            return self.numbers.transform(dataset.features.toarray())
        return self.numbers.transform(dataset.features)

    def _check_width(self, dataset: Dataset) -> None:
        width = dataset.n_features or 0
        if width != self.n_numeric:
            raise InputError(
                f"the data has {width} numeric features; the model takes {self.n_numeric}"
            )


def pipeline_for(dataset: Dataset, spec: str | TextFeatures) -> FeaturePipeline:
    """Return an unfitted pipeline for the texts and the numeric features that the data has.

    Parameters
    ----------
    dataset : Dataset
        The training data.
    spec : str or TextFeatures
        The features of the texts, or their specification; see `make_features`.
    """
    if isinstance(spec, str):
        text = make_features(spec)
    elif spec is None or hasattr(spec, "fit_transform"):
        text = spec
    else:
        raise ParameterError(
            f"features={spec!r}: expected a name such as 'tfidf', or an object that transforms "
            "texts, such as Tfidf()"
        )
    if dataset.texts is None:
        text = None
    return FeaturePipeline(text, dataset.n_features or 0)


def _texts(dataset: Dataset) -> Iterable[str]:
    if dataset.texts is None:
        raise InputError("the model is made for texts and the data has none")
    return dataset.texts
