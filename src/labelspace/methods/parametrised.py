"""An estimator whose parameters are declared as class attributes.

`Parametrised` makes of the declarations (`parameters.py`) what users and scikit-learn see: the
constructor, the section of the docstring, the checks, the values of parameters that are "auto", and
the form in which a saved model has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from labelspace._core.checks import expect
from labelspace.components.training_data import Shape
from labelspace.methods.parameters import (
    Parameter,
    constructor,
    declared,
    implied,
    is_auto,
    plain,
    searched,
    unknown_parameter,
    with_parameters_section,
)
from labelspace.methods.presets import check_complete
from labelspace.methods.search_range import SearchRange


class Parametrised(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of classes with declared parameters.

    Attributes
    ----------
    name : str
        Name of the class in errors.
    parameters : mapping of str to Parameter
        The declared parameters, by name.
    params_ : SimpleNamespace
        The parameters after `fit`: every "auto" is a value.
    """

    name: ClassVar[str]
    parameters: ClassVar[Mapping[str, Parameter]] = {}

    params_: SimpleNamespace

    def __init_subclass__(cls, **options: Any) -> None:
        """Build the constructor and the docstring's section on parameters."""
        super().__init_subclass__(**options)
        cls.parameters = declared(cls)
        check_complete(cls.__name__, cls.parameters)
        cls.__init__ = constructor(cls, cls.parameters)  # type: ignore[method-assign]
        cls.__doc__ = with_parameters_section(cls.__doc__ or "", cls.parameters)

    @classmethod
    def create(cls, **params: Any) -> Self:
        """Construct a method; unlike the constructor, raise ParameterError for unknown names."""
        for name in params:
            if name not in cls.parameters:
                raise unknown_parameter(name, cls.name, cls.parameters)
        return cls(**params)

    @classmethod
    def parse_parameters(cls, settings: Mapping[str, str]) -> dict[str, Any]:
        """Return parameters that were given as texts, such as {"dim": "512"}, as checked values.

        Raises
        ------
        ParameterError
            If a name is unknown or a value is not allowed.
        """
        for name in settings:
            if name not in cls.parameters:
                raise unknown_parameter(name, cls.name, cls.parameters)
        return {
            name: cls.parameters[name].parse(f"{cls.name}.{name}", text)
            for name, text in settings.items()
        }

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as scikit-learn's estimators do.

        Parameters
        ----------
        **params : Any
            A `preset` sets all parameters that it names; those given beside it have precedence.

        Returns
        -------
        self
        """
        super().set_params(**{**implied(self.parameters, params), **params})
        return self

    def check_parameters(self) -> None:
        """Raise ParameterError for the first parameter that is out of range."""
        for name, value in self.get_params(deep=False).items():
            self.parameters[name].check(f"{self.name}.{name}", value)

    @classmethod
    def resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        """Return the parameters for data of this shape, with a value for every "auto".

        `fit` calls it once, before it holds out any examples; the memory estimate and
        `labelspace plan` call it too. Numbers of numpy become Python's, layers become tuples.

        Parameters
        ----------
        params : mapping
            All parameters, as `get_params` or `resolve` returns them.
        shape : Shape
            Size of the training data.

        Returns
        -------
        dict
            A parameter that is `tuned` may still be "auto": training chooses its value.
        """
        given = {name: _normal(cls.parameters[name], value) for name, value in params.items()}
        resolved = {**given, **cls._resolve(given, shape)}
        left = [
            name
            for name, value in resolved.items()
            if is_auto(value) and not cls.parameters[name].tuned
        ]
        if left:
            raise NotImplementedError(f"{cls.name} does not resolve {', '.join(left)}")
        return resolved

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        """Return a value for each parameter that is "auto"; `methods/NAME/defaults.py` has it."""
        del params, shape
        return {}

    @classmethod
    def search_ranges(cls, shape: Shape) -> dict[str, SearchRange]:
        """Return what tuning draws each parameter from, by name, for data of this shape."""
        del shape
        return searched(cls.parameters)

    @classmethod
    def searched_members(cls, params: Mapping[str, Any], shape: Shape) -> list[str]:
        """Return the methods of the members whose parameters tuning draws too, for a fusion."""
        del params, shape
        return []

    @classmethod
    def of_members(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that give members theirs, by names such as "linear.C"."""
        del settings
        return {}

    def check_resolved(self, resolved: Mapping[str, Any]) -> None:
        """Raise ParameterError unless these values can be what `resolve` returned."""
        for name, value in resolved.items():
            if value != () or self.parameters[name].kind != "layers":
                self.parameters[name].check(f"{self.name}.{name}", value)

    def to_json(self) -> dict[str, Any]:
        """Return the parameters in a form that JSON can hold, for `with_parameters`."""
        return {
            "parameters": {name: plain(value) for name, value in self.get_params().items()},
            "resolved": {name: plain(value) for name, value in vars(self.params_).items()},
        }

    @classmethod
    def with_parameters(cls, document: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Return an object with the parameters of `to_json`, and their resolved values.

        The document is not trusted: parameters are checked as in `fit`.
        """
        made = cls.create(**{k: _as_tuple(v) for k, v in document["parameters"].items()})
        made.check_parameters()
        # A parameter that is younger than the model has its default, which is what was done then.
        younger = {
            name: _normal(parameter, parameter.default)
            for name, parameter in cls.parameters.items()
            if name not in document["parameters"] and not is_auto(parameter.default)
        }
        resolved = younger | {k: _as_tuple(v) for k, v in document["resolved"].items()}
        expect(resolved.keys() == cls.parameters.keys(), "resolved parameters are missing")
        made.check_resolved(resolved)
        return made, resolved


def _normal(parameter: Parameter, value: Any) -> Any:
    """Return a value as methods read it: Python's numbers, in tuples; no layers are ()."""
    if parameter.kind == "layers" and not isinstance(value, str):
        return tuple(plain(value or ()))
    return _as_tuple(plain(value))


def _as_tuple(value: Any) -> Any:
    """Return a list, which JSON makes of a tuple, as a tuple again."""
    return tuple(value) if isinstance(value, list) else value
