"""Row tables with update rules other than Adam in Euclidean space.

Gradient descent, momentum, and three rules for points of the Poincare ball. They replace `RowTable`
and `SparseLinear` in a `RowOptimiser`, which checkpoints them as it does those. Points of the ball
are stored in float32 and updated in float64.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace._core.adam import BETA_1, BETA_2, EPSILON
from labelspace._core.compiled import loop
from labelspace._core.threads import parallel_blocks
from labelspace.nn import poincare
from labelspace.nn.products import rows_per_block, sparse_times_dense
from labelspace.nn.row_tables import RowTable, SparseLinear

MOMENTUM, WEIGHT_DECAY = 0.9, 0.0005  # as in Zhang et al. 2018


class GradientTable(RowTable):
    """Rows of Euclidean space under plain gradient descent: w <- w - rate * gradient.

    Parameters
    ----------
    weight : ndarray of shape (rows, width)
    row_lr_scale : ndarray of shape (rows,), optional
        Factor of the learning rate of each row; None is 1 for all.
    """

    def __init__(self, weight: np.ndarray, row_lr_scale: np.ndarray | None = None) -> None:
        self.weight = np.ascontiguousarray(weight, np.float32)
        self.row_lr_scale = (
            np.ones(len(weight), np.float32) if row_lr_scale is None else row_lr_scale
        )

    def step(self, rate: float) -> None:
        if self._leaf.grad is not None:
            with np.errstate(all="ignore"):  # the Trainer raises an error for what overflowed
                rates = np.float32(rate) * self.row_lr_scale[self._ids, None]
                self.weight[self._ids] -= rates * self._leaf.grad.numpy()

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


class MomentumLinear(SparseLinear):
    """The sparse input layer under gradient descent with momentum and weight decay.

    Both can be lazy, as the row-wise Adam is: they act on a feature's row when a batch has it.

    Parameters
    ----------
    weight : ndarray of shape (features, width)
    row_lr_scale : ndarray of shape (features,), optional
        Factor of the learning rate of each row; None is 1 for all.
    lazy : bool
        Whether rows of features that the batch does not have stay as they are. If not, each step
        passes over all weights.
    """

    def __init__(
        self, weight: np.ndarray, row_lr_scale: np.ndarray | None = None, lazy: bool = True
    ) -> None:
        self.lazy = lazy
        self.row_lr_scale = (
            np.ones(len(weight), np.float32) if row_lr_scale is None else row_lr_scale
        )
        self.weight = np.ascontiguousarray(weight, np.float32)
        self.velocity = np.zeros_like(self.weight)

    def step(self, rate: float) -> None:
        if self._leaf.grad is None:
            return
        columns = self._X.tocsc()
        used = np.flatnonzero(np.diff(columns.indptr))
        gradient = np.asarray(columns[:, used].T @ self._leaf.grad.numpy())
        if not self.lazy:
            self._step_all(rate, used, gradient)
            return
        velocity = np.float32(MOMENTUM) * self.velocity[used] + gradient
        velocity += np.float32(WEIGHT_DECAY) * self.weight[used]
        self.velocity[used] = velocity
        self.weight[used] -= np.float32(rate) * self.row_lr_scale[used, None] * velocity

    def _step_all(self, rate: float, used: np.ndarray, gradient: np.ndarray) -> None:
        place = np.full(len(self.weight), -1)
        place[used] = np.arange(len(used))

        def block(start: int, stop: int) -> None:
            rows = slice(start, stop)
            _momentum_rows(
                *(place[rows], gradient, np.float32(rate) * self.row_lr_scale[rows]),
                *(self.weight[rows], self.velocity[rows]),
            )

        parallel_blocks(len(place), block, block=rows_per_block(len(place)))

    def tensors(self) -> dict[str, Tensor]:
        return {"velocity": torch.from_numpy(self.velocity)}


@loop
def _momentum_rows(place, gradient, rates, weight, velocity):  # type: ignore[no-untyped-def]
    """Update all rows; `place` is that of a row's gradient, -1 where the batch gives none."""
    momentum, decay = np.float32(MOMENTUM), np.float32(WEIGHT_DECAY)
    for row in range(len(weight)):
        for j in range(weight.shape[1]):
            moved = momentum * velocity[row, j] + decay * weight[row, j]
            if place[row] >= 0:
                moved += gradient[place[row], j]
            velocity[row, j] = moved
            weight[row, j] -= rates[row] * moved


class BallTable(RowTable):
    """Points of the Poincare ball, one per row; subclasses define the update of a batch's rows.

    Parameters
    ----------
    weight : ndarray of shape (rows, dim)
        Points outside the ball are projected into it.
    """

    moments: tuple[str, ...] = ()

    def __init__(self, weight: np.ndarray) -> None:
        inside = poincare.project(torch.from_numpy(np.asarray(weight, np.float64)))
        self.weight = inside.numpy().astype(np.float32)

    def step(self, rate: float) -> None:
        """Update the rows that were looked up last."""
        if self._leaf.grad is None:
            return
        points = torch.from_numpy(self.weight[self._ids]).double()
        moved = self._moved(points, self._leaf.grad.double(), rate)
        self.weight[self._ids] = moved.float().numpy()

    @abstractmethod
    def _moved(self, points: Tensor, gradient: Tensor, rate: float) -> Tensor:
        """Return the points after a step; `gradient` is the Euclidean one."""

    def tensors(self) -> dict[str, Tensor]:
        return {name: torch.from_numpy(getattr(self, name)) for name in self.moments}

    def _used(self, name: str) -> Tensor:
        return torch.from_numpy(getattr(self, name)[self._ids]).double()

    def _store(self, **moments: Tensor) -> None:
        for name, values in moments.items():
            array: np.ndarray[Any, Any] = getattr(self, name)
            array[self._ids] = values.numpy()


class BallGradient(BallTable):
    """Projected Riemannian gradient descent (Nickel & Kiela 2017; Gerald & Baskiotis 2019, 2.5).

    x <- p(x - rate ((1 - |x|^2) / 2)^2 g)
    """

    def _moved(self, points: Tensor, gradient: Tensor, rate: float) -> Tensor:
        return poincare.project(points - rate * gradient / poincare.factor(points).square())


class _BallMoments(BallTable):
    """Adam's moments of points of the ball, in float64 for the rows of a batch.

    Not the compiled loop of `_core.adam`: the first moment may be transported to another point,
    and the second may be one number per row.
    """

    moments = ("moment1", "moment2", "steps")

    def __init__(self, weight: np.ndarray) -> None:
        super().__init__(weight)
        self.moment1, self.moment2 = np.zeros_like(self.weight), np.zeros_like(self.weight)
        self.steps = np.zeros(len(weight), np.int32)

    def _adam_direction(self, gradient: Tensor, square: Tensor) -> tuple[Tensor, Tensor]:
        """Update the moments; return Adam's direction and the first moment in float64."""
        steps = self._used("steps") + 1
        moment1 = BETA_1 * self._used("moment1") + (1 - BETA_1) * gradient
        moment2 = BETA_2 * self._used("moment2") + (1 - BETA_2) * square
        self._store(moment1=moment1, moment2=moment2, steps=steps)
        length = _unbiased(moment2, BETA_2, steps).sqrt() + EPSILON
        return _unbiased(moment1, BETA_1, steps) / length, moment1


class BallAdam(_BallMoments):
    """Adam whose step is divided by the squared metric factor (Gerald & Baskiotis 2019).

    It is the best rule in that paper, though not a Riemannian method, as its authors write: the
    moments are sums of gradients at different points.
    """

    def _moved(self, points: Tensor, gradient: Tensor, rate: float) -> Tensor:
        direction, _ = self._adam_direction(gradient, gradient.square())
        return poincare.project(points - rate * direction / poincare.factor(points).square())


class RiemannianAdam(_BallMoments):
    """Riemannian Adam of Becigneul & Ganea (2019) on a product of balls, one per row.

    The gradient is the Riemannian one; the second moment is its squared norm by the metric, one
    number per row; the step follows a geodesic; and the first moment is transported to the new
    point.
    """

    def __init__(self, weight: np.ndarray) -> None:
        super().__init__(weight)
        self.moment2 = np.zeros((len(weight), 1), np.float32)

    def _moved(self, points: Tensor, gradient: Tensor, rate: float) -> Tensor:
        factor = poincare.factor(points)
        riemannian = gradient / factor.square()
        squared_norm = (factor * riemannian).square().sum(1, keepdim=True)
        direction, moment1 = self._adam_direction(riemannian, squared_norm)
        moved = poincare.exponential(points, -rate * direction)
        self._store(moment1=poincare.transport(points, moved, moment1))
        return moved


def _unbiased(moment: Tensor, beta: float, steps: Tensor) -> Tensor:
    """Return the moment with the bias correction of Adam (Kingma & Ba 2015)."""
    return moment / (1.0 - beta**steps)[:, None]
