"""Data-parallel training: what the workers of one run exchange in every batch.

All workers run the same program on the same batches. Each computes its part of a batch's rows; the
gradients are then summed, so that all make the same step. What is drawn at random for a batch is
drawn for the whole of it, by the same numbers in every worker: the result is that of one worker, up
to the order in which numbers are summed.

Who starts the workers chooses the exchange by ``with use(exchange):``; losses and optimisers find
it by `current`. Without one a process is alone, and nothing is copied or computed twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace.engine.tasks import WorkerLostError

Rows = TypeVar("Rows", np.ndarray, csr_matrix, Tensor)

SPARSE_CELLS = 1 << 14  # a dense gradient of more cells is sent by its non-zeros, if these are few
SPARSE_SHARE = 0.25  # of its cells, at most


class Exchange:
    """The exchange of a process that is alone: all rows are its own, and there is nothing to sum.

    Attributes
    ----------
    rank : int
        The number of this worker, from 0.
    size : int
        The number of workers.

    Examples
    --------
    >>> import numpy as np
    >>> from labelspace.nn.exchange import current
    >>> current().own(np.arange(4))
    array([0, 1, 2, 3])
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Return whether this worker decides for all."""
        return self.rank == 0

    def part(self, n: int) -> slice:
        """Return which of n rows are this worker's: contiguous ones, and at least one if n > 0.

        With fewer rows than workers some have a row of another one, which `counted` leaves out.
        """
        start = min(n * self.rank // self.size, max(0, n - 1))
        return slice(start, start + min(n, max(1, self.counted(n))))

    def own(self, rows: Rows) -> Rows:
        """Return this worker's part of the rows."""
        return rows if self.size == 1 else rows[self.part(rows.shape[0])]

    def counted(self, n: int) -> int:
        """Return how many of n rows count as this worker's: 0 if there are too few."""
        return n * (self.rank + 1) // self.size - n * self.rank // self.size

    def weighted(self, loss: Tensor, n: int) -> Tensor:
        """Return a mean over this worker's part of n rows, weighted so that the sum is the mean.

        What is no mean over rows, such as a regulariser of the labels, is to be the same in all
        workers.
        """
        if self.size == 1:
            return loss
        return loss * (self.counted(n) / max(1, n))

    def total(self, value: float) -> float:
        """Return the sum of the workers' values."""
        return value

    def summed(self, matrix: Tensor) -> Tensor:
        """Return the sum of the workers' matrices, which have one shape; it may be in place."""
        return matrix

    def agreed(self, value: float) -> float:
        """Return the value of the worker that leads."""
        return value

    def joined(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of all workers, in their order."""
        return rows

    def joined_batch(self, X: csr_matrix, gradient: Tensor) -> tuple[csr_matrix, Tensor]:
        """Return the inputs of all workers, and the gradients by their outputs.

        These two are the gradient of a sparse layer in factors, which take less than its rows.
        """
        return X, gradient

    def gathered(self, own: Tensor, n: int) -> Tensor:
        """Return all n rows, of which `own` are this worker's, with their gradient."""
        del n
        return own

    def sum_rows(self, ids: np.ndarray, gradient: Tensor) -> tuple[np.ndarray, Tensor]:
        """Return the rows that any worker uses, and the sums of their gradients."""
        return ids, gradient

    def sum_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Replace the gradients of dense parameters by their sums over the workers."""


class GroupExchange(Exchange):
    """The exchange of a group of processes that torch.distributed connects.

    Every worker must make the same calls in the same order.

    Parameters
    ----------
    group : torch.distributed.ProcessGroup
        Of a backend for the CPU, such as gloo.
    """

    def __init__(self, group: Any) -> None:
        self.group, self.rank, self.size = group, group.rank(), group.size()

    def total(self, value: float) -> float:
        cell = torch.tensor([value], dtype=torch.float64)
        self._run("allreduce", [cell])
        return float(cell)

    def summed(self, matrix: Tensor) -> Tensor:
        whole = matrix.contiguous()
        self._run("allreduce", [whole])
        return whole

    def agreed(self, value: float) -> float:
        cell = torch.tensor([value], dtype=torch.float64)
        self._run("broadcast", [cell])
        return float(cell)

    def joined(self, rows: np.ndarray) -> np.ndarray:
        return np.concatenate([part for (part,) in self._all([rows])])

    def joined_batch(self, X: csr_matrix, gradient: Tensor) -> tuple[csr_matrix, Tensor]:
        sizes = np.diff(X.indptr).astype(np.int32)
        indices = X.indices.astype(np.int32, copy=False)
        parts = self._all([sizes, indices, X.data, gradient.numpy()])
        sizes, indices, values, gradients = (
            np.concatenate(each) for each in zip(*parts, strict=True)
        )
        indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        shape = (len(sizes), X.shape[1])
        return csr_matrix((values, indices, indptr), shape=shape), torch.from_numpy(gradients)

    def gathered(self, own: Tensor, n: int) -> Tensor:
        return cast(Tensor, _Gathered.apply(own, n, self))  # type: ignore[no-untyped-call]  # torch's `apply` has no types

    def sum_rows(self, ids: np.ndarray, gradient: Tensor) -> tuple[np.ndarray, Tensor]:
        parts = [part for (part,) in self._all([ids])]
        if all(np.array_equal(part, ids) for part in parts):
            return ids, self.summed(gradient)
        union = np.unique(np.concatenate(parts))
        whole = torch.zeros((len(union), *gradient.shape[1:]), dtype=gradient.dtype)
        whole[torch.from_numpy(np.searchsorted(union, ids))] = gradient
        return union, self.summed(whole)

    def sum_gradients(self, parameters: Sequence[Tensor]) -> None:
        small = []
        for parameter in parameters:
            if parameter.grad is None:
                continue
            if parameter.grad.numel() > SPARSE_CELLS and self._summed_sparsely(parameter.grad):
                continue
            small.append(parameter.grad)
        if not small:
            return
        flat = self.summed(torch.cat([gradient.reshape(-1) for gradient in small]))
        parts = torch.split(flat, [gradient.numel() for gradient in small])
        for gradient, part in zip(small, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def _summed_sparsely(self, gradient: Tensor) -> bool:
        """Sum a gradient by its non-zeros, and return whether there were few of them."""
        flat = gradient.view(-1)
        places = flat.nonzero()[:, 0]
        if self.total(float(len(places))) > SPARSE_SHARE * len(flat) * self.size:
            return False
        union, sums = self.sum_rows(places.numpy(), flat[places])
        flat[torch.from_numpy(union)] = sums
        return True

    def _all(self, arrays: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        """Return the arrays of each worker; they differ in their lengths alone."""
        arrays = [np.ascontiguousarray(array) for array in arrays]
        lengths = torch.tensor([len(array) for array in arrays])
        every = [torch.empty_like(lengths) for _ in range(self.size)]
        self._run("allgather", [every], [lengths])
        widths = np.array([array.itemsize * int(np.prod(array.shape[1:])) for array in arrays])
        counts = [each.numpy() for each in every]
        longest = max(int(widths @ count) for count in counts)
        mine = np.zeros(longest, np.uint8)  # gloo gathers parts of one length
        sent = b"".join(array.tobytes() for array in arrays)
        mine[: len(sent)] = np.frombuffer(sent, np.uint8)
        found = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
        self._run("allgather", [found], [torch.from_numpy(mine)])
        result = []
        for part, count in zip(found, counts, strict=True):
            ends = np.cumsum(widths * count)
            pieces = np.split(part.numpy()[: ends[-1]], ends[:-1])
            result.append(
                [
                    np.frombuffer(piece.tobytes(), array.dtype).reshape(-1, *array.shape[1:])
                    for piece, array in zip(pieces, arrays, strict=True)
                ]
            )
        return result

    def _run(self, operation: str, *tensors: Any) -> None:
        try:
            getattr(self.group, operation)(*tensors).wait()
        except RuntimeError as error:
            raise WorkerLostError(str(error).strip().splitlines()[0]) from None


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, n: int, exchange: GroupExchange) -> Tensor:
        ctx.n, ctx.exchange = n, exchange
        return torch.from_numpy(exchange.joined(own.detach().numpy()[: exchange.counted(n)]))

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None]:
        whole = ctx.exchange.summed(outer.clone())
        own = whole[ctx.exchange.part(ctx.n)]
        return own if ctx.exchange.counted(ctx.n) else torch.zeros_like(own), None, None


_current: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


def current() -> Exchange:
    """Return the exchange of the innermost `use`, or that of a process that is alone."""
    return _current.get() or Exchange()


@contextmanager
def use(exchange: Exchange) -> Iterator[Exchange]:
    """Train within by this exchange.

    Examples
    --------
    >>> from labelspace.nn.exchange import Exchange, current, use
    >>> with use(Exchange()) as exchange:
    ...     current() is exchange
    True
    """
    before = _current.set(exchange)
    try:
        yield exchange
    finally:
        _current.reset(before)
