"""The curve of a training run: P@k and nDCG@k on training and on held-out data, epoch by epoch.

The figures go into the run's own history, so that checkpoints carry them and a resumed run's curve
has no gap. Free of torch, so anyone may import it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.nn.callbacks import Callback

if TYPE_CHECKING:
    from labelspace.evaluation.metrics import RankedLabels
    from labelspace.nn.trainer import Trainer

KS = (1, 3, 5)
MOST_MEASURED = 2000  # examples of each part, the same ones after every epoch

Part = tuple[csr_matrix, csr_matrix]


class History(Callback):
    """Measures the model after each epoch, once a method has said how by `watch`.

    For methods that do not, the curve is the loss and the validation score they train by.
    """

    def __init__(self) -> None:
        self.rank: Callable[[csr_matrix, int], RankedLabels] | None = None
        self.parts: dict[str, Part] = {}

    def on_epoch(self, run: Trainer) -> None:
        from labelspace.evaluation.metrics import evaluate

        if self.rank is None:
            return
        entry = run.progress.history[-1]
        for name, (X, Y) in self.parts.items():
            found = evaluate(self.rank(X, max(KS)), Y, ks=KS, bands=False)
            for metric in ("P", "nDCG"):
                entry |= {f"{name} {metric}@{k}": float(found[f"{metric}@{k}"]) for k in KS}


def watch(
    callbacks: Sequence[Callback],
    rank: Callable[[csr_matrix, int], Any],
    train: Part,
    valid: Part | None,
) -> None:
    """Called by a method before it trains: rank(X, k) ranks by the weights of the moment."""
    for callback in callbacks:
        if isinstance(callback, History):
            callback.rank = rank
            parts = {"train": train} if valid is None else {"train": train, "valid": valid}
            callback.parts = {name: _sample(*part) for name, part in parts.items()}


def _sample(X: csr_matrix, Y: csr_matrix) -> Part:
    """Evenly spaced rows: the same for every epoch and every run."""
    rows = np.unique(np.linspace(0, X.shape[0] - 1, MOST_MEASURED).astype(np.int64))
    return X[rows], Y[rows]
