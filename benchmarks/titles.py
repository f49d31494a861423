"""Generated short titles: sparse features and labels of the shape of a large catalogue.

A title draws a topic, one to three labels, mostly of that topic, and three to sixteen words: common
ones, words of the topic and words of its labels. All draws follow power laws. The commonest words
occur in 10 to 40 % of the titles, so that their posting lists are as long as those of real titles;
labels are long-tailed. Vocabulary and labels grow with the square root of the number of titles: at
581,000 titles there are 200,000 words and 25,000 labels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import unit_rows

LABELS_PER_TOPIC = 25
WORDS_OF_TOPIC, WORDS_OF_LABEL = 150, 10
# Of a title's words: the commonest, other common ones, those of its topic; its labels' are left.
SHARES = (0.35, 0.18, 0.22)
FROM_ELSEWHERE = 0.15  # how often a label comes from another topic
SHORTEST, LONGEST = 3, 16
COMMONEST = 15  # words such as "of" and "the"
SPARED = 30  # the commonest words belong to no topic and to no label


class Titles(NamedTuple):
    """Training and test titles; values are tf-idf, rows have length 1."""

    X: csr_matrix
    Y: csr_matrix
    X_test: csr_matrix
    Y_test: csr_matrix


def generated(n_train: int, n_test: int = 5000, seed: int = 0) -> Titles:
    """Return generated titles."""
    rng = np.random.default_rng([seed, n_train])
    n_words, n_labels = (round(size * (n_train / 581_000) ** 0.5) for size in (200_000, 25_000))
    n = n_train + n_test
    topics = _power_law(rng, n, max(2, n_labels // LABELS_PER_TOPIC), 0.7)
    labels = _labels(rng, topics, n_labels)
    counts = _words(rng, topics, labels, n_words, n_labels)
    Y = _marks(labels, n_labels)
    df = np.bincount(counts.indices[: counts.indptr[n_train]], minlength=n_words)
    idf = np.log((1.0 + n_train) / (1.0 + df)) + 1.0
    counts.data = ((1.0 + np.log(counts.data)) * idf[counts.indices]).astype(np.float32)
    X = unit_rows(counts[:, df >= 2])  # as `Tfidf` does
    return Titles(X[:n_train], Y[:n_train], X[n_train:], Y[n_train:])


def _power_law(rng: np.random.Generator, n: int, size: int, exponent: float) -> np.ndarray:
    """Draw n ranks below `size` with probability near (rank + 1) ** -exponent, by inversion."""
    power = 1.0 - exponent
    drawn = (1.0 + rng.random(n) * ((size + 1.0) ** power - 1.0)) ** (1.0 / power) - 1.0
    return np.asarray(np.minimum(drawn.astype(np.int64), size - 1))


def _labels(rng: np.random.Generator, topics: np.ndarray, n_labels: int) -> np.ndarray:
    """Draw the labels of each title, (n, 3); -1 pads. Topic t has the labels t, t + T, t + 2T..."""
    n, n_topics = len(topics), max(2, n_labels // LABELS_PER_TOPIC)
    drawn = np.full((n, 3), -1)
    for place, share in enumerate((1.0, 0.45, 0.15)):
        elsewhere = _power_law(rng, n, n_topics, 0.7)
        topic = np.where(rng.random(n) < FROM_ELSEWHERE, elsewhere, topics)
        label = topic + n_topics * _power_law(rng, n, n_labels // n_topics, 0.9)
        drawn[:, place] = np.where(rng.random(n) < share, label, -1)
    return drawn


def _words(
    rng: np.random.Generator, topics: np.ndarray, labels: np.ndarray, n_words: int, n_labels: int
) -> csr_matrix:
    """Draw the words of each title, as a matrix of counts."""
    n, n_topics = len(topics), max(2, n_labels // LABELS_PER_TOPIC)
    of_topic = _own_words(rng, (n_topics, WORDS_OF_TOPIC), n_words)
    of_label = _own_words(rng, (n_labels, WORDS_OF_LABEL), n_words)
    lengths = np.clip(rng.poisson(9.0, n), SHORTEST, LONGEST)
    rows = np.repeat(np.arange(n), lengths)
    size = len(rows)
    commonest = rng.choice(COMMONEST, size, p=_shares(1.0 / np.arange(3.0, 3.0 + COMMONEST)))
    common = COMMONEST + _power_law(rng, size, n_words - COMMONEST, 1.05)
    topical = of_topic[topics[rows], _power_law(rng, size, WORDS_OF_TOPIC, 0.8)]
    which = rng.integers(0, 3, size)
    label = labels[rows, which]
    label = np.where(label < 0, labels[rows, 0], label)
    specific = of_label[label, _power_law(rng, size, WORDS_OF_LABEL, 0.5)]
    kind = np.searchsorted(np.cumsum(SHARES), rng.random(size))
    words = np.choose(kind, [commonest, common, topical, specific])
    ones = np.ones(size, np.float32)
    counts = csr_matrix((ones, (rows, words)), shape=(n, n_words))
    counts.sum_duplicates()
    return counts


def _shares(weights: np.ndarray) -> np.ndarray:
    return np.asarray(weights / weights.sum())


def _own_words(rng: np.random.Generator, shape: tuple[int, int], n_words: int) -> np.ndarray:
    """Draw words of topics or labels: half as likely as common words to be frequent ones."""
    drawn = SPARED + _power_law(rng, shape[0] * shape[1], n_words - SPARED, 0.6)
    return drawn.reshape(shape)


def _marks(labels: np.ndarray, n_labels: int) -> csr_matrix:
    """Return the labels of each title as a matrix of ones."""
    rows, places = np.nonzero(labels >= 0)
    ones = np.ones(len(rows), np.float32)
    marks = csr_matrix((ones, (rows, labels[rows, places])), shape=(len(labels), n_labels))
    marks.sum_duplicates()
    marks.data[:] = 1.0
    return marks
