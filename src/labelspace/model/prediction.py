"""Predictions written to a file batch by batch, as JSON lines, CSV or Parquet."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from labelspace._core.plain import plain, plain_json
from labelspace._core.streams import replacing
from labelspace.data.columns import KIND_JOINT, PATH_JOINT
from labelspace.errors import ParameterError
from labelspace.labels.levels import Levels
from labelspace.metrics.levels import RANKED as RANKED_FOR_PATHS
from labelspace.metrics.levels import likeliest_paths
from labelspace.model.label_lookup import LabelList
from labelspace.model.selection import Selection
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.data.dataset import Dataset
    from labelspace.model.predictor import Predictor
    from labelspace.model.tags import Tag, TagMaker

FORMATS = ("jsonl", "csv", "parquet")
SEPARATOR = "|"  # between the labels of a CSV cell, unless the model's columns have another
DIGITS = 6  # of a score
_NEEDS_QUOTES = re.compile('[",\r\n]')
_COLUMNS = ("id", "labels", "scores", "names", "uris", "notations")  # the last three if known


@dataclass(frozen=True)
class Prediction:
    """The predicted labels of one example.

    Attributes
    ----------
    id : str
        As given, or the number of the row, counted from 1.
    tags : list of Tag
        The labels, best first.
    levels : dict
        The likeliest label per level and per other kind, None where there is none; empty without
        `likeliest_path`.
    """

    id: str
    tags: list[Tag]
    levels: dict[str, str | None] = field(default_factory=dict)


class Paths:
    """The likeliest path of each example, and the likeliest label of every other kind."""

    def __init__(self, tagger: Predictor, names: Sequence[str]) -> None:
        if tagger.taxonomy is None:
            raise ParameterError(
                "likeliest path: the model has no taxonomy; train it with --path-columns, or with "
                "hierarchy.tsv beside the data"
            )
        self.names = names
        self.levels = Levels.build(tagger.taxonomy, tagger.label_names)
        self.on_path = self.levels.on_path
        # A kind of labels may have the name of a column that is always written.
        self.columns = tuple(
            f"{name} label" if name in _COLUMNS else name for name in self.levels.names
        )

    def of(self, ranking: Ranking) -> list[dict[str, str | None]]:
        """Return a label name or None per level, root first, without the names of its parents."""
        chosen = likeliest_paths(ranking, self.levels)
        return [self._named(chosen.indices[start:end]) for start, end in pairwise(chosen.indptr)]

    def split(self, levels: dict[str, str | None]) -> dict[str, Any]:
        """Return the path as a list, and the labels of other kinds by kind, for JSON."""
        names = list(levels.values())
        path = [name for name in names[: self.levels.depth] if name is not None]
        kinds = self.levels.names[self.levels.depth :]
        others = dict(zip(kinds, names[self.levels.depth :], strict=True))
        return {"path": path, "kinds": others} if others else {"path": path}

    def _named(self, labels: np.ndarray) -> dict[str, str | None]:
        found: dict[str, str | None] = dict.fromkeys(self.columns)
        above = ""
        for label in sorted(labels.tolist(), key=self.levels.of.__getitem__):
            place, name = self.levels.of[label], self.names[label]
            level = self.columns[place]
            if self.on_path[label]:
                short = name.removeprefix(above + PATH_JOINT)
                above = name
            else:
                short = name.removeprefix(self.levels.names[place] + KIND_JOINT)
            # In a taxonomy with several parents per label a level may have several labels.
            found[level] = short if found[level] is None else f"{found[level]}{SEPARATOR}{short}"
        return found


@dataclass(frozen=True)
class Wanted:
    """What is to be predicted of each example, and in which form: plain values, for a worker.

    Attributes
    ----------
    k : int
        Maximum number of labels per example.
    least : float
        Labels with a lower score are left out.
    format : "jsonl", "csv" or "parquet"
    likeliest_path : bool
        Also the likeliest path in the taxonomy.
    only, exclude : list of str or None
        Labels that may be predicted, and those that may not.
    ancestors : bool
        Add the ancestors of every label.
    language : str or None
        The language of the names.
    terminal : bool
        Show control characters as escapes, because a terminal would obey them.
    """

    k: int
    least: float
    format: str
    likeliest_path: bool = False
    only: LabelList | None = None
    exclude: LabelList | None = None
    ancestors: bool = False
    language: str | None = None
    terminal: bool = False


class BatchPredictor:
    """Predicts labels for batches, and returns the bytes to write for each."""

    def __init__(self, tagger: Predictor, wanted: Wanted) -> None:
        self.tagger, self.wanted = tagger, wanted
        self.selection = Selection(tagger, wanted.only, wanted.exclude, ancestors=wanted.ancestors)
        maker = tagger.tag_maker(wanted.language)
        paths = Paths(tagger, maker.names) if wanted.likeliest_path else None
        separator = tagger.columns.label_separator or SEPARATOR
        self.form = _Form(maker, paths, separator, wanted.terminal)
        self._encoded = _ENCODERS[wanted.format]

    def predictions(self, batch: Dataset, first: int) -> Iterator[Prediction]:
        """Yield the predictions for a batch whose first example has this number."""
        k, paths = self.wanted.k, self.form.paths
        X = self.tagger.pipeline.transform(batch)
        ranked = k if paths is None else max(k, RANKED_FOR_PATHS)
        ranking = self.selection.rank(self.tagger.method, X, ranked)
        levels: Iterable[dict[str, str | None]] = ({} for _ in range(len(batch)))
        if paths is not None:
            levels = paths.of(ranking)
            ranking = Ranking(ranking.labels[:, :k], ranking.scores[:, :k])
        ids = batch.ids if batch.ids is not None else [""] * len(batch)
        tags = self.form.maker.tags(self.selection.closed(ranking), self.wanted.least)
        for row, (given, own, chosen) in enumerate(zip(ids, tags, levels, strict=True), first):
            yield Prediction(str(given or row), own, chosen)

    def part(self, batch: Dataset, first: int) -> bytes:
        """Return what `Writer.write` takes for a batch whose first example has this number."""
        return self._encoded(list(self.predictions(batch, first)), self.form)


def predict_file(
    tagger: Predictor,
    batches: Iterable[Dataset],
    out: str | Path | None,
    wanted: Wanted,
    on_batch: Callable[[int], None],
) -> int:
    """Write the predictions for all batches and return the number of examples."""
    predictor = BatchPredictor(tagger, wanted)
    done = 0
    with writer(out, predictor) as write:
        for batch in batches:
            write(predictor.part(batch, done + 1))
            done += len(batch)
            on_batch(done)
    return done


@contextmanager
def writer(
    out: str | Path | None, predictor: BatchPredictor
) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes a batch's part to a file, or to standard output.

    The file gets its name only when it is complete.
    """
    kind, form = predictor.wanted.format, predictor.form
    with _opened(out) as stream:
        if kind == "parquet":
            import pyarrow.parquet as pq

            schema = _schema(form)
            with pq.ParquetWriter(stream, schema, write_page_checksum=True) as file:
                yield lambda part: file.write_table(_table(part, schema))
            return

        def write(part: bytes) -> None:
            stream.write(part)
            stream.flush()

        if kind == "csv":
            write(_csv([list(form.columns)], form.terminal))
        yield write


def checked_format(out: str | Path | None, format: str | None) -> str:
    """Return the format to write: the given one, or by the name of the file, or JSON lines."""
    if format is not None and format not in FORMATS:
        raise ParameterError(f"format={format!r}: expected one of {', '.join(FORMATS)}")
    name = "" if out is None else Path(out).name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    found = format or {".csv": "csv", ".parquet": "parquet"}.get(suffix, "jsonl")
    if found == "parquet" and name.endswith(".gz"):
        raise ParameterError(f"{out}: Parquet is compressed inside; leave out .gz")
    return found


@contextmanager
def _opened(out: str | Path | None) -> Iterator[IO[bytes]]:
    """Open a file that gets its name only when it is complete, or standard output."""
    if out is not None:
        with replacing(out) as stream:
            yield stream
        return
    sys.stdout.flush()
    yield getattr(sys.stdout, "buffer", None) or cast(IO[bytes], _TextOnly(sys.stdout))
    sys.stdout.flush()


class _TextOnly(io.RawIOBase):
    """Binary stream on the standard output of a notebook, which takes text only."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.stream.write(bytes(content).decode("utf-8"))
        return len(content)


@dataclass(frozen=True)
class _Form:
    """What is written of a prediction."""

    maker: TagMaker
    paths: Paths | None
    separator: str
    terminal: bool

    @property
    def texts(self) -> dict[str, str]:
        """Return the columns of a table for texts of labels, and the attribute of a tag each."""
        known = {
            "names": ("name", self.maker.has_ids),
            "uris": ("uri", self.maker.uris),
            "notations": ("notation", self.maker.notations),
        }
        return {column: attribute for column, (attribute, given) in known.items() if given}

    @property
    def columns(self) -> tuple[str, ...]:
        """Return all columns of a table."""
        levels = () if self.paths is None else self.paths.columns
        return (*_COLUMNS[:3], *self.texts, *levels)


def _json_lines(predictions: list[Prediction], form: _Form) -> bytes:
    lines = []
    for prediction in predictions:
        record: dict[str, Any] = {
            "id": prediction.id,
            "labels": [form.maker.record(tag, DIGITS) for tag in prediction.tags],
        }
        if form.paths is not None:
            record |= form.paths.split(prediction.levels)
        lines.append(plain_json(json.dumps(record, ensure_ascii=False)) + "\n")
    return "".join(lines).encode()


def _csv_rows(predictions: list[Prediction], form: _Form) -> bytes:
    separator = form.separator

    def cell(names: list[str]) -> str:
        # A name that holds the separator would be read as two: such cells are JSON lists.
        if any(separator in name or name.startswith("[") for name in names):
            return json.dumps(names, ensure_ascii=False)
        return separator.join(names)

    rows = (
        [
            prediction.id,
            cell([tag.id for tag in prediction.tags]),
            separator.join(str(round(tag.score, DIGITS)) for tag in prediction.tags),
            *(
                cell([getattr(tag, attribute) for tag in prediction.tags])
                for attribute in form.texts.values()
            ),
            *(name or "" for name in prediction.levels.values()),
        ]
        for prediction in predictions
    )
    return _csv(rows, form.terminal)


def _csv(rows: Iterable[list[str]], terminal: bool) -> bytes:
    """Return lines of CSV; cells with any line break are quoted."""
    shown = ([plain(cell) if terminal else cell for cell in row] for row in rows)
    return "".join(",".join(map(_quoted, row)) + "\n" for row in shown).encode("utf-8")


def _quoted(cell: str) -> str:
    # The csv module of Python 3.11 leaves a lone carriage return unquoted: it would end the row.
    return '"' + cell.replace('"', '""') + '"' if _NEEDS_QUOTES.search(cell) else cell


def _arrow_table(predictions: list[Prediction], form: _Form) -> bytes:
    """Return the rows as an Arrow stream: one row group of the file."""
    import pyarrow as pa

    rows = [
        {
            "id": prediction.id,
            "labels": [tag.id for tag in prediction.tags],
            "scores": [tag.score for tag in prediction.tags],
            **{
                column: [getattr(tag, attribute) for tag in prediction.tags]
                for column, attribute in form.texts.items()
            },
            **prediction.levels,
        }
        for prediction in predictions
    ]
    table = pa.Table.from_pylist(rows, _schema(form))
    content = pa.BufferOutputStream()
    with pa.ipc.new_stream(content, table.schema) as stream:
        stream.write_table(table)
    return cast(bytes, content.getvalue().to_pybytes())


def _table(part: bytes, schema: Any) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(part) as stream:
        return stream.read_all().cast(schema)


_ENCODERS = {"jsonl": _json_lines, "csv": _csv_rows, "parquet": _arrow_table}


def _schema(form: _Form) -> Any:
    import pyarrow as pa

    kinds = {
        "id": pa.string(),
        "scores": pa.list_(pa.float32()),
        **dict.fromkeys(("labels", *form.texts), pa.list_(pa.string())),
    }
    return pa.schema([(name, kinds.get(name, pa.string())) for name in form.columns])
