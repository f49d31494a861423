"""Learning curves: P@k and nDCG@k on training and on held-out data, epoch by epoch.

The metrics go into the run's own history, so that checkpoints contain them and the curve of a
resumed run has no gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.runs.callbacks import Callback, Run

if TYPE_CHECKING:
    from labelspace.metrics.ranking import RankedLabels

KS = (1, 3, 5)
MOST_MEASURED = 2000  # examples of each part, the same ones after every epoch

Part = tuple[csr_matrix, csr_matrix]
Rank = Callable[[csr_matrix, int], Any]
RankOwn = Callable[[np.ndarray, int], Any]


class History(Callback):
    """Callback that evaluates the model after each epoch, once a method has called `watch`.

    The metrics are in `history_` of the fitted method. The members of a method that combines
    several are evaluated each on its own.

    Parameters
    ----------
    further : mapping of str to tuple of csr_matrix, optional
        Features and labels of other examples to evaluate, by name, such as {"test": (X, Y)}.

    Examples
    --------
    >>> history = History()

    `model.fit(X, Y, callbacks=[history])` then fills `model.history_` with entries such as
    {"epoch": 1, "loss": 0.4, "train P@1": 71.0, "valid P@1": 58.5, ...}.
    """

    def __init__(self, further: Mapping[str, Part] | None = None) -> None:
        self.further = dict(further or {})
        self.parts: dict[str, tuple[Callable[[int], RankedLabels], csr_matrix]] = {}

    def on_epoch(self, run: Run) -> None:
        from labelspace.metrics.ranking import evaluate

        entry = run.progress.history[-1]
        for name, (rank, Y) in self.parts.items():
            found = evaluate(rank(min(max(KS), Y.shape[1])), Y, ks=KS, bands=False)
            for metric in ("P", "nDCG"):
                entry |= {f"{name} {metric}@{k}": float(found[f"{metric}@{k}"]) for k in KS}

    def within(self, part: str) -> Callback:
        del part
        return History(self.further)


def watch(
    callbacks: Sequence[Callback],
    rank: Rank,
    train: Part,
    valid: Part | None,
    *,
    rank_own: RankOwn | None = None,
    prepare: Callable[[csr_matrix], csr_matrix] = lambda X: X,
    most: int = MOST_MEASURED,
) -> None:
    """Evaluate a run after each of its epochs, if one of the callbacks is a `History`.

    Parameters
    ----------
    callbacks : sequence of Callback
    rank : callable
        rank(X, k) returns a ranking by the current weights, without any random number.
    train, valid : tuple of csr_matrix
        Features and labels.
    rank_own : callable, optional
        rank_own(rows, k) ranks training examples by their numbers, for methods whose training
        examples vote: without it, each would vote for itself.
    prepare : callable
        Changes features as the method changes those of `fit`; applied to `History.further`.
    most : int
        Examples of each part that are evaluated.
    """
    for callback in callbacks:
        if not isinstance(callback, History):
            continue
        callback.parts = {}
        further = {name: (prepare(X), Y) for name, (X, Y) in callback.further.items()}
        for name, part in {"train": train, "valid": valid, **further}.items():
            if part is None or not part[0].shape[0]:
                continue
            rows = _spaced(part[0].shape[0], most)
            X, Y = part[0][rows], part[1][rows]
            if Y.nnz == 0:  # there is nothing to find
                continue
            if name == "train" and rank_own is not None and len(rows) == 1:
                continue  # no other example votes
            if name == "train" and rank_own is not None:
                callback.parts[name] = partial(rank_own, rows), Y
            else:
                callback.parts[name] = partial(rank, X), Y


class Fitted(Protocol):
    """A fitted method: `labelspace.methods.base.Method`."""

    name: ClassVar[str]
    parameters: ClassVar[Mapping[str, Any]]
    history_: list[dict[str, float]] | None
    params_: SimpleNamespace

    @property
    def members_(self) -> Sequence[Fitted]: ...


def curves_of(method: Fitted) -> dict[str, Any] | None:
    """Return the epochs of a fitted method as JSON values; None if it had none.

    {"method", "metric", "epochs": [{"epoch": 1, "loss": .., "train P@1": .., ..}, ..]}, or for a
    method that combines several {"method", "members": [the same of each that had epochs]}.
    """
    found = (curves_of(member) for member in method.members_)
    members = [curves for curves in found if curves is not None]
    if members:
        return {"method": method.name, "members": members}
    if not method.history_:
        return None
    metric = method.params_.metric if "metric" in method.parameters else None
    return {"method": method.name, "metric": metric, "epochs": method.history_}


def _spaced(n_rows: int, most: int) -> np.ndarray:
    """Return evenly spaced rows, the same for every epoch and every run."""
    return np.unique(np.linspace(0, n_rows - 1, most).astype(np.int64))
