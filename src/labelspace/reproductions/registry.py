"""The experiments by name; the module of each is imported when it is first used."""

from __future__ import annotations

from importlib import import_module

from labelspace._core.suggest import unknown
from labelspace.errors import ParameterError
from labelspace.reproductions.experiment import Experiment

# Modules of this package that define EXPERIMENTS, which need no import of torch.
MODULES: tuple[str, ...] = (
    "hyperbolic",
    "glas",
    "dxml",
    "neuralxc",
    "hierarchicalxc",
    "treespace",
    "seq2seq",
)


def experiments() -> dict[str, Experiment]:
    """Return all experiments by name."""
    found: dict[str, Experiment] = {}
    for module in MODULES:
        for each in import_module(f"labelspace.reproductions.{module}").EXPERIMENTS:
            found[each.name] = each
    return found


def find(name: str) -> Experiment:
    """Return the experiment of this name.

    Raises
    ------
    ParameterError
        If there is none; the message suggests the most similar name.
    """
    known = experiments()
    if name not in known:
        raise ParameterError(unknown(name, "experiment", known))
    return known[name]
