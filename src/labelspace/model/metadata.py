"""The metadata in `model.json`, declared, and their check when a model is read.

What is declared is what the package itself reads again: texts that are printed, numbers that are
computed with. Other entries are shown as they are; that they are plain and finite, the store has
checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from labelspace._core.checks import expect
from labelspace.model.figures import FIGURES, check_figures

_LONGEST = 2000  # characters of a text
_MOST = 10_000  # entries of a list or mapping
_LARGEST = 2**53

Holds = Callable[[Any], bool]


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _LARGEST


def is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def is_flag(value: Any) -> bool:
    return type(value) is bool


def is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def is_plain(value: Any) -> bool:
    """Return whether this is a number, a short text, true, false or null."""
    return value is None or is_flag(value) or is_number(value) or is_text(value)


def or_none(holds: Holds) -> Holds:
    return lambda value: value is None or holds(value)


@dataclass(frozen=True)
class ListOf:
    """A list whose entries all hold."""

    entries: Holds

    def __call__(self, value: Any) -> bool:
        return isinstance(value, list) and len(value) <= _MOST and all(map(self.entries, value))


@dataclass(frozen=True)
class Entries:
    """A mapping with these entries, which must be there, and others that hold."""

    named: Mapping[str, Holds]
    others: Holds = is_plain

    def __call__(self, value: Any) -> bool:
        return (
            isinstance(value, dict)
            and len(value) <= _MOST
            and all(is_text(name) for name in value)
            and all(name in value and holds(value[name]) for name, holds in self.named.items())
            and all(self.others(each) for name, each in value.items() if name not in self.named)
        )


# Those that a Tagger keeps.
METADATA: Mapping[str, Holds] = {
    "data": Entries({"points": is_count, "labels": is_count}),
    "label_texts": Entries(
        {"named": is_count, "languages": ListOf(is_text), "names": is_count},
    ),
    "seconds": is_number,
    "index_base": or_none(lambda value: value in (0, 1) and is_count(value)),
    "single_path": is_flag,
    "updates": ListOf(Entries({"points": is_count, "new_labels": is_count}, is_number)),
    "text_features": or_none(Entries({})),
    "threshold": Entries({"value": is_share}),
    "learned": Entries({"journal": is_text, "sequence": is_count}),
}
# Those that are written anew with each save.
_OTHERS: Mapping[str, Holds] = {
    "labelspace": is_text,
    "created": is_text,
    "libraries": Entries({}, is_text),
}


def checked_metadata(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that a Tagger keeps; raise ModelFormatError if one is not as declared."""
    for name, holds in (*METADATA.items(), *_OTHERS.items()):
        expect(name not in header or holds(header[name]), f"{name} of model.json is not as saved")
    if FIGURES in header:
        check_figures(header[FIGURES])
    return {name: header[name] for name in (*METADATA, FIGURES) if name in header}
