"""Matches of label names as features of candidate labels.

The properties of a match tell whether a label is right beyond what one member makes of them: a name
in the title matters more where no other member ranks the label. The features of a candidate are the
properties of the match of its names, -1 each without a match, and the statistics of the label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.compiled import loop, loop_part
from labelspace.features.name_codes import COLUMNS, N_PROPERTIES, unpack

N_STATISTICS = 5  # of a label, after the properties of a match
N_FEATURES = N_PROPERTIES + N_STATISTICS
_NO_LABEL = np.iinfo(np.int64).max  # comes after all labels


@dataclass(frozen=True)
class Matches:
    """Matches of label names in some examples.

    Attributes
    ----------
    cells : csr_matrix of shape (n_examples, COLUMNS * n_labels)
        Match columns, with sorted indices.
    statistics : ndarray of shape (n_labels, N_STATISTICS)
        Of each label, in training.
    """

    cells: csr_matrix
    statistics: np.ndarray

    def take(self, rows: np.ndarray) -> Matches:
        """Return the matches of these examples."""
        return Matches(self.cells[rows], self.statistics)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return what compiled loops take."""
        return self.cells.indptr, self.cells.indices, self.cells.data, self.statistics

    def features(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the features of candidates, which are sorted by row and label."""
        found = np.empty((len(rows), N_FEATURES), np.float32)
        _write_features(*self.arrays(), rows, labels, found)
        return found


def no_matches(n_examples: int) -> tuple[np.ndarray, ...]:
    """Return the arrays of a combination without matches."""
    indptr, indices = np.zeros(n_examples + 1, np.int32), np.empty(0, np.int32)
    return indptr, indices, np.empty(0, np.float32), np.empty((0, N_STATISTICS), np.float32)


@loop_part
def next_match(indices, data, cell, stop, values):  # type: ignore[no-untyped-def]
    """Write the properties of the next match of a row; return its label (-1) and the cell after."""
    while cell < stop:
        label, column, code = indices[cell] // COLUMNS, indices[cell] % COLUMNS, data[cell]
        cell += 1
        if column != 0 or code == 0:
            continue
        name = np.float32(0.0)
        if cell < stop and indices[cell] == COLUMNS * label + 1:
            name = data[cell]
            cell += 1
        unpack(code, name, values)
        return np.int64(label), np.int64(cell)
    return np.int64(-1), np.int64(cell)


@loop_part
def match_from(label, matched, cell, stop, indices, data, values):  # type: ignore[no-untyped-def]
    """Go on to the first match of a row at this label or a later one; `matched` is the last one.

    Return its label and the cell after it. The label is larger than all if there is no such match.
    """
    while matched < label:
        matched, cell = next_match(indices, data, cell, stop, values)
        if matched < 0:
            matched = _NO_LABEL
    return matched, cell


@loop_part
def write_match(label, matched, values, statistics, sample):  # type: ignore[no-untyped-def]
    """Write the features of a candidate, of which `matched` is the label of the match read last."""
    for place in range(N_PROPERTIES):
        sample[place] = values[place] if matched == label else -1.0
    for place in range(N_STATISTICS):
        sample[N_PROPERTIES + place] = statistics[label, place]


@loop
def _write_features(  # type: ignore[no-untyped-def]
    indptr, indices, data, statistics, rows, labels, found
):
    values, row = np.empty(N_PROPERTIES, np.int64), np.int64(-1)
    matched, cell = np.int64(-1), np.int64(0)
    for place in range(len(rows)):
        if rows[place] != row:
            row = rows[place]
            matched, cell = np.int64(-1), np.int64(indptr[row])
        label, stop = labels[place], indptr[row + 1]
        matched, cell = match_from(label, matched, cell, stop, indices, data, values)
        write_match(label, matched, values, statistics, found[place])
