"""The contract of a method.

A method declares its parameters as class attributes (`parameters.py`) and implements `_fit`,
`_predict`, `state`, `load_state` and `memory`, and `_resolve` if a parameter may be "auto". The
constructor, which only stores parameters, is generated, so that scikit-learn's `get_params`,
`clone` and grid search work. Parameters are checked in `fit`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator

from labelspace._core.checks import expect
from labelspace._core.not_fitted import NotFittedError
from labelspace._core.sparse import checked_features, checked_labels, digest
from labelspace._core.threads import single_blas_thread
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import InputError, UnsupportedError
from labelspace.methods.parameters import (
    Parameter,
    checked_count,
    choice,
    constructor,
    declared,
    flag,
    integer,
    is_auto,
    layers,
    number,
    plain,
    text,
    unknown_parameter,
    with_parameters_section,
)
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.features.pipeline import TextFeatures
    from labelspace.labels.tree import LabelTree
    from labelspace.methods.explanation import LabelExplanation
    from labelspace.runs.callbacks import Callback


@dataclass_transform(
    kw_only_default=True, field_specifiers=(integer, number, flag, choice, text, layers)
)
class Method(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of all methods: `fit(X, Y)`, `predict(X, k)`, state in and out.

    Attributes
    ----------
    params_ : SimpleNamespace
        The parameters as they were fitted: every "auto" is a value.
    n_features_in_, n_labels_ : int
    """

    name: ClassVar[str]
    version: ClassVar[int] = 2
    oldest_version: ClassVar[int] = 2  # of saved models that can still be loaded
    summary: ClassVar[str]
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    can_update: ClassVar[bool] = False  # whether `_partial_fit` is there
    can_rerank: ClassVar[bool] = False  # whether `_rerank` is there
    can_explain: ClassVar[bool] = False  # whether `explain` is there
    has_space: ClassVar[bool] = False  # whether labels have vectors: `label_vectors_`
    has_label_trees: ClassVar[bool] = False  # whether `fit` builds label trees: `trees_`
    needs_label_names: ClassVar[bool] = False  # whether `fit` takes `label_names` as tokens
    full_precision: ClassVar[tuple[str, ...]] = ()  # arrays of the state that 16 bits would spoil

    params_: SimpleNamespace
    n_features_in_: int
    n_labels_: int
    trees_: list[LabelTree]  # of methods with `has_label_trees`
    history_: list[dict[str, float]] | None = None  # per epoch, of methods that train in epochs
    members_: Sequence[Method] = ()  # of methods that combine others

    def __init_subclass__(cls, **options: Any) -> None:
        """Build the constructor and the docstring's section on parameters."""
        super().__init_subclass__(**options)
        cls.parameters = declared(cls)
        cls.__init__ = constructor(cls, cls.parameters)  # type: ignore[method-assign]
        cls.__doc__ = with_parameters_section(cls.__doc__ or "", cls.parameters)

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
        self.params_ = SimpleNamespace(**self.resolve(self.get_params(), Shape.of(X, Y)))
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
        params = sorted(vars(self.params_).items())
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
            raise NotFittedError(f"{self.name} is not fitted yet: call fit first")

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

    def explain(self, X: Any, label: int, k: int = 5) -> LabelExplanation:
        """Return the k strongest features, labels and training examples for a label of one row."""
        del X, label, k
        raise UnsupportedError(f"{self.name} does not support explain")

    @property
    def label_vectors_(self) -> np.ndarray:
        """The vector of each label, (labels, dimensions)."""
        raise UnsupportedError(f"{self.name} has no label vectors")

    @property
    def space_geometry(self) -> str:
        """The geometry that `label_vectors_` lie in: euclidean, spherical or hyperbolic."""
        return "euclidean"

    def absent_members(self) -> str:
        """Return the names of members that are left out as their package is not installed."""
        return ""

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
        """Raise ParameterError for the first parameter that is out of range."""
        for name, value in self.get_params(deep=False).items():
            self.parameters[name].check(f"{self.name}.{name}", value)

    @classmethod
    def resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        """Return the parameters for data of this shape: every "auto" becomes a value.

        `fit` calls it once, before it holds out any examples; the memory estimate and
        `labelspace plan` call it too. Numbers of numpy become Python's, layers become tuples.

        Parameters
        ----------
        params : mapping
            All parameters, as `get_params` returns them.
        shape : Shape
            Size of the training data.
        """
        given = {name: _normal(cls.parameters[name], value) for name, value in params.items()}
        resolved = {**given, **cls._resolve(given, shape)}
        left = [
            name
            for name, value in resolved.items()
            if is_auto(value) and not cls.parameters[name].tuned
        ]
        if left:
            raise NotImplementedError(f"{cls.name} does not resolve {', '.join(left)}")
        return resolved

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        """Return a value for each parameter that is "auto"; `methods/NAME/defaults.py` has it."""
        del params, shape
        return {}

    @classmethod
    def parse_parameters(cls, settings: Mapping[str, str]) -> dict[str, Any]:
        """Return texts such as {"dim": "512"} as checked values; unknown names are an error."""
        for name in settings:
            if name not in cls.parameters:
                raise unknown_parameter(name, cls.name, cls.parameters)
        return {
            name: cls.parameters[name].parse(f"{cls.name}.{name}", text)
            for name, text in settings.items()
        }

    @classmethod
    def create(cls, **params: Any) -> Self:
        """Construct a method; unlike the constructor, raise ParameterError for unknown names."""
        for name in params:
            if name not in cls.parameters:
                raise unknown_parameter(name, cls.name, cls.parameters)
        return cls(**params)

    def to_json(self) -> dict[str, Any]:
        """Return what `restored` needs beside the arrays, as JSON can hold it."""
        return {
            "parameters": {name: plain(value) for name, value in self.get_params().items()},
            "resolved": {name: plain(value) for name, value in vars(self.params_).items()},
        }

    @classmethod
    def restored(
        cls,
        document: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        *,
        n_features: int,
        n_labels: int,
    ) -> Self:
        """Return the fitted method whose `to_json` and `state` these were.

        The document is not trusted: parameters are checked as in `fit`.
        """
        method = cls.create(**{k: _as_tuple(v) for k, v in document["parameters"].items()})
        method.check_parameters()
        resolved = {k: _as_tuple(v) for k, v in document["resolved"].items()}
        expect(resolved.keys() == cls.parameters.keys(), "resolved parameters are not all there")
        method.check_resolved(resolved)
        method.params_ = SimpleNamespace(**resolved)
        method.n_features_in_, method.n_labels_ = n_features, n_labels
        method.load_state(arrays)
        return method

    def check_resolved(self, resolved: Mapping[str, Any]) -> None:
        """Raise ParameterError unless these values can be what `resolve` returned."""
        for name, value in resolved.items():
            if value != () or self.parameters[name].kind != "layers":
                self.parameters[name].check(f"{self.name}.{name}", value)


def _normal(parameter: Parameter, value: Any) -> Any:
    """Return a value as methods read it: Python's numbers, and layers as a tuple, () for none."""
    if parameter.kind == "layers" and not isinstance(value, str):
        return tuple(plain(value or ()))
    return plain(value)


def _as_tuple(value: Any) -> Any:
    """Return a list, which JSON makes of a tuple, as a tuple again."""
    return tuple(value) if isinstance(value, list) else value


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
