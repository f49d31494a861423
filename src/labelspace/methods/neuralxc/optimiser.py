"""The optimiser of NeuralXC: Adam, by rows where a batch uses few of them, and its two stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace

import torch

from labelspace.methods.neuralxc.network import Network
from labelspace.nn.optimisers import Optimiser, OptimiserGroup, RowOptimiser, TorchOptimiser

REGRESSOR = "regressor"


def optimiser(
    networks: list[Network], params: SimpleNamespace, frozen: Callable[[], bool]
) -> OptimiserGroup:
    """Return Adam for all networks, by rows for the tables of which a batch uses few.

    Parameters
    ----------
    networks : list of Network
    params : SimpleNamespace
        The parameters of the method.
    frozen : callable
        Returns whether the autoencoders stay as they are in this step.
    """
    rows = {}
    for number, network in enumerate(networks):
        for name, table in network.tables(params.alpha, params.beta).items():
            table.lazy, table.weight_decay = params.lazy, params.weight_decay or None
            scale = params.label_lr_scale if name == "labels out" else 1.0
            rows[f"{number}.{name}"] = (table, params.lr * scale)
    autoencoders = [
        tensor
        for network in networks
        for autoencoder in (network.inputs, network.outputs)
        for tensor in autoencoder.dense_parameters()
    ]
    regressors = [tensor for network in networks for tensor in network.regressor.tensors().values()]

    def adam(tensors: list[torch.Tensor]) -> TorchOptimiser:
        lr = params.dense_lr_scale * params.lr
        return TorchOptimiser(torch.optim.Adam(tensors, lr=lr, weight_decay=params.weight_decay))

    parts: dict[str, Optimiser] = {"rows": RowOptimiser(rows)}
    if params.after_pretraining == "joint":
        return OptimiserGroup({**parts, "dense": adam([*autoencoders, *regressors])})
    if autoencoders:
        parts["dense"] = adam(autoencoders)
    return StagedOptimiser({**parts, REGRESSOR: adam(regressors)}, frozen)


class StagedOptimiser(OptimiserGroup):
    """Updates everything first, and the regressor alone once the autoencoders are frozen.

    Parameters
    ----------
    parts : mapping of name to Optimiser
        One of them is "regressor".
    frozen : callable
    """

    def __init__(self, parts: Mapping[str, Optimiser], frozen: Callable[[], bool]) -> None:
        super().__init__(parts)
        self.frozen = frozen

    def step(self, scale: float) -> None:
        if self.frozen():
            self.parts[REGRESSOR].step(scale)
        else:
            super().step(scale)
