"""A tree of linear classifiers on the sparse features beside a neural model.

A space or a state of some hundred dimensions cannot represent every rare word, such as a brand. A
linear classifier per edge of a label tree (`hierarchicalxc`) can, but it does not generalise
between similar words. The rankings of both are stacked (`components/stacking.py`) on the hold-out.
TreeSpace and Seq2Seq have such a companion.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace._core.json_text import checked_json
from labelspace._core.schema import check_arrays, letters
from labelspace.components.holdout import FEW_EXAMPLES
from labelspace.components.stacking import Combiner
from labelspace.components.training_data import Shape
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import Callback, listeners

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy

TREE_METHOD = "hierarchicalxc"  # name of the method that the classifiers are
_DOCUMENT = "document"  # the parameters of the linear classifiers, as JSON
CANDIDATES = 30  # labels per example that each of the two models ranks
# One tree is fast, and it needs no calibration of its own: the stacking calibrates both rankings.
SETTINGS: Mapping[str, Any] = {
    "loss": "squared_hinge", "C": 1.0, "ensemble": 1, "validation": 0.0
}  # fmt: skip


class LinearTree(Protocol):
    """A tree of linear classifiers, as the method `hierarchicalxc` is."""

    n_features_in_: int
    n_labels_: int

    def fit(self, X: Any, Y: Any, *, taxonomy: Any, callbacks: Sequence[Callback]) -> Any: ...
    def predict(self, X: Any, k: int) -> Ranking: ...
    def state(self) -> dict[str, np.ndarray]: ...
    def to_json(self) -> dict[str, Any]: ...
    @classmethod
    def restored(
        cls,
        document: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        *,
        n_features: int,
        n_labels: int,
    ) -> Any: ...
    @classmethod
    def create(cls, **params: Any) -> LinearTree: ...
    @classmethod
    def resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]: ...
    def memory(self, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]: ...
    def get_params(self) -> dict[str, Any]: ...


@dataclass
class LinearCompanion:
    """Linear classifiers along a label tree, and their stacking with a neural model."""

    linear: LinearTree
    combiner: Combiner

    @classmethod
    def fit(
        cls,
        tree: type[LinearTree],
        train: tuple[csr_matrix, csr_matrix],
        held: tuple[csr_matrix, csr_matrix],
        neural: Ranking,
        taxonomy: Taxonomy | None,
        seed: int,
        refit: bool,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Fit the classifiers on training examples, and the stacking on the hold-out.

        Parameters
        ----------
        tree : callable
            Makes the linear classifiers: the class of the method TREE_METHOD.
        train, held : pairs of csr_matrix
            Features and labels.
        neural : Ranking
            The best CANDIDATES labels of the hold-out by the neural model.
        taxonomy : Taxonomy or None
            The tree; None: a tree by k-means of the labels.
        seed : int
        refit : bool
            Whether classifiers may be fitted again on training examples and hold-out together; they
            are up to FEW_EXAMPLES examples.
        callbacks : sequence of Callback
            Called for the linear classifiers alone.
        """
        kind = "kmeans" if taxonomy is None else "taxonomy"
        linear = tree.create(tree=kind, seed=seed, **SETTINGS)
        linear.fit(*train, taxonomy=taxonomy, callbacks=callbacks)
        rankings = [neural, linear.predict(held[0], neural.k)]
        combiner = Combiner.fit(rankings, held[1], train[1])
        if refit and train[0].shape[0] + held[0].shape[0] <= FEW_EXAMPLES:
            X, Y = (vstack(parts, format="csr") for parts in zip(train, held, strict=True))
            linear.fit(X, Y, taxonomy=taxonomy, callbacks=listeners(callbacks, "all"))
        return cls(linear, combiner)

    def rank(self, X: csr_matrix, neural: Ranking, k: int) -> Ranking:
        """Return the k best labels by both models; `neural` is the ranking of the neural one."""
        return self.combiner.rank([neural, self.linear.predict(X, neural.k)], k)

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays of classifiers and stacking, which `restore` takes."""
        document = np.frombuffer(json.dumps(self.linear.to_json()).encode(), np.uint8)
        return {**self.linear.state(), **self.combiner.state(), _DOCUMENT: document}

    @classmethod
    def restore(
        cls,
        tree: type[LinearTree],
        arrays: Mapping[str, np.ndarray],
        n_features: int,
        n_labels: int,
    ) -> Self:
        """Rebuild a companion from what `state` returned, after checking it."""
        own = {n: a for n, a in arrays.items() if n.startswith("combiner.") or n == _DOCUMENT}
        of_trees = {name: array for name, array in arrays.items() if name not in own}
        schema = [letters(_DOCUMENT), *Combiner.schema(own, 2)]
        check_arrays(schema, own, features=n_features, labels=n_labels)
        document = checked_json(own[_DOCUMENT])
        linear = tree.restored(document, of_trees, n_features=n_features, n_labels=n_labels)
        return cls(linear, Combiner.restore(own))


def companion_bytes(tree: type[LinearTree], shape: Shape) -> int:
    """Return the bytes of memory that fitting a companion takes at its peak."""
    linear = tree.create(**SETTINGS)
    params = linear.resolve(linear.get_params(), shape)
    return sum(linear.memory(shape, params).values())
