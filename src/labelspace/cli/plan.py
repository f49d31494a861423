"""`labelspace plan`: what training would need, before it is begun."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_table, say
from labelspace.methods import DEFAULT_METHOD


@options.with_columns
def plan(
    columns: options.ColumnOptions,
    data: Annotated[Path, typer.Argument(help="Training data.")],
    method: Annotated[str, typer.Option(help="See `labelspace methods`.")] = DEFAULT_METHOD,
    set_: options.Settings = None,
    features: options.Features = None,
    as_json: options.AsJson = False,
) -> None:
    """Estimate the memory that `train` would take at its peak, by purpose.

    Example: labelspace plan train.txt --method glas
    """
    from labelspace._core.machine import available_bytes, in_words
    from labelspace.methods.registry import method_class
    from labelspace.model.training import needed_memory

    params = method_class(method).parse_parameters(options.settings(set_))
    parts = needed_memory(data, method=method, features=features, columns=columns.over(), **params)
    total, free = sum(parts.values()), available_bytes()
    if as_json:
        print_json({"bytes": parts, "total": total, "available": free, "fits": total <= free})
        return
    rows = [(purpose, in_words(size)) for purpose, size in parts.items()]
    print_table(("for", "bytes"), [*rows, ("in all", in_words(total))], f"{method} on {data}")
    say(f"{in_words(free)} is available: {'it fits' if total <= free else 'it does NOT fit'}")
