"""The values of a parameter that tuning tries, declared with the parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SearchRange:
    """Values that `labelspace tune` draws a parameter from.

    Attributes
    ----------
    low, high : float or None
        Inclusive limits of a number; None with `values`.
    log : bool
        Whether the logarithm is drawn, for numbers whose ratio matters.
    values : tuple
        The values of a choice; empty with limits.

    Examples
    --------
    >>> between(0.001, 0.1, log=True).describe()
    '0.001 to 0.1, logarithmic'
    >>> among("squared_hinge", "logistic").describe()
    'squared_hinge, logistic'
    """

    low: float | None = None
    high: float | None = None
    log: bool = False
    values: tuple[Any, ...] = ()

    def describe(self) -> str:
        """Return the values in words."""
        if self.values:
            return ", ".join(map(str, self.values))
        return f"{self.low:g} to {self.high:g}" + (", logarithmic" if self.log else "")

    def ends(self) -> tuple[Any, ...]:
        """Return the limits, or all values of a choice."""
        return self.values or (self.low, self.high)

    def nearest(self, value: Any) -> Any:
        """Return the value of the range that is nearest to this one."""
        if self.values:
            return value if value in self.values else self.values[0]
        assert self.low is not None
        assert self.high is not None
        if not isinstance(value, int | float):  # None
            return self.low
        return min(max(value, self.low), self.high)


def between(low: float, high: float, *, log: bool = False) -> SearchRange:
    """Return a range of numbers."""
    return SearchRange(low, high, log)


def among(*values: Any) -> SearchRange:
    """Return a choice between values."""
    return SearchRange(values=values)
