"""Fit one method by several workers, which share the examples of every batch."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scipy.sparse import csr_matrix

from labelspace.engine import TrainingGroup
from labelspace.methods.fitted_arrays import arrays_of, method_of
from labelspace.runs.callbacks import Callback, Storage
from labelspace.runs.history import History

if TYPE_CHECKING:
    from labelspace.components.held_out_ranking import HeldOutRanking
    from labelspace.components.training_data import TrainingData
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.methods.base import Method

CHECKPOINTS = "checkpoint_*"  # Ray Train's names of them


def fit_in_group(method: Method, group: TrainingGroup, data: TrainingData) -> None:
    """Fit the method to the data by these workers; the result is sent here."""
    shared = {
        "cls": type(method),
        "params": method.get_params(),
        "X": data.X,
        "Y": data.Y,
        "taxonomy": data.taxonomy,
        "history": any(isinstance(callback, History) for callback in data.callbacks),
    }
    if data.valid is not None:
        shared |= {"valid_X": data.valid[0], "valid_Y": data.valid[1]}

    def report(done: int, total: int) -> None:
        for callback in data.callbacks:
            callback.on_work("training", done, total)

    found = (callback.storage() for callback in data.callbacks)
    storage = next((each for each in found if each is not None), None)
    options: dict[str, Any] = {}
    if storage is not None:
        storage.folder.mkdir(parents=True, exist_ok=True)
        options = {"storage": str(storage.folder.absolute()), "minutes": storage.minutes}
    try:
        arrays, held_out = group.run(_fitted, shared, progress=report, **options)
    finally:
        _remove_if_empty(storage)
    sizes = {"n_features": data.X.shape[1], "n_labels": data.Y.shape[1]}
    fitted = method_of(type(method), arrays, **sizes)
    method.__dict__.update({name: own for name, own in vars(fitted).items() if name[-1] == "_"})
    method.held_out_ = held_out


def _fitted(
    callbacks: Sequence[Callback],
    cls: type[Method],
    params: dict[str, Any],
    X: csr_matrix,
    Y: csr_matrix,
    taxonomy: Taxonomy | None,
    history: bool,
    valid_X: csr_matrix | None = None,
    valid_Y: csr_matrix | None = None,
) -> tuple[dict[str, Any], HeldOutRanking | None]:
    """Fit in one of the workers, which torch.distributed connects."""
    import torch.distributed as dist

    from labelspace.nn.exchange import GroupExchange, use

    if history:  # first: a checkpoint holds what it added to an epoch
        callbacks = [History(), *callbacks]
    valid = None if valid_X is None else (valid_X, valid_Y)
    with use(GroupExchange(dist.group.WORLD)):
        method = cls(**params).fit(X, Y, valid=valid, taxonomy=taxonomy, callbacks=callbacks)
    return arrays_of(method), method.held_out_


def _remove_if_empty(storage: Storage | None) -> None:
    """Remove a folder without a checkpoint, which would look like a run to be continued."""
    if storage is not None and not any(storage.folder.glob(f"*/{CHECKPOINTS}")):
        shutil.rmtree(storage.folder, ignore_errors=True)
