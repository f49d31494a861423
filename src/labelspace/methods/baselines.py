"""Two floors that every real method must stand above.

most-common  ranks labels by their training frequency (the baseline of Gerald & Baskiotis 2019)
random       ranks labels at random (the baseline of Srinivasan et al.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from labelspace._core.checks import are_numbers, expect
from labelspace._core.sparse import as_csr
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.methods.base import Method
from labelspace.methods.parameters import SEED
from labelspace.ranking import Ranking


class MostCommon(Method):
    """Every example gets the most frequent labels; the score is the label's training share."""

    name: ClassVar[str] = "most-common"
    summary: ClassVar[str] = "the most frequent labels, the same for every example"
    seed: int = SEED

    def _fit(self, data: TrainingData) -> None:
        counts = np.asarray(data.Y.sum(axis=0)).ravel()
        self.share_ = (counts / data.Y.shape[0]).astype(np.float32)

    def _predict(self, X: Features, k: int) -> Ranking:
        best = np.argsort(-self.share_, kind="stable")[:k]
        rows = (X.shape[0], k)
        return Ranking(
            np.broadcast_to(best, rows).copy(), np.broadcast_to(self.share_[best], rows).copy()
        )

    def state(self) -> dict[str, np.ndarray]:
        return {"share": self.share_}

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.share_ = arrays["share"]
        expect(are_numbers(self.share_, self.n_labels_), "the shares do not fit the labels")

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:  # noqa: ARG003
        return {"label counts": 12 * shape.labels}


class Random(Method):
    """Uniformly random labels, drawn from the seed and the example's own features.

    Seeding by content makes an example's answer the same alone, in a batch and after a reload.
    """

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "labels drawn at random: what chance gives"
    seed: int = SEED

    def _fit(self, data: TrainingData) -> None:
        self.n_ = data.Y.shape[1]

    def _predict(self, X: Features, k: int) -> Ranking:
        X = as_csr(X)
        best = Ranking.empty(X.shape[0], k)
        for row in range(X.shape[0]):
            indices = X.indices[X.indptr[row] : X.indptr[row + 1]].astype(np.int64)
            values = X.data[X.indptr[row] : X.indptr[row + 1]]
            stored = values != 0  # an explicit zero must not change the draw
            content = indices[stored].tobytes() + values[stored].tobytes()
            draw = np.random.default_rng([self.seed, *hashlib.blake2b(content).digest()])
            best.labels[row] = _start_of_permutation(draw, self.n_, k)
        # The expected precision of a random label would be the honest score; order is all it has.
        best.scores[:] = (1.0 - np.arange(k) / self.n_) / self.n_
        return best

    def state(self) -> dict[str, np.ndarray]:
        return {"n": np.array(self.n_)}

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.n_ = int(arrays["n"])
        expect(self.n_ == self.n_labels_, "the number of labels does not fit")

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:  # noqa: ARG003
        return {"labels": 8}


def _start_of_permutation(draw: np.random.Generator, n: int, k: int) -> list[int]:
    """The first k numbers of a random order of 0 to n - 1; with a larger k, the same and more.

    The shuffle of Fisher and Yates, which keeps only the places that it has changed.
    """
    start: list[int] = []
    moved: dict[int, int] = {}
    for place, share in enumerate(draw.random(k).tolist()):
        other = place + int(share * (n - place))
        start.append(moved.get(other, other))
        moved[other] = moved.get(place, place)
    return start
