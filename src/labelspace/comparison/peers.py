"""Other packages in a comparison, configured as their READMEs recommend.

Each peer is trained and queried through its own Python package (extra `peers`), on the same
features as the methods, in the form that its documentation uses.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.suggest import unknown
from labelspace.errors import LabelspaceError, MissingExtraError, ParameterError
from labelspace.ranking import Ranking


class Peer(Protocol):
    """The interface of a peer; `directory` is where it may write."""

    params: dict[str, Any]

    def __init__(self, directory: Path, seed: int) -> None: ...
    def prepare(self, X: csr_matrix, Y: csr_matrix) -> None:
        """Convert the training data to the peer's form; not timed."""

    def fit(self) -> None: ...
    def queries(self, X: csr_matrix) -> Any:
        """Return test rows in the peer's form, which can be sliced; not timed."""

    def predict(self, queries: Any, k: int) -> list[list[tuple[int, float]]]: ...
    def saved(self) -> Path:
        """Return the path of the saved model."""


class OmikujiPeer:
    """omikuji's default: a forest of three balanced binary trees, as in Parabel.

    omikuji takes no seed: its figures differ from run to run.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        del seed
        self.directory = directory
        self.omikuji = _package("omikuji")
        self.hyper_param = self.omikuji.Model.default_hyper_param()
        self.params: dict[str, Any] = {"n_trees": 3}
        self.configure()

    def configure(self) -> None:
        for name, value in self.params.items():
            setattr(self.hyper_param, name, value)

    def prepare(self, X: csr_matrix, Y: csr_matrix) -> None:
        from labelspace.data.dataset import Dataset
        from labelspace.data.formats.xc import write_xc

        self.data = self.directory / "train.txt"
        write_xc(Dataset(labels=Y, features=X), self.data)

    def fit(self) -> None:
        self.model = self.omikuji.Model.train_on_data(str(self.data), self.hyper_param)

    def queries(self, X: csr_matrix) -> list[list[tuple[int, float]]]:
        indices, values = X.indices.tolist(), X.data.tolist()
        return [
            list(zip(indices[start:stop], values[start:stop], strict=True))
            for start, stop in _bounds(X)
        ]

    def predict(
        self, queries: list[list[tuple[int, float]]], k: int
    ) -> list[list[tuple[int, float]]]:
        return [self.model.predict(pairs, top_k=k) for pairs in queries]

    def saved(self) -> Path:
        place = self.directory / "omikuji-model"
        self.model.save(str(place))
        return place


class OmikujiBonsaiPeer(OmikujiPeer):
    """omikuji's Bonsai setting: wide, shallow, unbalanced trees."""

    def configure(self) -> None:
        self.params = {"n_trees": 3, "cluster_balanced": False, "cluster_k": 100, "max_depth": 3}
        super().configure()


class NapkinXCPeer:
    """napkinXC's probabilistic label tree with liblinear classifiers, its default."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.place = directory / "napkinxc-model"
        self.params: dict[str, Any] = {"optimizer": "liblinear", "seed": seed}
        models = _package("napkinxc.models")
        self.model = models.PLT(str(self.place), **self.params)

    def prepare(self, X: csr_matrix, Y: csr_matrix) -> None:
        self.X, self.Y = X, [Y.indices[a:b].tolist() for a, b in _bounds(Y)]

    def fit(self) -> None:
        self.model.fit(self.X, self.Y)
        self.model.load()  # otherwise the first query would load it

    def queries(self, X: csr_matrix) -> csr_matrix:
        return X

    def predict(self, queries: csr_matrix, k: int) -> list[list[tuple[int, float]]]:
        found: list[list[tuple[int, float]]] = self.model.predict_proba(queries, top_k=k)
        return found

    def saved(self) -> Path:
        return self.place


PEERS: dict[str, Callable[[Path, int], Peer]] = {
    "omikuji": OmikujiPeer,
    "omikuji-bonsai": OmikujiBonsaiPeer,
    "napkinxc": NapkinXCPeer,
}


WITHOUT_SEED = ("omikuji", "omikuji-bonsai")  # their figures differ from run to run


def make_peer(name: str, directory: Path, seed: int = 0) -> Peer:
    """Return a new peer; raise ParameterError if there is none of this name."""
    check_peer_name(name)
    return PEERS[name](directory, seed)


def check_peer_name(name: str) -> None:
    """Raise ParameterError if there is no peer of this name."""
    if name not in PEERS:
        raise ParameterError(unknown(name, "peer", PEERS))


def as_ranking(answers: list[list[tuple[int, float]]], k: int) -> Ranking:
    """Return a peer's lists of (label, score) as a Ranking."""
    ranking = Ranking.empty(len(answers), k)
    for row, answer in enumerate(answers):
        for place, (label, score) in enumerate(answer[:k]):
            ranking.labels[row, place] = label
            ranking.scores[row, place] = score
    if not np.isfinite(ranking.scores).all():
        raise LabelspaceError("the peer returned a score that is not a number")
    return ranking


def _bounds(matrix: csr_matrix) -> list[tuple[int, int]]:
    return list(pairwise(matrix.indptr.tolist()))


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{name} is not installed ({error}): pip install 'labelspace[peers]'"
        ) from None
