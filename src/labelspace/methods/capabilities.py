"""What a method may be able to do beside `fit` and `predict`.

A class variable declares each capability; what is not supported raises UnsupportedError or changes
nothing. The first part is for users, the second for a fusion that has the method as a member.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.errors import UnsupportedError
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.components.examples import Examples
    from labelspace.components.held_out_ranking import HeldOutRanking
    from labelspace.components.name_matches import Matches
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.labels.tree import LabelTree
    from labelspace.methods.base import Method
    from labelspace.methods.explanation import LabelExplanation


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


class Capabilities:
    """What is optional for a method.

    Attributes
    ----------
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
    can_train_in_workers : bool
        Whether `fit` can divide the examples of a batch among the workers of an engine.
    has_space : bool
        Whether labels have vectors, `label_vectors_`.
    has_label_trees : bool
        Whether `fit` builds label trees, `trees_`.
    needs_label_names : bool
        Whether `fit` takes `label_names`.
    uses_label_texts : bool
        Whether labels without examples may be predicted, by their texts. Methods that cannot are
        trained without the columns of such labels.
    takes_name_matches : bool
        Whether X may have match columns: `fit` and `partial_fit` take `name_matches`.
    takes_label_texts : bool
        Whether `fit` takes `label_texts`.
    hides_in_training : bool
        Whether weights are trained on label texts. A fusion then trains the method without the
        examples of labels that it hides to fit its combination: `without_examples_of` alone would
        leave in the weights what these examples say about the labels' texts.
    full_precision : tuple of str
        Arrays of `state` that a fusion must not round to 16 bits.
    history_ : list of dict or None
        Loss and metrics of each epoch, of methods that train in epochs.
    members_ : sequence of Method
        The fitted members, of methods that combine others.
    held_out_ : HeldOutRanking or None
        What `fit` predicted for held-out examples, for the model's figures; a Tagger drops it.
    """

    name: ClassVar[str]
    can_update: ClassVar[bool] = False
    can_rerank: ClassVar[bool] = False
    can_explain: ClassVar[bool] = False
    can_compare_labels: ClassVar[bool] = False
    can_refit_grown: ClassVar[bool] = False
    can_find_examples: ClassVar[bool] = False
    can_train_in_workers: ClassVar[bool] = False
    has_space: ClassVar[bool] = False
    has_label_trees: ClassVar[bool] = False
    needs_label_names: ClassVar[bool] = False
    uses_label_texts: ClassVar[bool] = False
    takes_name_matches: ClassVar[bool] = False
    takes_label_texts: ClassVar[bool] = False
    hides_in_training: ClassVar[bool] = False
    full_precision: ClassVar[tuple[str, ...]] = ()

    trees_: list[LabelTree]
    history_: list[dict[str, float]] | None = None
    members_: Sequence[Method] = ()
    held_out_: HeldOutRanking | None = None

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

    # What a fusion calls on its members:

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

    def _rerank(self, X: csr_matrix, candidates: np.ndarray) -> Ranking:
        """Return the scores of given labels; see `rerank`.

        For methods that score a label at less cost than they find it.
        """
        raise NotImplementedError

    def drop_candidate_search(self) -> None:
        """Delete what only finding labels needs: afterwards only `rerank` is called."""

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

    def arrays_to_round(self) -> dict[str, np.ndarray] | None:
        """Return all arrays of floats that are read, for a fusion that rounds them in place.

        It is called right after an update, before anything is derived from what has changed. None:
        the fusion loads the rounded `state` instead, which takes longer.
        """
        return None

    def without_examples_of(self, labels: np.ndarray) -> Method:
        """Return a copy of the fitted method for which these labels have no examples.

        For methods that use label texts: a fusion fits its combination with it.
        """
        del labels
        raise UnsupportedError(f"{self.name} finds no labels without examples")

    def matches_of(self, X: csr_matrix) -> Matches:
        """Return the matches of label names in examples, with what training shows about them.

        For methods that take match columns: a fusion combines its members by them too.
        """
        del X
        raise UnsupportedError(f"{self.name} takes no match columns")

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
