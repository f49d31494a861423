"""`labelspace plan`: what training would need, before it is begun."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_message, print_table
from labelspace.methods import DEFAULT_METHOD


@options.with_columns
def plan(
    columns: options.ColumnOptions,
    data: Annotated[Path, typer.Argument(help="Training data.")],
    method: Annotated[str, typer.Option(help="See `labelspace methods`.")] = DEFAULT_METHOD,
    set_: options.Settings = None,
    features: options.Features = None,
    labels: options.Labels = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what `train` would do: the parameters it would use, and the memory at its peak.

    Parameters that are "auto" are shown with the value that `train` would choose for these data.

    Example: labelspace plan train.txt --method glas
    """
    from labelspace._core.machine import available_bytes, in_words
    from labelspace.methods.registry import method_class
    from labelspace.model.training import plan_training

    given = method_class(method).parse_parameters(options.settings(set_))
    planned = plan_training(
        data,
        method=method,
        features=features,
        labels=options.label_texts(labels, None, None),
        columns=columns.over(),
        **given,
    )
    parts, total, free = planned.memory, sum(planned.memory.values()), available_bytes()
    if as_json:
        print_json(
            {
                "parameters": planned.parameters,
                "bytes": parts,
                "total": total,
                "available": free,
                "fits": total <= free,
            }
        )
        return
    chosen = [row for item in planned.chosen.items() for row in _rows(*item)]
    if chosen:
        print_table(("parameter", "value for these data"), chosen, f"{method} on {data}")
    rows = [(purpose, in_words(size)) for purpose, size in parts.items()]
    print_table(("for", "bytes"), [*rows, ("in all", in_words(total))], f"{method} on {data}")
    print_message(
        f"{in_words(free)} is available: {'it fits' if total <= free else 'it does NOT fit'}"
    )


def _rows(name: str, value: Any) -> list[tuple[str, str]]:
    """Return the table rows of a resolved value; each member of a fusion has one."""
    from labelspace.methods.parameters import is_auto, written

    if is_auto(value):
        return [(name, "chosen in training")]
    if isinstance(value, tuple) and value and isinstance(value[0], dict):
        rows = []
        for place, member in enumerate(value):
            given = (f"{key}={written(own)}" for key, own in member["parameters"].items())
            rows.append(("" if place else name, f"{member['method']}({', '.join(given)})"))
        return rows
    return [(name, written(value))]
