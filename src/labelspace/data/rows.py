"""Cells of a table's row to a checked example: ids, texts, labels, category paths and features.

The formats are in `labelspace.data.formats`; nothing here depends on which one a row came from.
"""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from labelspace.data import cells
from labelspace.data.columns import (
    FEATURE_INDICES,
    FEATURE_VALUES,
    FEATURES,
    PATH_JOINT,
    Columns,
)
from labelspace.data.vocabulary import hint
from labelspace.errors import DataError

logger = logging.getLogger(__name__)

INDEX = re.compile(r"[0-9]{1,10}")  # a key of the `features` object
FLOAT32_OVERFLOW = 2.0**128 - 2.0**103  # from here on a number rounds to infinity
LARGEST_INDEX = 2**31 - 2  # the width, one more, must still fit into int32

_FEATURE_COLUMNS = frozenset((FEATURES, FEATURE_INDICES, FEATURE_VALUES))
_LABEL_SEPARATOR = "|"
_LABEL_MARKS = (",", ";", "/", "\n", PATH_JOINT)  # may separate labels that were read as one
_PATH_MARKS = (">", "/", "|", ";", "\\", "::")


class Example(NamedTuple):
    """A checked row. `path` holds the prefixes of the category path, root first."""

    id: str | None
    text: str
    labels: list[str]
    path: list[str]
    numbers: list[float]
    features: dict[int, float] | None


@dataclass
class RowParser:
    """Checks the rows of one table and converts them to examples.

    Attributes
    ----------
    columns, source, require_labels, n_features
        What the caller of `read` chose.
    cells_are_text : bool
        Numbers are written as text, as in CSV.
    whole : bool
        All rows are kept in memory.
    present : set of str
        The columns that the table has, as far as it has been read.
    path_gaps, empty_names : int
        Number of category paths cut at a missing level, and of empty names left out.
    has_features : bool or None
        Whether rows have sparse features; None before the first row.
    empty_features : bool
        A row held `{}`, which may be features without a value or a field of another meaning.
    lone_names : dict
        Per column, the cells that were read as one name each.
    """

    columns: Columns
    source: Path
    cells_are_text: bool = False
    require_labels: bool = True
    n_features: int | None = None
    whole: bool = False
    present: set[str] = field(default_factory=set)
    path_gaps: int = 0
    empty_names: int = 0
    has_features: bool | None = None
    empty_features: bool = False
    lone_names: dict[str, cells.LoneNames] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._kinds = [(column, self.columns.kind(column)) for column in self.columns.labels]

    def fork(self) -> RowParser:
        """Return a parser in the same state, which can be dropped if a batch is not understood."""
        watched = {
            column: replace(watch, cells=None if watch.cells is None else set(watch.cells))
            for column, watch in self.lone_names.items()
        }
        return replace(self, lone_names=watched)

    def require_columns(self) -> None:
        """Raise if a required column is absent; to be called once all columns are known."""
        columns = self.columns
        self.require_named()
        self._warn_of_absent()
        if self.require_labels and self.present.isdisjoint((*columns.labels, *columns.path)):
            wanted = columns.labels[0] if columns.labels else "labels"
            near = hint(wanted, self.present)
            raise self._error(
                f"there is no label column {wanted!r}{near} Name yours with --label-columns."
            )

    def require_named(self) -> None:
        """Raise if a column that the user named has not been seen."""
        for name in self.columns.required(self.require_labels):
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
        """Raise unless the examples have text, numbers or features."""
        if self.has_features is None and self.empty_features:
            # {} in every row so far: features without a value, or a field of another meaning.
            self.has_features = self.n_features is not None or not self.has_text
        if self.has_features or self.columns.numbers or self.has_text:
            return
        wanted = self.columns.text[0] if self.columns.text else "text"
        near = hint(wanted, self.present)
        raise self._error(
            f"there is neither a text column {wanted!r} nor numbers{near} Name yours "
            "with --text-columns."
        )

    def separator_advice(self, column: str, mark: str) -> str:
        """Return advice on cells of a column that may hold several names each."""
        if column in self.columns.path:
            return f"if it separates levels, add --path-separator {mark!r}"
        if mark == PATH_JOINT:
            return f"if they are category paths, read them with --path-columns {column}"
        return f"if it separates labels, add --label-separator {mark!r}"

    @property
    def has_text(self) -> bool:
        """Return whether the table has one of the text columns."""
        return not self.present.isdisjoint(self.columns.text)

    def example(self, line: int, record: dict[str, Any]) -> Example:
        """Check the cells of a row and return them as an example."""
        columns = self.columns
        labels: list[str] = []
        path: list[str] = []
        try:
            for column, kind in self._kinds:
                names = self.label_cell(record.get(column), column, line)
                labels += [kind + name for name in names] if kind else names
            if columns.path:
                path = self.path_prefixes([record.get(column) for column in columns.path], line)
        except DataError:
            if self.require_labels:
                raise
        return Example(
            id=None if columns.id is None else self.id_cell(record.get(columns.id), line),
            text=self.text(record, line),
            labels=labels,
            path=path,
            numbers=[self.number(record.get(name), name, line) for name in columns.numbers],
            features=None if columns.numbers else self._features(record, line),
        )

    def _error(self, message: str, line: int | None = None) -> DataError:
        if line is None:
            message += f" The columns are: {cells.enumerated(sorted(self.present)) or 'none'}."
        return DataError(message, path=self.source, line=line)

    def _no_column(self, name: str) -> DataError:
        return self._error(f"there is no column {name!r}{hint(name, self.present)}")

    def id_cell(self, value: Any, line: int) -> str | None:
        """Return the id in a cell as text, None if it is missing."""
        if is_missing(value):
            return None
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, float) and value.is_integer():  # whole numbers beside missing ones
            return str(int(value))
        message = f"{self.columns.id!r} must be text or a whole number, not {_kind(value)}"
        raise self._error(message, line)

    def text(self, record: dict[str, Any], line: int) -> str:
        """Return the values of the text columns as one text."""
        parts = []
        for column in self.columns.text:
            value = record.get(column)
            if is_missing(value):
                continue
            if not isinstance(value, str):
                raise self._error(
                    f"{column!r} must be text, not {_kind(value)}: put it in quotes", line
                )
            parts.append(value)
        return "\n".join(parts)

    def label_cell(self, value: Any, column: str, line: int) -> list[str]:
        """Return the label names in a cell, without the prefix of its column."""
        if is_missing(value):
            return []
        if isinstance(value, list):
            return [self.name(name, column, line) for name in value]
        if not isinstance(value, str):
            return [self.name(value, column, line)]
        separator = self.columns.label_separator
        if separator == "":
            return [value]
        names = cells.listed(value) if separator is None and "]" in value else None
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

    def name(self, value: Any, column: str, line: int) -> str:
        """Return a name in a list as text."""
        if isinstance(value, str):
            if not value:
                raise self._error(f"a label in {column!r} is empty; leave it out", line)
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise self._error(f"{column!r} must hold names, not {_kind(value)}", line)

    def path_prefixes(self, levels: list[Any], line: int) -> list[str]:
        """Return the labels of a category path, given the cells of its columns."""
        columns = self.columns.path
        if len(levels) == 1:
            levels = self._levels(levels[0])
        names: list[str] = []
        for level in levels:
            if is_missing(level):
                break
            column = columns[min(len(names), len(columns) - 1)]
            name = self.name(level, column, line)
            if PATH_JOINT in name:
                # ["A > B"] and ["A", "B"] would be one label.
                message = f"the level {cells.shown(name)} in {column!r} holds {PATH_JOINT!r}"
                raise self._error(
                    f"{message}, which joins levels; rename it, or split it with --path-separator",
                    line,
                )
            names.append(name)
        # Levels below a missing one have no known parent and are left out.
        if not all(is_missing(level) for level in levels[len(names) :]):
            self.path_gaps += 1
        return [PATH_JOINT.join(names[:depth]) for depth in range(1, len(names) + 1)]

    def _levels(self, value: Any) -> list[Any]:
        """Split a cell that holds a whole path into its levels."""
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

    def number(self, value: Any, column: str, line: int) -> float:
        """Return the number in a cell, NaN if it is missing."""
        if is_missing(value):
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
        if not abs(number) < FLOAT32_OVERFLOW:
            raise self._error(f"{column!r} must be a finite 32-bit number", line)
        return float(number)

    def _features(self, record: dict[str, Any], line: int) -> dict[int, float] | None:
        """Return the sparse features of a row; the first row decides whether all rows have them."""
        if self.has_features is False and _FEATURE_COLUMNS.isdisjoint(record):
            return None
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
        width = LARGEST_INDEX + 1 if self.n_features is None else self.n_features
        features: dict[int, float] = {}
        for index, value in pairs:
            if not 0 <= index < width:
                raise self._error(f"feature {index} is not one of 0 to {width - 1}", line)
            if index in features:
                raise self._error(f"feature {index} occurs twice in this row", line)
            if is_missing(value):
                raise self._error(f"feature {index} has no value", line)
            features[index] = self.number(value, f"feature {index}", line)
        return features

    def _feature_pairs(self, record: dict[str, Any], line: int) -> list[tuple[int, Any]] | None:
        by_index = record.get(FEATURES)
        # Fields of this name are common; only a map from indices to numbers counts as features.
        if isinstance(by_index, dict) and all(INDEX.fullmatch(key) for key in by_index):
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


def is_missing(value: Any) -> bool:
    """Return whether a cell holds no value: None, the empty text or NaN."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a fraction", str: "text"}
    kinds |= {list: "a list", dict: "an object", type(None): "nothing"}
    return kinds.get(type(value), type(value).__name__)
