"""How matches of label names are written in a feature matrix: two columns per label.

The properties of a match are small whole numbers. Those of its occurrences are digits of one number
and those of the matched name digits of another, so that a match takes two non-zeros however many
properties there are. Both are below 2**24, which float32 holds exactly.
"""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop_part

COLUMNS = 2  # per label

# Properties and their bits, the first column's, then the second's.
_OCCURRENCES = (
    ("count", 4),  # occurrences
    ("first", 5),  # place of the first, as a logarithm
    ("relative", 4),  # the same as a share of the text
    ("spread", 4),  # words from the first to the last, as a logarithm
    ("title", 1),  # whether it is in the title or first sentence
    ("length", 4),  # words of the text, as a logarithm
)
_NAME = (
    ("order", 2),  # how the words stand in the text: 0 anywhere, 1 near each other, 2 in order
    ("likeness", 2),  # 3 the same words, 2 in another case, 1 of the same stems, 0 parts of words
    ("words", 3),  # words of the name
    ("nested", 1),  # whether every occurrence is within a longer name
    ("parts", 2),  # occurrences as a part of a compound
    ("preferred", 1),  # whether it is a preferred name
    ("unqualified", 1),  # whether a qualifier in brackets was left out
    ("split", 1),  # whether a compound in the name was split
    ("shared", 3),  # labels that have a name of the same stems
    ("letters", 5),  # letters of the name
    ("language", 2),  # number of the language
)
PROPERTIES = tuple(name for name, _ in (*_OCCURRENCES, *_NAME))
N_PROPERTIES, N_OCCURRENCES = len(PROPERTIES), len(_OCCURRENCES)
_BITS = np.array([bits for _, bits in (*_OCCURRENCES, *_NAME)])
_LARGEST = 2**24 - 1


@loop_part
def pack(values):  # type: ignore[no-untyped-def]
    """Return the numbers for both columns; properties beyond their range are cut to it."""
    codes = np.zeros(2, np.int64)
    for place in range(N_PROPERTIES - 1, -1, -1):
        column = 0 if place < N_OCCURRENCES else 1
        most = (1 << _BITS[place]) - 1
        codes[column] = (codes[column] << _BITS[place]) | min(max(values[place], 0), most)
    return codes[0] + 1, codes[1] + 1  # 0 is no match


@loop_part
def unpack(occurrences, name, values):  # type: ignore[no-untyped-def]
    """Write the properties of a match into `values`; numbers of any size are allowed."""
    for column in range(2):
        given = occurrences if column == 0 else name
        code = np.int64(min(max(given, 1.0), _LARGEST)) - 1
        start, stop = (0, N_OCCURRENCES) if column == 0 else (N_OCCURRENCES, N_PROPERTIES)
        for place in range(start, stop):
            values[place] = code & ((1 << _BITS[place]) - 1)
            code >>= _BITS[place]
