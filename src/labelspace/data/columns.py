"""Which columns of a table mean what: from the cells of a row to an example, and to a Dataset.

The formats themselves are in tables.py; nothing here knows where a row came from.
"""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from labelspace.data import cells
from labelspace.data.levels import KIND_JOINT
from labelspace.data.vocabulary import hint
from labelspace.errors import DataError

logger = logging.getLogger(__name__)

LABELS = "labels"  # the column whose names are the labels as they are
PATH_JOINT = " > "
FEATURES = "features"
FEATURE_INDICES, FEATURE_VALUES = "feature_indices", "feature_values"

_LABEL_SEPARATOR = "|"
_LABEL_MARKS = (",", ";", "/", "\n", PATH_JOINT)  # what may separate labels that were read as one
_PATH_MARKS = (">", "/", "|", ";", "\\", "::")
_INDEX = re.compile(r"[0-9]{1,10}")
_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103  # from here on a number rounds to infinity
_LARGEST_INDEX = 2**31 - 2  # the width, one more, must still fit into int32


@dataclass(frozen=True)
class Columns:
    """The columns of a table that labelspace reads; all others are ignored.

    text             joined by line breaks, missing values skipped
    labels           their union; a list of names, also one written as text (`["a", "b"]`), or
                     names with separators between; beside a path, a label of the column brand
                     is `brand: NAME`, as a category may bear the same name; the column `labels`
                     holds names as they are
    id               text or a whole number
    path             a category path: one column with lists or text cells (`A > B > C`), or one
                     column per level, the root first
    numbers          numeric columns that become the (dense) features
    label_separator  splits text cells into labels; None: "|"; "": a cell is one label
    path_separator   splits text in a path column into levels; None: " > " in a single path
                     column; "": no splitting
    delimiter        separates the cells of a CSV row; None: by the header line
    encoding         of a text file, as Python names it; None: UTF-8, or by its byte order mark
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
    whole: bool = False  # all rows are kept in memory
    present: set[str] = field(default_factory=set)
    path_gaps: int = 0
    empty_names: int = 0
    has_features: bool | None = None
    empty_features: bool = False
    lone_names: dict[str, cells.LoneNames] = field(default_factory=dict)

    def require_columns(self) -> None:
        """Called once all columns of the file are known."""
        columns = self.columns
        self.require_asked_for()
        self._warn_of_absent()
        if self.require_labels and self.present.isdisjoint((*columns.labels, *columns.path)):
            wanted = columns.labels[0] if columns.labels else "labels"
            near = hint(wanted, self.present)
            raise self._error(
                f"there is no label column {wanted!r}{near} Name yours with --label-columns."
            )

    def require_asked_for(self) -> None:
        """Called when a column that is named must have been seen."""
        for name in self.columns.asked_for(self.require_labels):
            if name not in self.present:
                raise self._no_column(name)

    def _warn_of_absent(self) -> None:
        """Log the optional columns that the table lacks."""
        wanted = dict.fromkeys(self.columns.named(self.require_labels))
        absent = [name for name in wanted if name not in self.present]
        if absent:
            names = ", ".join(map(repr, absent))
            logger.warning("%s: there is no column %s; read without it", self.source, names)

    def require_content(self) -> None:
        """An example needs something to learn from: text, numbers or features."""
        if self.has_features is None and self.empty_features:
            # {} in every row so far: features without a value, or a field of another meaning.
            self.has_features = self.n_features is not None or not self.has_text
        if self.has_features or self.columns.numbers or self.has_text:
            return
        wanted = self.columns.text[0] if self.columns.text else "text"
        near = hint(wanted, self.present)
        raise self._error(
            f"there is neither a text column {wanted!r} nor numbers{near} "
            "Name yours with --text-columns."
        )

    def separator_advice(self, column: str, mark: str) -> str:
        """Tell how to read the cells of a column that may hold several names each."""
        if column in self.columns.path:
            return f"if it separates levels, add --path-separator {mark!r}"
        if mark == PATH_JOINT:
            return f"if they are category paths, read them with --path-columns {column}"
        return f"if it separates labels, add --label-separator {mark!r}"

    @property
    def has_text(self) -> bool:
        return not self.present.isdisjoint(self.columns.text)

    def example(self, line: int, record: dict[str, Any]) -> Example:
        """Check the cells of a row and put them in their places."""
        columns = self.columns
        labels: list[str] = []
        path: list[str] = []
        try:
            for column in columns.labels:
                kind = columns.kind(column)
                labels += [kind + name for name in self._labels(record, column, line)]
            path = self._path_prefixes(record, line) if columns.path else []
        except DataError:
            if self.require_labels:
                raise
        return Example(
            id=self._id(record, line),
            text=self._text(record, line),
            labels=labels,
            path=path,
            numbers=[self._number(record.get(name), name, line) for name in columns.numbers],
            features=None if columns.numbers else self._features(record, line),
        )

    def _error(self, message: str, line: int | None = None) -> DataError:
        if line is None:
            message += f" The columns are: {cells.enumerated(sorted(self.present)) or 'none'}."
        return DataError(message, path=self.source, line=line)

    def _no_column(self, name: str) -> DataError:
        return self._error(f"there is no column {name!r}{hint(name, self.present)}")

    def _id(self, record: dict[str, Any], line: int) -> str | None:
        column = self.columns.id
        value = None if column is None else record.get(column)
        if _is_missing(value):
            return None
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, float) and value.is_integer():  # whole numbers beside missing ones
            return str(int(value))
        raise self._error(f"{column!r} must be text or a whole number, not {_kind(value)}", line)

    def _text(self, record: dict[str, Any], line: int) -> str:
        parts = []
        for column in self.columns.text:
            value = record.get(column)
            if _is_missing(value):
                continue
            if not isinstance(value, str):
                raise self._error(
                    f"{column!r} must be text, not {_kind(value)}: put it in quotes", line
                )
            parts.append(value)
        return "\n".join(parts)

    def _labels(self, record: dict[str, Any], column: str, line: int) -> list[str]:
        value = record.get(column)
        if _is_missing(value):
            return []
        if isinstance(value, list):
            return [self._name(name, column, line) for name in value]
        if not isinstance(value, str):
            return [self._name(value, column, line)]
        separator = self.columns.label_separator
        if separator == "":
            return [value]
        names = cells.listed(value) if separator is None else None
        if names is None:
            names, empty = cells.parts(value, separator or _LABEL_SEPARATOR)
        else:
            names, empty = [name for name in names if name], names.count("")
        self.empty_names += empty
        if separator is None and self.require_labels:
            self._watch(column, _LABEL_MARKS).see(value, len(names))
        return names

    def _watch(self, column: str, marks: tuple[str, ...]) -> cells.LoneNames:
        if column not in self.lone_names:
            self.lone_names[column] = cells.LoneNames(marks)
        return self.lone_names[column]

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
        levels: list[Any] = [record.get(column) for column in columns]
        if len(levels) == 1:
            levels = self._levels(levels[0])
        names: list[str] = []
        for level in levels:
            if _is_missing(level):
                break
            column = columns[min(len(names), len(columns) - 1)]
            name = self._name(level, column, line)
            if PATH_JOINT in name:
                # ["A > B"] and ["A", "B"] would be one label.
                message = f"the level {cells.shown(name)} in {column!r} holds {PATH_JOINT!r}"
                raise self._error(
                    f"{message}, which joins levels; rename it, or split it with --path-separator",
                    line,
                )
            names.append(name)
        # Real catalogues have holes; what lies below one has no known place and is left out.
        if not all(_is_missing(level) for level in levels[len(names) :]):
            self.path_gaps += 1
        return [PATH_JOINT.join(names[:depth]) for depth in range(1, len(names) + 1)]

    def _levels(self, value: Any) -> list[Any]:
        """Split the one cell that holds a whole path."""
        separator = self.columns.path_separator
        if isinstance(value, str):
            listed = cells.listed(value) if separator is None else None
            if listed is None:
                levels = self._split_path(value, PATH_JOINT if separator is None else separator)
                if separator is None and self.require_labels:
                    self._watch(self.columns.path[0], _PATH_MARKS).see(value, len(levels))
                return levels
            value = listed
        if not isinstance(value, list):
            return [value]
        if not separator:
            return value
        return [
            part
            for level in value
            for part in (self._split_path(level, separator) if isinstance(level, str) else [level])
        ]

    def _split_path(self, text: str, separator: str) -> list[str]:
        if not separator:
            return [text]
        levels, empty = cells.parts(text, separator)
        self.empty_names += empty if levels else 0
        return levels

    def _number(self, value: Any, column: str, line: int) -> float:
        if _is_missing(value):
            return math.nan
        number = value
        if isinstance(value, str) and self.cells_are_text and "_" not in value:
            try:
                number = float(value)
            except ValueError:
                number = value
        elif isinstance(value, Decimal):
            number = float(value)
        if isinstance(number, bool) or not isinstance(number, int | float) or number != number:
            shown = cells.shown(value) if isinstance(value, str) else _kind(value)
            raise self._error(
                f"{column!r} must be a number, not {shown}; leave the cell empty if it is missing",
                line,
            )
        # abs() compares as an integer: a huge one would not convert to float at all.
        if not abs(number) < _FLOAT32_OVERFLOW:
            raise self._error(f"{column!r} must be a finite 32-bit number", line)
        return float(number)

    def _features(self, record: dict[str, Any], line: int) -> dict[int, float] | None:
        """Sparse features as written by labelspace; the first row with any settles it for all."""
        pairs = self._feature_pairs(record, line)
        if not pairs and self.has_features is None and record.get(FEATURES) == {}:
            self.empty_features = True
            return None
        if self.has_features is None:
            self.has_features = pairs is not None
        if (pairs is not None) != self.has_features and record.get(FEATURES) != {}:
            odd = "has no features" if pairs is None else "is the first that has features"
            raise self._error(f"this row {odd}; give all rows features, or none", line)
        if pairs is None or not self.has_features:
            return None
        width = _LARGEST_INDEX + 1 if self.n_features is None else self.n_features
        features: dict[int, float] = {}
        for index, value in pairs:
            if not 0 <= index < width:
                raise self._error(f"feature {index} is not one of 0 to {width - 1}", line)
            if index in features:
                raise self._error(f"feature {index} stands twice in this row", line)
            if _is_missing(value):
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


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a fraction", str: "text"}
    kinds |= {list: "a list", dict: "an object", type(None): "nothing"}
    return kinds.get(type(value), type(value).__name__)
