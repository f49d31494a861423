"""The compiled loop that ranks candidate labels by weights and trees, without storing features."""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop, loop_part
from labelspace._core.sorting import sort_first
from labelspace._core.top_k import keep_best
from labelspace.components.boosted_trees import log_odds_of
from labelspace.components.candidates import COLUMNS, EPS, KNOTS
from labelspace.components.name_matches import N_FEATURES, match_from, write_match
from labelspace.features.name_codes import N_PROPERTIES

ABSENT = -20.0  # log odds, in trees, of a label that a member does not rank: below those of EPS
LARGEST = 60.0  # log odds
_FREQUENCY_STEP = 0.1  # log odds per unit of log frequency, among labels that are all certain


@loop
def rank_rows(  # type: ignore[no-untyped-def]
    ends,
    labels,
    scores,
    log_counts,
    band,
    weights,
    trees,
    tail_trees,
    matches,
    certain,
    factors,
    weighted,
    best_labels,
    best_scores,
):
    """Rank the candidates of `candidates.gather` without storing their features.

    `labels` and `scores` (n, width) hold the members' rankings side by side; `ends` is where each
    member's columns stop. `weights` are those of all bands, once or, for the tail objective, twice;
    `trees` and `tail_trees` add to both. `matches` are the arrays of `name_matches.Matches`; if the
    statistics of labels are empty, trees do not use them.
    """
    members, (n, width) = len(ends), labels.shape
    keys, odds, owner = np.empty(width, np.int64), np.empty(width), np.empty(width, np.int64)
    lowest, member_log_odds = np.empty(members), np.empty(members)
    listed, chances = np.empty(width, np.int64), np.empty((2, width), np.float32)
    is_listed = np.empty(members, np.bool_)
    indptr, indices, data, statistics = matches
    values = np.empty(N_PROPERTIES, np.int64)
    uses_matches = len(statistics) > 0
    sample = np.empty(members + 1 + uses_matches * N_FEATURES, np.float32)
    for row in range(n):
        count, place = np.int64(0), 0
        for member in range(members):
            lowest[member] = 0.0
            while place < ends[member]:
                if labels[row, place] >= 0:
                    p = min(max(np.float64(scores[row, place]), EPS), 1.0 - EPS)
                    odds[place], owner[place] = np.log(p / (1.0 - p)), member
                    lowest[member] = min(lowest[member], odds[place])
                    keys[count] = labels[row, place] * width + place
                    count += 1
                place += 1
        sort_first(keys, count)  # the entries of a label are next to each other
        position, n_listed = 0, np.int64(0)
        matched, cell = np.int64(-1), np.int64(indptr[row])
        while position < count:
            label = keys[position] // width
            for member in range(members):
                member_log_odds[member], is_listed[member] = lowest[member], False
                sample[member] = ABSENT
            sample[members] = log_counts[label]
            while position < count and keys[position] // width == label:
                entry = keys[position] % width
                sample[owner[entry]] = member_log_odds[owner[entry]] = odds[entry]
                is_listed[owner[entry]] = True
                position += 1
            listed[n_listed] = label
            if uses_matches:
                stop = indptr[row + 1]
                matched, cell = match_from(label, matched, cell, stop, indices, data, values)
                write_match(label, matched, values, statistics, sample[members + 1 :])
            for number in range(len(weights)):
                own = weights[number, band[label]]
                line = line_of(member_log_odds, is_listed, log_counts[label], own)
                line += log_odds_of(sample, trees if number == 0 else tail_trees)
                chances[number, n_listed] = chance_of(line, certain, log_counts[label])
            if len(weights) == 1:
                chances[1, n_listed] = chances[0, n_listed]
            n_listed += 1
        keep_row(listed, chances, n_listed, factors, weighted, best_labels[row], best_scores[row])


@loop_part
def line_of(log_odds, is_listed, log_count, own):  # type: ignore[no-untyped-def]
    """Return the sum of a candidate's weighted features."""
    line = own[-1] + own[-2] * log_count
    for member, x in enumerate(log_odds):
        line += own[COLUMNS * member] * x + own[COLUMNS * member + 1] * is_listed[member]
        for number, knot in enumerate(KNOTS):
            line += own[COLUMNS * member + 2 + number] * max(x - knot, 0.0)
    return line


@loop_part
def chance_of(line, certain, log_count):  # type: ignore[no-untyped-def]
    """Return the probability of log odds; beyond those that are certain, by label frequency."""
    if line > certain:
        line = certain + _FREQUENCY_STEP * log_count
    return 1.0 / (1.0 + np.exp(-min(max(line, -LARGEST), LARGEST)))


@loop_part
def keep_row(  # type: ignore[no-untyped-def]
    listed, chances, count, factors, weighted, best_labels, best_scores
):
    """Write the best of the candidates of a row: the first rank by its own factors.

    `listed` is sorted, so that of equal values the smaller label comes first. `chances` has two
    rows: the probabilities, by which the first rank is chosen, and those by which the others are.
    """
    if count == 0:
        return
    first, filled = 0, np.int64(0)  # a literal 0 would be a second type to compile
    for place in range(1, count):
        value = factors[0, listed[place]] * chances[0, place]
        if value > factors[0, listed[first]] * chances[0, first]:
            first = place
    # Places of the candidates, until all are ranked; then their labels.
    best_labels[0], best_scores[0] = first, factors[0, listed[first]] * chances[0, first]
    for place in range(count):
        if place != first:
            value = factors[1, listed[place]] * chances[1, place]
            filled = keep_best(value, place, best_scores[1:], best_labels[1:], filled)
    for rank in range(filled + 1):
        place = best_labels[rank]
        best_labels[rank] = listed[place]
        if not weighted:
            best_scores[rank] = chances[0, place]
