"""Validation cuts: parts of the training data that trials are evaluated on.

A cut has its own features, fitted on the other examples alone, as those of a test file would be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import as_csr
from labelspace.components.training_data import Shape
from labelspace.data.dataset import Dataset
from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import DataError, ParameterError
from labelspace.features.pipeline import TextFeatures
from labelspace.methods.base import Method
from labelspace.model.training import (
    fit_features,
    further_arguments,
    label_texts_for,
    trained_part,
    trained_width,
)

SHARE, MAX_EXAMPLES = 0.2, 4000  # of a cut
ENOUGH_EXAMPLES, MAX_CUTS = 2500, 3  # of all cuts: fewer make choices by chance


@dataclass(frozen=True, eq=False)
class Cut:
    """Training examples, and those that are held out to evaluate a trial.

    Attributes
    ----------
    X, Y : csr_matrix
        Examples to train on.
    held_X, held_Y : csr_matrix
        Examples to evaluate on.
    taxonomy : Taxonomy or None
    arguments : dict
        Further arguments of `fit`, for methods that take them.
    """

    X: csr_matrix
    Y: csr_matrix
    held_X: csr_matrix
    held_Y: csr_matrix
    taxonomy: Taxonomy | None
    arguments: dict[str, Any]

    @property
    def shape(self) -> Shape:
        """The size of the examples to train on."""
        matches = bool(self.arguments.get("name_matches"))
        return Shape.of(self.X, self.Y, matches, self.arguments.get("label_texts"))

    def shared(self, number: int) -> dict[str, Any]:
        """Return the cut as shared arguments of an engine, which maps arrays into memory."""
        names = ("X", "Y", "held_X", "held_Y", "taxonomy")
        flat = {name: getattr(self, name) for name in names}
        flat |= {f"with_{name}": value for name, value in self.arguments.items()}
        return {f"cut{number}_{name}": value for name, value in flat.items()}

    @classmethod
    def of_shared(cls, number: int, shared: dict[str, Any]) -> Cut:
        """Return the cut that `shared` was made of."""
        before = f"cut{number}_"
        flat = {k.removeprefix(before): v for k, v in shared.items() if k.startswith(before)}
        further = {k.removeprefix("with_"): v for k, v in flat.items() if k.startswith("with_")}
        plain = {k: v for k, v in flat.items() if not k.startswith("with_")}
        return cls(**plain, arguments=further)


def number_of_cuts(n_examples: int) -> int:
    """Return how many cuts are made where the user does not say: more of small data."""
    size = max(1, _size(n_examples))
    return min(MAX_CUTS, -(-ENOUGH_EXAMPLES // size))


def make_cuts(
    dataset: Dataset, model: Method, features: str | TextFeatures | None, n_cuts: int, seed: int
) -> list[Cut]:
    """Return so many cuts, without an example in common.

    Raises
    ------
    DataError
        If a cut would have no labels.
    """
    size = _size(len(dataset))
    if not 1 <= n_cuts * size < len(dataset):
        raise ParameterError(
            f"cuts={n_cuts}: expected 1 to {max(1, (len(dataset) - 1) // max(1, size))} "
            f"for {len(dataset)} examples"
        )
    order = np.random.default_rng([seed, len(dataset)]).permutation(len(dataset))
    cuts = []
    for number in range(n_cuts):
        held = np.sort(order[number * size : (number + 1) * size])
        rest = np.setdiff1d(order, held)
        cuts.append(_cut(dataset.take(rest), dataset.take(held), model, features))
    return cuts


def _size(n_examples: int) -> int:
    return min(max(1, round(SHARE * n_examples)), MAX_EXAMPLES)


def _cut(train: Dataset, held: Dataset, model: Method, features: str | TextFeatures | None) -> Cut:
    if held.labels.nnz == 0 or train.labels.nnz == 0:
        raise DataError("too few examples have labels to hold some out: tuning needs more of them")
    train = trained_part(train, trained_width(train, model))
    pipeline, X, _ = fit_features(train, model, features)
    texts = label_texts_for(pipeline, train, model)
    return Cut(
        as_csr(X),
        train.labels,
        as_csr(pipeline.transform(held)),
        held.labels,
        train.taxonomy,
        further_arguments(pipeline, train, model, texts),
    )
