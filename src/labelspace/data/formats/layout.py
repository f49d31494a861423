"""The layouts of sparse text rows, and the error messages for rows that do not follow them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_COLUMNS = 2**31 - 1  # column numbers are int32

TOKEN = re.compile(rb"[^ \t\r\n]+")
_DECIMAL = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?(nan|inf|infinity)", re.IGNORECASE)


@dataclass(frozen=True)
class Layout:
    """The layout of rows. `comments` also means that lines without a row are skipped."""

    has_labels: bool
    comments: bool = False
    first_feature: int = 0
    last_feature: int = MAX_COLUMNS - 1
    last_label: int = MAX_COLUMNS - 1
    positive_values: bool = False


class Flaw(Exception):
    """An error at an offset of a block."""

    def __init__(self, offset: int, message: str) -> None:
        self.offset, self.message = offset, message
        super().__init__(message)


def bad_label(block: bytes, offset: int, layout: Layout) -> Flaw:
    """Return the error for the label at this offset."""
    text = _word(block, offset, layout).split(",")[0]
    if text.isdecimal():
        message = _out_of_range("label", text, 0, layout.last_label)
    elif re.fullmatch("-[0-9]+", text):
        message = f"negative label {text}: labels are counted from 0"
    else:
        message = f"expected a label number, found {quoted(text)}; rows are `l1,l2 f:v f:v`"
    return Flaw(offset, message)


def bad_feature(block: bytes, offset: int, layout: Layout) -> Flaw:
    """Return the error for the feature at this offset."""
    word = _word(block, offset, layout)
    text, colon, _ = word.partition(":")
    if colon and text.isdecimal():
        message = _out_of_range("feature", text, layout.first_feature, layout.last_feature)
    elif colon and re.fullmatch("-[0-9]+", text):
        message = f"negative feature {text}: features are counted from {layout.first_feature}"
    elif colon and text == "qid":
        message = "qid: query numbers belong to ranking, not to labelling; remove that column"
    elif layout.has_labels and _begins_line(block, offset):
        message = (
            f"expected feature:value, found {quoted(word)}; "
            "a row that begins with a blank has no labels"
        )
    else:
        message = f"expected feature:value, found {quoted(word)}"
    return Flaw(offset, message)


def bad_value(block: bytes, offset: int, layout: Layout) -> Flaw:
    """Return the error for the value at this offset."""
    word = _word(block, offset, layout)
    if _NOT_FINITE.fullmatch(word):
        message = f"{word} is not a value: expected a finite number; leave the feature out"
    elif _DECIMAL.fullmatch(word):
        message = f"{quoted(word)} is too large: expected a number within float32 (3.4e38)"
    else:
        message = f"expected a number after the colon, found {quoted(word)}"
    return Flaw(offset, message)


def repeated_label(block: bytes, row_start: int, layout: Layout) -> Flaw:
    """Return where a row names a label for the second time."""
    field = _word(block, row_start, layout)
    seen: set[int] = set()
    offset = row_start
    for text in field.split(","):
        if int(text) in seen:
            return Flaw(offset, f"label {int(text)} twice in a row; remove one")
        seen.add(int(text))
        offset += len(text) + 1
    raise AssertionError("no label is repeated in this row")


def repeated_feature(block: bytes, row_start: int, layout: Layout) -> Flaw:
    """Return where a row names a feature for the second time."""
    seen: set[int] = set()
    for offset, word in _features(block, row_start, layout):
        feature = int(word.split(":")[0])
        if feature in seen:
            return Flaw(offset, f"feature {feature} twice in a row; remove one or add them up")
        seen.add(feature)
    raise AssertionError("no feature is repeated in this row")


def not_positive(block: bytes, row_start: int, number: int, layout: Layout) -> Flaw:
    """Return the error for an entry of a label matrix whose value is not positive."""
    offset, word = list(_features(block, row_start, layout))[number]
    label, _, value = word.partition(":")
    message = f"label {label} has value {value}, expected 1; leave out labels that do not apply"
    return Flaw(offset + len(label) + 1, message)


def _features(block: bytes, row_start: int, layout: Layout) -> Iterator[tuple[int, str]]:
    """Yield the feature:value words of a row that the scanner accepted, with their offsets."""
    line_end = block.index(b"\n", row_start)
    if layout.comments:
        comment = block.find(b"#", row_start, line_end)
        line_end = line_end if comment < 0 else comment
    for match in TOKEN.finditer(block, row_start, line_end):
        if b":" in match.group():
            yield match.start(), match.group().decode()


def _word(block: bytes, offset: int, layout: Layout) -> str:
    match = TOKEN.match(block, offset)
    word = match.group().decode() if match else ""
    return word.split("#")[0] if layout.comments else word


def _begins_line(block: bytes, offset: int) -> bool:
    line_start = block.rfind(b"\n", 0, offset) + 1
    return offset > line_start and not block[line_start:offset].strip()


def _out_of_range(what: str, number: str, first: int, last: int) -> str:
    if last < first:
        return f"{what} {number[:40]} is out of range: there are to be no {what}s"
    return f"{what} {number[:40]} is out of range: expected {first} to {last}"


def quoted(text: str | bytes) -> str:
    """Return text from a file as an error message shows it."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="replace")
    return repr(text if len(text) <= 40 else text[:40] + "...")
