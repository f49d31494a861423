"""The search space of a method: the ranges that its parameters declare, and those of members.

A parameter of a fusion's member is named "linear.C". Members are drawn first, as they decide which
further parameters there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labelspace.components.training_data import Shape
from labelspace.errors import ParameterError
from labelspace.methods.base import Method
from labelspace.methods.parameters import Parameter, searched, unknown_parameter
from labelspace.methods.registry import method_class
from labelspace.methods.search_range import SearchRange


@dataclass(frozen=True)
class SearchSpace:
    """What the parameters of a trial are drawn from.

    Attributes
    ----------
    method : type
        The method that is tuned.
    given : dict
        Parameters that are set and not searched.
    shape : Shape
        The size of the data.
    only : tuple of str
        Names of the parameters to search; empty: all that declare a range.
    """

    method: type[Method]
    given: dict[str, Any]
    shape: Shape
    only: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise ParameterError if there is nothing to search, or not what was named."""
        for name in self.only:
            self._check_named(name)
        if self._wanted({**self._own(), **self._of_members({})}):
            return
        tunable = searched(self.method.parameters)
        if not tunable:
            raise ParameterError(f"{self.method.name} has no parameters with values to search")
        raise ParameterError(
            f"all parameters of {self.method.name} with values to search are set: "
            f"{', '.join(tunable)}; leave one of them out"
        )

    def _check_named(self, name: str) -> None:
        method, dot, parameter = name.rpartition(".")
        if dot and "members" not in self.method.parameters:
            raise ParameterError(f"{name}: {self.method.name} has no members")
        cls = method_class(method) if dot else self.method
        if parameter not in cls.parameters:
            raise unknown_parameter(parameter, cls.name, cls.parameters)
        if cls.parameters[parameter].search is None:
            raise ParameterError(
                f"{name} declares no values to search; parameters of {cls.name} that do: "
                f"{', '.join(searched(cls.parameters)) or 'none'}"
            )
        if name in self.given:
            raise ParameterError(f"{name} is set to a value, so it cannot be searched")

    def defaults(self) -> dict[str, Any]:
        """Return the nearest values of the space to the method's defaults, for the sampler."""
        ranges = self._wanted({**self._own(), **self._of_members({})})
        return {name: given.nearest(self.default_of(name)) for name, given in ranges.items()}

    def default_of(self, name: str) -> Any:
        """Return the value that a parameter has on these data unless it is set."""
        resolved = self._resolved(self.method, self.given)
        method, dot, parameter = name.rpartition(".")
        if dot:
            plans = {one["method"]: one["parameters"] for one in resolved["members"]}
            return self._resolved(method_class(method), plans.get(method, {}))[parameter]
        # What a fusion resolves members to is a plan, and not a value of the parameter.
        is_choice = self.method.parameters[name].kind in ("choice", "text")
        return self.method.parameters[name].default if is_choice else resolved[name]

    def draw(self, trial: Any) -> dict[str, Any]:
        """Return the parameters that Optuna's trial chooses, in the space."""
        drawn: dict[str, Any] = {}
        for name, given in self._wanted(self._own()).items():
            drawn[name] = _suggested(trial, name, self.method.parameters[name], given)
        for name, given in self._wanted(self._of_members(drawn)).items():
            method, _, parameter = name.partition(".")
            declared = method_class(method).parameters[parameter]
            drawn[name] = _suggested(trial, name, declared, given)
        return drawn

    def parameters(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of the method: those given, and those that were drawn."""
        own = {name: value for name, value in drawn.items() if "." not in name}
        members = {name: value for name, value in drawn.items() if "." in name}
        return {**self.given, **own, **self.method.of_members(members)}

    def _own(self) -> dict[str, SearchRange]:
        ranges = self.method.search_ranges(self.shape)
        return {name: found for name, found in ranges.items() if name not in self.given}

    def _of_members(self, drawn: Mapping[str, Any]) -> dict[str, SearchRange]:
        """Return the ranges of what users set of each member, unless their settings are given."""
        if self.given.get("member_settings") is not None:
            return {}
        found = {}
        for name in self.method.searched_members({**self.given, **drawn}, self.shape):
            parameters = method_class(name).parameters
            for parameter, given in searched(parameters).items():
                full = f"{name}.{parameter}"
                if parameters[parameter].group == "usual" or full in self.only:
                    found[full] = given
        return found

    def _wanted(self, ranges: Mapping[str, SearchRange]) -> dict[str, SearchRange]:
        return {name: given for name, given in ranges.items() if not self.only or name in self.only}

    def _resolved(self, method: type[Method], params: Mapping[str, Any]) -> dict[str, Any]:
        defaults = {name: one.default for name, one in method.parameters.items()}
        return method.resolve({**defaults, **params}, self.shape)


def _suggested(trial: Any, name: str, parameter: Parameter, given: SearchRange) -> Any:
    if given.values:
        return trial.suggest_categorical(name, given.values)
    if parameter.kind == "integer":
        return trial.suggest_int(name, given.low, given.high, log=given.log)
    # Validation cannot tell more than four digits apart.
    return float(f"{trial.suggest_float(name, given.low, given.high, log=given.log):.4g}")
