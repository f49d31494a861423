"""The base class of all methods.

A subclass declares its parameters as class attributes (`parameters.py`) and implements

- `_fit(data)`: fit, and set attributes that end in an underscore;
- `_predict(X, k)`: return the k best labels of each row as a `Ranking`;
- `state()` and `load_state(arrays)`: everything fitted, as a flat dict of arrays;
- `memory(shape, params)`: the bytes that `fit` needs at its peak;
- `_resolve(params, shape)`, if a parameter may be "auto".

`_partial_fit`, `_rerank`, `refit`, `explain`, `similar_labels` and `label_vectors_` are optional; a
class variable declares each (`can_update`, `can_rerank`, ...). Hooks that begin with an underscore
receive input that the public method has checked. The constructor, which only stores parameters, is
generated, so that scikit-learn's `get_params`, `clone` and grid search work. CONTRIBUTING.md has a
complete example.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, dataclass_transform

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator

from labelspace._core.checks import expect
from labelspace._core.not_fitted import NotFittedError
from labelspace._core.sparse import as_csr, checked_features, checked_labels, digest
from labelspace._core.threads import single_blas_thread
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import InputError, UnsupportedError
from labelspace.features.name_codes import COLUMNS
from labelspace.methods.parameters import (
    Parameter,
    checked_count,
    choice,
    constructor,
    declared,
    flag,
    implied,
    integer,
    is_auto,
    layers,
    number,
    numbers,
    plain,
    text,
    unknown_parameter,
    with_parameters_section,
)
from labelspace.methods.presets import check_complete, preset
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.components.examples import Examples
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.features.pipeline import TextFeatures
    from labelspace.labels.tree import LabelTree
    from labelspace.methods.explanation import LabelExplanation
    from labelspace.runs.callbacks import Callback


class Neighbour(NamedTuple):
    """A training example near to another example.

    Attributes
    ----------
    row : int
        Its row in the training data; rows of later `partial_fit` calls follow those of `fit`.
    similarity : float
        Its cosine similarity, in the space in which the method compares examples.
    labels : list of int
        Its labels.
    """

    row: int
    similarity: float
    labels: list[int]


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(integer, number, numbers, flag, choice, text, layers, preset),
)
class Method(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of all methods: fits sparse features to sparse labels and ranks labels.

    Attributes
    ----------
    name : str
        Name of the method in the registry, on the command line and in saved models.
    summary : str
        What the method is, in one line without a full stop, for `labelspace methods`.
    version, oldest_version : int
        Format of saved models, and the oldest that can still be loaded.
    parameters : mapping of str to Parameter
        The declared parameters, by name.
    can_update : bool
        Whether `partial_fit` is supported, by `_partial_fit`.
    can_rerank : bool
        Whether `rerank` is supported, by `_rerank`.
    can_explain : bool
        Whether `explain` is supported.
    can_compare_labels : bool
        Whether `similar_labels` is supported.
    can_refit_grown : bool
        Whether `refit_grown` is supported.
    can_find_examples : bool
        Whether `nearest_examples` is supported.
    has_space : bool
        Whether labels have vectors, `label_vectors_`.
    has_label_trees : bool
        Whether `fit` builds label trees, `trees_`.
    needs_label_names : bool
        Whether `fit` takes `label_names` as well.
    uses_label_texts : bool
        Whether labels without examples may be predicted, by their texts. Methods that cannot are
        trained without the columns of such labels.
    takes_name_matches : bool
        Whether X may have match columns, and `fit` takes `name_matches` as well.
    takes_label_texts : bool
        Whether `fit` takes `label_texts` as well, the features of the labels' texts.
    full_precision : tuple of str
        Arrays of `state` that a fusion must not round to 16 bits.
    params_ : SimpleNamespace
        The parameters of the fitted method: every "auto" is a value.
    n_features_in_, n_labels_ : int
        Columns of X and of Y in `fit`.
    history_ : list of dict or None
        Loss and metrics of each epoch, of methods that train in epochs.
    members_ : sequence of Method
        The fitted members, of methods that combine others.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 2
    oldest_version: ClassVar[int] = 2
    summary: ClassVar[str]
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    can_update: ClassVar[bool] = False
    can_rerank: ClassVar[bool] = False
    can_explain: ClassVar[bool] = False
    can_compare_labels: ClassVar[bool] = False
    can_refit_grown: ClassVar[bool] = False
    can_find_examples: ClassVar[bool] = False
    has_space: ClassVar[bool] = False
    has_label_trees: ClassVar[bool] = False
    needs_label_names: ClassVar[bool] = False
    uses_label_texts: ClassVar[bool] = False
    takes_name_matches: ClassVar[bool] = False
    takes_label_texts: ClassVar[bool] = False
    full_precision: ClassVar[tuple[str, ...]] = ()

    params_: SimpleNamespace
    n_features_in_: int
    n_labels_: int
    trees_: list[LabelTree]
    history_: list[dict[str, float]] | None = None
    members_: Sequence[Method] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Build the constructor and the docstring's section on parameters."""
        super().__init_subclass__(**options)
        cls.parameters = declared(cls)
        check_complete(cls.__name__, cls.parameters)
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
        """Fit the method to training data.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features)
            Features of the examples.
        Y : sparse matrix or array of shape (n, n_labels)
            Labels of the examples: 1 where an example has the label, else 0.
        valid : pair (X, Y), optional
            Held-out examples for early stopping and calibration. Default: part of the training
            data is held out. Its Y may lack the last columns; they are then zero.
        taxonomy : Taxonomy, optional
            Parents of the labels, for methods that use them.
        callbacks : sequence of Callback, optional
            Notified of progress; see `labelspace.runs.callbacks`.

        Returns
        -------
        self

        Raises
        ------
        ParameterError
            If a parameter is out of range.
        InputError
            If the data do not fit together, are not finite, or have no labels.

        Notes
        -----
        If `fit` fails or is interrupted, the method is not fitted, whatever it was before.
        """
        return self._fit_checked(X, Y, valid, taxonomy, callbacks)

    def _fit_checked(
        self,
        X: Any,
        Y: Any,
        valid: tuple[Any, Any] | None,
        taxonomy: Taxonomy | None,
        callbacks: Sequence[Callback],
        label_names: csr_matrix | None = None,
        name_matches: bool = False,
        label_texts: Any = None,
    ) -> Self:
        """Check the arguments of `fit` and fit; the last three are those of `TrainingData`."""
        self.check_parameters()
        if Y is None:
            raise InputError(f"{self.name} requires y to be passed, but the target y is None")
        X = checked_features(X)
        Y = checked_labels(Y, X.shape[0])
        if X.shape[0] == 0:
            raise InputError("X has no rows: there is nothing to fit")
        if Y.nnz == 0:
            raise InputError("no example has a label: there is nothing to fit")
        if valid is not None:
            valid = _checked_valid(valid, X.shape[1], Y.shape[1])
        _check_match_columns(X, Y, name_matches)
        texts = None
        if label_texts is not None:
            n_text = X.shape[1] - (COLUMNS * Y.shape[1] if name_matches else 0)
            texts = _checked_label_texts(label_texts, Y.shape[1], n_text)
        shape = Shape.of(X, Y, name_matches, texts)
        self.params_ = SimpleNamespace(**self.resolve(self.get_params(), shape))
        identity = self._identity(X, Y, valid, taxonomy, label_names, texts)
        data = TrainingData(
            *(X, Y, valid, taxonomy, callbacks, identity, label_names, name_matches, texts)
        )
        self._change(self._fit, data)
        self.n_features_in_ = X.shape[1]
        return self

    def partial_fit(self, X: Any, Y: Any, *, callbacks: Sequence[Callback] = ()) -> Self:
        """Update the fitted method with more examples.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features)
            Features of the new examples alone.
        Y : sparse matrix or array of shape (n, n_labels)
            Their labels. Columns after those of `fit` are new labels.
        callbacks : sequence of Callback, optional
            Notified of progress.

        Returns
        -------
        self

        Raises
        ------
        UnsupportedError
            If the method has no `can_update`.
        NotFittedError
            If the method is not fitted.
        InputError
            If Y has fewer columns than the method has labels, or the data are not valid.
        """
        return self._update_checked(X, Y, callbacks)

    def _update_checked(
        self, X: Any, Y: Any, callbacks: Sequence[Callback], *, name_matches: bool = False
    ) -> Self:
        """Check the arguments of `partial_fit`, and update.

        With `name_matches`, X has match columns for all labels of Y.
        """
        if not self.can_update:
            raise UnsupportedError(f"{self.name} cannot be updated: fit it again on all examples")
        self._check_fitted()
        self._check_updatable()
        X = checked_features(X, None if name_matches else self.n_features_in_)
        Y = checked_labels(Y, X.shape[0])
        if name_matches:
            checked_features(X, self._width_with_matches(Y.shape[1]))
        if Y.shape[1] < self.n_labels_:
            raise InputError(
                f"Y has {Y.shape[1]} columns and the model {self.n_labels_} labels: "
                "keep a column for every label of the model, and add new ones after them"
            )
        if X.shape[0] == 0 and not name_matches:
            return self
        identity = self._identity(X, Y)
        data = TrainingData(X, Y, None, None, callbacks, identity, name_matches=name_matches)
        self._change(self._partial_fit, data)
        self.n_features_in_ = X.shape[1]
        return self

    def _width_with_matches(self, n_labels: int) -> int:
        """Return the number of features with match columns for so many labels."""
        del n_labels
        return self.n_features_in_

    def _identity(
        self,
        X: Features,
        Y: csr_matrix,
        valid: tuple[Features, csr_matrix] | None = None,
        taxonomy: Taxonomy | None = None,
        label_names: csr_matrix | None = None,
        label_texts: csr_matrix | None = None,
    ) -> str:
        """Return a digest of all that the fitted model depends on, to recognise checkpoints by."""
        params = sorted(vars(self.params_).items())
        nodes = (taxonomy.n_labels, taxonomy.edges) if taxonomy is not None else ()
        names = [given for given in (label_names, label_texts) if given is not None]
        return digest(self.name, self.version, params, X, Y, *(valid or ()), *nodes, *names)

    def _change(self, train: Callable[[TrainingData], None], data: TrainingData) -> None:
        """Train; if that fails, leave the method unfitted, not half changed."""
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
        """Return the k best labels of each row.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features)
            Features of the examples.
        k : int, default 5
            Number of labels per row. Rows with fewer are padded with label -1 and score 0.

        Returns
        -------
        Ranking
            Labels (n, k), the best first, and their scores in [0, 1].

        Raises
        ------
        NotFittedError
            If the method is not fitted.
        ParameterError
            If k is not an integer of at least 1.
        InputError
            If X has another number of columns than in `fit`, or is not finite.
        """
        self._check_fitted()
        k = checked_count("k", k)
        X = checked_features(X, self.n_features_in_)
        best = self._predict(X, min(k, self.n_labels_))
        if best.k == k:
            return best
        padded = Ranking.empty(len(best), k)
        padded.labels[:, : best.k], padded.scores[:, : best.k] = best.labels, best.scores
        return padded

    def rank(self, X: csr_matrix, k: int) -> Ranking:
        """Return what `predict` returns, without checks: for callers that have checked X.

        Parameters
        ----------
        X : csr_matrix of shape (n, n_features)
            Finite float32 features in canonical form.
        k : int
            Number of labels per row, at most `n_labels_`.

        Returns
        -------
        Ranking
        """
        return self._predict(X, k)

    def rerank(self, X: csr_matrix, candidates: np.ndarray) -> Ranking:
        """Score given labels, without checks: for callers that have checked X.

        Parameters
        ----------
        X : csr_matrix of shape (n, n_features)
            Finite float32 features in canonical form.
        candidates : ndarray of int64 of shape (n, m)
            Labels per row, without repeats; -1 pads.

        Returns
        -------
        Ranking
            The candidates as they were given, with scores in [0, 1]; they need not be sorted.

        Raises
        ------
        UnsupportedError
            If the method has no `can_rerank`.
        """
        if not self.can_rerank:
            raise UnsupportedError(f"{self.name} cannot rerank candidates")
        return self._rerank(X, candidates)

    def score(self, X: Any, Y: Any) -> float:
        """Return P@1 as a share: scikit-learn's grid search compares parameters by it.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features)
            Features of the examples.
        Y : sparse matrix or array of shape (n, n_labels)
            Their labels.

        Returns
        -------
        float
            Share of the examples whose first predicted label is right.
        """
        from labelspace.metrics.ranking import measure

        return measure("P@1", self.predict(X, 1), Y) / 100.0

    def explain(self, X: Any, label: int, k: int = 5) -> LabelExplanation:
        """Explain the score of one label for one example.

        Parameters
        ----------
        X : sparse matrix or array of shape (1, n_features)
            One example.
        label : int
            Column of Y.
        k : int, default 5
            Number of features, of labels and of examples.

        Returns
        -------
        LabelExplanation
            The features with the largest effect on the score, the most similar labels and the
            closest training examples.

        Raises
        ------
        UnsupportedError
            If the method has no `can_explain`.
        """
        del X, label, k
        raise UnsupportedError(f"{self.name} does not support explain")

    def similar_labels(self, label: int, k: int) -> list[tuple[int, float]]:
        """Return the k labels most similar to a label, and their cosine similarities.

        Parameters
        ----------
        label : int
            Column of Y.
        k : int
            Number of labels, at most; labels without any similarity are left out.

        Returns
        -------
        list of (int, float)

        Raises
        ------
        UnsupportedError
            If the method has no `can_compare_labels`.
        """
        del label, k
        raise UnsupportedError(f"{self.name} cannot compare labels")

    def nearest_examples(self, X: Any, k: int = 5) -> list[Neighbour]:
        """Return the training examples that are nearest to an example.

        Parameters
        ----------
        X : sparse matrix or array of shape (1, n_features)
            One example.
        k : int, default 5
            Number of training examples, at most.

        Returns
        -------
        list of Neighbour
            The nearest first.

        Raises
        ------
        UnsupportedError
            If the method has no `can_find_examples`.
        """
        del X, k
        raise UnsupportedError(f"{self.name} keeps no training examples to compare with")

    def embed(self, X: Any) -> np.ndarray:
        """Return the vector of each row, for methods that have an embedding.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features)
            Features of the examples.

        Returns
        -------
        ndarray of shape (n, dim)

        Raises
        ------
        UnsupportedError
            If the method has no embedding.
        """
        del X
        raise UnsupportedError(f"{self.name} has no embedding")

    @property
    def label_vectors_(self) -> np.ndarray:
        """The vector of each label, an array of shape (n_labels, dim)."""
        raise UnsupportedError(f"{self.name} has no label vectors")

    @property
    def space_geometry(self) -> str:
        """The geometry of `label_vectors_`: euclidean, spherical or hyperbolic."""
        return "euclidean"

    def absent_members(self) -> str:
        """Return in words which members are left out, as a package is not installed; "" if none."""
        return ""

    def reads_label_texts(self) -> bool:
        """Return whether the method with these parameters makes use of label texts."""
        return self.uses_label_texts

    def without_examples_of(self, labels: np.ndarray) -> Method:
        """Return a copy of the fitted method for which these labels have no examples.

        For methods that use label texts: a fusion fits its combination with it.
        """
        del labels
        raise UnsupportedError(f"{self.name} finds no labels without examples")

    def add_labels(self, n_labels: int, n_features: int) -> None:
        """Add labels without examples behind those there are, with match columns of their own.

        For methods that use label texts: a fusion calls it before an update.

        Parameters
        ----------
        n_labels, n_features : int
            Numbers of all labels and of all columns, old and new.
        """
        del n_labels, n_features
        raise UnsupportedError(f"{self.name} finds no labels without examples")

    def count_further(self, X: csr_matrix, Y: csr_matrix) -> None:
        """Count the matches of further examples; Y may have more labels.

        For methods that use label texts: a fusion updates them with it.
        """
        del X, Y
        raise UnsupportedError(f"{self.name} finds no labels without examples")

    def refit(self, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None) -> bool:
        """Fit the weights again, on training and held-out examples together.

        What was chosen and calibrated on the hold-out is kept. A fusion calls it, after it has
        fitted its combination.

        Parameters
        ----------
        X, Y : csr_matrix
            All examples: those of `fit` and those that were held out.
        taxonomy : Taxonomy or None
            As in `fit`.

        Returns
        -------
        bool
            False if the method does not support it, or if it would cost as much as `fit`: nothing
            is changed then.
        """
        del X, Y, taxonomy
        return False

    def refit_grown(self, examples: Examples) -> None:
        """Fit again, from all examples, what has many more of them than at its last fit.

        For methods that consist of independent parts, such as a classifier per label. A fusion,
        which keeps the examples for all of its members, calls it in `partial_fit`.

        Parameters
        ----------
        examples : Examples
            All examples: those of `fit` and of every update. There may be more labels than before.

        Raises
        ------
        UnsupportedError
            If the method has no `can_refit_grown`.
        """
        del examples
        raise UnsupportedError(f"{self.name} cannot be fitted again in parts")

    def arrays_to_round(self) -> dict[str, np.ndarray] | None:
        """Return all arrays of floats that are read, for a fusion that rounds them in place.

        It is called right after an update, before anything is derived from what has changed. None:
        the fusion loads the rounded `state` instead, which takes longer.
        """
        return None

    @property
    def keeps_examples(self) -> bool:
        """Whether the fitted method has `kept_examples`."""
        return False

    def kept_examples(self) -> Examples:
        """Return features of length 1 and labels of all training examples, in their order."""
        raise UnsupportedError(f"{self.name} does not keep its training examples")

    def label_features(self) -> csr_matrix | None:
        """Return weights of features per label, (n_labels, n_features), None without such."""
        return None

    @abstractmethod
    def _fit(self, data: TrainingData) -> None:
        """Fit, and set attributes that end in an underscore.

        `params_` is set; `n_features_in_` and `n_labels_` are set afterwards. Read parameters from
        `params_`, where none is "auto". Random numbers depend on `params_.seed` alone.
        """

    def _check_updatable(self) -> None:
        """Raise UnsupportedError if this model lacks what `_partial_fit` needs."""

    def _partial_fit(self, data: TrainingData) -> None:
        """Update; `n_labels_` is still the number of labels before."""
        raise NotImplementedError

    @abstractmethod
    def _predict(self, X: Features, k: int) -> Ranking:
        """Return the k best labels of each row; k is at most `n_labels_`.

        Scores are in [0, 1] and fall along a row; a row with fewer labels is padded with label -1
        and score 0. The ranking of a row does not depend on the other rows.
        """

    def _rerank(self, X: csr_matrix, candidates: np.ndarray) -> Ranking:
        """Return the scores of given labels; see `rerank`.

        For methods that score a label at less cost than they find it.
        """
        raise NotImplementedError

    def drop_candidate_search(self) -> None:
        """Delete what only finding labels needs: afterwards only `rerank` is called."""

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Return everything fitted as a flat dict of arrays, without Python objects."""

    @abstractmethod
    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned.

        `params_`, `n_features_in_` and `n_labels_` are set. The arrays may be read-only memory
        maps, and come from a file that is not trusted: check them with `labelspace._core.checks`
        before compiled code reads them.
        """

    @classmethod
    @abstractmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        """Return the bytes that `fit` needs at its peak, by purpose.

        Parameters
        ----------
        shape : Shape
            Size of the training data.
        params : mapping
            What `resolve` returned.
        """

    def text_features(self) -> TextFeatures:
        """Return the features of texts that suit the method, if the user names none."""
        from labelspace.features.tfidf import Tfidf

        return Tfidf()

    def metadata(self) -> dict[str, Any]:
        """Return facts on the fitted model beyond its parameters, for `model.json`."""
        return {}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as scikit-learn's estimators do.

        Parameters
        ----------
        **params : Any
            A `preset` sets all parameters that it names; those given beside it have precedence.

        Returns
        -------
        self
        """
        super().set_params(**{**implied(self.parameters, params), **params})
        return self

    def check_parameters(self) -> None:
        """Raise ParameterError for the first parameter that is out of range."""
        for name, value in self.get_params(deep=False).items():
            self.parameters[name].check(f"{self.name}.{name}", value)

    @classmethod
    def resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        """Return the parameters for data of this shape, with a value for every "auto".

        `fit` calls it once, before it holds out any examples; the memory estimate and
        `labelspace plan` call it too. Numbers of numpy become Python's, layers become tuples.

        Parameters
        ----------
        params : mapping
            All parameters, as `get_params` or `resolve` returns them.
        shape : Shape
            Size of the training data.

        Returns
        -------
        dict
            A parameter that is `tuned` may still be "auto": training chooses its value.
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
        """Return parameters that were given as texts, such as {"dim": "512"}, as checked values.

        Raises
        ------
        ParameterError
            If a name is unknown or a value is not allowed.
        """
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
        """Return the parameters in a form that JSON can hold, for `restored`."""
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
        """Return the fitted method that was saved.

        Parameters
        ----------
        document : mapping
            What `to_json` returned. It is not trusted: parameters are checked as in `fit`.
        arrays : mapping of str to ndarray
            What `state` returned.
        n_features, n_labels : int
            Columns of X and of Y in `fit`.
        """
        method = cls.create(**{k: _as_tuple(v) for k, v in document["parameters"].items()})
        method.check_parameters()
        # A parameter that is younger than the model has its default, which is what was done then.
        younger = {
            name: _normal(parameter, parameter.default)
            for name, parameter in cls.parameters.items()
            if name not in document["parameters"] and not is_auto(parameter.default)
        }
        resolved = younger | {k: _as_tuple(v) for k, v in document["resolved"].items()}
        expect(resolved.keys() == cls.parameters.keys(), "resolved parameters are missing")
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


def _checked_label_texts(given: Any, n_labels: int, n_features: int) -> csr_matrix:
    """Return the features of the labels' texts; raise InputError if they do not fit."""
    texts = as_csr(checked_features(given, n_features))
    if texts.shape[0] != n_labels:
        raise InputError(f"label_texts has {texts.shape[0]} rows for {n_labels} labels")
    return texts


def _check_match_columns(X: Features, Y: csr_matrix, name_matches: bool) -> None:
    """Raise InputError if X is too narrow for match columns."""
    if name_matches and X.shape[1] < COLUMNS * Y.shape[1]:
        raise InputError(
            f"name_matches: X has {X.shape[1]} columns, fewer than {COLUMNS} for each of "
            f"{Y.shape[1]} labels; append what NameMatcher.transform returns"
        )


def _normal(parameter: Parameter, value: Any) -> Any:
    """Return a value as methods read it: Python's numbers, in tuples; no layers are ()."""
    if parameter.kind == "layers" and not isinstance(value, str):
        return tuple(plain(value or ()))
    return _as_tuple(plain(value))


def _as_tuple(value: Any) -> Any:
    """Return a list, which JSON makes of a tuple, as a tuple again."""
    return tuple(value) if isinstance(value, list) else value


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
