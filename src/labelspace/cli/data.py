"""`labelspace data`: look at data, convert, fetch and generate them."""

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
from labelspace.cli.output import print_facts, print_json, print_table, progress_bar, say
from labelspace.errors import ParameterError

app = typer.Typer(
    help="Look at data, convert, fetch and generate them.\n\n"
    "Example: labelspace data info train.txt",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[Path, typer.Argument(help="A data file of any format that labelspace reads.")]


@app.command()
@options.with_columns
def info(
    columns: options.ColumnOptions,
    file: File,
    as_json: options.AsJson = False,
) -> None:
    """Print statistics as papers do, and the first rows as they were understood.

    Every line is checked on the way.

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
    print_facts({name.replace("_", " "): value for name, value in figures.items()}, str(file))
    for place, sample in enumerate(shown, 1):
        # In quotes, as a name may hold a comma.
        quoted = ", ".join(f'"{name}"' for name in sample["labels"]) or "none"
        print_facts({**sample, "labels": quoted}, f"example {place}, as it was understood")
    for doubt in doubts:
        say(f"{file}: {doubt}")


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect what is logged as a warning; it is printed all the same."""
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
    target: Annotated[Path, typer.Argument(help="Ends in .txt, .jsonl (also .gz) or .parquet.")],
    features: Annotated[
        str, typer.Option("--features", help="Turn text into numbers (tfidf, hashing) for XC text.")
    ] = "none",
    label_names: Annotated[
        Path | None, typer.Option(help="Names of numbered labels, one per line.")
    ] = None,
) -> None:
    """Turn any format into XC text, JSONL or Parquet.

    XC text has no place for label names: they go to TARGET.labels.txt. A hierarchy goes to
    TARGET.hierarchy.tsv. Both are found there when TARGET is read.

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
    say(f"{target}: {len(dataset):,} examples, {dataset.n_labels:,} labels")
    for beside in written[1:]:
        say(f"{beside}: {'their names' if beside.suffix == '.txt' else 'their hierarchy'}")
    if dataset.ids is not None and ".txt" in target.suffixes:
        say("ids are not kept: XC text has no place for them")


@app.command()
def get(
    name: Annotated[str | None, typer.Argument(help="A public set; none lists them.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to put it in.")] = Path("data"),
    from_file: Annotated[
        Path | None, typer.Option("--from", help="An archive that you fetched by hand.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Fetch a public data set, or list them.

    A broken download goes on where it stopped. The checksum of the first download is recorded
    beside it, and a later one must match it; no checksums are published for these sets.

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
        task = progress.add_task(plain(f"fetching {name}"), total=None)
        place = fetch(
            name,
            out,
            from_file=from_file,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    if as_json:
        print_json({"name": name, "path": str(place)})
        return
    say(f"{name} is in {place}")
    say(f"next: labelspace compare --train {shlex.quote(str(place))} --methods knn,linear")
    train = train_file(place)
    if train is not None:
        say(f"or:   labelspace train {shlex.quote(str(train))} --out model/")


@app.command()
def synth(
    out: Annotated[Path, typer.Argument(help="Folder (catalogue) or .txt file (sparse).")],
    kind: Annotated[str, typer.Option(help="catalogue or sparse.")] = "catalogue",
    train: Annotated[int, typer.Option(min=1, help="Training products (catalogue).")] = 8000,
    test: Annotated[int, typer.Option(min=1, help="Test products (catalogue).")] = 2000,
    points: Annotated[int, typer.Option(min=1, help="Examples (sparse).")] = 10_000,
    features: Annotated[int, typer.Option(min=1, help="Features (sparse).")] = 10_000,
    labels: Annotated[int, typer.Option(min=1, help="Labels (sparse).")] = 1000,
    nnz: Annotated[int, typer.Option(min=1, help="Features an example has (sparse).")] = 76,
    labels_per_point: Annotated[float, typer.Option(help="Labels an example has (sparse).")] = 5.0,
    tail_exponent: Annotated[float, typer.Option(help="Of label frequencies (sparse).")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same file.")] = 0,
) -> None:
    """Generate data: a product catalogue with text, or sparse data of a given shape.

    Example: labelspace data synth shop/ --train 8000 --test 2000

    Example: labelspace data synth big.txt --kind sparse --points 490449 --labels 670091
    """
    from labelspace.datasets.products import write_catalogue
    from labelspace.datasets.sparse import SparseShape, write_sparse

    if kind == "catalogue":
        write_catalogue(out, train=train, test=test, seed=seed)
        say(f"{out}: {train:,} products to train on, {test:,} to test on")
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
        say(f"{out}: {points:,} points, {features:,} features, {labels:,} labels")
    else:
        raise ParameterError(f"--kind {kind}: expected catalogue or sparse")
