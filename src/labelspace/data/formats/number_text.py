"""Compiled loops that print rows of arrays as XC text, `l1,l2 f:v f:v`."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Features
from labelspace.data.formats.scan import (
    BLANK,
    COLON,
    COMMA,
    LETTER_E,
    MINUS,
    NEWLINE,
    POINT,
    POWERS,
    ZERO,
    kernel,
    scale,
)
from labelspace.errors import DataError

FLOAT32_DIGITS = 9  # significant digits that distinguish any two float32
BYTES_PER_INDEX = 12  # ten digits and two separators
BYTES_PER_VALUE = 18  # sign, digits, point, leading zeros or an exponent


@kernel
def _print_integer(out: np.ndarray, at: int, number: int) -> int:
    end = at + 1
    rest = number // 10
    while rest > 0:
        end += 1
        rest //= 10
    for i in range(end - 1, at - 1, -1):
        out[i] = ZERO + number % 10
        number //= 10
    return end


@kernel
def _shortest_decimal(value: float) -> tuple[int, int]:
    """Return the shortest (mantissa, exponent) that reads back as this float32 > 0."""
    magnitude = int(np.floor(np.log10(np.float64(value))))
    mantissa = exponent = 0
    for digits in range(1, FLOAT32_DIGITS + 2):  # one more: log10 may round up to a power of ten
        exponent = magnitude + 1 - digits
        power = POWERS[abs(exponent)]
        scaled = np.float64(value) * power if exponent < 0 else np.float64(value) / power
        mantissa = int(np.rint(scaled))
        back, sure = scale(mantissa, exponent)
        if sure and back == value:
            break
    while mantissa % 10 == 0:
        mantissa //= 10
        exponent += 1
    return mantissa, exponent


@kernel
def _print_value(out: np.ndarray, at: int, value: float) -> int:
    if np.signbit(value):
        out[at] = MINUS
        at += 1
        value = -value
    if value == 0:
        out[at] = ZERO
        return at + 1
    mantissa, exponent = _shortest_decimal(value)
    digits_end = _print_integer(out, at, mantissa)
    before_point = digits_end - at + exponent  # digits in front of the decimal point
    if before_point < -3 or before_point > 10:
        out[digits_end] = LETTER_E
        if exponent < 0:
            out[digits_end + 1] = MINUS
            return _print_integer(out, digits_end + 2, -exponent)
        return _print_integer(out, digits_end + 1, exponent)
    if exponent >= 0:
        return _print_integer(out, at, mantissa * int(POWERS[exponent]))
    return _insert_point(out, at, digits_end, before_point)


@kernel
def _insert_point(out: np.ndarray, at: int, end: int, before_point: int) -> int:
    """Insert the point, and zeros where they are needed, into the digits out[at:end]."""
    zeros = max(0, 1 - before_point)
    digits_before = max(0, before_point)
    gap = zeros + 1
    for i in range(end - 1, at + digits_before - 1, -1):
        out[i + gap] = out[i]
    for i in range(at + digits_before, at + digits_before + gap):
        out[i] = ZERO
    out[at + max(1, before_point)] = POINT
    return end + gap


@kernel
def print_rows(
    label_ends: np.ndarray,
    labels: np.ndarray,
    feature_ends: np.ndarray,
    features: np.ndarray,
    values: np.ndarray,
    out: np.ndarray,
) -> int:
    """Print rows into `out`, which must be large enough; return the number of bytes."""
    at = label = feature = 0
    for row in range(len(label_ends)):
        first = label
        while label < label_ends[row]:
            if label > first:
                out[at] = COMMA
                at += 1
            at = _print_integer(out, at, labels[label])
            label += 1
        if label == first and feature == feature_ends[row]:
            out[at] = BLANK  # the blank that marks a row without labels
            at += 1
        while feature < feature_ends[row]:
            out[at] = BLANK
            at = _print_integer(out, at + 1, features[feature])
            out[at] = COLON
            at = _print_value(out, at + 1, values[feature])
            feature += 1
        out[at] = NEWLINE
        at += 1
    return at


def text_of(labels: csr_matrix, features: Features) -> memoryview:
    """Return rows as XC text."""
    sparse = csr_matrix(features, dtype=np.float32)
    if not sparse.has_canonical_format:  # a repeated feature could not be read back
        sparse = sparse.copy()
        sparse.sum_duplicates()
    if not np.isfinite(sparse.data).all():
        raise DataError("the features hold NaN or infinite values, which XC text cannot")
    n_indices = labels.nnz + sparse.nnz
    size = 2 * labels.shape[0] + BYTES_PER_INDEX * n_indices + BYTES_PER_VALUE * sparse.nnz
    text = np.empty(size, dtype=np.uint8)
    length = print_rows(
        labels.indptr[1:].astype(np.int64),
        labels.indices.astype(np.int32, copy=False),
        sparse.indptr[1:].astype(np.int64),
        sparse.indices.astype(np.int32, copy=False),
        sparse.data,
        text,
    )
    return text[:length].data
