"""Predictions written to a file batch by batch, as JSON lines, CSV or Parquet."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from labelspace._core.plain import plain_json
from labelspace._core.streams import replacing
from labelspace.data.columns import KIND_JOINT, PATH_JOINT
from labelspace.errors import ParameterError
from labelspace.labels.levels import Levels
from labelspace.metrics.levels import RANKED as RANKED_FOR_PATHS
from labelspace.metrics.levels import likeliest_paths
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.data.dataset import Dataset
    from labelspace.model.selection import Selection
    from labelspace.model.tagger import Tagger
    from labelspace.model.tags import Tag, TagMaker

FORMATS = ("jsonl", "csv", "parquet")
SEPARATOR = "|"  # between the labels of a CSV cell, unless the model's columns have another
DIGITS = 6  # of a score
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

    def __init__(self, tagger: Tagger, names: Sequence[str]) -> None:
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


def predict_file(
    tagger: Tagger,
    batches: Iterable[Dataset],
    out: str | Path | None,
    *,
    k: int,
    least: float,
    format: str | None,
    likeliest_path: bool,
    selection: Selection,
    language: str | None,
    on_batch: Callable[[int], None],
) -> int:
    """Write the predictions for all batches and return the number of examples."""
    maker = tagger.tag_maker(language)
    form = _Form(
        maker,
        Paths(tagger, maker.names) if likeliest_path else None,
        tagger.columns.label_separator or SEPARATOR,
    )
    kind = checked_format(out, format)
    done = 0

    def predictions(batch: Dataset) -> Iterator[Prediction]:
        X = tagger.pipeline.transform(batch)
        ranked = k if form.paths is None else max(k, RANKED_FOR_PATHS)
        ranking = selection.rank(tagger.method, X, ranked)
        levels: Iterable[dict[str, str | None]] = ({} for _ in range(len(batch)))
        if form.paths is not None:
            levels = form.paths.of(ranking)
            ranking = Ranking(ranking.labels[:, :k], ranking.scores[:, :k])
        ids = batch.ids if batch.ids is not None else [""] * len(batch)
        tags = maker.tags(selection.closed(ranking), least)
        for row, (given, own, chosen) in enumerate(zip(ids, tags, levels, strict=True), done + 1):
            yield Prediction(str(given or row), own, chosen)

    with _opened(out) as stream, _writer(kind, stream, form) as writer:
        for batch in batches:
            writer.write(list(predictions(batch)))
            done += len(batch)
            on_batch(done)
    return done


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


class _Writer(Protocol):
    def write(self, predictions: list[Prediction]) -> None: ...


@dataclass(frozen=True)
class _Form:
    """What is written of a prediction."""

    maker: TagMaker
    paths: Paths | None
    separator: str

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


@contextmanager
def _writer(kind: str, stream: IO[bytes], form: _Form) -> Iterator[_Writer]:
    if kind == "jsonl":
        yield _JsonLines(stream, form)
    elif kind == "csv":
        yield _Csv(stream, form)
    else:
        import pyarrow.parquet as pq

        schema = _schema(form)
        with pq.ParquetWriter(stream, schema, write_page_checksum=True) as file:
            yield _Parquet(file, schema, form)


class _JsonLines:
    def __init__(self, stream: IO[bytes], form: _Form) -> None:
        self.stream, self.form = stream, form

    def write(self, predictions: list[Prediction]) -> None:
        for prediction in predictions:
            record: dict[str, Any] = {
                "id": prediction.id,
                "labels": [self.form.maker.record(tag, DIGITS) for tag in prediction.tags],
            }
            if self.form.paths is not None:
                record |= self.form.paths.split(prediction.levels)
            line = plain_json(json.dumps(record, ensure_ascii=False))
            self.stream.write(f"{line}\n".encode())
        self.stream.flush()


class _Csv:
    def __init__(self, stream: IO[bytes], form: _Form) -> None:
        self.stream, self.separator, self.form = stream, form.separator, form
        self._write([list(form.columns)])

    def write(self, predictions: list[Prediction]) -> None:
        self._write(
            [
                prediction.id,
                self._cell([tag.id for tag in prediction.tags]),
                self.separator.join(str(round(tag.score, DIGITS)) for tag in prediction.tags),
                *(
                    self._cell([getattr(tag, attribute) for tag in prediction.tags])
                    for attribute in self.form.texts.values()
                ),
                *(name or "" for name in prediction.levels.values()),
            ]
            for prediction in predictions
        )

    def _cell(self, names: list[str]) -> str:
        # A name that holds the separator would be read as two: such cells are JSON lists.
        if any(self.separator in name or name.startswith("[") for name in names):
            return json.dumps(names, ensure_ascii=False)
        return self.separator.join(names)

    def _write(self, rows: Iterable[list[str]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        self.stream.write(text.getvalue().encode("utf-8"))
        self.stream.flush()


class _Parquet:
    def __init__(self, file: Any, schema: Any, form: _Form) -> None:
        self.file, self.schema, self.form = file, schema, form

    def write(self, predictions: list[Prediction]) -> None:
        import pyarrow as pa

        rows = [
            {
                "id": prediction.id,
                "labels": [tag.id for tag in prediction.tags],
                "scores": [tag.score for tag in prediction.tags],
                **{
                    column: [getattr(tag, attribute) for tag in prediction.tags]
                    for column, attribute in self.form.texts.items()
                },
                **prediction.levels,
            }
            for prediction in predictions
        ]
        self.file.write_table(pa.Table.from_pylist(rows, self.schema))


def _schema(form: _Form) -> Any:
    import pyarrow as pa

    kinds = {
        "id": pa.string(),
        "scores": pa.list_(pa.float32()),
        **dict.fromkeys(("labels", *form.texts), pa.list_(pa.string())),
    }
    return pa.schema([(name, kinds.get(name, pa.string())) for name in form.columns])
