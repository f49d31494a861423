"""The contract of a method. Subclasses write `_fit`, `_predict` and what they store; nothing else.

A method is one class with keyword-only parameters that `__init__` only stores, so that
scikit-learn's `get_params`, `clone` and grid search work. Checks happen in `fit`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator

from labelspace._core.sparse import checked_features, checked_labels, digest
from labelspace._core.threads import single_blas_thread
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import InputError, ParameterError, UnsupportedError
from labelspace.features.base import UnfittedError
from labelspace.methods.parameters import Parameter, checked_count, plain, unknown
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.features.pipeline import TextFeatures
    from labelspace.runs.callbacks import Callback


class Method(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of all methods: `fit(X, Y)`, `predict(X, k)`, state in and out."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    summary: ClassVar[str]
    parameters: ClassVar[Mapping[str, Parameter]]
    can_update: ClassVar[bool] = False  # whether `_partial_fit` is there
    can_rerank: ClassVar[bool] = False  # whether `_rerank` is there
    needs_label_names: ClassVar[bool] = False  # whether `fit` takes `label_names` as tokens
    full_precision: ClassVar[tuple[str, ...]] = ()  # arrays of the state that 16 bits would spoil

    n_features_in_: int
    n_labels_: int

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        valid: tuple[Any, Any] | None = None,
        taxonomy: Taxonomy | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Learn from X (n, features), CSR or array, and Y (n, labels), CSR of ones.

        valid      held-out (X, Y) for early stopping; cut from the training data if None. Its Y
                   may lack the last columns, which are then taken to be empty; more columns than
                   the training data have are an error
        taxonomy   how the labels hang together, for methods that use it
        callbacks  told of progress; see `labelspace.runs.callbacks`

        If training fails or is interrupted, the method is unfitted, whatever it was before.
        """
        self.check_parameters()
        if Y is None:
            raise InputError(f"{self.name} requires y to be passed, but the target y is None")
        X = checked_features(X)
        Y = checked_labels(Y, X.shape[0])
        if X.shape[0] == 0:
            raise InputError("X has no rows: there is nothing to learn from")
        if Y.nnz == 0:
            raise InputError("no example has a label: there is nothing to learn")
        if valid is not None:
            valid = _checked_valid(valid, X.shape[1], Y.shape[1])
        data = TrainingData(X, Y, valid, taxonomy, callbacks, self._identity(X, Y, valid, taxonomy))
        self._change(self._fit, data)
        self.n_features_in_ = X.shape[1]
        return self

    def partial_fit(self, X: Any, Y: Any, *, callbacks: Sequence[Callback] = ()) -> Self:
        """Learn from more examples. Y may be wider than before: new labels stand at its end."""
        if not self.can_update:
            raise UnsupportedError(f"{self.name} cannot learn more examples: fit it anew on all")
        self._check_fitted()
        X = checked_features(X, self.n_features_in_)
        Y = checked_labels(Y, X.shape[0])
        if Y.shape[1] < self.n_labels_:
            raise InputError(
                f"Y has {Y.shape[1]} columns, the model {self.n_labels_} labels: "
                "keep a column for every label it knows, new ones after them"
            )
        if X.shape[0] == 0:
            return self
        identity = self._identity(X, Y)
        self._change(self._partial_fit, TrainingData(X, Y, None, None, callbacks, identity))
        return self

    def _identity(
        self,
        X: Features,
        Y: csr_matrix,
        valid: tuple[Features, csr_matrix] | None = None,
        taxonomy: Taxonomy | None = None,
    ) -> str:
        """A fingerprint of all that the result of training depends on, for checkpoints."""
        params = sorted(self.get_params().items())
        nodes = (taxonomy.n_labels, taxonomy.edges) if taxonomy is not None else ()
        return digest(self.name, self.version, params, X, Y, *(valid or ()), *nodes)

    def _change(self, train: Callable[[TrainingData], None], data: TrainingData) -> None:
        """Train; where that fails, nothing half-changed is left for `predict` to answer from."""
        try:
            with single_blas_thread():
                train(data)
        except BaseException:
            self.__dict__.pop("n_labels_", None)
            raise
        self.n_labels_ = data.Y.shape[1]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_labels_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = tags.target_tags.two_d_labels = True
        tags.target_tags.single_output = False
        return tags

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_labels_"):
            raise UnfittedError(f"{self.name} is not fitted yet: call fit first")

    def predict(self, X: Any, k: int = 5) -> Ranking:
        """The k best labels of each row of X, with scores in [0, 1]."""
        self._check_fitted()
        k = checked_count("k", k)
        X = checked_features(X, self.n_features_in_)
        best = self._predict(X, min(k, self.n_labels_))
        if best.k == k:
            return best
        padded = Ranking.empty(len(best), k)
        padded.labels[:, : best.k], padded.scores[:, : best.k] = best.labels, best.scores
        return padded

    def score(self, X: Any, Y: Any) -> float:
        """P@1 as a share: how often the first label is right. Grid search compares by it."""
        from labelspace.metrics.ranking import measure

        return measure("P@1", self.predict(X, 1), Y) / 100.0

    def refit(self, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None) -> bool:
        """Learn anew from these examples, which hold those of `fit` and of its validation cut.

        What was chosen and calibrated on the cut stays. False, and nothing happens, for a method
        that cannot, or for which it would cost as much as all of `fit` did.
        """
        del X, Y, taxonomy
        return False

    @abstractmethod
    def _fit(self, data: TrainingData) -> None:
        """Learn; set attributes that end in an underscore."""

    def _partial_fit(self, data: TrainingData) -> None:
        """Learn more; `n_labels_` is still the number of labels known before."""
        raise NotImplementedError

    @abstractmethod
    def _predict(self, X: Features, k: int) -> Ranking:
        """Rank; k is at most the number of labels."""

    def _rerank(self, X: csr_matrix, candidates: np.ndarray) -> Ranking:
        """Scores of labels (n, m) that other methods found, in any order; -1 pads.

        For methods that judge a label at less cost than they find it.
        """
        raise NotImplementedError

    def drop_candidate_search(self) -> None:
        """Forget what is needed to find labels but not to judge them: `_rerank` alone stays."""

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """All that was learned, as flat arrays."""

    @abstractmethod
    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take back what `state` gave; the arrays may be read-only memory maps."""

    @classmethod
    @abstractmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        """Bytes `fit` will need at its peak, by purpose, on data of this shape."""

    def text_features(self) -> TextFeatures:
        """How texts become the rows this method takes, where the user does not say."""
        from labelspace.features.tfidf import Tfidf

        return Tfidf()

    def metadata(self) -> dict[str, Any]:
        """What a reader of `model.json` should know of the fitted model beyond its parameters."""
        return {}

    def check_parameters(self) -> None:
        """Raise ParameterError for the first parameter that is out of range.

        Numbers of numpy become Python's, which can be written as JSON.
        """
        for name, value in self.get_params(deep=False).items():
            self.parameters[name].check(f"{self.name}.{name}", value)
            setattr(self, name, plain(value))

    @classmethod
    def parse_parameters(cls, settings: Mapping[str, str]) -> dict[str, Any]:
        """Texts such as {"dim": "512"} as checked values; unknown names are an error."""
        for name in settings:
            if name not in cls.parameters:
                raise ParameterError(unknown(name, f"{cls.name} parameter", cls.parameters))
        return {
            name: cls.parameters[name].parse(f"{cls.name}.{name}", text)
            for name, text in settings.items()
        }

    @classmethod
    def from_json(cls, params: Mapping[str, Any]) -> Self:
        """From parameters that went through JSON, which turns tuples into lists."""
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in params.items()})

    @classmethod
    def create(cls, **params: Any) -> Self:
        """Like the constructor, but an unknown name is our error with the nearest one."""
        for name in params:
            if name not in cls.parameters:
                raise ParameterError(unknown(name, f"{cls.name} parameter", cls.parameters))
        return cls(**params)


def _checked_valid(
    valid: tuple[Any, Any], n_features: int, n_labels: int
) -> tuple[Features, csr_matrix]:
    """Held-out examples whose labels have as many columns as those of training."""
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
