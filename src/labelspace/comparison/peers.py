"""Other packages in a comparison, configured as their READMEs recommend.

Each peer is trained and queried through its own Python package (extra `peers`), on the same
features as the methods, in the form that its documentation uses. A package that needs another
environment runs in a process of that environment (`pecos.py`).
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import expit

from labelspace._core.machine import available_bytes, in_words
from labelspace._core.sparse import unit_rows
from labelspace._core.suggest import unknown
from labelspace._core.threads import cores
from labelspace.comparison.pecos import PecosPeer
from labelspace.comparison.timing import timed
from labelspace.errors import (
    LabelspaceError,
    MemoryBudgetError,
    MissingExtraError,
    ParameterError,
)
from labelspace.model import store
from labelspace.ranking import Ranking

logger = logging.getLogger(__name__)


class Peer(Protocol):
    """The interface of a peer; `directory` is where it may write."""

    params: dict[str, Any]

    def __init__(self, directory: Path, seed: int) -> None: ...
    def measure(
        self, X: csr_matrix, Y: csr_matrix, X_test: csr_matrix, k: int
    ) -> tuple[Ranking, dict[str, Any]]:
        """Train and predict; return the ranking of the test rows, and what it cost."""

    def rank(self, k: int) -> Ranking:
        """Return the ranking of the same test rows, with more labels."""


class PeerInProcess:
    """A peer whose package this process imports; the methods below are what it fills in."""

    params: dict[str, Any]

    def prepare(self, X: csr_matrix, Y: csr_matrix) -> None:
        """Convert the training data to the peer's form; not timed."""
        raise NotImplementedError

    def fit(self) -> None:
        raise NotImplementedError

    def queries(self, X: csr_matrix) -> Any:
        """Return test rows in the peer's form, which can be sliced; not timed."""
        return X

    def predict(self, queries: Any, k: int) -> list[list[tuple[int, float]]]:
        raise NotImplementedError

    def saved(self) -> Path:
        """Return the folder of the saved model."""
        raise NotImplementedError

    def measure(
        self, X: csr_matrix, Y: csr_matrix, X_test: csr_matrix, k: int
    ) -> tuple[Ranking, dict[str, Any]]:
        self.prepare(X, Y)
        start = time.perf_counter()
        self.fit()
        train_s = time.perf_counter() - start
        model_mb = store.size_in_bytes(self.saved()) / 1e6
        self.test = self.queries(X_test)
        predictions, times = timed(self.predict, self.test, k)
        return as_ranking(predictions, k), {"train_s": train_s, "model_mb": model_mb, **times}

    def rank(self, k: int) -> Ranking:
        return as_ranking(self.predict(self.test, k), k)


class OmikujiPeer(PeerInProcess):
    """omikuji's default: a forest of three balanced binary trees, as in Parabel.

    omikuji takes no seed: its figures differ from run to run.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        del seed
        self.directory = directory
        self.omikuji = _package("omikuji")
        self.hyper_param = self.omikuji.Model.default_hyper_param()
        self.params = {"n_trees": 3}
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


class OmikujiOneTreePeer(OmikujiPeer):
    """omikuji with one tree, in a third of the time."""

    def configure(self) -> None:
        self.params = {"n_trees": 1}
        super().configure()


class OmikujiBonsaiPeer(OmikujiPeer):
    """omikuji's Bonsai setting: wide, shallow, unbalanced trees."""

    def configure(self) -> None:
        self.params = {"n_trees": 3, "cluster_balanced": False, "cluster_k": 100, "max_depth": 3}
        super().configure()


class NapkinXCPeer(PeerInProcess):
    """napkinXC's probabilistic label tree with liblinear classifiers, its default."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.place = directory / "napkinxc-model"
        self.params = {"optimizer": "liblinear", "seed": seed}
        models = _package("napkinxc.models")
        self.model = models.PLT(str(self.place), **self.params)

    def prepare(self, X: csr_matrix, Y: csr_matrix) -> None:
        self.X, self.Y = X, [Y.indices[a:b].tolist() for a, b in _bounds(Y)]

    def fit(self) -> None:
        self.model.fit(self.X, self.Y)
        self.model.load()  # otherwise the first query would load it

    def predict(self, queries: csr_matrix, k: int) -> list[list[tuple[int, float]]]:
        found: list[list[tuple[int, float]]] = self.model.predict_proba(queries, top_k=k)
        return found

    def saved(self) -> Path:
        return self.place


class SklearnPeer(PeerInProcess):
    """scikit-learn's one-vs-rest: a LinearSVC per label, on all cores.

    Rows are scaled to length 1, as omikuji and napkinXC scale them themselves. Coefficients are
    dense, labels x features, and every query goes through all labels. Labels without training
    examples are left out: scikit-learn would score them above all others.
    """

    BLOCK = 1000  # rows per call: scores are dense, rows x labels

    def __init__(self, directory: Path, seed: int) -> None:
        self.place = directory / "sklearn-model"
        self.params = {"estimator": "LinearSVC", "C": 1.0, "seed": seed}

    def prepare(self, X: csr_matrix, Y: csr_matrix) -> None:
        self.labels = np.flatnonzero(Y.getnnz(axis=0))
        if len(self.labels) < 2:
            raise LabelspaceError("scikit-learn's one-vs-rest needs at least two labels")
        needed = 8 * len(self.labels) * X.shape[1]
        if needed > available_bytes():
            raise MemoryBudgetError(
                f"scikit-learn's one-vs-rest needs {in_words(needed)} for {len(self.labels):,} x "
                f"{X.shape[1]:,} coefficients, and {in_words(available_bytes())} are available"
            )
        # In this form none of the classifiers copies the features.
        self.X, self.Y = self.queries(X), Y[:, self.labels].astype(np.int64)

    def fit(self) -> None:
        from joblib import parallel_config  # type: ignore[import-untyped]  # it has no types
        from sklearn.multiclass import OneVsRestClassifier
        from sklearn.svm import LinearSVC

        classifier = LinearSVC(C=self.params["C"], random_state=self.params["seed"])
        with parallel_config("threading", n_jobs=cores()):  # liblinear releases the GIL
            self.model = OneVsRestClassifier(classifier).fit(self.X, self.Y)

    def queries(self, X: csr_matrix) -> csr_matrix:
        return unit_rows(X).astype(np.float64)

    def predict(self, queries: csr_matrix, k: int) -> list[list[tuple[int, float]]]:
        found: list[list[tuple[int, float]]] = []
        for start in range(0, queries.shape[0], self.BLOCK):
            scores = self.model.decision_function(queries[start : start + self.BLOCK])
            for row in scores.reshape(-1, len(self.labels)):
                best = np.argpartition(-row, min(k, len(row)) - 1)[:k]
                best = best[np.argsort(-row[best], kind="stable")]
                scored = expit(row[best])  # from 0 to 1, in the same order
                found.append(list(zip(self.labels[best].tolist(), scored.tolist(), strict=True)))
        return found

    def saved(self) -> Path:
        from joblib import dump

        self.place.mkdir()
        dump(self.model, self.place / "model.joblib")
        return self.place


PEERS: dict[str, Callable[[Path, int], Peer]] = {
    "omikuji": OmikujiPeer,
    "omikuji-one-tree": OmikujiOneTreePeer,
    "omikuji-bonsai": OmikujiBonsaiPeer,
    "napkinxc": NapkinXCPeer,
    "pecos": PecosPeer,
    "sklearn-ovr": SklearnPeer,
}


# Their figures differ from run to run.
WITHOUT_SEED = ("omikuji", "omikuji-one-tree", "omikuji-bonsai")


def why_missing(name: str) -> str | None:
    """Return why a peer cannot run here, None if it can."""
    try:
        with tempfile.TemporaryDirectory() as scratch:
            make_peer(name, Path(scratch))
    except MissingExtraError as error:
        return str(error)
    return None


def installed(names: Sequence[str]) -> list[str]:
    """Return those of these peers that can run here; log a warning for each of the others."""
    found = []
    for name in names:
        if (reason := why_missing(name)) is None:
            found.append(name)
        else:
            logger.warning("%s is left out: %s", name, reason)
    return found


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
