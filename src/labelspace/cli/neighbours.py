"""`labelspace neighbours`: the training examples that are nearest to a text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_message, print_table


def neighbours(
    model: options.Model,
    text: Annotated[str, typer.Argument(help="The text.")],
    top: Annotated[
        int, typer.Option("--top", "-k", min=1, help="Number of training examples to show.")
    ] = 5,
    as_json: options.AsJson = False,
) -> None:
    """Show the training examples nearest to a text (fusion, knn and dxml).

    Examples are compared by their features, or in the space of a dxml member. Shown are the id, or
    the row of the training data counted from 1, the cosine similarity and the labels. Rows of
    updates follow those of training.

    Example: labelspace neighbours model/ "Wireless earbuds with charging case" --top 10
    """
    from labelspace.model.tagger import load

    found = load(model).neighbours(text, top)
    if as_json:
        print_json([asdict(near) for near in found])
        return
    if not found:
        print_message("no training example has a word of this text")
        return
    rows = [(near.name, near.cosine, ", ".join(near.labels)) for near in found]
    print_table(("training example", "cosine", "its labels"), rows)
