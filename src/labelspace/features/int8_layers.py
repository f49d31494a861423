"""Linear layers in 8-bit integers, two to five times as fast on a processor as in 32-bit floats.

Own layers rather than torch's dynamic quantisation: that has one scale for all rows of a batch, so
that the vector of a text would depend on the texts beside it. Here each row has a scale of its own.
Sums of integers are exact, so a row has the same bits in any batch and for any number of threads.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from labelspace._core.threads import parallel_blocks
from labelspace.features.int8_loops import quantise, restore

_LARGEST = 127
_EXACT_COLUMNS = 1024  # 127 * 127 * 1024 < 2 ** 24: their sums are exact in 32-bit floats


class Int8Linear(nn.Module):
    """A linear layer whose weights have a scale per output, and whose input has one per row."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        codes, scales = quantised(layer.weight.detach())
        self.product = integer_product()
        self.codes = codes.t() if self.product is torch._int_mm else codes.t().float().contiguous()
        self.scales = scales.numpy()
        bias = torch.zeros(len(codes)) if layer.bias is None else layer.bias.detach()
        self.bias = bias.numpy()

    def forward(self, x: Tensor) -> Tensor:
        codes, scales = quantised(x.reshape(-1, x.shape[-1]))
        sums = self.product(codes, self.codes)
        return self._values(sums.numpy(), scales.numpy()).view(*x.shape[:-1], -1)

    def _values(self, sums: np.ndarray, scales: np.ndarray) -> Tensor:
        values = torch.empty(sums.shape)
        target = values.numpy()

        def block(start: int, stop: int) -> None:
            part = slice(start, stop)
            restore(sums[part], scales[part], self.scales, self.bias, target[part])

        parallel_blocks(len(sums), block)
        return values


def with_int8_layers(model: nn.Module) -> nn.Module:
    """Replace every linear layer of the model, in place, and return it."""
    for name, child in list(model.named_children()):
        if type(child) is nn.Linear:
            setattr(model, name, Int8Linear(child))
        else:
            with_int8_layers(child)
    return model


def quantised(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return whole numbers of -127 to 127 as int8, and the scale of each row."""
    codes, scales = torch.empty(rows.shape, dtype=torch.int8), torch.empty(len(rows))
    given, found, factors = rows.contiguous().numpy(), codes.numpy(), scales.numpy()

    def block(start: int, stop: int) -> None:
        part = slice(start, stop)
        quantise(given[part], given[part].view(np.int32), found[part], factors[part])

    parallel_blocks(len(given), block)
    return codes, scales


@functools.cache
def integer_product() -> Callable[[Tensor, Tensor], Tensor]:
    """Return the faster of two exact products of integers, as measured on this machine.

    torch's is fast where the processor has instructions for it (AVX-512 VNNI and later), and very
    slow or wrong by saturation on some others. Both give the same bits, so the choice is free.
    """
    native = getattr(torch, "_int_mm", None)
    one = torch.full((128, 512), _LARGEST, dtype=torch.int8)
    other = torch.full((512, 256), -_LARGEST, dtype=torch.int8)
    expected = float_product(one, other.float())
    try:
        if native is None or not torch.equal(native(one, other), expected):
            return float_product
    except (RuntimeError, NotImplementedError):
        return float_product
    floats = other.float()
    quicker = _seconds(lambda: native(one, other)) < _seconds(lambda: float_product(one, floats))
    return native if quicker else float_product


def float_product(one: Tensor, other: Tensor) -> Tensor:
    """Return the product of an int8 matrix and whole numbers of -127 to 127 in float32, exactly."""
    sums = torch.zeros(len(one), other.shape[1], dtype=torch.int32)
    for start in range(0, one.shape[1], _EXACT_COLUMNS):
        part = slice(start, start + _EXACT_COLUMNS)
        sums += (one[:, part].float() @ other[part]).to(torch.int32)
    return sums


def _seconds(work: Callable[[], Tensor]) -> float:
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best
