"""Memory of training, estimated before it is used: an error instead of a killed process."""

from __future__ import annotations

from labelspace._core.machine import available_bytes, in_words
from labelspace.components.training_data import Shape
from labelspace.errors import MemoryBudgetError
from labelspace.methods.base import Method


def needed_bytes(method: Method, shape: Shape) -> dict[str, int]:
    """Return the peak memory of training by purpose, in bytes, including the data."""
    params = method.resolve(method.get_params(), shape)
    return {"the data": shape.data_bytes, **type(method).memory(shape, params)}


def refuse_if_too_large(method: Method, shape: Shape) -> None:
    """Raise MemoryBudgetError if training would not fit into what is available."""
    parts = needed_bytes(method, shape)
    # The data are in memory already.
    needed, free = sum(parts.values()) - parts["the data"], available_bytes()
    if needed > free:
        largest = max(parts, key=lambda part: parts[part])
        raise MemoryBudgetError(
            f"training {method.name} needs about {in_words(needed)} more and {in_words(free)} is "
            f"available; most of it is for {largest} ({in_words(parts[largest])}): "
            "see `labelspace plan` for what to lower"
        )
