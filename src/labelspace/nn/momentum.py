"""Plain stochastic gradient descent with momentum for the sparse input layer."""

from __future__ import annotations

import numpy as np

from labelspace.nn.row_tables import SparseLinear

MOMENTUM = 0.9
WEIGHT_DECAY = 0.0005


class MomentumLinear(SparseLinear):
    """A sparse layer whose step is SGD; `first` holds the velocities.

    Lazy like the row-wise Adam: momentum and decay act on a feature's row when a batch uses it.
    """

    def step(self, rate: float) -> None:
        if self._leaf.grad is None:
            return
        columns = self._X.tocsc()
        used = np.flatnonzero(np.diff(columns.indptr))
        gradient = np.asarray(columns[:, used].T @ self._leaf.grad.numpy())
        velocity = np.float32(MOMENTUM) * self.first[used] + gradient
        velocity += np.float32(WEIGHT_DECAY) * self.weight[used]
        self.first[used] = velocity
        self.weight[used] -= np.float32(rate) * self.row_lr_scale[used, None] * velocity
        self.steps[used] += 1
