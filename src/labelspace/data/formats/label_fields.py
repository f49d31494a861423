"""What the columns of a table of label texts, or the keys of a JSON object, hold.

A column is recognised by its name, such as `id`, `name`, `name@de`, `synonyms` or `broader`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from labelspace.errors import DataError

_KNOWN = {
    "id": ("id", "labelid", "identifier", "key", "concept", "conceptid", "subject"),
    "name": ("name", "names", "label", "preferred", "preferredname", "preflabel", "preferredlabel",
             "title", "term"),
    "alternative": ("alternative", "alternatives", "alternativename", "alternativenames", "alt",
                    "alts", "altname", "altnames", "altlabel", "altlabels", "synonym", "synonyms",
                    "hiddenlabel"),
    "description": ("description", "definition", "gloss", "scopenote", "note", "comment"),
    "notation": ("notation", "code", "classnumber"),
    "uri": ("uri", "url", "iri"),
    "broader": ("broader", "broaderid", "broaderids", "parent", "parents", "parentid"),
}  # fmt: skip
_ROLE = {name: role for role, names in _KNOWN.items() for name in names}
_IN_LANGUAGES = ("name", "alternative", "description")
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{1,8})*")
_WITH_LANGUAGE = re.compile(r"(.+?)[@_:. -]\(?([A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*)\)?")


class Field(NamedTuple):
    """The meaning of a column: a role such as "name", and a language, "" if none is given."""

    role: str
    language: str = ""


def field_of(column: str) -> Field | None:
    """Return the meaning of a column, None if its name is not known.

    Examples
    --------
    >>> field_of("prefLabel@de"), field_of("synonyms"), field_of("colour")
    (Field(role='name', language='de'), Field(role='alternative', language=''), None)
    """
    column = column.strip().removeprefix("skos:")
    role = _ROLE.get(_plain(column))
    if role is not None:
        return Field(role)
    parts = _WITH_LANGUAGE.fullmatch(column)
    role = None if parts is None else _ROLE.get(_plain(parts[1]))
    if parts is None or role not in _IN_LANGUAGES:
        return None
    return Field(role, parts[2].lower())


def fields_of(columns: Sequence[str]) -> list[Field | None]:
    """Return the meaning of all columns; where none holds ids, another one is taken for them.

    Raises
    ------
    DataError
        If two columns have the same meaning, or none can serve as ids.
    """
    found = [field_of(column) for column in columns]
    known = [field for field in found if field is not None]
    plain = {_plain(column): place for place, column in enumerate(columns)}
    if Field("id") not in known:
        # `label` beside `name` is an id; alone it is a name.
        if "label" in plain and known.count(Field("name")) > 1:
            found[plain["label"]] = Field("id")
        elif not any(field.role in ("uri", "notation", "name") for field in known):
            raise DataError(f"no column of ids or names; {EXPECTED}")
    for place, field in enumerate(found):
        if field is not None and field in found[:place]:
            first = columns[found.index(field)]
            raise DataError(f"the columns {first} and {columns[place]} mean the same: rename one")
    return found


def is_header(cells: Sequence[str]) -> bool:
    """Return whether these are the names of columns, not texts of a label.

    They are if two of them or the only one are known names of columns.
    """
    known = {field for cell in cells if (field := field_of(cell)) is not None}
    return len(known) >= min(2, len(cells)) > 0


def language_of(tag: str) -> str:
    """Return a language tag in lower case; raise ValueError if it is none."""
    language = tag.strip().lower().replace("_", "-")
    if language and not _LANGUAGE.fullmatch(language):
        raise ValueError(f"{tag!r} is not a language such as en or de-at")
    return language


EXPECTED = "expected columns such as id, name, name@de, alternative, description, broader"


def _plain(column: str) -> str:
    return re.sub(r"[\s_-]", "", column).casefold()
