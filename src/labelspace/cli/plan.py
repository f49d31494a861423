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
    time: Annotated[
        bool, typer.Option(help="Estimate the seconds of training, by fits to 1,000 examples.")
    ] = True,
    as_json: options.AsJson = False,
) -> None:
    """Show what `train` would do: its parameters, the memory at its peak, and how long it takes.

    Parameters that are "auto" are shown with the value that `train` would choose for these data. If
    the training does not fit into memory, the exit code is 1, and parameters that would make it fit
    are named.

    Example: labelspace plan train.txt --method glas
    """
    from labelspace._core.machine import available_bytes, in_words
    from labelspace.methods.registry import method_class
    from labelspace.model.memory import in_settings
    from labelspace.model.plan import plan_training

    given = method_class(method).parse_parameters(options.settings(set_))
    planned = plan_training(
        data,
        method=method,
        features=features,
        labels=options.label_texts(labels, None, None),
        columns=columns.over(),
        measure=time,
        **given,
    )
    parts, total, free = planned.memory, sum(planned.memory.values()), available_bytes()
    seconds = {phase: round(taken, 2) for phase, taken in planned.seconds.items()}
    if as_json:
        print_json(
            {
                "parameters": planned.parameters,
                "bytes": parts,
                "total": total,
                "available": free,
                "fits": planned.fits,
                "fitting": planned.fitting,
                "seconds": seconds,
            }
        )
        raise typer.Exit(int(not planned.fits))
    chosen = [row for item in planned.chosen.items() for row in _rows(*item)]
    if chosen:
        print_table(("parameter", "value for these data"), chosen, f"{method} on {data}")
    rows = [(purpose, in_words(size)) for purpose, size in parts.items()]
    print_table(("for", "bytes"), [*rows, ("in all", in_words(total))], f"{method} on {data}")
    if planned.fits:
        phases = [(phase, f"{taken:.1f}") for phase, taken in seconds.items()]
        print_table(("phase", "seconds"), phases, f"{method} on {data}")
        print_message(f"{in_words(free)} is available: it fits")
        return
    print_message(f"{in_words(free)} is available: it does NOT fit; {in_settings(planned.fitting)}")
    raise typer.Exit(1)


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
