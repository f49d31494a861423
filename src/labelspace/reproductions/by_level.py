"""Figures of predicted label sets by level of the taxonomy, for experiments on label trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.taxonomy import joined
from labelspace.labels.levels import Levels
from labelspace.methods.base import Method
from labelspace.metrics.levels import RANKED, evaluate_levels, evaluate_sets
from labelspace.reproductions.experiment import Split


def levels_of(split: Split) -> Levels:
    """Return the levels of the test labels, which begin with the training labels."""
    taxonomy = joined([split.train.taxonomy, split.test.taxonomy], split.test.names())
    if taxonomy is None:
        raise ValueError("the data have no taxonomy")
    return Levels.build(taxonomy, split.test.names())


def ranked_by_level(model: Method, split: Split) -> dict[str, Any]:
    """Return the metrics of the sets that are predicted from the model's ranking."""
    levels = levels_of(split)
    return evaluate_levels(
        model.predict(split.X_test, RANKED),
        split.Y_test,
        _counts(split),
        levels,
        single_path=levels.one_label_each(split.Y),
    )


def sets_by_level(chosen: csr_matrix, split: Split) -> dict[str, Any]:
    """Return the metrics of given sets of labels, (test examples, training labels)."""
    wide = csr_matrix(chosen)
    wide.resize(wide.shape[0], split.Y_test.shape[1])
    return evaluate_sets(wide, split.Y_test, _counts(split), levels_of(split))


def _counts(split: Split) -> np.ndarray:
    return np.bincount(split.Y.indices, minlength=split.Y.shape[1])
