"""Which labels a batch is scored against: its own, and negatives drawn beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_matrix

Negatives = Literal["in-batch", "uniform", "frequency", "hard", "all"]


@dataclass(frozen=True)
class Candidates:
    """The labels of a batch's columns.

    labels     distinct and sorted, int64
    inclusion  how likely each was to be among them: what sampled losses are corrected by
    """

    labels: np.ndarray
    inclusion: np.ndarray

    def columns(self, labels: np.ndarray) -> np.ndarray:
        """Where these labels stand; all of them must be candidates."""
        return np.searchsorted(self.labels, labels)


class CandidateSampler:
    """Draws the candidates of a batch.

    in-batch   the labels of the batch's examples
    uniform    and `count` labels at random
    frequency  and `count` draws by training frequency to the power 3/4
    hard       and `count` at random, and the labels that `hard` names for the batch's examples
    all        every label: exact losses
    """

    def __init__(self, Y: csr_matrix, kind: Negatives, count: int) -> None:
        n, self.n_labels = Y.shape
        self.kind = kind
        self.count = min(count, self.n_labels) if kind != "in-batch" else 0
        frequency = np.bincount(Y.indices, minlength=self.n_labels)
        self.share = frequency / n
        weights = frequency**0.75 if kind == "frequency" else np.ones(self.n_labels)
        self.chance = weights / weights.sum()
        if kind == "frequency":
            self._cumulative = np.cumsum(self.chance)
            self._cumulative /= self._cumulative[-1]

    def draw(
        self, Y: csr_matrix, rng: np.random.Generator, hard: np.ndarray | None = None
    ) -> Candidates:
        """Candidates for a batch with labels Y; `hard` is (batch, h), -1 where there is none."""
        if self.kind == "all":
            return Candidates(np.arange(self.n_labels), np.ones(self.n_labels, np.float32))
        drawn = self._negatives(rng)
        pieces = [Y.indices, drawn]
        if hard is not None:
            pieces.append(hard[hard >= 0])
        labels = np.unique(np.concatenate(pieces)).astype(np.int64)
        in_batch = 1.0 - (1.0 - self.share[labels]) ** Y.shape[0]
        inclusion = in_batch + (1.0 - in_batch) * self._drawn_chance(labels)
        if hard is not None:
            inclusion[np.isin(labels, hard)] = 1.0  # named by the examples, not by chance
        return Candidates(labels, np.maximum(inclusion, 1e-6).astype(np.float32))

    def _negatives(self, rng: np.random.Generator) -> np.ndarray:
        if self.kind == "frequency":
            # What `rng.choice(p=chance)` does, but for summing up all labels at every draw.
            return self._cumulative.searchsorted(rng.random(self.count), side="right")
        return rng.choice(self.n_labels, self.count, replace=False, shuffle=False)

    def _drawn_chance(self, labels: np.ndarray) -> np.ndarray:
        if self.kind == "frequency":
            return np.asarray(1.0 - (1.0 - self.chance[labels]) ** self.count)
        return np.full(len(labels), self.count / self.n_labels)
