"""Two trivial baselines: the most frequent labels, and random ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from labelspace._core.schema import Schema, floats, same_as
from labelspace._core.sparse import as_csr
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.methods.base import Method
from labelspace.methods.parameters import SEED
from labelspace.ranking import Ranking


class MostCommon(Method):
    """Ranks labels by their frequency in the training data, the same for every example.

    The score of a label is its share of the training examples. It is the baseline of [1]_.

    Attributes
    ----------
    share_ : ndarray of shape (n_labels,)
        Share of the training examples that have each label.

    References
    ----------
    .. [1] Gerald, Baskiotis. Joint Label/Example Hyperbolic Representation for Extreme
       Classification. CAp 2019.

    Examples
    --------
    >>> import numpy as np
    >>> Y = np.array([[0, 1], [1, 1], [0, 1]])
    >>> best = MostCommon().fit(np.eye(3), Y).predict(np.eye(3)[:1], 2)
    >>> best.labels.tolist()
    [[1, 0]]
    """

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

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:  # noqa: ARG002
        return [floats("share", "labels", low=0.0, high=1.0)]

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.share_ = arrays["share"]

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:  # noqa: ARG003
        return {"label counts": 12 * shape.labels}


class Random(Method):
    """Ranks labels at random, uniformly.

    The generator is seeded by the seed and the features of the example, so that its ranking is the
    same alone, in a batch and after the model is loaded. It is the baseline of [1]_.

    Attributes
    ----------
    n_ : int
        Number of labels.

    References
    ----------
    .. [1] Srinivasan, Rao, Agarwal. Extreme Classification using Autoencoders.

    Examples
    --------
    >>> import numpy as np
    >>> model = Random(seed=1).fit(np.eye(4), np.eye(4))
    >>> sorted(model.predict(np.eye(4)[:1], 4).labels[0].tolist())
    [0, 1, 2, 3]
    """

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "labels drawn at random, as a baseline"
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
            draw = np.random.default_rng([self.params_.seed, *hashlib.blake2b(content).digest()])
            best.labels[row] = _start_of_permutation(draw, self.n_, k)
        # About the chance that a random label is right, falling along the row as scores must.
        best.scores[:] = (1.0 - np.arange(k) / self.n_) / self.n_
        return best

    def state(self) -> dict[str, np.ndarray]:
        return {"n": np.array(self.n_)}

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:  # noqa: ARG002
        return [same_as("n", "labels")]

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.n_ = int(arrays["n"])

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:  # noqa: ARG003
        return {"labels": 8}


def _start_of_permutation(draw: np.random.Generator, n: int, k: int) -> list[int]:
    """Return the first k numbers of a random permutation of 0 to n - 1.

    A larger k extends the result. This is the shuffle of Fisher and Yates, in memory for k numbers.
    """
    start: list[int] = []
    moved: dict[int, int] = {}
    for place, share in enumerate(draw.random(k).tolist()):
        other = place + int(share * (n - place))
        start.append(moved.get(other, other))
        moved[other] = moved.get(place, place)
    return start
