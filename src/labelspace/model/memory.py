"""Memory of training, estimated before it is used: an error instead of a killed process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from labelspace._core.machine import available_bytes, in_words
from labelspace.components.training_data import Shape
from labelspace.errors import MemoryBudgetError
from labelspace.methods.base import Method
from labelspace.methods.parameters import GROUPS, Parameter

_DATA = "the data"
_HALVINGS = 10  # of a number, to find one that fits


def needed_bytes(
    method: Method, shape: Shape, given: Mapping[str, Any] | None = None
) -> dict[str, int]:
    """Return the peak memory of training by purpose, in bytes, including the data.

    `given` are other parameters than those of the method.
    """
    params = method.resolve(method.get_params() if given is None else given, shape)
    return {_DATA: shape.data_bytes, **type(method).memory(shape, params)}


def fitting_values(method: Method, shape: Shape, free: int) -> dict[str, Any]:
    """Return values of parameters of which each by itself would make training fit.

    Numbers are halved until it fits; of a combination, members are left out from the last on.

    Parameters
    ----------
    method : Method
    shape : Shape
    free : int
        Bytes that may be used, beside the data.

    Returns
    -------
    dict of str to value
        Parameters that users usually set come first; empty if none is enough.

    Examples
    --------
    >>> from labelspace.methods.registry import method_class
    >>> shape = Shape(10**6, 10**6, 10**6, 10**8, 10**7)
    >>> fitting_values(method_class("glas")(dim=1024), shape, 20 * 10**9)["dim"]
    256
    """
    given = method.get_params()
    resolved = method.resolve(given, shape)
    groups = list(GROUPS)
    declared = sorted(method.parameters.items(), key=lambda item: groups.index(item[1].group))
    found: dict[str, Any] = {}
    for name, parameter in declared:
        if name == "seed":
            continue
        for value in _smaller(parameter, resolved[name]):
            needed = needed_bytes(method, shape, {**given, name: value})
            if sum(needed.values()) - needed[_DATA] <= free:
                found[name] = value
                break
    return found


def _smaller(parameter: Parameter, value: Any) -> Iterator[Any]:
    """Yield values that may need less memory, the nearest first."""
    if parameter.kind in ("integer", "number") and isinstance(value, int | float):
        low = 0 if parameter.low is None else parameter.low
        for _ in range(_HALVINGS):
            smaller = value // 2 if isinstance(value, int) else value / 2
            if smaller < low or smaller == value:
                return
            value = smaller
            yield value
    elif isinstance(value, tuple) and value and isinstance(value[0], Mapping):
        # The members of a combination, which are given by their names.
        names = [member["method"] for member in value]
        for left in range(len(names) - 1, 0, -1):
            yield ",".join(names[:left])


def in_settings(values: Mapping[str, Any]) -> str:
    """Return which parameters would make training fit, as the end of a sentence."""
    if not values:
        return "no single parameter makes it fit: train on fewer examples or features"
    settings = [f"--set {name}={value}" for name, value in values.items()]
    return f"it would fit with {' or '.join(settings[:3])}"


def refuse_if_too_large(method: Method, shape: Shape) -> None:
    """Raise MemoryBudgetError if training would not fit into what is available."""
    parts = needed_bytes(method, shape)
    # The data are in memory already.
    needed, free = sum(parts.values()) - parts[_DATA], available_bytes()
    if needed > free:
        largest = max(parts, key=lambda part: parts[part])
        raise MemoryBudgetError(
            f"training {method.name} needs about {in_words(needed)} more and {in_words(free)} is "
            f"available; most of it is for {largest} ({in_words(parts[largest])}): "
            f"{in_settings(fitting_values(method, shape, free))}; see `labelspace plan`"
        )
