"""Which columns of a table mean what: from the cells of a row to an example, and to a Dataset.

The formats themselves are in tables.py; nothing here knows where a row came from.
"""

from __future__ import annotations

import logging
import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Dataset, Features
from labelspace.data.levels import KIND_JOINT
from labelspace.data.taxonomy import Taxonomy
from labelspace.data.vocabulary import Vocabulary, hint
from labelspace.errors import DataError

logger = logging.getLogger(__name__)

LABELS = "labels"  # the column whose names are the labels as they are
PATH_JOINT = " > "
FEATURES = "features"
FEATURE_INDICES, FEATURE_VALUES = "feature_indices", "feature_values"

_INDEX = re.compile(r"[0-9]{1,10}")
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103  # from here on a number rounds to infinity
_LARGEST_INDEX = 2**31 - 2  # the width, one more, must still fit into int32


@dataclass(frozen=True)
class Columns:
    """The columns of a table that labelspace reads; all others are ignored.

    text             joined by line breaks, missing values skipped
    labels           their union; a list of names, or one name, or names with separators between;
                     beside a path, a label of the column brand is `brand: NAME`, as a category may
                     bear the same name; the column `labels` holds names as they are
    id               text or a whole number
    path             a category path: one list column, or one column per level, the root first
    numbers          numeric columns that become the (dense) features
    label_separator  splits text cells into labels; None: "|" in CSV and TSV, no splitting
                     elsewhere; "": no splitting anywhere
    path_separator   splits a text cell of the path column into levels; None: no splitting
    delimiter        separates the cells of a CSV row; None: by the file's name
    encoding         of a text file, as Python names it; None: UTF-8
    optional         names from above that a table may lack; a warning names those it does

    The default columns are used where they are present; a column named otherwise must exist.
    """

    text: tuple[str, ...] = ("text",)
    labels: tuple[str, ...] = (LABELS,)
    id: str | None = "id"
    path: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    label_separator: str | None = None
    path_separator: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    optional: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # One name may be given as a plain string; tuple("title") would be five columns.
        for group in ("text", "labels", "path", "numbers"):
            names = getattr(self, group)
            names = (names,) if isinstance(names, str) else tuple(names)
            object.__setattr__(self, group, names)

    def to_json(self) -> dict[str, Any]:
        """What differs from the default, for a model's header."""
        default = Columns()
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if name != "optional" and value != getattr(default, name)
        }

    @classmethod
    def from_json(cls, kept: Any) -> Columns:
        """The inverse of `to_json`; a DataError for anything else."""
        groups = ("text", "labels", "path", "numbers")
        for name, value in kept.items() if isinstance(kept, dict) else [("", None)]:
            if name in groups:
                fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
            else:
                known = name in cls.__dataclass_fields__ and name != "optional"
                fits = known and isinstance(value, str | None)
            if not fits:
                raise DataError(f"not the columns of a table: {name}={value!r}")
        return cls(**kept)

    def wanted(self) -> set[str]:
        """Every column that may be read, for formats that can leave the others on disk."""
        names = {*self.text, *self.labels, *self.path, *self.numbers}
        names |= {FEATURES, FEATURE_INDICES, FEATURE_VALUES}
        return names if self.id is None else names | {self.id}

    def kind(self, column: str) -> str:
        """What stands before the names of a label column."""
        return f"{column}{KIND_JOINT}" if self.path and column != LABELS else ""

    def asked_for(self, require_labels: bool) -> list[str]:
        """The columns that must exist because the user named them."""
        return [name for name in self.named(require_labels) if name not in self.optional]

    def named(self, require_labels: bool) -> list[str]:
        """Return the columns that are not the default ones; labels only if they are required."""
        default = Columns()
        names = list(self.numbers)
        if self.text != default.text:
            names += self.text
        if self.id is not None and self.id != default.id:
            names.append(self.id)
        if require_labels:
            names += self.path
            names += self.labels if self.labels != default.labels else ()
        return names


class Example(NamedTuple):
    """A row, checked. `path` holds the prefixes of the category path, the root first."""

    id: str | None
    text: str
    labels: list[str]
    path: list[str]
    numbers: list[float]
    features: dict[int, float] | None


@dataclass
class RowParser:
    """The columns that one file has, and how its rows become examples."""

    columns: Columns
    source: Path
    cells_are_text: bool = False
    require_labels: bool = True
    n_features: int | None = None
    present: set[str] = field(default_factory=set)
    path_gaps: int = 0
    has_features: bool | None = None

    def require_columns(self) -> None:
        """Called once all columns of the file are known."""
        columns = self.columns
        for name in columns.asked_for(self.require_labels):
            if name not in self.present:
                raise self._no_column(name)
        self._warn_of_absent()
        if self.require_labels and self.present.isdisjoint((*columns.labels, *columns.path)):
            wanted = columns.labels[0] if columns.labels else "labels"
            raise self._error(f"there is no label column {wanted!r}{hint(wanted, self.present)}")

    def _warn_of_absent(self) -> None:
        """Log the optional columns that the table lacks."""
        wanted = dict.fromkeys(self.columns.named(self.require_labels))
        absent = [name for name in wanted if name not in self.present]
        if absent:
            names = ", ".join(map(repr, absent))
            logger.warning("%s: there is no column %s; read without it", self.source, names)

    def require_content(self) -> None:
        """An example needs something to learn from: text, numbers or features."""
        if self.has_features or self.columns.numbers or self.has_text:
            return
        wanted = self.columns.text[0] if self.columns.text else "text"
        raise self._error(
            f"there is neither a text column {wanted!r} nor numbers{hint(wanted, self.present)}"
        )

    @property
    def has_text(self) -> bool:
        return not self.present.isdisjoint(self.columns.text)

    def example(self, line: int, record: dict[str, Any]) -> Example:
        """Check the cells of a row and put them in their places."""
        columns = self.columns
        return Example(
            id=self._id(record, line),
            text=self._text(record, line),
            labels=[
                columns.kind(column) + name
                for column in columns.labels
                for name in self._labels(record, column, line)
            ],
            path=self._path_prefixes(record, line) if columns.path else [],
            numbers=[self._number(record.get(name), name, line) for name in columns.numbers],
            features=None if columns.numbers else self._features(record, line),
        )

    def _error(self, message: str, line: int | None = None) -> DataError:
        if line is None:
            message += f" The columns are: {', '.join(sorted(self.present)) or 'none'}."
        return DataError(message, path=self.source, line=line)

    def _no_column(self, name: str) -> DataError:
        return self._error(f"there is no column {name!r}{hint(name, self.present)}")

    def _id(self, record: dict[str, Any], line: int) -> str | None:
        column = self.columns.id
        value = None if column is None else record.get(column)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise self._error(f"{column!r} must be text or a whole number, not {_kind(value)}", line)

    def _text(self, record: dict[str, Any], line: int) -> str:
        parts = []
        for column in self.columns.text:
            value = record.get(column)
            if _is_missing(value):
                continue
            if not isinstance(value, str):
                raise self._error(f"{column!r} must be text, not {_kind(value)}", line)
            parts.append(value)
        return "\n".join(parts)

    def _labels(self, record: dict[str, Any], column: str, line: int) -> list[str]:
        value = record.get(column)
        if _is_missing(value):
            return []
        if isinstance(value, list):
            return [self._name(name, column, line) for name in value]
        separator = self.columns.label_separator
        if separator is None:
            separator = "|" if self.cells_are_text else ""
        if separator and isinstance(value, str):
            return [self._name(name.strip(), column, line) for name in value.split(separator)]
        return [self._name(value, column, line)]

    def _name(self, value: Any, column: str, line: int) -> str:
        if isinstance(value, str):
            if not value:
                raise self._error(f"a label in {column!r} is empty; leave it out", line)
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise self._error(f"{column!r} must hold names, not {_kind(value)}", line)

    def _path_prefixes(self, record: dict[str, Any], line: int) -> list[str]:
        columns = self.columns.path
        levels = [record.get(column) for column in columns]
        if len(levels) == 1 and isinstance(levels[0], list):
            levels = levels[0]
        names: list[str] = []
        for level in levels:
            if _is_missing(level):
                break
            names.append(self._name(level, columns[min(len(names), len(columns) - 1)], line))
        # Real catalogues have holes; what lies below one has no known place and is left out.
        if not all(_is_missing(level) for level in levels[len(names) :]):
            self.path_gaps += 1
        return [PATH_JOINT.join(names[:depth]) for depth in range(1, len(names) + 1)]

    def _number(self, value: Any, column: str, line: int) -> float:
        if value is None:
            if column not in self.present:
                raise self._no_column(column)
            raise self._error(f"the number in {column!r} is missing; fill it in", line)
        number = value
        if isinstance(value, str) and self.cells_are_text and "_" not in value:
            try:
                number = float(value)
            except ValueError:
                number = value
        if isinstance(number, bool) or not isinstance(number, int | float):
            shown = repr(value[:40]) if isinstance(value, str) else _kind(value)
            raise self._error(f"{column!r} must be a number, not {shown}", line)
        # abs() compares as an integer: a huge one would not convert to float at all.
        if not abs(number) < _FLOAT32_OVERFLOW:
            raise self._error(f"{column!r} must be a finite 32-bit number", line)
        return float(number)

    def _features(self, record: dict[str, Any], line: int) -> dict[int, float] | None:
        """Sparse features as written by labelspace; the first row says whether there are any."""
        pairs = self._feature_pairs(record, line)
        if self.has_features is None:
            self.has_features = pairs is not None
        if (pairs is not None) != self.has_features:
            odd = "has no features" if pairs is None else "is the first that has features"
            raise self._error(f"this row {odd}; give all rows features, or none", line)
        if pairs is None:
            return None
        width = _LARGEST_INDEX + 1 if self.n_features is None else self.n_features
        features: dict[int, float] = {}
        for index, value in pairs:
            if not 0 <= index < width:
                raise self._error(f"feature {index} is not one of 0 to {width - 1}", line)
            if index in features:
                raise self._error(f"feature {index} stands twice in this row", line)
            if value is None:
                raise self._error(f"feature {index} has no value", line)
            features[index] = self._number(value, f"feature {index}", line)
        return features

    def _feature_pairs(self, record: dict[str, Any], line: int) -> list[tuple[int, Any]] | None:
        by_index = record.get(FEATURES)
        # A field of this name is common; only a map from indices to numbers is meant here.
        if isinstance(by_index, dict) and all(_INDEX.fullmatch(key) for key in by_index):
            return [(int(key), value) for key, value in by_index.items()]
        indices, values = record.get(FEATURE_INDICES), record.get(FEATURE_VALUES)
        if indices is None and values is None:
            return None
        if not (isinstance(indices, list) and isinstance(values, list)):
            raise self._error(f"{FEATURE_INDICES!r} and {FEATURE_VALUES!r} must be lists", line)
        if len(indices) != len(values):
            raise self._error(f"{len(indices)} feature indices for {len(values)} values", line)
        if not all(type(index) is int for index in indices):
            raise self._error(f"{FEATURE_INDICES!r} must hold whole numbers", line)
        return list(zip(indices, values, strict=True))


class Gatherer:
    """Examples in, Datasets out; holds no more than what came since the last `take`."""

    def __init__(self, parser: RowParser, vocabulary: Vocabulary) -> None:
        self.parser, self.vocabulary = parser, vocabulary
        self.edges: dict[tuple[str, str], None] = {}
        self._start_anew()

    def _start_anew(self) -> None:
        self._ids: list[str | None] = []
        self._texts: list[str] = []
        self._labels, self._label_ends = array("i"), array("q", [0])
        self._indices, self._feature_ends = array("i"), array("q", [0])
        self._values = array("f")

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, line: int, record: dict[str, Any]) -> None:
        example = self.parser.example(line, record)
        self._ids.append(example.id)
        self._texts.append(example.text)
        self._labels.extend(self.vocabulary.ids((*example.labels, *example.path), line))
        self._label_ends.append(len(self._labels))
        if example.path:
            self.edges.update(dict.fromkeys(zip(example.path[1:], example.path, strict=False)))
        if example.features is not None:
            self._indices.extend(example.features)
            self._values.extend(example.features.values())
            self._feature_ends.append(len(self._indices))
        self._values.extend(example.numbers)

    def take(self) -> Dataset:
        """What was added since the last call."""
        self.parser.require_content()
        names = tuple(self.vocabulary.index)
        ones = np.ones(len(self._labels), np.float32)
        dataset = Dataset(
            labels=_csr(ones, self._labels, self._label_ends, len(names)),
            features=self._features(),
            texts=self._texts if self.parser.has_text else None,
            label_names=names,
            ids=None if self._ids.count(None) == len(self) else [i or "" for i in self._ids],
            source=str(self.parser.source),
        )
        self._start_anew()
        return dataset

    def _features(self) -> Features | None:
        values = np.array(self._values, np.float32)
        if self.parser.columns.numbers:
            return values.reshape(len(self), len(self.parser.columns.numbers))
        if not self.parser.has_features:
            return None
        width = self.parser.n_features
        if width is None:
            width = max(self._indices, default=-1) + 1
        return _csr(values, self._indices, self._feature_ends, width)

    def taxonomy(self, label_names: Sequence[str]) -> Taxonomy | None:
        """The tree that the category paths form."""
        return Taxonomy.from_names(self.edges, label_names) if self.parser.columns.path else None

    def report(self) -> None:
        """Say once, at the end, what was left out."""
        source, dropped, gaps = self.parser.source, self.vocabulary.dropped, self.parser.path_gaps
        if dropped:
            logger.warning("%s: %d unknown labels were dropped", source, dropped)
        if gaps:
            logger.warning("%s: %d category paths were cut at a missing level", source, gaps)


def _csr(values: np.ndarray, indices: array[int], ends: array[int], width: int) -> csr_matrix:
    shape = (len(ends) - 1, width)
    matrix = csr_matrix(
        (values, np.array(indices, np.int32), np.array(ends, np.int64)), shape=shape
    )
    matrix.sort_indices()
    return matrix


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a fraction", str: "text"}
    kinds |= {list: "a list", dict: "an object", type(None): "nothing"}
    return kinds.get(type(value), type(value).__name__)
