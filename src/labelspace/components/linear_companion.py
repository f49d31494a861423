"""A wide part beside a deep one: sparse linear classifiers along the taxonomy.

A space or a state of some hundred dimensions has no room for every rare word, a brand's name say; a
linear classifier at each edge (`hierarchicalxc`) has, and knows nothing of words alike.
What both say of a label becomes one probability (`components/stacking.py`), learned on the
examples held out for validation. TreeSpace and Seq2Seq have one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace.components.stacking import Combiner
from labelspace.components.training_data import Shape
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import Callback, listeners

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy

TREE = "hierarchicalxc"  # the method whose classifiers stand beside a deep part
LISTED = 30  # labels that each part names
FEW_EXAMPLES = 20_000  # up to here classifiers are trained again on all, those held out included
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
class Wide:
    """Linear classifiers, and how they are weighed against the deep part."""

    linear: LinearTree
    combiner: Combiner

    @classmethod
    def fit(
        cls,
        tree: type[LinearTree],
        train: tuple[csr_matrix, csr_matrix],
        held: tuple[csr_matrix, csr_matrix],
        deep: Ranking,
        taxonomy: Taxonomy | None,
        seed: int,
        again: bool,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Learn from examples, and from what the deep part says of those held out.

        tree       makes the linear classifiers: the class of the method TREE
        deep       the best LISTED labels of the examples held out, by the deep part
        again      whether those held out may be learned from in the end
        callbacks  of the linear part alone
        """
        kind = "kmeans" if taxonomy is None else "taxonomy"
        linear = tree.create(tree=kind, seed=seed, **SETTINGS)
        linear.fit(*train, taxonomy=taxonomy, callbacks=callbacks)
        said = [deep, linear.predict(held[0], deep.k)]
        combiner = Combiner.fit(said, held[1], train[1])
        if again and train[0].shape[0] + held[0].shape[0] <= FEW_EXAMPLES:
            X, Y = (vstack(parts, format="csr") for parts in zip(train, held, strict=True))
            linear.fit(X, Y, taxonomy=taxonomy, callbacks=listeners(callbacks, "all"))
        return cls(linear, combiner)

    def rank(self, X: csr_matrix, deep: Ranking, k: int) -> Ranking:
        """The k best labels by both; `deep` lists those that the deep part finds likeliest."""
        return self.combiner.rank([deep, self.linear.predict(X, deep.k)], k)

    def state(self) -> dict[str, np.ndarray]:
        document = np.frombuffer(json.dumps(self.linear.to_json()).encode(), np.uint8)
        return {**self.linear.state(), **self.combiner.state(), "document": document}

    @classmethod
    def restore(
        cls,
        tree: type[LinearTree],
        arrays: Mapping[str, np.ndarray],
        n_features: int,
        n_labels: int,
    ) -> Self:
        document = json.loads(bytes(arrays["document"]))
        linear = tree.restored(document, arrays, n_features=n_features, n_labels=n_labels)
        return cls(linear, Combiner.restore(arrays, 2, n_labels))


def wide_bytes(tree: type[LinearTree], shape: Shape) -> int:
    """Memory that learning takes at its peak."""
    linear = tree.create(**SETTINGS)
    params = linear.resolve(linear.get_params(), shape)
    return sum(linear.memory(shape, params).values())
