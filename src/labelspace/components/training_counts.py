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


def feature_damping(label_nnz: int, used_labels: int) -> float:
    """Return the default of `feature_damping`: a few times the mean number of examples per label.

    It is more where these are many: labels with many examples can be separated by frequent
    features; labels with few need the rare ones.
    """
    mean = label_nnz / max(1, used_labels)
    return RARE_PER_LABEL * mean * max(1.0, mean / MANY_EXAMPLES)


def row_lr_scale(damping: float | None, features: np.ndarray) -> np.ndarray | None:
    """Return sqrt(examples / damping), at most 1, for each feature; None if there is no damping.

    Parameters
    ----------
    damping : float or None
        The parameter `feature_damping`.
    features : ndarray
        Number of training examples that have each feature.
    """
    if not damping:
        return None
    return np.sqrt(np.minimum(1.0, (features + 1) / damping)).astype(np.float32)


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
