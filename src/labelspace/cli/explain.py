"""`labelspace explain`: why a text gets a label."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_table, say


def explain(
    model: options.Model,
    text: Annotated[str, typer.Argument(help="The text to explain a label of.")],
    label: Annotated[
        str | None, typer.Option(help="Name of the label; the text's best one if left out.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many of each kind to show.")] = 5,
    as_json: options.AsJson = False,
) -> None:
    """Show which words push a label, which labels are like it, and which examples are near.

    A push is what the label's raw score would lose without the word; one below zero speaks against
    the label. Examples are rows of the training data, counted from 1.

    Example: labelspace explain model/ "Wireless earbuds with charging case" --label Earbuds
    """
    from labelspace.model.tagger import load

    why = load(model).explain(text, label, k)
    if as_json:
        print_json(asdict(why))
        return
    score = "not among the best 100" if why.score is None else f"score {why.score:.3f}"
    print_table(("word", "push"), why.features, f"{why.label}: {score}")
    print_table(("label like it", "cosine"), why.labels)
    if why.examples:
        rows = [(near.row, near.cosine, ", ".join(near.labels)) for near in why.examples]
        print_table(("training row", "cosine", "its labels"), rows)
        carriers = sum(why.label in near.labels for near in why.examples)
        say(f"{carriers} of the {len(why.examples)} nearest training examples have this label")
