"""The compiled loops of the lexical method: from match columns to features and to rankings."""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop, loop_part
from labelspace._core.top_k import keep_best
from labelspace.components.boosted_trees import log_odds_of
from labelspace.features.name_codes import COLUMNS, N_PROPERTIES, PROPERTIES, unpack

ORDER = PROPERTIES.index("order")
N_STATISTICS = 5  # of a label, after the properties of a match
N_FEATURES = N_PROPERTIES + N_STATISTICS


@loop
def count_matches(indptr, indices, data, first, last):  # type: ignore[no-untyped-def]
    """Return the number of matches in the rows from `first` to below `last`."""
    count = 0
    for cell in range(indptr[first], indptr[last]):
        count += indices[cell] % COLUMNS == 0 and data[cell] != 0
    return count


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
        return label, cell
    return -1, cell


@loop
def read_matches(indptr, indices, data, rows, labels, features):  # type: ignore[no-untyped-def]
    """Write row, label and properties of all matches; the arrays are of the size to be filled."""
    count, values = 0, np.empty(N_PROPERTIES, np.int64)
    for row in range(len(indptr) - 1):
        cell = indptr[row]
        while True:
            label, cell = next_match(indices, data, cell, indptr[row + 1], values)
            if label < 0:
                break
            rows[count], labels[count] = row, label
            features[count, :N_PROPERTIES] = values
            count += 1


@loop
def rank_matches(  # type: ignore[no-untyped-def]
    indptr, indices, data, statistics, trees, common, chances, best_labels, best_scores
):
    """Rank the matched labels of each row; rows without a match get the most common labels."""
    values, sample = np.empty(N_PROPERTIES, np.int64), np.empty(N_FEATURES, np.float32)
    for row in range(len(indptr) - 1):
        cell, filled = indptr[row], 0
        while True:
            label, cell = next_match(indices, data, cell, indptr[row + 1], values)
            if label < 0:
                break
            sample[:N_PROPERTIES] = values
            sample[N_PROPERTIES:] = statistics[label]
            odds = log_odds_of(sample, trees)
            chance = np.float32(1.0 / (1.0 + np.exp(-min(max(odds, -60.0), 60.0))))
            filled = keep_best(chance, label, best_scores[row], best_labels[row], filled)
        if filled == 0:
            for place in range(min(len(common), best_labels.shape[1])):
                best_labels[row, place], best_scores[row, place] = common[place], chances[place]
