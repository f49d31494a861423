"""Parameters as data: what a method may be given, in words that checks, help and `--set` share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from labelspace._core.suggest import did_you_mean
from labelspace.errors import ParameterError

Kind = Literal["integer", "number", "flag", "choice", "layers", "text"]


@dataclass(frozen=True)
class Parameter:
    """One parameter: its kind, its limits and a sentence on what it does."""

    kind: Kind
    help: str
    low: float | None = None
    high: float | None = None
    options: tuple[str, ...] = ()
    none: bool = False

    def describe(self) -> str:
        """What is allowed, in words."""
        if self.kind == "choice":
            allowed = "one of " + ", ".join(self.options)
        elif self.kind == "flag":
            allowed = "true or false"
        elif self.kind == "layers":
            allowed = "widths such as 512 or 512,256"
        elif self.kind == "text":
            allowed = "a text"
        else:
            allowed = "an integer" if self.kind == "integer" else "a number"
            if self.low is not None and self.high is not None:
                allowed += f" from {self.low:g} to {self.high:g}"
            elif self.low is not None:
                allowed += f" of at least {self.low:g}"
            elif self.high is not None:
                allowed += f" of at most {self.high:g}"
        return allowed + (" or none" if self.none else "")

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError unless `value` is allowed; numpy's numbers count as Python's."""
        if not self._allows(plain(value)):
            raise ParameterError(f"{name}={value!r}: expected {self.describe()}")

    def parse(self, name: str, text: str) -> Any:
        """The value that a text such as `--set name=text` stands for."""
        try:
            value = self._read(text.strip())
        except ValueError:
            value = text
        self.check(name, value)
        return value

    def _read(self, text: str) -> Any:
        if self.none and text.lower() == "none":
            return None
        if self.kind == "integer":
            return int(text.replace("_", ""))
        if self.kind == "number":
            return float(text)
        if self.kind == "flag":
            words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
            return words.get(text.lower(), text)
        if self.kind == "layers":
            return tuple(int(width) for width in text.split(",") if width)
        return text

    def _allows(self, value: Any) -> bool:
        if value is None:
            return self.none
        if self.kind == "flag":
            return isinstance(value, bool)
        if self.kind == "choice":
            return isinstance(value, str) and value in self.options
        if self.kind == "text":
            return isinstance(value, str)
        if self.kind == "layers":
            return isinstance(value, tuple | list) and all(
                _is_integer(width) and width > 0 for width in value
            )
        if self.kind == "integer" and not _is_integer(value):
            return False
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


def plain(value: Any) -> Any:
    """Numpy's scalars, alone or in a tuple or list, as Python's: JSON takes no others."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list) and any(isinstance(item, np.generic) for item in value):
        return type(value)(plain(item) for item in value)
    return value


def checked_count(name: str, value: Any) -> int:
    """An integer of at least 1, numpy's included; ParameterError for anything else."""
    value = plain(value)
    if not _is_integer(value) or value < 1:
        raise ParameterError(f"{name}={value!r}: expected an integer of at least 1")
    return int(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def integer(
    help: str, *, low: int | None = None, high: int | None = None, none: bool = False
) -> Parameter:
    return Parameter("integer", help, low=low, high=high, none=none)


def number(
    help: str, *, low: float | None = None, high: float | None = None, none: bool = False
) -> Parameter:
    return Parameter("number", help, low=low, high=high, none=none)


def flag(help: str) -> Parameter:
    return Parameter("flag", help)


def choice(help: str, *options: str, none: bool = False) -> Parameter:
    return Parameter("choice", help, options=options, none=none)


def text(help: str) -> Parameter:
    return Parameter("text", help)


def layers(help: str, *, none: bool = False) -> Parameter:
    return Parameter("layers", help, none=none)


# What several methods have in common.
BATCH_SIZE = integer(
    "examples a step; none: 32 to 512, for some 160 steps an epoch", low=1, none=True
)
PATIENCE = integer("epochs without a better validation score before it stops", low=1)
VALIDATION = number(
    "share cut off for early stopping; none: 0.02, up to 0.1 of few examples",
    low=0.0,
    high=0.5,
    none=True,
)
METRIC = choice("validation score", "P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@5")
KEEP = number("share of the input features that dropout keeps", low=0.05, high=1.0)
RARE = number(
    "features in fewer examples are damped; 0: no damping, none: chosen from the data",
    low=0.0,
    none=True,
)
SEED = integer("seeds every random choice; the same seed gives the same model", low=0)


def unknown(name: str, what: str, known: Iterable[str]) -> str:
    """A sentence for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    end = did_you_mean(name, names) or f"; there are: {', '.join(names)}"
    return f"no {what} {name!r}{end}"
