"""Compiled loops that parse rows of `labels index:value ...` into arrays.

No kernel raises: it returns an error code and an offset, and its caller raises the error. Text
passed to a kernel ends with a newline, so that no loop has to check for the end of the array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np

from labelspace._core.compiled import loop

FINE, BAD_LABEL, BAD_FEATURE, BAD_VALUE = 0, 1, 2, 3

NEWLINE, BLANK, TAB, RETURN = 10, 32, 9, 13
COLON, COMMA, HASH, POINT, MINUS, PLUS, ZERO, LETTER_E = 58, 44, 35, 46, 45, 43, 48, 101

POWERS = np.array([float(f"1e{n}") for n in range(81)])  # correctly rounded, unlike `**`
EXACT_POWER = 22  # 10**22 is the last power of ten that a double holds exactly
EXACT_INTEGER = 1 << 53
MANTISSA_ROOM = 10**17  # below it one more digit fits into an int64
SLACK = 2.0**-50  # more than three roundings of a double can be wrong by
MAX_DIGITS = 18  # of an index: as many as always fit into an int64

UNSURE, SURE, WRONG = 0, 1, 2


def _table(*members: int) -> np.ndarray:
    table = np.zeros(256, dtype=np.bool_)
    table[list(members)] = True
    return table


IS_BLANK = _table(BLANK, TAB, RETURN)
ENDS_TOKEN = _table(BLANK, TAB, RETURN, NEWLINE)
BEGINS_NO_ROW = _table(NEWLINE, RETURN, HASH)  # of a format with comments

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def kernel(function: Kernel) -> Kernel:
    """Compile a function once, keep the machine code on disk, run it without the GIL."""
    return cast(Kernel, loop(function))


@kernel
def count_marks(text: np.ndarray) -> tuple[int, int, int]:
    """Count newlines, colons and commas: upper bounds for rows, features and labels."""
    newlines = colons = commas = 0
    for i in range(len(text)):
        newlines += text[i] == NEWLINE
        colons += text[i] == COLON
        commas += text[i] == COMMA
    return newlines, colons, commas


@kernel
def _skip_blanks(text: np.ndarray, at: int) -> int:
    while IS_BLANK[text[at]]:
        at += 1
    return at


@kernel
def _ends_token(byte: int, comments: bool) -> bool:
    return ENDS_TOKEN[byte] or (comments and byte == HASH)


@kernel
def _read_index(text: np.ndarray, at: int) -> tuple[int, int]:
    """Parse digits to (number, end); the number is -1 if there are none or too many."""
    start = at
    number = 0
    digit = text[at] - ZERO
    while 0 <= digit <= 9:
        number = number * 10 + digit
        at += 1
        digit = text[at] - ZERO
    if at == start or at - start > MAX_DIGITS:
        number = -1
    return number, at


@kernel
def _read_exponent(text: np.ndarray, at: int) -> tuple[int, int]:
    """Parse what follows the letter e to (exponent, end); the end is -1 if digits are missing."""
    sign = -1 if text[at] == MINUS else 1
    if text[at] == MINUS or text[at] == PLUS:
        at += 1
    start = at
    power = 0
    digit = text[at] - ZERO
    while 0 <= digit <= 9:
        power = min(power * 10 + digit, 100_000)  # far beyond float32; keeps the sum small
        at += 1
        digit = text[at] - ZERO
    return sign * power, -1 if at == start else at


@kernel
def scale(mantissa: int, exponent: int) -> tuple[np.float32, bool]:
    """Return mantissa * 10**exponent in float32, and whether its rounding is certain."""
    if mantissa == 0:
        return np.float32(0.0), True
    if abs(exponent) >= len(POWERS):
        return np.float32(0.0), False
    if exponent < 0:
        value = np.float64(mantissa) / POWERS[-exponent]
    else:
        value = np.float64(mantissa) * POWERS[exponent]
    # One rounding of exact operands is the correctly rounded double. Otherwise the true value
    # lies within the slack, and it is enough that both ends round to the same float32.
    exact = mantissa <= EXACT_INTEGER and abs(exponent) <= EXACT_POWER
    sure = exact or np.float32(value * (1 - SLACK)) == np.float32(value * (1 + SLACK))
    return np.float32(value), sure


@kernel
def _read_value(text: np.ndarray, at: int) -> tuple[np.float32, int, int]:
    """Parse decimal text to (float32, end, certainty); UNSURE needs a slower parser."""
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    start = at
    mantissa = exponent = behind_point = 0
    while True:
        digit = text[at] - ZERO
        if 0 <= digit <= 9:
            if mantissa < MANTISSA_ROOM:
                mantissa = mantissa * 10 + digit
                exponent -= behind_point
            else:
                exponent += 1 - behind_point
        elif text[at] == POINT and behind_point == 0:
            behind_point = 1
        else:
            break
        at += 1
    if at - start == behind_point:
        return np.float32(0.0), at, WRONG
    if text[at] | 32 == LETTER_E:
        shift, at = _read_exponent(text, at + 1)
        if at < 0:
            return np.float32(0.0), at, WRONG
        exponent += shift
    value, sure = scale(mantissa, exponent)
    if sure and np.isinf(value):
        return value, at, WRONG
    return (-value if negative else value), at, (SURE if sure else UNSURE)


@kernel
def _read_labels(
    text: np.ndarray, at: int, comments: bool, last_label: int, labels: np.ndarray, n: int
) -> tuple[int, int, int, bool]:
    """Parse the labels at the start of a row to (code, end or offset, labels so far, sorted)."""
    in_order = True
    start, before = at, -1
    while True:
        number, end = _read_index(text, at)
        if text[end] == COLON and at == start:
            return FINE, start, n, True  # the row begins with a feature: it has no labels
        closes = _ends_token(text[end], comments)
        if number < 0 or number > last_label or not (closes or text[end] == COMMA):
            return BAD_LABEL, at, n, in_order
        labels[n] = number
        n += 1
        in_order = in_order and number > before
        before = number
        if closes:
            return FINE, end, n, in_order
        at = end + 1


@kernel
def _skip_line(text: np.ndarray, at: int) -> int:
    while text[at] != NEWLINE:
        at += 1
    return at + 1


@kernel
def scan_rows(
    text: np.ndarray,
    has_labels: bool,
    comments: bool,
    first_feature: int,
    last_feature: int,
    last_label: int,
    bounds: np.ndarray,
    labels: np.ndarray,
    features: np.ndarray,
    values: np.ndarray,
    unsure: np.ndarray,
) -> tuple[int, int, int, int, bool]:
    """Parse all rows of a block into the given arrays, which must be large enough.

    Returns (code, offset of what is wrong, rows, unsure values, all rows sorted without repeats).
    `bounds` gets the start of each row in the text and the ends of its labels and features,
    `unsure` (slot in values, start, end) for each value that is left to a slower parser.
    """
    at = row = n_labels = n_features = n_unsure = 0
    tidy = True
    while at < len(text):
        if comments and BEGINS_NO_ROW[text[at]]:
            at = _skip_line(text, at)
            continue
        bounds[0, row] = at
        if has_labels and not ENDS_TOKEN[text[at]]:
            code, at, n_labels, in_order = _read_labels(
                text, at, comments, last_label, labels, n_labels
            )
            if code != FINE:
                return code, at, row, n_unsure, tidy
            tidy = tidy and in_order
        before = -1
        at = _skip_blanks(text, at)
        while text[at] != NEWLINE and not (comments and text[at] == HASH):
            feature, end = _read_index(text, at)
            if text[end] != COLON or feature < first_feature or feature > last_feature:
                return BAD_FEATURE, at, row, n_unsure, tidy
            value, at, certainty = _read_value(text, end + 1)
            if certainty == WRONG or not _ends_token(text[at], comments):
                return BAD_VALUE, end + 1, row, n_unsure, tidy
            if certainty == UNSURE:
                unsure[n_unsure] = (n_features, end + 1, at)
                n_unsure += 1
            features[n_features] = feature
            values[n_features] = value
            n_features += 1
            tidy = tidy and feature > before
            before = feature
            at = _skip_blanks(text, at)
        bounds[1, row], bounds[2, row] = n_labels, n_features
        row += 1
        at = _skip_line(text, at)
    return FINE, 0, row, n_unsure, tidy


@kernel
def sort_rows(ends: np.ndarray, indices: np.ndarray, values: np.ndarray) -> int:
    """Sort each row by index in place; return the first row with a repeated index, or -1."""
    start = 0
    for row in range(len(ends)):
        end = ends[row]
        in_order = True
        for i in range(start + 1, end):
            in_order = in_order and indices[i] > indices[i - 1]
        if not in_order:
            order = np.argsort(indices[start:end], kind="mergesort")
            indices[start:end] = indices[start:end][order]
            values[start:end] = values[start:end][order]
            for i in range(start + 1, end):
                if indices[i] == indices[i - 1]:
                    return row
        start = end
    return -1
