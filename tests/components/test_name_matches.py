"""Matches of label names as features of candidates, and trees that take them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.components.boosted_stacking import BoostedCombiner
from labelspace.components.candidates import gather
from labelspace.components.name_matches import N_FEATURES, N_STATISTICS, Matches
from labelspace.data.label_texts import LabelRecord, LabelTexts
from labelspace.features.name_codes import N_PROPERTIES, PROPERTIES
from labelspace.features.name_matcher import NameMatcher
from labelspace.ranking import Ranking

WORDS = [f"{a}{b}" for a in ("lake", "moon", "corn", "wolf") for b in ("stone", "field", "house")]


def drawn(n, seed):
    """Return matches, one member's ranking and labels: a label is true if its name comes early."""
    rng = np.random.default_rng(seed)
    records = [LabelRecord(word, {"en": word}) for word in WORDS]
    order = np.argsort(rng.random((n, len(WORDS))), axis=1)[:, :6]
    texts = [" ".join(WORDS[word] for word in row) for row in order]
    cells = NameMatcher.of(LabelTexts.of(records)).transform(texts)
    statistics = rng.random((len(WORDS), N_STATISTICS)).astype(np.float32)
    Y = np.zeros((n, len(WORDS)), np.float32)
    np.put_along_axis(Y, order[:, :2], 1.0, axis=1)
    listed = np.argsort(rng.random((n, len(WORDS))), axis=1)[:, :8]
    scores = rng.random((n, 8)).astype(np.float32)
    return Matches(cells, statistics), Ranking(listed, scores), csr_matrix(Y), order


def test_features_are_those_of_the_own_match_and_label():
    matches, ranking, _, order = drawn(50, 0)
    found = gather([ranking], np.zeros(len(WORDS), np.float32))
    features = matches.features(found.rows, found.labels)
    assert features.shape == (len(found.rows), N_FEATURES)
    first = features[:, PROPERTIES.index("first")]
    for row, label, own, place in zip(found.rows, found.labels, features, first, strict=True):
        if label in order[row]:
            assert own[PROPERTIES.index("count")] == 1
            before = order[row, : order[row].tolist().index(label)]
            for other in set(before.tolist()) & set(found.labels[found.rows == row].tolist()):
                earlier = first[(found.rows == row) & (found.labels == other)]
                assert (earlier <= place).all()
        else:
            assert (own[:N_PROPERTIES] == -1).all()
        np.testing.assert_array_equal(own[N_PROPERTIES:], matches.statistics[label])


def test_the_rank_by_matches_is_that_of_the_stored_features():
    matches, ranking, Y, _ = drawn(400, 1)
    combiner = BoostedCombiner.fit([ranking], Y, Y, matches=matches)
    new, listed, _, _ = drawn(30, 2)
    best = combiner.rank([listed], 8, new)
    found = gather([listed], combiner.log_counts)
    own = [found.features[:, [0, -1]], new.features(found.rows, found.labels)]
    odds = combiner.trees.log_odds(np.hstack(own).astype(np.float32))
    weights = combiner.weights[combiner.band[found.labels]]
    odds += (found.features * weights[:, :-1]).sum(axis=1) + weights[:, -1]
    for row in range(30):
        mine = found.rows == row
        expected = dict(zip(found.labels[mine].tolist(), odds[mine], strict=True))
        ranked = np.log(best.scores[row] / (1 - best.scores[row]))
        np.testing.assert_allclose(
            ranked, [expected[label] for label in best.labels[row].tolist()], atol=1e-3
        )


def test_matches_are_learned_kept_and_asked_for():
    matches, ranking, Y, _ = drawn(600, 3)
    combiner = BoostedCombiner.fit([ranking], Y, Y, matches=matches)
    new, listed, Y_new, _ = drawn(200, 4)
    best = combiner.rank([listed], 2, new)
    candidate = np.zeros((200, len(WORDS)))
    np.put_along_axis(candidate, listed.labels, 1.0, axis=1)
    possible = np.minimum((candidate * Y_new.toarray()).sum(axis=1), 2).sum()
    hits = np.take_along_axis(Y_new.toarray(), best.labels, axis=1).sum()
    assert hits > 0.9 * possible  # the member's own scores tell nothing
    restored = BoostedCombiner.restore(combiner.state())
    np.testing.assert_array_equal(restored.rank([listed], 2, new).scores, best.scores)
    with pytest.raises(ValueError, match="matches of all labels"):
        restored.rank([listed], 2)
    older = BoostedCombiner.fit([ranking], Y, Y)  # trees of models of earlier versions
    restored = BoostedCombiner.restore(older.state())
    np.testing.assert_array_equal(
        restored.rank([listed], 2, new).scores, older.rank([listed], 2).scores
    )
