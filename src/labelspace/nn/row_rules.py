"""Row tables with other update rules than Adam: gradient descent, momentum, Poincare ball.

They replace `RowTable` and `SparseLinear` in a `RowOptimiser`, so that checkpoints and resuming
need nothing more. Points of the ball are stored in float32 and updated in float64.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace._core.adam import BETA_1, BETA_2, EPSILON
from labelspace.nn import poincare
from labelspace.nn.products import sparse_times_dense
from labelspace.nn.row_tables import RowTable, SparseLinear

MOMENTUM = 0.9
WEIGHT_DECAY = 0.0005


class GradientTable(RowTable):
    """Rows of flat space under plain gradient descent: w <- w - rate * gradient.

    Parameters
    ----------
    weight : ndarray of shape (rows, width)
    """

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


class MomentumLinear(SparseLinear):
    """The sparse input layer under gradient descent with momentum and weight decay.

    Both are lazy, as the row-wise Adam is: they act on a feature's row when a batch uses it.

    Parameters
    ----------
    weight : ndarray of shape (features, width)
    row_lr_scale : ndarray of shape (features,), optional
        Factor of the learning rate of each row; None is 1 for all.
    """

    def __init__(self, weight: np.ndarray, row_lr_scale: np.ndarray | None = None) -> None:
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
        velocity = np.float32(MOMENTUM) * self.velocity[used] + gradient
        velocity += np.float32(WEIGHT_DECAY) * self.weight[used]
        self.velocity[used] = velocity
        self.weight[used] -= np.float32(rate) * self.row_lr_scale[used, None] * velocity

    def tensors(self) -> dict[str, Tensor]:
        return {"velocity": torch.from_numpy(self.velocity)}


class BallTable(RowTable):
    """Points of the Poincare ball, one per row; subclasses define how the rows of a batch move.

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
        """Move the rows that were looked up last."""
        if self._leaf.grad is None:
            return
        points = torch.from_numpy(self.weight[self._ids]).double()
        moved = self._moved(points, self._leaf.grad.double(), rate)
        self.weight[self._ids] = moved.float().numpy()

    @abstractmethod
    def _moved(self, points: Tensor, gradient: Tensor, rate: float) -> Tensor:
        """Return where the points go; `gradient` is Euclidean."""

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

    Not the compiled loop of `_core.adam`: the moments may be carried to another point, and the
    second one may be a single number per row.
    """

    moments = ("moment1", "moment2", "steps")

    def __init__(self, weight: np.ndarray) -> None:
        super().__init__(weight)
        self.moment1, self.moment2 = np.zeros_like(self.weight), np.zeros_like(self.weight)
        self.steps = np.zeros(len(weight), np.int32)

    def _adam_direction(self, gradient: Tensor, square: Tensor) -> tuple[Tensor, Tensor]:
        """Update the moments; return Adam's direction, and the first moment before rounding."""
        steps = self._used("steps") + 1
        moment1 = BETA_1 * self._used("moment1") + (1 - BETA_1) * gradient
        moment2 = BETA_2 * self._used("moment2") + (1 - BETA_2) * square
        self._store(moment1=moment1, moment2=moment2, steps=steps)
        length = _unbiased(moment2, BETA_2, steps).sqrt() + EPSILON
        return _unbiased(moment1, BETA_1, steps) / length, moment1


class BallAdam(_BallMoments):
    """Adam whose step is divided by the squared metric factor: the best rule in the paper.

    Not a Riemannian method, as its authors write: the moments are sums of gradients that belong to
    different points.
    """

    def _moved(self, points: Tensor, gradient: Tensor, rate: float) -> Tensor:
        direction, _ = self._adam_direction(gradient, gradient.square())
        return poincare.project(points - rate * direction / poincare.factor(points).square())


class RiemannianAdam(_BallMoments):
    """Adam on manifolds after Becigneul & Ganea (2019), each row a manifold of its own.

    The gradient is the Riemannian one; the second moment is its squared length by the metric, one
    number per row; the step follows a geodesic; and the first moment is transported to the new
    point.
    """

    def __init__(self, weight: np.ndarray) -> None:
        super().__init__(weight)
        self.moment2 = np.zeros((len(weight), 1), np.float32)

    def _moved(self, points: Tensor, gradient: Tensor, rate: float) -> Tensor:
        factor = poincare.factor(points)
        upward = gradient / factor.square()
        squared_length = (factor * upward).square().sum(1, keepdim=True)
        direction, moment1 = self._adam_direction(upward, squared_length)
        moved = poincare.exponential(points, -rate * direction)
        self._store(moment1=poincare.transport(points, moved, moment1))
        return moved


def _unbiased(moment: Tensor, beta: float, steps: Tensor) -> Tensor:
    """Return the moment corrected for its start at zero (Kingma & Ba)."""
    return moment / (1.0 - beta**steps)[:, None]
