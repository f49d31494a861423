"""`labelspace explain`: why a text gets a label."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_message, print_table


def explain(
    model: options.Model,
    text: Annotated[str, typer.Argument(help="The text.")],
    label: Annotated[
        str | None,
        typer.Option(help="Name of the label to explain. Default: the best label of the text."),
    ] = None,
    top: Annotated[
        int,
        typer.Option(
            "--top", "-k", min=1, help="Number of words, labels and training examples to show."
        ),
    ] = 5,
    as_json: options.AsJson = False,
) -> None:
    """Explain why a text gets a label (fusion, linear and glas).

    Shows which words contribute to the label, which labels are similar, and, for fusion and glas,
    which training examples are near.

    The contribution of a word is what the label's raw score would lose without it; a negative one
    lowers the score. Examples are shown by their ids, or rows of the training data counted from 1.

    Example: labelspace explain model/ "Wireless earbuds with charging case" --label Earbuds
    """
    from labelspace.model.tagger import load

    found = load(model).explain(text, label, top)
    if as_json:
        print_json(asdict(found))
        return
    score = "not among the best 100" if found.score is None else f"score {found.score:.3f}"
    print_table(("word", "contribution"), found.features, f"{found.label}: {score}")
    print_table(("similar label", "cosine"), found.labels)
    if found.examples:
        rows = [(near.name, near.cosine, ", ".join(near.labels)) for near in found.examples]
        print_table(("training example", "cosine", "its labels"), rows)
        having = sum(found.label in near.labels for near in found.examples)
        print_message(
            f"{having} of the {len(found.examples)} nearest training examples have this label"
        )
