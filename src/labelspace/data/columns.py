"""The columns of a table: texts, labels, ids, category paths and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labelspace.errors import DataError

LABELS = "labels"  # the column whose names are the labels as they are
PATH_JOINT = " > "  # between the levels of a category path in a label's name
KIND_JOINT = ": "  # a brand beside a category path is the label `brand: Nike`
FEATURES = "features"
FEATURE_INDICES, FEATURE_VALUES = "feature_indices", "feature_values"

_GROUPS = ("text", "labels", "path", "numbers")


@dataclass(frozen=True)
class Columns:
    """The columns of a table that labelspace reads; all others are ignored.

    The default columns are used where they are present. A column with another name must exist,
    unless it is listed in `optional`.

    Parameters
    ----------
    text : tuple of str, default ("text",)
        Text columns. Their values are joined by line breaks; missing values are skipped.
    labels : tuple of str, default ("labels",)
        Label columns; an example has the labels of all of them. A cell is a list of names, a list
        written as text (`["a", "b"]`) or text with separators between names. Beside a category
        path, a label of the column brand is `brand: NAME`, because a category may have the same
        name; names in the column `labels` are kept as they are.
    id : str or None, default "id"
        Column with the id of each example: text or a whole number.
    path : tuple of str, default ()
        Category path: one column with lists or text cells (`A > B > C`), or one column per level,
        root first.
    numbers : tuple of str, default ()
        Numeric columns that become dense features.
    label_separator : str or None, default None
        Splits text cells into labels. None means "|"; "" takes each cell as one label.
    path_separator : str or None, default None
        Splits text in a path column into levels. None means " > " in a single path column; ""
        splits nothing.
    delimiter : str or None, default None
        Separates the cells of a CSV row. None: detected from the header line.
    encoding : str or None, default None
        Encoding of a text file, by Python's name. None: UTF-8, or the byte order mark's.
    optional : tuple of str, default ()
        Columns named above that a table may lack; a warning names those that are absent.

    Examples
    --------
    >>> from labelspace.data import Columns, read
    >>> rows = [{"title": "Trail shoe", "body": "Light.", "brand": "Nike", "price": 89.5}]
    >>> columns = Columns(text=("title", "body"), labels=("brand",), numbers=("price",))
    >>> data = read(rows, columns=columns)
    >>> data.texts, data.label_names, data.features.tolist()
    (['Trail shoe\\nLight.'], ('Nike',), [[89.5]])
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
        for group in _GROUPS:
            names = getattr(self, group)
            names = (names,) if isinstance(names, str) else tuple(names)
            object.__setattr__(self, group, names)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults, for a model's header."""
        default = Columns()
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if name != "optional" and value != getattr(default, name)
        }

    @classmethod
    def from_json(cls, stored: Any) -> Columns:
        """Return the columns that `to_json` described; raise a DataError for anything else."""
        for name, value in stored.items() if isinstance(stored, dict) else [("", None)]:
            if name in _GROUPS:
                fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
            else:
                known = name in cls.__dataclass_fields__ and name != "optional"
                fits = known and isinstance(value, str | None)
            if not fits:
                raise DataError(f"not the columns of a table: {name}={value!r}")
        return cls(**stored)

    def wanted(self) -> set[str]:
        """Return every column that may be read, for formats that can skip the others."""
        names = {*self.text, *self.labels, *self.path, *self.numbers}
        names |= {FEATURES, FEATURE_INDICES, FEATURE_VALUES}
        return names if self.id is None else names | {self.id}

    def kind(self, column: str) -> str:
        """Return the prefix of the labels of a label column, such as `brand: `."""
        return f"{column}{KIND_JOINT}" if self.path and column != LABELS else ""

    def required(self, require_labels: bool) -> list[str]:
        """Return the columns that must exist because the user named them."""
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
