"""Rankings of held-out examples: each part is calibrated on the other."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.components.calibration import Calibration
from labelspace.components.held_out_ranking import PARTS, RANKED, HeldOutRanking, parts

N, LABELS = 200, 8


def ranked(rng):
    labels = np.argsort(rng.random((N, LABELS)), axis=1)
    return labels, -np.sort(-rng.normal(size=(N, LABELS)), axis=1)


def test_a_part_is_calibrated_by_the_labels_of_the_others():
    rng = np.random.default_rng(0)
    labels, scores = ranked(rng)
    Y = csr_matrix((rng.random((N, LABELS)) < 0.3).astype(np.float32))
    found = HeldOutRanking.calibrated(labels, scores, Y)
    assert np.array_equal(found.ranking.labels, labels[:, :RANKED])
    part = parts(N, PARTS)
    for number in range(PARTS):
        others = part != number
        line = Calibration.fit(labels[others], scores[others], Y[others])
        expected = line(labels[:, :RANKED].copy(), scores[:, :RANKED].copy())
        assert np.array_equal(found.ranking.scores[~others], expected[~others])
    # Other labels of a part change the scores of the rest alone.
    turned = Y.toarray()
    turned[part == 0] = 1.0 - turned[part == 0]
    other = HeldOutRanking.calibrated(labels, scores, csr_matrix(turned))
    assert np.array_equal(other.ranking.scores[part == 0], found.ranking.scores[part == 0])
    assert not np.allclose(other.ranking.scores[part == 1], found.ranking.scores[part == 1])


def test_parts_are_of_equal_size_and_the_same_each_time():
    part = parts(11, 3, seed=4)
    assert sorted(np.bincount(part)) == [3, 4, 4]
    assert np.array_equal(part, parts(11, 3, seed=4))
