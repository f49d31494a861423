"""Training of DXML's encoders: their initial weights, the optimiser and the run."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.arrays import joined_parts
from labelspace.components.training_data import TrainingData
from labelspace.methods.dxml.objective import BatchObjective, FixedExamples
from labelspace.nn.activations import Activation
from labelspace.nn.encoder import Encoder
from labelspace.nn.optimisers import OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.row_rules import MOMENTUM, WEIGHT_DECAY, MomentumLinear
from labelspace.nn.trainer import Trainer, TrainingTask

if TYPE_CHECKING:
    from labelspace.methods.dxml.method import DXML

TARGET_LOSSES = ("smooth-l1", "contrastive", "triplet")


def fresh_encoders(params: SimpleNamespace, n_features: int) -> list[Encoder]:
    """Return the encoders before training, one per learner."""
    return [
        trainable(
            Encoder.fresh(
                n_features,
                (*params.hidden, params.dim),
                np.random.default_rng([params.seed, n_features, learner]),
                hidden_norm=params.weight_norm,
                input_bias=params.input_bias,
                activation=Activation(params.activation or "linear"),
                spread=params.input_spread,
                hidden_spread=params.hidden_spread,
            ),
            params,
        )
        for learner in range(params.ensemble)
    ]


def trainable(encoder: Encoder, params: SimpleNamespace) -> Encoder:
    """Return the encoder with an input layer that moves by the rule of the optimiser."""
    if params.optimiser == "sgd":
        encoder.input_layer = MomentumLinear(encoder.input_layer.weight, lazy=params.lazy)
    return encoder


def train(
    model: DXML,
    data: TrainingData,
    X: csr_matrix,
    Y: csr_matrix,
    epochs: int,
    score: Callable[[], float] | None = None,
    fixed: FixedExamples | None = None,
) -> list[dict[str, float]]:
    """Train the encoders of the model on X and Y; return the history.

    All learners are trained at once, so that one checkpoint holds the whole run.
    """
    params = model.params_
    trainer = Trainer(
        epochs=epochs,
        batch_size=params.batch_size,
        seed=params.seed,
        schedule="linear" if params.optimiser == "adam" else "constant",
        patience=params.patience,
        validate_from=params.validate_from,
        callbacks=data.callbacks,
        identity=data.identity,
    )
    parts = {str(learner): encoder.tensors() for learner, encoder in enumerate(model.encoders_)}
    objective = BatchObjective(model, model.encoders_, X, Y, fixed)
    task = TrainingTask(joined_parts(parts), objective, _optimiser(model.encoders_, params), score)
    if params.loss in TARGET_LOSSES:
        return trainer.run(task, X.shape[0])
    # The votes are computed by this package's threads, and little is left to torch. Its own
    # threads wait busily for the next operation, and would take the cores from these.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return trainer.run(task, X.shape[0])
    finally:
        torch.set_num_threads(before)


def _optimiser(encoders: list[Encoder], params: SimpleNamespace) -> OptimiserGroup:
    sparse = {
        str(learner): (encoder.input_layer, params.lr) for learner, encoder in enumerate(encoders)
    }
    dense = [tensor for encoder in encoders for tensor in encoder.dense_parameters()]
    parts: dict[str, Any] = {"rows": RowOptimiser(sparse)}
    if dense and params.optimiser == "adam":
        parts["dense"] = TorchOptimiser(torch.optim.Adam(dense, lr=params.lr / 5))
    elif dense:
        sgd = torch.optim.SGD(dense, params.lr, MOMENTUM, weight_decay=WEIGHT_DECAY)
        parts["dense"] = TorchOptimiser(sgd)
    return OptimiserGroup(parts)
