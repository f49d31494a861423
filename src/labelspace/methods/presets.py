"""Presets: named settings of all parameters of a method, such as those of its paper.

A method package declares its presets in `presets.py`, value by value, each with where it comes
from: `stated` by the paper, or `chosen` where the paper leaves it open::

    PAPER = Preset(
        "GLaS as in Guo et al. 2019.",
        dim=stated(1024, "section 4.1"),
        margin=chosen(1.0, "the paper gives no value"),
        ...
    )

and the method declares ``preset: str | None = preset(paper=PAPER)``. A preset names every
parameter of the method but `seed`. It sets them as keyword arguments would; parameters that are
given beside it have precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labelspace.methods.parameters import Parameter

UNSET = ("preset", "seed")  # what a preset does not name


@dataclass(frozen=True)
class Setting:
    """The value of one parameter in a preset.

    Attributes
    ----------
    value : Any
    source : str
        Where the paper states the value, or why it was chosen.
    stated : bool
        Whether the paper states it.
    """

    value: Any
    source: str
    stated: bool


def stated(value: Any, source: str) -> Setting:
    """Return a value that the paper states, and where."""
    return Setting(value, source, True)


def chosen(value: Any, reason: str) -> Setting:
    """Return a value that the paper leaves open, and why it was chosen."""
    return Setting(value, reason, False)


class Preset:
    """Values of all parameters of a method, each with its source.

    Parameters
    ----------
    help : str
        One sentence on what the preset is.
    settings : Setting
        By name of the parameter.

    Examples
    --------
    >>> paper = Preset("As in the paper.", dim=stated(100, "section 4"))
    >>> large = paper.but("As in the paper, large data.", dim=stated(300, "section 4"))
    >>> paper.values, large.values
    ({'dim': 100}, {'dim': 300})
    """

    def __init__(self, help: str, /, **settings: Setting) -> None:
        self.help, self.settings = help, settings

    @property
    def values(self) -> dict[str, Any]:
        """The values alone, by name of the parameter."""
        return {name: setting.value for name, setting in self.settings.items()}

    def but(self, help: str, /, **changes: Setting) -> Preset:
        """Return a preset with other values of some parameters."""
        return Preset(help, **{**self.settings, **changes})


@dataclass(frozen=True)
class PresetParameter(Parameter):
    """The parameter `preset`, whose value sets the other parameters."""

    presets: Mapping[str, Preset] = field(default_factory=dict)

    def implied(self, value: Any) -> Mapping[str, Any]:
        known = self.presets.get(value) if isinstance(value, str) else None
        return {} if known is None else known.values


def preset(**presets: Preset) -> Any:
    """Declare the parameter `preset` of a method; underscores in names become hyphens."""
    named = {name.replace("_", "-"): each for name, each in presets.items()}
    meanings = " ".join(f"{name}: {each.help}" for name, each in named.items())
    return PresetParameter(
        "choice",
        f"Named settings of all other parameters; those given beside it have precedence. "
        f"{meanings}",
        None,
        "paper",
        options=tuple(named),
        none="the defaults",
        presets=named,
    )


def presets_of(parameters: Mapping[str, Parameter]) -> Mapping[str, Preset]:
    """Return the presets that a method declares, by name."""
    found = parameters.get("preset")
    return found.presets if isinstance(found, PresetParameter) else {}


def check_complete(method: str, parameters: Mapping[str, Parameter]) -> None:
    """Raise TypeError unless each preset names each parameter, with an allowed value."""
    wanted = [name for name in parameters if name not in UNSET]
    for name, each in presets_of(parameters).items():
        for missing in (key for key in wanted if key not in each.settings):
            raise TypeError(f"preset {name} of {method} does not set {missing}")
        for unknown in (key for key in each.settings if key not in wanted):
            raise TypeError(f"preset {name} of {method} sets {unknown}, which is no parameter")
        for key, value in each.values.items():
            parameters[key].check(f"preset {name} of {method}: {key}", value)
