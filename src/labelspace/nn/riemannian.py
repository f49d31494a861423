"""Row tables whose rows are points of the Poincare ball, each with a rule to move the used rows.

They replace `RowTable` in a `RowOptimiser`, so that checkpoints and resuming need nothing more.
Rows are kept in float32 and moved in float64. Plain gradient descent for the sparse input layer
and for rows of flat space is here too, so that geometries can be compared under one rule.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace.nn import poincare
from labelspace.nn.row_tables import (
    BETA_1,
    BETA_2,
    EPSILON,
    RowTable,
    SparseLinear,
    sparse_times_dense,
)


class GradientTable(RowTable):
    """Rows of flat space under plain gradient descent: w - rate * g."""

    def __init__(self, weight: np.ndarray) -> None:
        self.weight = np.ascontiguousarray(weight, np.float32)

    def step(self, rate: float) -> None:
        if self._leaf.grad is not None:
            with np.errstate(all="ignore"):  # the Trainer stops a run that overflowed
                self.weight[self._ids] -= np.float32(rate) * self._leaf.grad.numpy()

    def tensors(self) -> dict[str, Tensor]:
        return {}


class GradientLinear(SparseLinear):
    """The sparse input layer under plain gradient descent."""

    def step(self, rate: float) -> None:
        if self._leaf.grad is None:
            return
        columns = self._X.tocsc()
        used = np.flatnonzero(np.diff(columns.indptr))
        indptr = np.append(columns.indptr[used], columns.indptr[-1])
        by_feature = csr_matrix(
            (columns.data, columns.indices, indptr), shape=(len(used), self._X.shape[0])
        )
        gradient = sparse_times_dense(by_feature, self._leaf.grad.numpy())
        with np.errstate(all="ignore"):
            self.weight[used] -= np.float32(rate) * self.row_lr_scale[used, None] * gradient

    def tensors(self) -> dict[str, Tensor]:
        return {}


class BallTable(RowTable):
    """Points of the ball, one a row; subclasses say how the rows of a batch move."""

    moments: tuple[str, ...] = ()

    def __init__(self, weight: np.ndarray) -> None:
        inside = poincare.project(torch.from_numpy(np.asarray(weight, np.float64)))
        self.weight = inside.numpy().astype(np.float32)

    def step(self, rate: float) -> None:
        """Move the rows looked up last."""
        if self._leaf.grad is None:
            return
        points = torch.from_numpy(self.weight[self._ids]).double()
        moved = self._moved(points, self._leaf.grad.double(), rate)
        self.weight[self._ids] = moved.float().numpy()

    @abstractmethod
    def _moved(self, points: Tensor, gradient: Tensor, rate: float) -> Tensor:
        """Where the points go; `gradient` is Euclidean."""

    def tensors(self) -> dict[str, Tensor]:
        return {name: torch.from_numpy(getattr(self, name)) for name in self.moments}

    def _used(self, name: str) -> Tensor:
        return torch.from_numpy(getattr(self, name)[self._ids]).double()

    def _keep(self, **moments: Tensor) -> None:
        for name, values in moments.items():
            array: np.ndarray[Any, Any] = getattr(self, name)
            array[self._ids] = values.numpy()


class BallGradient(BallTable):
    """Projected Riemannian gradient descent (Nickel & Kiela 2017; section 2.5 of the paper).

    x <- p(x - rate ((1 - |x|^2) / 2)^2 g)
    """

    def _moved(self, points: Tensor, gradient: Tensor, rate: float) -> Tensor:
        return poincare.project(points - rate * gradient / poincare.factor(points).square())


class BallAdam(BallTable):
    """Adam whose step is shortened by the inverse metric factor: what the paper found best.

    Not a Riemannian method, as its authors say: the moments are sums of gradients that belong to
    different points.
    """

    moments = ("first", "second", "steps")

    def __init__(self, weight: np.ndarray) -> None:
        super().__init__(weight)
        self.first, self.second = np.zeros_like(self.weight), np.zeros_like(self.weight)
        self.steps = np.zeros(len(weight), np.int32)

    def _moved(self, points: Tensor, gradient: Tensor, rate: float) -> Tensor:
        steps = self._used("steps") + 1
        first = BETA_1 * self._used("first") + (1 - BETA_1) * gradient
        second = BETA_2 * self._used("second") + (1 - BETA_2) * gradient.square()
        self._keep(first=first, second=second, steps=steps)
        move = _unbiased(first, BETA_1, steps) / (_unbiased(second, BETA_2, steps).sqrt() + EPSILON)
        return poincare.project(points - rate * move / poincare.factor(points).square())


class RiemannianAdam(BallTable):
    """Adam as Becigneul & Ganea (2019) carry it over to manifolds; each row is one of theirs.

    The gradient is the Riemannian one; its length by the metric, one number a row, is the second
    moment; the step follows a geodesic; and the first moment is carried along to the new point.
    """

    moments = ("first", "second", "steps")

    def __init__(self, weight: np.ndarray) -> None:
        super().__init__(weight)
        self.first = np.zeros_like(self.weight)
        self.second = np.zeros((len(weight), 1), np.float32)
        self.steps = np.zeros(len(weight), np.int32)

    def _moved(self, points: Tensor, gradient: Tensor, rate: float) -> Tensor:
        steps, factor = self._used("steps") + 1, poincare.factor(points)
        upward = gradient / factor.square()
        squared_length = (factor * upward).square().sum(1, keepdim=True)
        first = BETA_1 * self._used("first") + (1 - BETA_1) * upward
        second = BETA_2 * self._used("second") + (1 - BETA_2) * squared_length
        move = _unbiased(first, BETA_1, steps) / (_unbiased(second, BETA_2, steps).sqrt() + EPSILON)
        moved = poincare.exponential(points, -rate * move)
        carried = poincare.transport(points, moved, first)
        self._keep(first=carried, second=second, steps=steps)
        return moved


def _unbiased(moment: Tensor, beta: float, steps: Tensor) -> Tensor:
    """Kingma & Ba's correction for moments that began at zero."""
    return moment / (1.0 - beta**steps)[:, None]
