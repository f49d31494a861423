"""`labelspace data`: inspect, convert, download and generate data."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from labelspace._core.plain import plain
from labelspace.cli import options
from labelspace.cli.output import (
    print_json,
    print_mapping,
    print_message,
    print_table,
    progress_bar,
)
from labelspace.errors import ParameterError

app = typer.Typer(
    help="Inspect, convert, download and generate data.\n\nExample: labelspace data info train.txt",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[
    Path, typer.Argument(help="Data file: JSONL, CSV, Parquet, XC text, svmlight, ...")
]


@app.command()
@options.with_columns
def info(
    columns: options.ColumnOptions,
    file: File,
    as_json: options.AsJson = False,
) -> None:
    """Show statistics and the first rows of a data file.

    Every line is checked, and rows are shown as they were read.

    Example: labelspace data info train.jsonl.gz
    """
    from labelspace.data import read
    from labelspace.data.stats import samples, statistics, suspicions

    chosen = columns.over()
    with _warnings() as warnings:
        dataset = read(file, columns=chosen)
    doubts = suspicions(dataset)
    figures, shown = statistics(dataset), samples(dataset)
    if as_json:
        print_json({**figures, "samples": shown, "warnings": warnings + doubts})
        return
    print_mapping({name.replace("_", " "): value for name, value in figures.items()}, str(file))
    for place, sample in enumerate(shown, 1):
        # In quotes, as a name may hold a comma.
        quoted = ", ".join(f'"{name}"' for name in sample["labels"]) or "none"
        print_mapping({**sample, "labels": quoted}, f"example {place}, as it was read")
    for doubt in doubts:
        print_message(f"{file}: {doubt}")


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect warnings that are logged; they are also printed."""
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("labelspace")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


@app.command()
@options.with_columns
def convert(
    columns: options.ColumnOptions,
    source: File,
    target: Annotated[
        Path, typer.Argument(help="File to write: .txt, .jsonl (also .gz) or .parquet.")
    ],
    features: Annotated[
        str,
        typer.Option(
            "--features", help="Text features to write to XC text, e.g. tfidf or hashing."
        ),
    ] = "none",
    label_names: Annotated[
        Path | None, typer.Option(help="Names of numbered labels, one per line.")
    ] = None,
) -> None:
    """Convert a data file to XC text, JSONL or Parquet.

    XC text cannot hold label names: they are written to TARGET.labels.txt. A taxonomy is written to
    TARGET.hierarchy.tsv. Both files are used when TARGET is read.

    Example: labelspace data convert train.txt.gz train.parquet --label-names labels.txt
    """
    from dataclasses import replace

    from labelspace.data import read, write
    from labelspace.data.name_files import read_names
    from labelspace.features.pipeline import pipeline_for

    names = None if label_names is None else read_names(label_names)
    dataset = read(source, columns=columns.over(), label_names=names)
    if features != "none":
        X = pipeline_for(dataset, features).fit_transform(dataset)
        dataset = replace(dataset, features=X, texts=None)
    written = write(dataset, target)
    print_message(f"{target}: {len(dataset):,} examples, {dataset.n_labels:,} labels")
    for beside in written[1:]:
        print_message(f"{beside}: {'label names' if beside.suffix == '.txt' else 'taxonomy'}")
    if dataset.ids is not None and ".txt" in target.suffixes:
        print_message("ids are not written: XC text cannot hold them")


@app.command()
def get(
    name: Annotated[
        str | None, typer.Argument(help="Name of a public data set. Default: list them.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")] = Path("data"),
    from_file: Annotated[
        Path | None, typer.Option("--from", help="Archive that was downloaded by hand.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Download a public data set, or list them.

    An interrupted download is resumed. No checksums are published for these sets: that of the first
    download is recorded beside it, and a later download must match it.

    Example: labelspace data get amazon-670k --out data/
    """
    from dataclasses import asdict

    from labelspace.data.splits import train_file
    from labelspace.datasets.catalogue import PUBLIC_SETS
    from labelspace.datasets.download import get as fetch

    if name is None:
        if as_json:
            print_json([asdict(each) for each in PUBLIC_SETS.values()])
            return
        columns = ("name", "train", "test", "features", "labels", "propensity a, b")
        rows = [
            (s.name, s.train, s.test, s.features, s.labels, f"{s.propensity_a}, {s.propensity_b}")
            for s in PUBLIC_SETS.values()
        ]
        print_table(columns, rows)
        return
    with progress_bar() as progress:
        task = progress.add_task(plain(f"downloading {name}"), total=None)
        place = fetch(
            name,
            out,
            from_file=from_file,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    if as_json:
        print_json({"name": name, "path": str(place)})
        return
    print_message(f"{name} is in {place}")
    print_message(
        f"next: labelspace compare --train {shlex.quote(str(place))} --methods knn,linear"
    )
    train = train_file(place)
    if train is not None:
        print_message(f"or:   labelspace train {shlex.quote(str(train))} --out model/")


@app.command()
def synth(
    out: Annotated[Path, typer.Argument(help="Folder (catalogue) or .txt file (sparse) to write.")],
    kind: Annotated[str, typer.Option(help="What to generate: catalogue or sparse.")] = "catalogue",
    train: Annotated[
        int, typer.Option(min=1, help="Number of training products (catalogue).")
    ] = 8000,
    test: Annotated[int, typer.Option(min=1, help="Number of test products (catalogue).")] = 2000,
    points: Annotated[int, typer.Option(min=1, help="Number of examples (sparse).")] = 10_000,
    features: Annotated[int, typer.Option(min=1, help="Number of features (sparse).")] = 10_000,
    labels: Annotated[int, typer.Option(min=1, help="Number of labels (sparse).")] = 1000,
    nnz: Annotated[int, typer.Option(min=1, help="Features per example (sparse).")] = 76,
    labels_per_point: Annotated[float, typer.Option(help="Labels per example (sparse).")] = 5.0,
    tail_exponent: Annotated[
        float, typer.Option(help="Zipf exponent of label frequencies (sparse).")
    ] = 1.0,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed: the same seed gives the same file.")
    ] = 0,
) -> None:
    """Generate a product catalogue, or sparse data.

    The catalogue has texts; sparse data have a given number of examples, features and labels.

    Example: labelspace data synth shop/ --train 8000 --test 2000

    Example: labelspace data synth big.txt --kind sparse --points 490449 --labels 670091
    """
    from labelspace.datasets.products import write_catalogue
    from labelspace.datasets.sparse import SparseShape, write_sparse

    if kind == "catalogue":
        write_catalogue(out, train=train, test=test, seed=seed)
        print_message(f"{out}: {train:,} training and {test:,} test products")
    elif kind == "sparse":
        shape = SparseShape(
            points=points,
            features=features,
            labels=labels,
            nnz=nnz,
            labels_per_point=labels_per_point,
            tail_exponent=tail_exponent,
        )
        write_sparse(shape, out, seed=seed)
        print_message(f"{out}: {points:,} points, {features:,} features, {labels:,} labels")
    else:
        raise ParameterError(f"--kind {kind}: expected catalogue or sparse")
