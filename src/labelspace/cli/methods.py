"""`labelspace methods`: what there is, and what each can be told."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_table


def methods(
    name: Annotated[str | None, typer.Argument(help="Show this method's parameters.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the methods, or the parameters of one.

    Example: labelspace methods knn
    """
    from labelspace.methods.registry import method_class, method_names

    if name is None:
        known = [(each, _summary(each)) for each in method_names()]
        if as_json:
            print_json([{"name": each, "summary": summary} for each, summary in known])
        else:
            print_table(("method", "what it does"), known)
        return
    parameters = _parameters(name)
    if as_json:
        print_json(parameters)
        return
    rows = [(p["name"], str(p["default"]), p["allowed"], p["help"]) for p in parameters]
    print_table(
        ("parameter", "default", "allowed", "what it does"),
        rows,
        f"{name}: {method_class(name).summary}",
    )


def _summary(name: str) -> str:
    from labelspace.errors import MissingExtraError
    from labelspace.methods.registry import method_class

    try:
        return method_class(name).summary
    except MissingExtraError as error:
        return f"({error})"


def _parameters(name: str) -> list[dict[str, Any]]:
    from labelspace.methods.registry import method_class

    cls = method_class(name)
    signature = inspect.signature(cls.__init__)
    return [
        {
            "name": parameter,
            "default": signature.parameters[parameter].default,
            "allowed": facts.describe(),
            "help": facts.help,
        }
        for parameter, facts in cls.parameters.items()
    ]
