"""How often features and labels occur in training, and the settings chosen by it.

From validation cuts of bibtex, delicious, debtags, wordnet and tib-gnd; docs/methods/glas.md has
the figures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

MANY_LABELS = 25_000
MANY_EXAMPLES = 50  # of a label
RARE_PER_LABEL = 3.0
STEPS_AN_EPOCH = 160


def dimension(wanted: int | None, n_labels: int) -> int:
    """512, or 1024 for many labels."""
    return wanted or (512 if n_labels <= MANY_LABELS else 1024)


def batch_of(wanted: int | None, n_examples: int) -> int:
    """A power of two from 32 to 512, so that few examples still make many steps."""
    if wanted is not None:
        return wanted
    return int(2 ** np.clip(np.floor(np.log2(max(1.0, n_examples / STEPS_AN_EPOCH))), 5, 9))


def row_lr_scale(
    wanted: float | None, features: np.ndarray, labels: np.ndarray
) -> np.ndarray | None:
    """How far a feature's row may go: sqrt(examples / rare), at most 1; None is 1 for all.

    features  in how many examples each feature was seen, and each of the labels

    The rule for `rare`: a few times the examples that a label has on average, and more where these
    are many. Labels with many examples can be told apart by frequent features; labels with few
    need the rare ones.
    """
    rare = wanted
    if rare is None:
        used = labels[labels > 0]
        mean = float(used.mean()) if len(used) else 0.0
        rare = RARE_PER_LABEL * mean * max(1.0, mean / MANY_EXAMPLES)
    if rare == 0:
        return None
    return np.sqrt(np.minimum(1.0, (features + 1) / rare)).astype(np.float32)


@dataclass(frozen=True)
class TrainingCounts:
    """In how many examples each feature and each label was seen, and of how many, (1,)."""

    features: np.ndarray
    labels: np.ndarray
    examples: np.ndarray

    @classmethod
    def of(cls, X: csr_matrix, Y: csr_matrix) -> TrainingCounts:
        return cls(
            np.bincount(X.indices, minlength=X.shape[1]),
            np.bincount(Y.indices, minlength=Y.shape[1]),
            np.array([X.shape[0]]),
        )

    def plus(self, X: csr_matrix, Y: csr_matrix) -> TrainingCounts:
        """With these examples too; Y may have more labels."""
        more = TrainingCounts.of(X, Y)
        labels = more.labels.copy()
        labels[: len(self.labels)] += self.labels
        return TrainingCounts(self.features + more.features, labels, self.examples + more.examples)

    def log_odds(self) -> np.ndarray:
        share = (self.labels + 0.5) / (self.examples[0] + 1.0)
        return np.asarray(np.log(share / (1.0 - share)), np.float32)

    def state(self) -> dict[str, np.ndarray]:
        return {"features": self.features, "labels": self.labels, "examples": self.examples}
