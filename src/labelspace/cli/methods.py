"""`labelspace methods`: what there is, and what each can be told."""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_table, say
from labelspace.methods import DEFAULT_METHOD


def methods(
    name: Annotated[str | None, typer.Argument(help="Show this method's parameters.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the methods, or the parameters of one.

    The list shows which extra a method needs, and whether `labelspace update`, `explain` and `map`
    work on its models.

    Example: labelspace methods knn
    """
    from labelspace.methods.registry import method_class, method_names

    if name is None:
        known = [_facts(each) for each in method_names()]
        print_json(known) if as_json else _print_list(known)
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


def _facts(name: str) -> dict[str, Any]:
    from labelspace.methods.descriptions import describe

    known = describe(name)
    return {
        "name": name,
        "default": name == DEFAULT_METHOD,
        "summary": known.summary,
        "extra": known.extra,
        "installed": known.package is None or find_spec(known.package) is not None,
        "update": known.update,
        "explain": known.explain,
        "map": known.map,
    }


def _print_list(known: list[dict[str, Any]]) -> None:
    rows = []
    for facts in known:
        works = ", ".join(name for name in ("update", "explain", "map") if facts[name])
        rows.append((facts["name"], _summary(facts), works, _needs(facts)))
    print_table(("method", "what it does", "also works", "needs"), rows)
    missing = sorted({facts["extra"] for facts in known if not facts["installed"]})
    for extra in missing:
        say(f"not installed: pip install 'labelspace[{extra}]'")


def _summary(facts: dict[str, Any]) -> str:
    return f"{facts['summary']} (default)" if facts["default"] else str(facts["summary"])


def _needs(facts: dict[str, Any]) -> str:
    return "" if facts["extra"] is None else f"labelspace[{facts['extra']}]"


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
