"""The results of an experiment: figures of its runs, by row of the table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labelspace.reproductions.experiment import Experiment


@dataclass
class Row:
    """The results of one trial.

    Attributes
    ----------
    key : dict
        `data` and the columns of the trial's row.
    method : str
    params : dict
        All parameters but the seed; those chosen from the grid are among them.
    chosen : dict
        The setting that was chosen from the grid.
    tried : list of (dict, float)
        Each setting of the grid with its score on held-out training examples.
    runs : list of dict
        The figures of each seed.
    paper : dict
        The paper's figures for the same row.
    """

    key: dict[str, Any]
    method: str
    params: dict[str, Any]
    chosen: dict[str, Any] = field(default_factory=dict)
    tried: list[tuple[dict[str, Any], float]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    paper: dict[str, Any] = field(default_factory=dict)

    def mean(self, figure: str) -> float:
        """Return the mean over seeds; NaN if no run has the figure."""
        values = self.values(figure)
        return float(np.mean(values)) if values else math.nan

    def error(self, figure: str) -> float:
        """Return the standard error of the mean over seeds; NaN for fewer than two."""
        values = self.values(figure)
        return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else math.nan

    def values(self, figure: str) -> list[float]:
        """Return the figure of each seed."""
        return [float(run[figure]) for run in self.runs if is_number(run.get(figure))]


@dataclass
class Results:
    """All rows of an experiment.

    Attributes
    ----------
    experiment : Experiment
    rows : list of Row
    quick : bool
        Whether this is the quick form.
    replaced : list of str
        Data sets that were not at hand, with generated data in their place.
    """

    experiment: Experiment
    rows: list[Row]
    quick: bool = False
    replaced: list[str] = field(default_factory=list)

    @property
    def key_columns(self) -> list[str]:
        """The columns that distinguish rows, in the order of their first appearance."""
        return list(dict.fromkeys(name for row in self.rows for name in row.key))

    def where(self, **key: Any) -> list[Row]:
        """Return the rows with these values in their key."""
        return [row for row in self.rows if key.items() <= row.key.items()]

    def unmatched(self) -> list[Mapping[str, Any]]:
        """Return the paper's figures that belong to no row."""
        keys = [row.key for row in self.rows]
        return [each for each in self.experiment.expected if not any(_fits(each, k) for k in keys)]


def paper_figures(expected: Sequence[Mapping[str, Any]], key: Mapping[str, Any]) -> dict[str, Any]:
    """Return the paper's figures for the row with this key."""
    for each in expected:
        if _fits(each, key):
            return {name: value for name, value in each.items() if name not in key}
    return {}


def _fits(each: Mapping[str, Any], key: Mapping[str, Any]) -> bool:
    return all(name in each and each[name] == value for name, value in key.items())


def is_number(value: Any) -> bool:
    """Return whether a figure is a number that can be averaged."""
    return isinstance(value, int | float) and not isinstance(value, bool)
