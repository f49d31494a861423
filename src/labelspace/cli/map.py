"""`labelspace map`: a model's labels as a picture to look at or a page to move about in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labelspace.cli import options
from labelspace.cli.output import say
from labelspace.errors import ParameterError

if TYPE_CHECKING:
    from labelspace.data.dataset import Dataset
    from labelspace.model.tagger import Tagger


@options.with_columns
def map_labels(
    columns: options.ColumnOptions,
    model: options.Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="A page, .html, or a picture, .png.")],
    tree: Annotated[
        bool, typer.Option("--tree", help="The label tree as an outline, .html, instead.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Training data, for frequencies and a taxonomy the model lacks."),
    ] = None,
) -> None:
    """Draw the labels in the Poincare disk, for models that put labels into a space.

    Near labels stand near each other; colour is frequency; lines are the taxonomy. The page is one
    file that works offline: drag, zoom, search, click a label to see its nearest.

    Example: labelspace map model/ --out map.html

    Example: labelspace map model/ --tree --out tree.html
    """
    from labelspace._core.machine import in_words
    from labelspace._core.streams import replacing
    from labelspace.model.tagger import load

    endings = (".html",) if tree else (".html", ".png")
    if out.suffix not in endings:
        raise ParameterError(f"--out {out}: expected a name that ends in {' or '.join(endings)}")
    tagger = load(model)
    dataset = None
    if data is not None:
        dataset = tagger.read(data, columns.over(tagger.columns_for(data)))
    content = _content(tagger, model.resolve().name, dataset, "tree" if tree else out.suffix)
    with replacing(out) as file:
        file.write(content)
    say(f"{out}: {len(tagger.label_names):,} labels, {in_words(len(content))}")


def _content(tagger: Tagger, title: str, data: Dataset | None, kind: str) -> bytes:
    """The file to write; what it needs is imported for this kind alone."""
    if kind == "tree":
        from labelspace.data.taxonomy import joined
        from labelspace.maps.outline import tree_page

        given = None if data is None else joined([data.taxonomy], tagger.label_names)
        return tree_page(tagger, title, given).encode()
    from labelspace.maps.label_map import label_map

    if kind == ".png":
        from labelspace.maps.picture import picture

        return picture(label_map(tagger, title, data))
    from labelspace.maps.page import map_page

    return map_page(label_map(tagger, title, data)).encode()
