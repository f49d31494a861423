"""The optimisers of the Trainer: torch's own, row tables, and several of them as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch

from labelspace.nn import exchange
from labelspace.nn.row_tables import RowTable


class Optimiser(Protocol):
    """The interface of an optimiser of the Trainer; its state is a flat mapping of tensors."""

    def zero_grad(self) -> None:
        """Clear the gradients before a batch."""

    def step(self, scale: float) -> None:
        """Update the parameters once; `scale` multiplies the base learning rate."""

    def state(self) -> dict[str, torch.Tensor]:
        """Return what a resumed run needs, by name."""

    def load_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore what `state` returned."""


class TorchOptimiser:
    """An optimiser of torch.optim as one of the Trainer.

    Parameters
    ----------
    inner : torch.optim.Optimizer

    Examples
    --------
    >>> import torch
    >>> w = torch.ones(1, requires_grad=True)
    >>> optimiser = TorchOptimiser(torch.optim.SGD([w], lr=0.5))
    >>> w.square().sum().backward()
    >>> optimiser.step(scale=0.5)
    >>> w
    tensor([0.5000], requires_grad=True)
    """

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        self._base = [group["lr"] for group in inner.param_groups]

    def zero_grad(self) -> None:
        self.inner.zero_grad()

    def step(self, scale: float) -> None:
        for group, base in zip(self.inner.param_groups, self._base, strict=True):
            group["lr"] = base * scale
        exchange.current().sum_gradients(
            [tensor for group in self.inner.param_groups for tensor in group["params"]]
        )
        self.inner.step()

    def state(self) -> dict[str, torch.Tensor]:
        slots = self.inner.state_dict()["state"]
        return {
            f"{index}.{key}": torch.as_tensor(value)
            for index, slot in slots.items()
            for key, value in slot.items()
            if value is not None
        }

    def load_state(self, state: Mapping[str, torch.Tensor]) -> None:
        whole = self.inner.state_dict()
        whole["state"] = {}
        for name, value in state.items():
            index, _, key = name.partition(".")
            whole["state"].setdefault(int(index), {})[key] = value
        self.inner.load_state_dict(whole)


class RowOptimiser:
    """Row tables as an optimiser of the Trainer: each table updates the rows it looked up last.

    Parameters
    ----------
    tables : mapping of name to (RowTable, float)
        The tables and their base learning rates.

    Examples
    --------
    >>> import numpy as np
    >>> table = RowTable(np.zeros((4, 1)))
    >>> optimiser = RowOptimiser({"labels": (table, 0.1)})
    >>> table.rows(np.array([2])).sum().backward()
    >>> optimiser.step(scale=1.0)
    >>> table.weight.round(3).ravel()
    array([ 0. ,  0. , -0.1,  0. ], dtype=float32)
    """

    def __init__(self, tables: Mapping[str, tuple[RowTable, float]]) -> None:
        self.tables = tables

    def zero_grad(self) -> None:
        """Do nothing: tables make their leaves anew for each batch."""

    def step(self, scale: float) -> None:
        together = exchange.current()
        for table, rate in self.tables.values():
            table.exchange(together)
            table.step(rate * scale)

    def state(self) -> dict[str, torch.Tensor]:
        return {
            f"{name}.{part}": tensor
            for name, (table, _) in self.tables.items()
            for part, tensor in table.tensors().items()
        }

    def load_state(self, state: Mapping[str, torch.Tensor]) -> None:
        for key, tensor in self.state().items():
            tensor.copy_(state[key])


class OptimiserGroup:
    """Several optimisers as one, such as those of row tables and of dense layers.

    Parameters
    ----------
    parts : mapping of name to Optimiser
    """

    def __init__(self, parts: Mapping[str, Optimiser]) -> None:
        self.parts = parts

    def zero_grad(self) -> None:
        for part in self.parts.values():
            part.zero_grad()

    def step(self, scale: float) -> None:
        for part in self.parts.values():
            part.step(scale)

    def state(self) -> dict[str, torch.Tensor]:
        return {
            f"{name}/{key}": tensor
            for name, part in self.parts.items()
            for key, tensor in part.state().items()
        }

    def load_state(self, state: Mapping[str, torch.Tensor]) -> None:
        for name, part in self.parts.items():
            mine = {k.partition("/")[2]: v for k, v in state.items() if k.startswith(f"{name}/")}
            part.load_state(mine)
