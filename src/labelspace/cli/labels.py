"""`labelspace labels`: find labels of a model by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_message, print_table

if TYPE_CHECKING:
    from labelspace.model.label_search import FoundLabel


def labels(
    model: options.Model,
    query: Annotated[
        str,
        typer.Argument(help="Name, part of a name, synonym or id. Default: all labels."),
    ] = "",
    top: Annotated[int, typer.Option("--top", "-k", min=1, help="Maximum number of labels.")] = 10,
    similar: Annotated[
        int, typer.Option(min=0, help="Number of similar labels to show for each.")
    ] = 3,
    language: options.Language = None,
    as_json: options.AsJson = False,
) -> None:
    """Find labels of a model by name, synonym, id, notation or URI.

    Shows the number of training examples, the path in the taxonomy and similar labels. Case,
    accents and punctuation do not matter. Exact matches come first, then names that begin with the
    query, then those that hold its words, frequent labels first; if nothing matches, labels with a
    similar name are shown.

    Example: labelspace labels model/ photograph --top 5

    Example: labelspace labels model/ Fotografie --language en --json
    """
    from labelspace.model.tagger import load

    tagger = load(model)
    found = tagger.find_labels(query, top, language=language, similar=similar)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    if not found:
        print_message(f"no label of {model} has a name like {query!r}")
        return
    columns: dict[str, Sequence[Any]] = {
        "label": [each.name for each in found],
        "id": [each.id for each in found] if tagger.label_texts is not None else [],
        "found by": [_found_by(each) for each in found],
        "notation": [each.notation for each in found],
        "examples": [each.count for each in found],
        "path": [" > ".join(each.path) for each in found],
        "similar labels": [", ".join(name for name, _ in each.similar) for each in found],
    }
    # Columns without content, such as notations of a model that has none, are left out.
    shown = {
        name: cells for name, cells in columns.items() if any(c not in ("", None) for c in cells)
    }
    print_table(list(shown), list(zip(*shown.values(), strict=True)))


def _found_by(found: FoundLabel) -> str:
    return "" if found.matched in (found.name, found.id) else found.matched
