"""The base class of all methods.

A subclass declares its parameters as class attributes (`parameters.py`) and implements

- `_fit(data)`: fit, and set attributes that end in an underscore;
- `_predict(X, k)`: return the k best labels of each row as a `Ranking`;
- `state()` and `load_state(arrays)`: everything fitted, as a flat dict of arrays;
- `memory(shape, params)`: the bytes that `fit` needs at its peak;
- `_resolve(params, shape)`, if a parameter may be "auto".

`_partial_fit`, `_rerank`, `refit`, `explain`, `similar_labels` and `label_vectors_` are optional; a
class variable declares each (`can_update`, `can_rerank`, ..., in `capabilities.py`). Hooks that
begin with an underscore receive input that the public method has checked (`arguments.py`). The
constructor, which only stores parameters, is generated (`parametrised.py`), so that scikit-learn's
`get_params`, `clone` and grid search work. CONTRIBUTING.md has a complete example.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.not_fitted import NotFittedError
from labelspace._core.schema import Schema, check_arrays, unverified
from labelspace._core.sparse import checked_features, digest
from labelspace._core.threads import single_blas_thread
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.engine import current
from labelspace.errors import ModelFormatError, UnsupportedError
from labelspace.methods.arguments import fit_data, refuse_not_taken, update_data
from labelspace.methods.capabilities import Capabilities, Neighbour
from labelspace.methods.parameters import (
    checked_count,
    choice,
    flag,
    integer,
    layers,
    number,
    numbers,
    text,
)
from labelspace.methods.parametrised import Parametrised
from labelspace.methods.presets import preset
from labelspace.methods.workers import fit_in_group
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.features.pipeline import TextFeatures
    from labelspace.runs.callbacks import Callback

__all__ = ["Method", "Neighbour"]


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(integer, number, numbers, flag, choice, text, layers, preset),
)
class Method(Capabilities, Parametrised):
    """Base of all methods: fits sparse features to sparse labels and ranks labels.

    Attributes
    ----------
    name : str
        Name of the method in the registry, on the command line and in saved models.
    summary : str
        What the method is, in one line without a full stop, for `labelspace methods`.
    version, oldest_version : int
        Format of saved models, and the oldest that can still be loaded.
    n_features_in_, n_labels_ : int
        Columns of X and of Y in `fit`.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 2
    oldest_version: ClassVar[int] = 2
    summary: ClassVar[str]

    n_features_in_: int
    n_labels_: int

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        valid: tuple[Any, Any] | None = None,
        taxonomy: Taxonomy | None = None,
        label_names: Any = None,
        label_texts: Any = None,
        name_matches: bool = False,
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
            Parents of the labels; methods that do not use them ignore it.
        label_names : sparse matrix of shape (nodes of the taxonomy or labels, positions), optional
            Token ids + 1 of the name of each node, as `Tokens.transform_names` returns them. Only
            for methods with `needs_label_names`.
        label_texts : sparse matrix or array of shape (n_labels, n_text_features), optional
            Features of the labels' own texts: the columns of X before match columns. Only for
            methods with `takes_label_texts`.
        name_matches : bool, default False
            Whether the last columns of X are match columns, which a `NameMatcher` of all labels
            makes. Only for methods with `takes_name_matches`.
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
        UnsupportedError
            If `label_names`, `label_texts` or `name_matches` is given to a method that does not
            take it.

        Notes
        -----
        If `fit` fails or is interrupted, the method is not fitted, whatever it was before.
        """
        self.check_parameters()
        refuse_not_taken(
            self, label_names=label_names, label_texts=label_texts, name_matches=name_matches
        )
        data = fit_data(
            X,
            Y,
            valid=valid,
            taxonomy=taxonomy,
            label_names=label_names,
            label_texts=label_texts,
            name_matches=name_matches,
            callbacks=callbacks,
        )
        shape = Shape.of(data.X, data.Y, name_matches, data.label_texts)
        self.params_ = SimpleNamespace(**self.resolve(self.get_params(), shape))
        self.held_out_ = None
        group = current().group
        if group is not None and self.can_train_in_workers:
            self._change(partial(fit_in_group, self, group), data)
        else:
            self._change(self._fit, data)
        return self

    def partial_fit(
        self, X: Any, Y: Any, *, name_matches: bool = False, callbacks: Sequence[Callback] = ()
    ) -> Self:
        """Update the fitted method with more examples.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features)
            Features of the new examples alone.
        Y : sparse matrix or array of shape (n, n_labels)
            Their labels. Columns after those of `fit` are new labels.
        name_matches : bool, default False
            Whether X has match columns for all labels of Y, for a model that was fitted with such.
            By default it has as many columns as the model, and names of new labels are not found.
            Only for methods with `takes_name_matches`.
        callbacks : sequence of Callback, optional
            Notified of progress.

        Returns
        -------
        self

        Raises
        ------
        UnsupportedError
            If the method has no `can_update`, or does not take `name_matches`.
        NotFittedError
            If the method is not fitted.
        InputError
            If Y has fewer columns than the method has labels, or the data are not valid.
        """
        if not self.can_update:
            raise UnsupportedError(f"{self.name} cannot be updated: fit it again on all examples")
        refuse_not_taken(self, name_matches=name_matches)
        self._check_fitted()
        self._check_updatable()
        data = update_data(
            X,
            Y,
            n_features=None if name_matches else self.n_features_in_,
            n_labels=self.n_labels_,
            name_matches=name_matches,
            callbacks=callbacks,
        )
        if name_matches:
            checked_features(data.X, self._width_with_matches(data.Y.shape[1]))
        elif data.X.shape[0] == 0:
            return self
        self._change(self._partial_fit, data)
        return self

    def _change(self, train: Callable[[TrainingData], None], data: TrainingData) -> None:
        """Train; if that fails, leave the method unfitted, not half changed."""
        data = replace(data, identity=self._identity(data))
        try:
            with single_blas_thread():
                train(data)
        except BaseException:
            self.__dict__.pop("n_labels_", None)
            raise
        self.n_features_in_, self.n_labels_ = data.X.shape[1], data.Y.shape[1]

    def _identity(self, data: TrainingData) -> str:
        """Return a digest of all that the fitted model depends on, to recognise checkpoints by."""
        params, taxonomy = sorted(vars(self.params_).items()), data.taxonomy
        nodes = (taxonomy.n_labels, taxonomy.edges) if taxonomy is not None else ()
        names = [given for given in (data.label_names, data.label_texts) if given is not None]
        examples = data.X, data.Y, *(data.valid or ())
        return digest(self.name, self.version, params, *examples, *nodes, *names)

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
        best = self.rank(X, min(k, self.n_labels_))
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

        Raises
        ------
        ModelFormatError
            If a score is not finite.
        """
        best = self._predict(X, k)
        # Finite weights of a damaged model may overflow.
        if not np.isfinite(best.scores).all():
            raise ModelFormatError(
                "the scores are not finite: the model is damaged, restore it from a copy"
            )
        return best

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

    @abstractmethod
    def _fit(self, data: TrainingData) -> None:
        """Fit, and set attributes that end in an underscore.

        `params_` is set; `n_features_in_` and `n_labels_` are set afterwards. Read parameters from
        `params_`, where none is "auto". Random numbers depend on `params_.seed` alone.
        """

    def _partial_fit(self, data: TrainingData) -> None:
        """Update; `n_labels_` is still the number of labels before."""
        raise NotImplementedError

    def _check_updatable(self) -> None:
        """Raise UnsupportedError if this model lacks what `_partial_fit` needs."""

    def _width_with_matches(self, n_labels: int) -> int:
        """Return the number of features with match columns for so many labels, in an update.

        For methods with `can_update` and `takes_name_matches`. It raises InputError if the model
        was fitted without match columns.
        """
        raise NotImplementedError

    @abstractmethod
    def _predict(self, X: Features, k: int) -> Ranking:
        """Return the k best labels of each row; k is at most `n_labels_`.

        Scores are in [0, 1] and fall along a row; a row with fewer labels is padded with label -1
        and score 0. The ranking of a row does not depend on the other rows.
        """

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Return everything fitted as a flat dict of arrays, without Python objects."""

    @abstractmethod
    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:
        """Declare the arrays of `state`; a model whose arrays are others is refused.

        `params_`, `n_features_in_` and `n_labels_` are set; the last two are the sizes "features"
        and "labels". The arrays of the file only show which of the parts that may be missing are
        there.
        """

    def expanded(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the arrays as `schema` declares them, where `state` stores them in fewer bytes."""
        return arrays

    @abstractmethod
    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned.

        `params_`, `n_features_in_` and `n_labels_` are set, and the arrays are those of `schema`.
        They may be read-only memory maps. They come from a file that is not trusted: what a schema
        cannot declare is checked here, before compiled code reads it.
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

    @classmethod
    def fits(
        cls,
        params: Mapping[str, Any],
        shape: Shape,  # noqa: ARG003
    ) -> list[tuple[str, dict[str, Any], int]]:
        """Return which methods `fit` fits: name, parameters, and how often each.

        Parameters
        ----------
        params : mapping
            What `resolve` returned.
        shape : Shape
            Size of the training data.
        """
        return [(cls.name, dict(params), 1)]

    def text_features(self) -> TextFeatures:
        """Return the features of texts that suit the method, if the user names none."""
        from labelspace.features.tfidf import Tfidf

        return Tfidf()

    def metadata(self) -> dict[str, Any]:
        """Return facts on the fitted model beyond its parameters, for `model.json`."""
        return {}

    @classmethod
    def restored(
        cls,
        document: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        *,
        n_features: int,
        n_labels: int,
        verify: bool = True,
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
        verify : bool
            Read all values, also those that no place in memory follows from.
        """
        method, resolved = cls.with_parameters(document)
        method.params_ = SimpleNamespace(**resolved)
        method.n_features_in_, method.n_labels_ = n_features, n_labels
        arrays = method.expanded(arrays)
        schema = method.schema(arrays)
        check_arrays(
            schema if verify else unverified(schema),
            arrays,
            features=n_features,
            labels=n_labels,
        )
        method.load_state(arrays)
        return method
