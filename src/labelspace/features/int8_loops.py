"""Compiled loops of `int8_layers`, which read and write each number once.

By tensor operations the codes take five passes and the values three.
"""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop

_LARGEST = np.float32(127)
_SMALLEST = np.float32(1e-12)  # of a row's largest number: rows of zeros
_WITHOUT_SIGN = np.int32(0x7FFFFFFF)
# Numbers below 2 ** 22 lose their fraction when it is added: rounded, halves to even. Unlike a
# call of `rint`, additions are vectorised.
_ROUND = np.float32(1.5 * 2**23)


@loop
def quantise(rows, bits, codes, scales):  # type: ignore[no-untyped-def]
    """Set the codes of each row, of -127 to 127, and its scale.

    `bits` are the rows as int32: without the sign they are in the order of the floats, and the
    largest of integers is vectorised without licence to reorder floats.
    """
    for row in range(rows.shape[0]):
        largest = np.int32(0)
        for column in range(rows.shape[1]):
            size = bits[row, column] & _WITHOUT_SIGN
            if size > largest:
                largest = size
        scale = np.int32(largest).view(np.float32)
        if scale < _SMALLEST:
            scale = _SMALLEST
        scale /= _LARGEST
        scales[row] = scale
        for column in range(rows.shape[1]):
            rounded = (rows[row, column] / scale + _ROUND) - _ROUND
            codes[row, column] = np.int8(np.int32(rounded))


@loop
def restore(sums, row_scales, scales, bias, values):  # type: ignore[no-untyped-def]
    """Set the values that integer sums stand for: times both scales, plus the bias."""
    for row in range(sums.shape[0]):
        scale = row_scales[row]
        for column in range(sums.shape[1]):
            product = np.float32(sums[row, column]) * scale
            values[row, column] = bias[column] + product * scales[column]
