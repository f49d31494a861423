"""Large tables of which a batch uses few rows: the sparse input layer, and label vectors.

Both are leaves of torch's graph for the batch at hand, so that nothing of the table's size is ever
a gradient. The update is Adam on the used rows alone, with a step count a row: a rare row's first
step is as long as a frequent row's first, not three times as long as with one count for all.
torch's EmbeddingBag builds and coalesces sparse gradients, which takes several times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
import torch
from numba import njit
from scipy.sparse import csr_matrix

from labelspace._core.threads import cores, parallel_blocks
from labelspace.nn.trainer import Optimiser

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class RowTable:
    """Rows looked up by number: label vectors, one a row."""

    def __init__(self, weight: np.ndarray, row_lr_scale: np.ndarray | None = None) -> None:
        """pace: each row's share of the learning rate; None is 1 for all."""
        self.row_lr_scale = (
            np.ones(len(weight), np.float32) if row_lr_scale is None else row_lr_scale
        )
        self.weight = np.ascontiguousarray(weight, np.float32)
        self.first = np.zeros_like(self.weight)
        self.second = np.zeros_like(self.weight)
        self.steps = np.zeros(len(weight), np.int32)

    @classmethod
    def frozen(cls, weight: np.ndarray) -> Self:
        """For prediction alone: no moments, and the weight may be a read-only memory map."""
        table = cls.__new__(cls)
        table.weight = weight
        return table

    def rows(self, ids: np.ndarray) -> torch.Tensor:
        """The rows with these distinct numbers, as a leaf that collects their gradient."""
        self._ids = ids
        self._leaf = torch.from_numpy(self.weight[ids]).requires_grad_()
        return self._leaf

    def step(self, rate: float) -> None:
        """Adam on the rows looked up last."""
        if self._leaf.grad is None:
            return
        gradient, ids = self._leaf.grad.numpy(), self._ids

        def block(start: int, stop: int) -> None:
            _adam_rows(
                *(ids[start:stop], gradient[start:stop], rate),
                *(self.row_lr_scale, self.weight, self.first, self.second, self.steps),
            )

        parallel_blocks(len(ids), block, block=_share(len(ids)))

    def tensors(self) -> dict[str, torch.Tensor]:
        """The moments and step counts, sharing memory, for checkpoints."""
        return {
            name: torch.from_numpy(getattr(self, name)) for name in ("first", "second", "steps")
        }


class SparseLinear(RowTable):
    """h = X W for a CSR batch X: one row of W a feature."""

    def __call__(self, X: csr_matrix) -> torch.Tensor:
        """The batch's activations, as a leaf that collects their gradient."""
        self._X = X
        self._leaf = torch.from_numpy(sparse_times_dense(X, self.weight)).requires_grad_()
        return self._leaf

    def step(self, rate: float) -> None:
        """Backward and Adam in one pass: each used row of W is read and written once."""
        if self._leaf.grad is None:
            return
        gradient, columns = self._leaf.grad.numpy(), self._X.tocsc()
        used = np.flatnonzero(np.diff(columns.indptr))

        def block(start: int, stop: int) -> None:
            _adam_columns(
                *(used[start:stop], columns.indptr, columns.indices, columns.data, gradient, rate),
                *(self.row_lr_scale, self.weight, self.first, self.second, self.steps),
            )

        parallel_blocks(len(used), block, block=_share(len(used)))


class OptimiserGroup:
    """Several optimisers as one."""

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


class RowOptimiser:
    """The Trainer's optimiser over row tables."""

    def __init__(self, tables: Mapping[str, tuple[RowTable, float]]) -> None:
        """tables: name -> (table, learning rate)."""
        self.tables = tables

    def zero_grad(self) -> None:
        """Leaves are made anew for each batch: there is nothing to clear."""

    def step(self, scale: float) -> None:
        for table, rate in self.tables.values():
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


def sparse_times_dense(X: csr_matrix, weight: np.ndarray) -> np.ndarray:
    """X @ weight on all cores; a row's result does not depend on the rows beside it."""
    out = np.zeros((X.shape[0], weight.shape[1]), np.float32)

    def block(start: int, stop: int) -> None:
        _multiply(X.indptr[start : stop + 1], X.indices, X.data, weight, out[start:stop])

    parallel_blocks(X.shape[0], block, block=_share(X.shape[0]))
    return out


def _share(n: int) -> int:
    """Blocks so that each core gets a few."""
    return max(16, -(-n // (4 * cores())))


@njit(cache=True, nogil=True, fastmath={"contract"})
def _multiply(indptr, indices, data, weight, out):  # type: ignore[no-untyped-def]
    width = weight.shape[1]
    for row in range(len(out)):
        target = out[row]
        for cell in range(indptr[row], indptr[row + 1]):
            value, source = data[cell], weight[indices[cell]]
            for j in range(width):
                target[j] += value * source[j]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _adam_columns(  # type: ignore[no-untyped-def]
    used, indptr, indices, data, gradient, rate, row_lr_scale, weight, first, second, steps
):
    width = weight.shape[1]
    sums = np.empty(width, np.float32)
    for column in used:
        sums[:] = 0.0
        for cell in range(indptr[column], indptr[column + 1]):
            value, source = data[cell], gradient[indices[cell]]
            for j in range(width):
                sums[j] += value * source[j]
        _adam(column, sums, rate * row_lr_scale[column], weight, first, second, steps)


@njit(cache=True, nogil=True)
def _adam_rows(  # type: ignore[no-untyped-def]
    ids, gradient, rate, row_lr_scale, weight, first, second, steps
):
    for place in range(len(ids)):
        row = ids[place]
        _adam(row, gradient[place], rate * row_lr_scale[row], weight, first, second, steps)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _adam(row, gradient, rate, weight, first, second, steps):  # type: ignore[no-untyped-def]
    steps[row] += 1
    # Bias correction folded into the rate and epsilon, as in Kingma & Ba, section 2.
    left_1 = 1.0 - BETA_1 ** steps[row]
    left_2 = np.sqrt(1.0 - BETA_2 ** steps[row])
    stride = np.float32(rate * left_2 / left_1)
    epsilon = np.float32(EPSILON * left_2)
    keep_1, keep_2 = np.float32(BETA_1), np.float32(BETA_2)
    add_1, add_2 = np.float32(1.0 - BETA_1), np.float32(1.0 - BETA_2)
    w, m, v = weight[row], first[row], second[row]
    for j in range(len(w)):
        g = gradient[j]
        m[j] = keep_1 * m[j] + add_1 * g
        v[j] = keep_2 * v[j] + add_2 * g * g
        w[j] -= stride * m[j] / (np.sqrt(v[j]) + epsilon)
