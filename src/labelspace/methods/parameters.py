"""Parameters of methods, each declared once.

A method declares a parameter as an annotated class attribute::

    class KNN(Method):
        neighbours: int = integer("Number of training examples that vote.", default=20, low=1)

`Method` builds the rest from these declarations: the constructor and its signature (hence
scikit-learn's `get_params` and `clone`), the checks, `--set name=value`, `labelspace methods NAME`,
the "Parameters" section of the docstring and the table in the documentation.

Two values mean the same for all parameters that allow them: `"auto"` is a value chosen from the
data (by the method's `resolve`), and `None` (`none` on the command line) means "without".
"""

from __future__ import annotations

import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from labelspace._core.suggest import unknown
from labelspace.errors import ParameterError
from labelspace.methods.search_range import SearchRange, between

Kind = Literal["integer", "number", "numbers", "flag", "choice", "layers", "text"]
Group = Literal["usual", "paper", "expert"]
Auto = Literal["auto"]
AUTO: Auto = "auto"

LARGEST = 1e30  # of a parameter: computations are in 32 bits, and some multiply it

GROUPS: Mapping[Group, str] = {
    "usual": "what users set",
    "paper": "what the paper defines, kept for its figures and for ablations",
    "expert": "what rarely pays to change",
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method: its kind, default, limits and a help sentence.

    Attributes
    ----------
    kind : {"integer", "number", "numbers", "flag", "choice", "layers", "text"}
    help : str
        One sentence on what the parameter does.
    default : Any
    group : {"usual", "paper", "expert"}
        Who sets it; see `GROUPS`.
    low, high : float or None
        Inclusive limits of a number, or of each of several.
    options : tuple of str
        Allowed values of a choice.
    auto : str or None
        How "auto" is chosen, in words; None if "auto" is not allowed.
    none : str or None
        What None means, in words; None if it is not allowed.
    tuned : bool
        Whether "auto" is chosen in training, on held-out examples or to reach a recall, and not
        from the shape of the data: `resolve` leaves it.
    search : SearchRange or None
        The values that tuning tries; None: tuning leaves the parameter as it is.
    """

    kind: Kind
    help: str
    default: Any
    group: Group = "expert"
    low: float | None = None
    high: float | None = None
    options: tuple[str, ...] = ()
    auto: str | None = None
    none: str | None = None
    tuned: bool = False
    search: SearchRange | None = None

    def describe(self) -> str:
        """Return the allowed values in words."""
        if self.kind == "choice":
            allowed = "one of " + ", ".join(self.options)
        elif self.kind == "flag":
            allowed = "true or false"
        elif self.kind == "layers":
            allowed = "widths such as 512 or 512,256"
        elif self.kind == "text":
            allowed = "a text"
        else:
            some = {"integer": "an integer", "number": "a number", "numbers": "numbers in a list"}
            allowed = some[self.kind]
            if self.low is not None and self.high is not None:
                allowed += f" from {self.low:g} to {self.high:g}"
            elif self.low is not None:
                allowed += f" of at least {self.low:g}"
            elif self.high is not None:
                allowed += f" of at most {self.high:g}"
        also = [word for word, on in (("auto", self.auto), ("none", self.none)) if on is not None]
        return " or ".join([allowed, *also])

    def sentence(self) -> str:
        """Return the help with what "auto" and "none" mean here."""
        parts = [self.help]
        if self.auto is not None:
            parts.append(f"auto: {self.auto}.")
        if self.none is not None:
            parts.append(f"none: {self.none}.")
        return " ".join(parts)

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError unless `value` is allowed; numbers of numpy count as Python's."""
        if not self._allows(plain(value)):
            raise ParameterError(f"{name}={value!r}: expected {self.describe()}")
        parts = value if isinstance(value, tuple | list) else [value]
        if any(isinstance(part, int | float) and abs(part) > LARGEST for part in parts):
            raise ParameterError(
                f"{name}={value!r}: expected a number of at most {LARGEST:g}, as training computes "
                "with 32 bits"
            )

    def implied(self, value: Any) -> Mapping[str, Any]:
        """Return the values of other parameters that this one sets: a preset has some."""
        del value
        return {}

    def parse(self, name: str, text: str) -> Any:
        """Return the checked value that a text such as `--set name=text` describes."""
        try:
            value = self._read(text.strip())
        except ValueError:
            value = text
        self.check(name, value)
        return value

    def _read(self, text: str) -> Any:
        if self.none is not None and text.lower() == "none":
            return None
        if self.auto is not None and text.lower() == AUTO:
            return AUTO
        if self.kind == "integer":
            return int(text.replace("_", ""))
        if self.kind == "number":
            return float(text)
        if self.kind == "flag":
            words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
            return words.get(text.lower(), text)
        if self.kind == "layers":
            return tuple(int(width) for width in text.split(",") if width)
        if self.kind == "numbers":
            return tuple(float(part) for part in text.split(","))
        return text

    def _allows(self, value: Any) -> bool:
        if value is None:
            return self.none is not None
        if self.auto is not None and is_auto(value):
            return True
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
        if self.kind == "numbers":
            some = isinstance(value, tuple | list) and len(value) > 0
            return some and all(self._in_range(part) for part in value)
        return (self.kind != "integer" or _is_integer(value)) and self._in_range(value)

    def _in_range(self, value: Any) -> bool:
        """Return whether it is a finite number within the limits."""
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


def plain(value: Any) -> Any:
    """Return numpy scalars, alone or in a tuple or list, as Python's, which JSON can hold."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list) and any(isinstance(item, np.generic) for item in value):
        return type(value)(plain(item) for item in value)
    return value


def is_auto(value: Any) -> bool:
    """Return whether a parameter is to be chosen from the data."""
    return isinstance(value, str) and value == AUTO


def checked_count(name: str, value: Any) -> int:
    """Return an integer of at least 1, numpy's included; raise ParameterError otherwise."""
    value = plain(value)
    if not _is_integer(value) or value < 1:
        raise ParameterError(f"{name}={value!r}: expected an integer of at least 1")
    return int(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# The functions below declare a parameter. They return Any, so that type checkers take the
# attribute's annotation for its type.


def integer(
    help: str,
    *,
    default: Any,
    group: Group = "expert",
    low: int | None = None,
    high: int | None = None,
    auto: str | None = None,
    none: str | None = None,
    tuned: bool = False,
    search: SearchRange | None = None,
) -> Any:
    """Declare an integer."""
    return Parameter("integer", help, default, group, low, high, (), auto, none, tuned, search)


def number(
    help: str,
    *,
    default: Any,
    group: Group = "expert",
    low: float | None = None,
    high: float | None = None,
    auto: str | None = None,
    none: str | None = None,
    tuned: bool = False,
    search: SearchRange | None = None,
) -> Any:
    """Declare a number."""
    return Parameter("number", help, default, group, low, high, (), auto, none, tuned, search)


def flag(help: str, *, default: Any, group: Group = "expert", auto: str | None = None) -> Any:
    """Declare a truth value."""
    return Parameter("flag", help, default, group, auto=auto)


def choice(
    help: str,
    *options: str,
    default: Any,
    group: Group = "expert",
    auto: str | None = None,
    none: str | None = None,
    tuned: bool = False,
    search: SearchRange | None = None,
) -> Any:
    """Declare a choice between names."""
    return Parameter(
        "choice",
        help,
        default,
        group,
        options=options,
        auto=auto,
        none=none,
        tuned=tuned,
        search=search,
    )


def text(
    help: str,
    *,
    default: Any,
    group: Group = "expert",
    auto: str | None = None,
    none: str | None = None,
    search: SearchRange | None = None,
) -> Any:
    """Declare a text."""
    return Parameter("text", help, default, group, auto=auto, none=none, search=search)


def numbers(
    help: str,
    *,
    default: Any,
    group: Group = "expert",
    low: float | None = None,
    high: float | None = None,
    none: str | None = None,
) -> Any:
    """Declare several numbers, one after another."""
    return Parameter("numbers", help, default, group, low, high, none=none)


def layers(
    help: str,
    *,
    default: Any,
    group: Group = "expert",
    auto: str | None = None,
    none: str | None = None,
) -> Any:
    """Declare widths of layers."""
    return Parameter("layers", help, default, group, auto=auto, none=none)


# Parameters that several methods share. A method with another default uses `having`.
BATCH_SIZE: Any = integer(
    "Examples per training step.",
    default=AUTO,
    low=1,
    auto="a power of two from 32 to 512 that makes about 160 steps per epoch",
)
EPOCHS: Any = integer(
    "Maximum number of passes over the training data.", default=8, group="usual", low=1
)
ADAM_LR: Any = number(
    "Learning rate of Adam.",
    default=0.004,
    group="usual",
    low=0.0,
    search=between(0.0005, 0.03, log=True),
)
NEIGHBOUR_RECALL: Any = number(
    "Share of the true neighbours that approximate search has to find.",
    default=0.99,
    group="usual",
    low=0.5,
    high=1.0,
)
PRUNE: Any = number(
    "Weights below this absolute value are set to zero.", default=0.1, group="usual", low=0.0
)
KEEP_EXAMPLES: Any = flag(
    "Store the training examples in the model, so that it can be updated.", default=False
)
PATIENCE: Any = integer(
    "Epochs without a better validation score after which training stops.", default=2, low=1
)
VALIDATION: Any = number(
    "Share of the training examples to hold out for early stopping and calibration.",
    default=AUTO,
    low=0.0,
    high=0.5,
    auto="0.02, raised to at most 0.1 until it makes 1,000 examples; at most 4,000 examples",
)
METRIC: Any = choice(
    "Validation metric.", "P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@5", default="nDCG@5"
)
KEEP: Any = number(
    "Share of the input features that dropout keeps.",
    default=0.8,
    group="paper",
    low=0.05,
    high=1.0,
    search=between(0.4, 1.0),
)
FEATURE_DAMPING: Any = number(
    "Scale the learning rate and the initial length of a feature's row by "
    "sqrt(examples with the feature / this), at most 1.",
    default=AUTO,
    low=0.0,
    auto="three times the mean number of examples per label, more where these are many",
    none="no damping",
)
SEED: Any = integer(
    "Seed of every random choice; the same seed and number of threads give the same model.",
    default=0,
    group="usual",
    low=0,
)


def having(parameter: Any, **changes: Any) -> Any:
    """Return a shared parameter with another default, group or limit."""
    from dataclasses import replace

    return replace(parameter, **changes)


def declared(cls: type) -> dict[str, Parameter]:
    """Return the parameters that a class and its bases declare, and make them its attributes.

    The class attribute of a parameter becomes its default.
    """
    found: dict[str, Parameter] = dict(getattr(cls, "parameters", {}))
    for name, value in list(vars(cls).items()):
        if isinstance(value, Parameter):
            for allowed in (value.default, *(value.search.ends() if value.search else ())):
                value.check(f"{cls.__name__}.{name}", allowed)
            found[name] = value
            setattr(cls, name, value.default)
    return found


def searched(parameters: Mapping[str, Parameter]) -> dict[str, SearchRange]:
    """Return the ranges of the parameters that tuning searches, by name."""
    return {name: one.search for name, one in parameters.items() if one.search is not None}


def implied(parameters: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of parameters that given ones set: those of a preset."""
    return {
        other: value
        for name in given
        if name in parameters
        for other, value in parameters[name].implied(given[name]).items()
    }


def constructor(cls: type, parameters: Mapping[str, Parameter]) -> Callable[..., None]:
    """Return an `__init__` that stores keyword-only parameters and does nothing else."""

    def __init__(self: Any, **given: Any) -> None:
        for name in given:
            if name not in parameters:
                raise TypeError(unknown(name, f"{cls.__name__} parameter", parameters))
        given = {**implied(parameters, given), **given}
        for name, parameter in parameters.items():
            setattr(self, name, given.get(name, parameter.default))

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=parameter.default,
            annotation=inspect.get_annotations(_declaring(cls, name)).get(name, Any),
        )
        for name, parameter in parameters.items()
    ]
    __init__.__signature__ = inspect.Signature([own, *given], return_annotation=None)  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    __init__.__module__ = cls.__module__
    return __init__


def _declaring(cls: type, name: str) -> type:
    """Return the class, this one or a base, whose body annotates the attribute."""
    return next(base for base in cls.__mro__ if name in vars(base).get("__annotations__", {}))


def with_parameters_section(doc: str, parameters: Mapping[str, Parameter]) -> str:
    """Return a class docstring with a numpydoc section "Parameters".

    It stands before the first section that the docstring has itself (Examples, References...).
    """
    if not parameters:
        return doc
    lines = inspect.cleandoc(doc).splitlines()
    underlined = (place - 1 for place, line in enumerate(lines) if line and set(line) == {"-"})
    place = next(underlined, len(lines))
    text = "\n".join(lines[:place]).rstrip()
    rest = "\n".join(lines[place:])
    section = ["Parameters", "----------"]
    for name, parameter in parameters.items():
        section.append(f"{name} : {parameter.describe()}, default {written(parameter.default)}")
        section.extend(textwrap.wrap(parameter.sentence(), 92, initial_indent="    ",
                                     subsequent_indent="    "))  # fmt: skip
    return "\n".join([text, "", *section, *(["", rest] if rest else []), ""])


def written(value: Any) -> str:
    """Return a value as `--set` takes it: none, true, 512,256."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value)


def unknown_parameter(name: str, method: str, known: Iterable[str]) -> ParameterError:
    """Return the error for a parameter that a method does not have."""
    return ParameterError(unknown(name, f"{method} parameter", known))
