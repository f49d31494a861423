"""`labelspace update`: train a model on more data, whose labels may be new."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelspace.cli import options
from labelspace.cli.output import ProgressBar, Stages, print_json, print_message, progress_bar
from labelspace.errors import LabelspaceError


@options.with_columns
def update(
    columns: options.ColumnOptions,
    model: options.Model,
    data: Annotated[Path, typer.Argument(help="More training data; labels may be new.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Directory for the updated model. Default: MODEL, which is replaced.",
        ),
    ] = None,
    labels: options.Labels = None,
    labels_header: options.LabelsHeader = None,
    labels_separator: options.LabelsSeparator = None,
    as_json: options.AsJson = False,
) -> None:
    """Continue training on more data (fusion, knn, dxml, glas; linear and hierarchicalxc).

    New labels are added after the known ones. Features stay as they are: words that the first
    training did not see are not used, unless the model was trained with --features hashing. Include
    examples without new labels, if there are any, as negatives for the new labels. If anything
    fails, the model is left unchanged.

    linear and hierarchicalxc need the training examples: train with --set keep_examples=true.

    --labels replaces the label texts of the labels in the file; without it, those beside the data
    are used if the model has label texts.

    Example: labelspace update model/ more.jsonl.gz --out model-2/
    """
    from labelspace._core.machine import in_words
    from labelspace.model.store import check_target, locked, size_in_bytes
    from labelspace.model.tagger import load

    target = out or model
    check_target(target)
    texts = options.label_texts(labels, labels_header, labels_separator)
    stages = Stages(quiet=as_json)
    try:
        # From reading to saving: of two updates at once, one would be lost.
        with locked(target), progress_bar() as progress:
            tagger = load(model)
            tagger.update(
                data,
                columns=columns.over(tagger.columns_for(data)),
                labels=texts,
                callbacks=[ProgressBar(progress)],
                on_stage=stages,
            )
            stages("saving")
            tagger.save(target)
    except KeyboardInterrupt:
        raise LabelspaceError(f"interrupted; {model} is unchanged") from None
    stages("")
    metadata = {
        "model": str(target),
        "method": tagger.method.name,
        "labels": len(tagger.label_names),
        "bytes": size_in_bytes(target),
        **tagger.metadata["updates"][-1],
    }
    if as_json:
        print_json(metadata)
    else:
        print_message(
            f"{target}: {metadata['points']:,} more examples; {metadata['labels']:,} labels, "
            f"{metadata['new_labels']:,} of them new; {in_words(metadata['bytes'])}"
        )
        print_message(f"next: labelspace evaluate {target} TEST, to compare with the model before")
