"""`labelspace methods`: the methods, and the parameters of each."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from labelspace._core.suggest import unknown
from labelspace.cli import options
from labelspace.cli.output import print_json, print_message, print_table
from labelspace.methods import DEFAULT_METHOD


def methods(
    name: Annotated[str | None, typer.Argument(help="Show this method's parameters.")] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show the paper's and the experts' parameters, too.")
    ] = False,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show the values of a preset, and where they are from."),
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Show the values that `labelspace tune` tries.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """List the methods, or the parameters of one.

    The list shows which extra a method needs, and whether `labelspace update`, `explain` and `map`
    work on its models. Of a method's parameters, those that users set are shown; `--all` adds those
    that its paper defines and those that rarely pay to change.

    `--search` shows what `labelspace tune` draws parameters from.

    A preset sets all parameters at once, for instance to those of the method's paper.

    Example: labelspace methods glas --preset paper
    """
    from labelspace.methods.parameters import GROUPS, written
    from labelspace.methods.registry import method_class, method_names

    if preset is not None:
        _print_preset(name, preset, as_json)
        return
    if name is None:
        known = [_properties(each) for each in method_names()]
        print_json(known) if as_json else _print_list(known)
        return
    parameters = _parameters(name)
    if search:
        parameters = [p for p in parameters if p["search"] is not None]
    if as_json:
        print_json(parameters)
        return
    if search:
        rows = [(p["name"], written(p["default"]), p["search"], p["help"]) for p in parameters]
        print_table(
            ("parameter", "default", "values to search", "what it does"),
            rows,
            f"{name}: what labelspace tune searches",
        )
        return
    title = f"{name}: {method_class(name).summary}"
    for group, meaning in GROUPS.items():
        rows = [
            (p["name"], written(p["default"]), p["allowed"], p["help"])
            for p in parameters
            if p["group"] == group
        ]
        if rows and (show_all or group == "usual"):
            heading = title if group == "usual" else f"{group}: {meaning}"
            print_table(("parameter", "default", "allowed", "what it does"), rows, heading)
    hidden = sum(p["group"] != "usual" for p in parameters)
    if hidden and not show_all:
        print_message(f"{hidden} more: labelspace methods {name} --all")


def _print_preset(method: str | None, name: str, as_json: bool) -> None:
    from labelspace.errors import ParameterError
    from labelspace.methods.parameters import written
    from labelspace.methods.presets import presets_of
    from labelspace.methods.registry import method_class

    if method is None:
        raise ParameterError(f"--preset {name}: name the method, too: methods glas --preset paper")
    known = presets_of(method_class(method).parameters)
    if name not in known:
        raise ParameterError(unknown(name, f"{method} preset", known))
    settings = known[name].settings
    if as_json:
        print_json({key: asdict(one) for key, one in settings.items()})
        return
    rows = [
        (key, written(one.value), "stated" if one.stated else "chosen", one.source)
        for key, one in settings.items()
    ]
    print_table(
        ("parameter", "value", "by the paper", "where, or why"),
        rows,
        f"{method}, preset {name}: {known[name].help}",
    )


def _properties(name: str) -> dict[str, Any]:
    from labelspace.methods.descriptions import describe, is_installed

    known = describe(name)
    return {
        "name": name,
        "default": name == DEFAULT_METHOD,
        "summary": known.summary,
        "extra": known.extra,
        "installed": is_installed(known),
        "update": known.update,
        "explain": known.explain,
        "map": known.map,
    }


def _print_list(known: list[dict[str, Any]]) -> None:
    rows = []
    for metadata in known:
        works = ", ".join(name for name in ("update", "explain", "map") if metadata[name])
        rows.append((metadata["name"], _summary(metadata), works, _needs(metadata)))
    print_table(("method", "what it does", "also works", "needs"), rows)
    missing = sorted({metadata["extra"] for metadata in known if not metadata["installed"]})
    for extra in missing:
        print_message(f"not installed: pip install 'labelspace[{extra}]'")


def _summary(metadata: dict[str, Any]) -> str:
    return f"{metadata['summary']} (default)" if metadata["default"] else str(metadata["summary"])


def _needs(metadata: dict[str, Any]) -> str:
    return "" if metadata["extra"] is None else f"labelspace[{metadata['extra']}]"


def _parameters(name: str) -> list[dict[str, Any]]:
    from labelspace.methods.registry import method_class

    return [
        {
            "name": parameter,
            "group": declared.group,
            "default": declared.default,
            "allowed": declared.describe(),
            "help": declared.sentence(),
            "search": None if declared.search is None else declared.search.describe(),
        }
        for parameter, declared in method_class(name).parameters.items()
    ]
