"""`labelspace map`: a model's labels as an interactive page or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelspace.cli import options
from labelspace.cli.output import print_message


@options.with_columns
def map_labels(
    columns: options.ColumnOptions,
    model: options.Model,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="File to write: .html (page), .png or .svg (picture)."),
    ],
    tree: Annotated[
        bool, typer.Option("--tree", help="Write the label tree as an outline (.html) instead.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Training data, for label frequencies and a taxonomy that the model does not have."
        ),
    ] = None,
) -> None:
    """Draw a map of a model's labels (fusion, glas, dxml, hyperbolic).

    Labels are points of the Poincare disk: general ones near the centre, specific ones outside,
    similar ones side by side. Colours are groups, lines are the taxonomy, or clusters of similar
    labels without one. The page is one file that works offline: drag, zoom, search, click a label
    to list its nearest ones.

    Example: labelspace map model/ --out map.html

    Example: labelspace map model/ --tree --out tree.html
    """
    from labelspace._core.machine import in_words
    from labelspace.maps.write import check_map_file, write_map
    from labelspace.model.tagger import load

    check_map_file(out, tree=tree)
    tagger = load(model)
    dataset = None
    if data is not None:
        dataset = tagger.read(data, columns.over(tagger.columns_for(data)))
    size = write_map(tagger, out, title=model.resolve().name, tree=tree, data=dataset)
    print_message(f"{out}: {tagger.method.n_labels_:,} labels, {in_words(size)}")
