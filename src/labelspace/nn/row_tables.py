"""Large tables of which a batch uses few rows: the sparse input layer, and label vectors.

Each batch looks its rows up as a fresh leaf of torch's graph, so that no gradient has the size of
the table. The update is Adam on the used rows alone, with a step count per row: the first step of a
rare row is as long as the first step of a frequent one, not three times as long as with one count
for all. torch's EmbeddingBag builds and coalesces sparse gradients, which takes several times as
long.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.adam import adam_update
from labelspace._core.compiled import loop
from labelspace._core.threads import parallel_blocks
from labelspace.nn.exchange import Exchange
from labelspace.nn.products import rows_per_block, sparse_times_dense


class RowTable:
    """A table of trained rows that are looked up by number, such as label vectors.

    Parameters
    ----------
    weight : ndarray of shape (rows, width)
    row_lr_scale : ndarray of shape (rows,), optional
        Factor of the learning rate of each row; None is 1 for all.

    Attributes
    ----------
    weight : ndarray of shape (rows, width), float32
    moment1, moment2 : ndarrays of shape (rows, width), float32
        Adam's running means of gradients and of squared gradients.
    steps : ndarray of shape (rows,), int32
        The number of updates of each row.
    weight_decay : float or None
        Weight of an L2 penalty, whose gradient is added to that of each updated row.
    lazy : bool
        Whether a step updates the rows that the batch uses alone. If not, it updates all rows, as
        torch's Adam does: those that are not used have a gradient of zero.

    Examples
    --------
    >>> import numpy as np
    >>> table = RowTable(np.zeros((1000, 2)))
    >>> rows = table.rows(np.array([3, 7]))
    >>> (rows - 1.0).square().sum().backward()
    >>> table.step(rate=0.5)
    >>> table.weight[[3, 4, 7]]
    array([[0.5, 0.5],
           [0. , 0. ],
           [0.5, 0.5]], dtype=float32)
    """

    weight_decay: float | None = None
    lazy: bool = True

    def __init__(self, weight: np.ndarray, row_lr_scale: np.ndarray | None = None) -> None:
        self.row_lr_scale = (
            np.ones(len(weight), np.float32) if row_lr_scale is None else row_lr_scale
        )
        self.weight = np.ascontiguousarray(weight, np.float32)
        self.moment1 = np.zeros_like(self.weight)
        self.moment2 = np.zeros_like(self.weight)
        self.steps = np.zeros(len(weight), np.int32)

    @classmethod
    def frozen(cls, weight: np.ndarray) -> Self:
        """Return a table for prediction alone, without moments.

        Parameters
        ----------
        weight : ndarray of shape (rows, width)
            May be a read-only memory map.

        Returns
        -------
        RowTable
        """
        table = cls.__new__(cls)
        table.weight = weight
        return table

    def rows(self, ids: np.ndarray) -> torch.Tensor:
        """Return the rows with these distinct numbers as a leaf that collects their gradient."""
        self._ids = ids
        self._leaf = torch.from_numpy(self.weight[ids]).requires_grad_()
        return self._leaf

    def exchange(self, exchange: Exchange) -> None:
        """Use the rows that any worker looked up last, with the sums of their gradients."""
        if exchange.size > 1 and self._leaf.grad is not None:
            self._ids, gradient = exchange.sum_rows(self._ids, self._leaf.grad)
            self._leaf = leaf_of(gradient)

    def step(self, rate: float) -> None:
        """Update the rows that were looked up last by a step of Adam at this learning rate."""
        if self._leaf.grad is None:
            return
        gradient, ids = self._leaf.grad.numpy(), self._ids
        if not self.lazy and len(ids) < len(self.weight):
            used, ids = ids, np.arange(len(self.weight))
            whole = np.zeros_like(self.weight)
            whole[used] = gradient
            gradient = whole
        decay = self._decay()

        def block(start: int, stop: int) -> None:
            _adam_rows(
                *(ids[start:stop], gradient[start:stop], decay, rate),
                *(self.row_lr_scale, self.weight, self.moment1, self.moment2, self.steps),
            )

        parallel_blocks(len(ids), block, block=rows_per_block(len(ids)))

    def _decay(self) -> np.float32 | None:
        return None if self.weight_decay is None else np.float32(self.weight_decay)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the moments and step counts, sharing memory, for checkpoints."""
        names = ("moment1", "moment2", "steps")
        return {name: torch.from_numpy(getattr(self, name)) for name in names}


class SparseLinear(RowTable):
    """The linear map h = X W of a CSR batch X, with one row of W per feature.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> layer = SparseLinear(np.eye(3))
    >>> h = layer(csr_matrix([[0.0, 2.0, 0.0]]))
    >>> h.sum().backward()
    >>> layer.step(rate=0.1)
    >>> layer.steps  # only feature 1 occurs in the batch
    array([0, 1, 0], dtype=int32)
    """

    def __call__(self, X: csr_matrix) -> torch.Tensor:
        """Return the batch's activations as a leaf that collects their gradient."""
        self._X = X
        self._leaf = torch.from_numpy(sparse_times_dense(X, self.weight)).requires_grad_()
        return self._leaf

    def exchange(self, exchange: Exchange) -> None:
        """Use the last batches of all workers, with the gradients by their activations."""
        if exchange.size > 1 and self._leaf.grad is not None:
            self._X, gradient = exchange.joined_batch(self._X, self._leaf.grad)
            self._leaf = leaf_of(gradient)

    def step(self, rate: float) -> None:
        """Run backward and Adam in one pass: each used row of W is read and written once."""
        if self._leaf.grad is None:
            return
        gradient, columns = self._leaf.grad.numpy(), self._X.tocsc()
        used = np.arange(len(self.weight))
        if self.lazy:
            used = np.flatnonzero(np.diff(columns.indptr))
        by_column, decay = (columns.indptr, columns.indices, columns.data), self._decay()

        def block(start: int, stop: int) -> None:
            _adam_columns(
                *(used[start:stop], *by_column, gradient, decay, rate),
                *(self.row_lr_scale, self.weight, self.moment1, self.moment2, self.steps),
            )

        parallel_blocks(len(used), block, block=rows_per_block(len(used)))


def leaf_of(gradient: torch.Tensor) -> torch.Tensor:
    """Return a leaf with this gradient, whose values are of no use."""
    leaf = gradient.detach()
    leaf.grad = gradient
    return leaf


@loop(fastmath={"contract"})
def _adam_columns(  # type: ignore[no-untyped-def]
    used, indptr, indices, data, gradient, decay, rate,
    row_lr_scale, weight, moment1, moment2, steps,
):  # fmt: skip
    width = weight.shape[1]
    sums = np.empty(width, np.float32)
    for column in used:
        sums[:] = 0.0
        for cell in range(indptr[column], indptr[column + 1]):
            value, source = data[cell], gradient[indices[cell]]
            for j in range(width):
                sums[j] += value * source[j]
        steps[column] += 1
        w, m, v = weight[column], moment1[column], moment2[column]
        adam_update(w, sums, m, v, decay, rate * row_lr_scale[column], steps[column])


@loop
def _adam_rows(  # type: ignore[no-untyped-def]
    ids, gradient, decay, rate, row_lr_scale, weight, moment1, moment2, steps
):
    for place in range(len(ids)):
        row = ids[place]
        steps[row] += 1
        w, m, v = weight[row], moment1[row], moment2[row]
        adam_update(w, gradient[place], m, v, decay, rate * row_lr_scale[row], steps[row])
