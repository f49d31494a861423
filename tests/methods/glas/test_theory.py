"""The two representation theorems of the GLaS paper (Guo et al. 2019), checked on label matrices.

Both state that few dimensions suffice to classify a training set without error, if the map from
examples to vectors is free. Their proofs are constructions, so we construct and count exceptions.

Results on the constants:

Theorem 2.1 (A.1) sets d = 18 s log(4 min(|S|, K^s)) by a union bound over the examples that leaves
out the one over the K labels. All of bibtex (s = 28, d = 4,980) and EURLex-4K (s = 24, d = 4,769)
meet every item even so, as few of their examples attain s. Where many do, scores of foreign labels
exceed 1/3 seed after seed: 6, 7 and 1 on EURLex's examples with at most 8 labels, 6 to 29 on
random labels. No score crossed 1/2. With K inside the logarithm, as item 1's O(s log(K |S|)) has
it, every item holds for every seed tried (bibtex d = 7,534, EURLex 8,351).

Theorem B.1 leaves the constant open. The bound through squared lengths gives
d = 2 log(2 N^2) / (e^2/2 - e^3/3) for N = n + K vectors. On all three sets every item holds there
and at half of it, for every seed tried, and fails at a quarter.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix, diags

from labelspace.data.formats.xc import read_matrix, read_xc
from labelspace.labels.cooccurrence import CooccurrenceTarget

SEEDS = range(4)  # the theorems hold with a probability above zero: one seed has to succeed


def random_labels(n, n_labels, per_row, seed=0):
    """Rows of exactly `per_row` labels: the hardest case, as each row attains the bound s."""
    rng = np.random.default_rng(seed)
    indices = np.concatenate(
        [np.sort(rng.choice(n_labels, per_row, replace=False)) for _ in range(n)]
    )
    ones = np.ones(len(indices), np.float32)
    return csr_matrix((ones, indices, per_row * np.arange(n + 1)), shape=(n, n_labels))


@pytest.fixture(params=["random", "bibtex", "eurlex"])
def labels(request, shared_data):
    """Label matrices: a synthetic one, and two public ones."""
    if request.param == "bibtex":
        return read_xc(shared_data("bibtex") / "train.txt.gz").labels
    if request.param == "eurlex":
        return read_matrix(shared_data("eurlex-4k-labels") / "trn_X_Y.txt.gz")
    return random_labels(1000, 500, 6)


# Theorem 2.1


def dimension_of_signs(Y, *, over_labels):
    """Return d of appendix A; `over_labels` adds the union bound that the proof leaves out."""
    n, n_labels = Y.shape
    s = int(np.diff(Y.indptr).max())
    log_sets = min(math.log(n), s * math.log(n_labels))
    return math.ceil(18 * s * (math.log(4 * n_labels if over_labels else 4) + log_sets))


def exceptions_to_theorem_2_1(Y, d, seed):
    """Count how often each item fails for random signs v_y / sqrt(d) and phi(x) = sum of its v_y.

    phi(x) . v_y is a sum of inner products of label vectors, so the Gram matrix of the labels has
    all scores. With signs for entries it holds whole numbers, d times the true ones: exact.
    """
    n_labels, s = Y.shape[1], np.diff(Y.indptr).max()
    signs = np.random.default_rng(seed).integers(0, 2, (n_labels, d), np.int8) * 2 - 1
    signs = signs.astype(np.float32)
    gram = signs @ signs.T
    closest = math.sqrt(2 * math.log(4 * n_labels**2) / d)
    found = dict.fromkeys(["item 3", "item 4", "item 6", "threshold 1/2"], 0)
    found["item 2"] = int((gram.diagonal() != d).sum())
    found["item 5"] = int((np.abs(gram) > closest * d).sum() - n_labels)
    for start in range(0, Y.shape[0], 2048):
        rows = Y[start : start + 2048]
        scores, own = rows @ gram, rows.toarray() > 0
        lengths = np.where(own, scores, 0).sum(1) / d
        found["item 3"] += int((3 * scores[own] < 2 * d).sum())
        found["item 4"] += int((3 * scores[~own] > d).sum())
        found["item 6"] += int((lengths > s + s * (s - 1) * closest).sum())
        found["threshold 1/2"] += int(((2 * scores >= d) != own).sum())
    return found


def test_random_signs_classify_every_training_example(labels) -> None:
    d = dimension_of_signs(labels, over_labels=True)
    assert any(not any(exceptions_to_theorem_2_1(labels, d, seed).values()) for seed in SEEDS)


def test_dimension_need_not_grow_with_repeated_label_sets() -> None:
    """More examples than label sets: K^s is the smaller of the two bounds."""
    Y = random_labels(3000, 30, 2)
    d = dimension_of_signs(Y, over_labels=True)
    assert d < dimension_of_signs(random_labels(900, 30, 2), over_labels=True) + 2
    assert any(not any(exceptions_to_theorem_2_1(Y, d, seed).values()) for seed in SEEDS)


def test_scores_from_the_gram_matrix_are_those_of_the_embeddings() -> None:
    Y = random_labels(50, 30, 3)
    signs = np.random.default_rng(0).integers(0, 2, (30, 400)) * 2.0 - 1
    vectors = signs / math.sqrt(400)
    phi = np.array([sum(vectors[label] for label in row.indices) for row in Y])
    np.testing.assert_allclose(phi @ vectors.T, Y @ (signs @ signs.T) / 400, atol=1e-9)


def test_the_printed_dimension_separates_but_not_by_thirds() -> None:
    """18 s log(4 |S|), without the labels: the proof's construction misses item 4, seed by seed.

    This does not refute that other vectors of the same dimension would do.
    """
    Y = random_labels(1000, 1000, 4)
    for seed in SEEDS:
        found = exceptions_to_theorem_2_1(Y, dimension_of_signs(Y, over_labels=False), seed)
        assert found["threshold 1/2"] == 0
        assert found["item 4"] > 0


def test_few_dimensions_are_not_enough_for_signs() -> None:
    """The check can fail: a sixteenth of the dimension is too little."""
    Y = random_labels(1000, 500, 6)
    d = dimension_of_signs(Y, over_labels=True) // 16
    assert exceptions_to_theorem_2_1(Y, d, seed=0)["threshold 1/2"] > 0


# Theorem B.1


@pytest.fixture
def rare(labels):
    """(Y, a): labels with at most `a` examples, and these examples, as d grows with a.

    Bibtex has no rare labels, so a thousand of its examples are the sample set; of EURLex it is
    every fourth example, to save time.
    """
    sample, a = (labels[:1000], 20) if labels.shape[1] == 159 else (labels[::4], 10)
    counts = np.bincount(sample.indices, minlength=sample.shape[1])
    Y = sample[:, np.flatnonzero((counts > 0) & (counts <= a))].astype(np.float32)
    return Y[np.diff(Y.indptr) > 0], a


def unit_label_vectors(Y):
    """Return v'_y = sum of e_x over its examples / sqrt(A_yy), one column per label."""
    return csr_matrix(Y @ diags(1 / np.sqrt(np.bincount(Y.indices, minlength=Y.shape[1]))))


def dimension_of_projection(Y, epsilon):
    """Return d where 2 N^2 events of probability exp(-d (e^2/2 - e^3/3) / 2) sum to 1.

    Inner products are a quarter of |u + v|^2 - |u - v|^2, so two squared lengths bound each of the
    N^2 / 2 pairs from either side; each tail is that of a chi-squared variable.
    """
    n_vectors = sum(Y.shape)
    return math.ceil(2 * math.log(2 * n_vectors**2) / (epsilon**2 / 2 - epsilon**3 / 3))


def exceptions_to_theorem_b_1(Y, d, epsilon, seed):
    """Count how often each item fails after projecting all e_x and v'_y by a Gaussian matrix."""
    rng = np.random.default_rng(seed)
    phi = rng.standard_normal((Y.shape[0], d), np.float32) / np.float32(math.sqrt(d))
    vectors = unit_label_vectors(Y).T.astype(np.float32) @ phi
    scores, own = phi @ vectors.T, Y.toarray() > 0
    wanted = CooccurrenceTarget(Y, "geometric").U.toarray()
    return {
        "item 2": int((np.linalg.norm(phi, axis=1) >= 1 + epsilon).sum()),
        "item 3": int((np.linalg.norm(vectors, axis=1) >= 1 + epsilon).sum()),
        "item 4": int((scores[own] <= epsilon).sum()),
        "item 5": int((scores[~own] >= epsilon).sum()),
        "item 6": int((np.abs(vectors @ vectors.T - wanted) >= epsilon).sum()),
    }


def test_unprojected_label_vectors_meet_the_geometric_means_exactly(rare) -> None:
    Y, a = rare
    vectors = unit_label_vectors(Y)
    wanted = CooccurrenceTarget(Y, "geometric").U
    assert abs(vectors.T @ vectors - wanted).max() < 1e-6
    assert (vectors != 0).nnz == Y.nnz, "the score of e_x is above zero for its labels alone"
    assert vectors.data.min() >= 1 / math.sqrt(a) - 1e-12


@pytest.mark.parametrize("part", [1, 2], ids=["proven dimension", "half of it"])
def test_projected_examples_are_classified_and_labels_keep_their_frequencies(rare, part) -> None:
    Y, a = rare
    epsilon = 1 / (2 * math.sqrt(a))
    d = dimension_of_projection(Y, epsilon) // part
    assert any(not any(exceptions_to_theorem_b_1(Y, d, epsilon, seed).values()) for seed in SEEDS)


def test_few_dimensions_are_not_enough_for_projections(rare) -> None:
    Y, a = rare
    epsilon = 1 / (2 * math.sqrt(a))
    d = dimension_of_projection(Y, epsilon) // 8
    assert exceptions_to_theorem_b_1(Y, d, epsilon, seed=0)["item 5"] > 0
