"""The compiled loops of the lexical method: from match columns to features and to rankings."""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop
from labelspace._core.top_k import keep_best
from labelspace.components.boosted_trees import log_odds_of
from labelspace.components.name_matches import N_FEATURES, next_match
from labelspace.features.name_codes import COLUMNS, N_PROPERTIES, PROPERTIES

ORDER = PROPERTIES.index("order")


@loop
def count_matches(indptr, indices, data, first, last):  # type: ignore[no-untyped-def]
    """Return the number of matches in the rows from `first` to below `last`."""
    count = 0
    for cell in range(indptr[first], indptr[last]):
        count += indices[cell] % COLUMNS == 0 and data[cell] != 0
    return count


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
