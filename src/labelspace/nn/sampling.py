"""Random parts of a batch: sampled negatives, examples that share labels, dropped features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.compiled import loop, loop_part

Negatives = Literal["in-batch", "uniform", "frequency", "hard", "all"]


def drop_features(
    X: csr_matrix, keep: float, rng: np.random.Generator, *, rescale: bool = True
) -> csr_matrix:
    """Return X with each non-zero kept by chance `keep` and divided by it, which keeps the mean.

    Parameters
    ----------
    X : csr_matrix
        It is not changed; with `keep` 1 it is returned itself.
    keep : float
        Share of the non-zeros that are kept, above 0 and at most 1.
    rng : numpy.random.Generator
    rescale : bool
        Divide what is kept by `keep`.

    Returns
    -------
    csr_matrix

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix(np.ones((1, 6), np.float32))
    >>> drop_features(X, 0.5, np.random.default_rng(0)).toarray()
    array([[0., 0., 0., 2., 2., 2.]], dtype=float32)
    """
    if keep == 1:
        return X
    kept = rng.random(X.nnz, np.float32) < keep
    return _thinned(X, kept, keep if rescale else 1.0)


def _thinned(X: csr_matrix, kept: np.ndarray, divisor: float) -> csr_matrix:
    thinned = X.copy()
    values = X.data if divisor == 1.0 else X.data / np.float32(divisor)
    thinned.data = np.where(kept, values, np.float32(0.0))
    thinned.eliminate_zeros()
    return thinned


def own_features(
    X: csr_matrix,
    rows: np.ndarray,
    own: np.ndarray | slice,
    keep: float,
    rng: np.random.Generator,
    *,
    rescale: bool = True,
) -> csr_matrix:
    """Return what `drop_features` leaves of a batch, of one worker's part of it alone.

    Parameters
    ----------
    X : csr_matrix
        All training examples, of which only the part is read.
    rows : ndarray of int
        The examples of the whole batch.
    own : ndarray of int, or slice
        The places in the batch that are this worker's.
    keep, rescale
        As of `drop_features`.
    rng : numpy.random.Generator
        It advances as for the whole batch.

    Returns
    -------
    csr_matrix
    """
    mine = rows[own]
    if len(mine) == len(rows):
        return drop_features(X[rows], keep, rng, rescale=rescale)
    part = X[mine]
    if keep == 1:
        return part
    sizes = X.indptr[rows + 1] - X.indptr[rows]
    ends = np.cumsum(sizes)
    starts, counts = (ends - sizes)[own], sizes[own]
    cells = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    kept = rng.random(ends[-1], np.float32)[cells] < keep
    return _thinned(part, kept, keep if rescale else 1.0)


@dataclass(frozen=True)
class Candidates:
    """The labels that a batch is scored against.

    Attributes
    ----------
    labels : ndarray of int64
        Distinct and sorted.
    inclusion : ndarray of float32
        The chance of each to be among them, by which sampled losses are corrected.
    drawn : ndarray of int
        Those that are there as negatives, in any order, whether or not the batch has them.
    """

    labels: np.ndarray
    inclusion: np.ndarray
    drawn: np.ndarray

    def columns(self, labels: np.ndarray) -> np.ndarray:
        """Return the positions of these labels, all of which must be candidates."""
        return np.searchsorted(self.labels, labels)


class CandidateSampler:
    """Draws the candidates of a batch: the labels of its examples and sampled negatives.

    Parameters
    ----------
    Y : csr_matrix of shape (examples, labels)
        Labels of all training examples.
    kind : {"in-batch", "uniform", "frequency", "hard", "all"}
        "in-batch" draws no negatives; "uniform" draws `count` labels without replacement;
        "frequency" makes `count` draws by training frequency to the power 3/4; "hard" draws as
        "uniform" and adds the labels passed to `draw`; "all" takes every label, for exact losses.
    count : int

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> Y = csr_matrix(np.eye(8, dtype=np.float32))
    >>> sampler = CandidateSampler(Y, "uniform", count=2)
    >>> sampler.draw(Y[:2], np.random.default_rng(0)).labels
    array([0, 1, 5, 7])
    """

    def __init__(self, Y: csr_matrix, kind: Negatives, count: int) -> None:
        n, self.n_labels = Y.shape
        self.kind = kind
        self.count = min(count, self.n_labels) if kind != "in-batch" else 0
        frequency = np.bincount(Y.indices, minlength=self.n_labels)
        self.share = frequency / n
        weights = frequency**0.75 if kind == "frequency" else np.ones(self.n_labels)
        self.chance = weights / weights.sum()
        if kind == "frequency":
            self._cumulative = np.cumsum(self.chance)
            self._cumulative /= self._cumulative[-1]

    def draw(
        self, Y: csr_matrix, rng: np.random.Generator, hard: np.ndarray | None = None
    ) -> Candidates:
        """Return the candidates of a batch.

        Parameters
        ----------
        Y : csr_matrix of shape (batch, labels)
            Labels of the batch's examples.
        rng : numpy.random.Generator
        hard : ndarray of shape (batch, h), optional
            Hard negatives of each example, -1 where there is none.

        Returns
        -------
        Candidates
        """
        if self.kind == "all":
            every = np.arange(self.n_labels)
            return Candidates(every, np.ones(self.n_labels, np.float32), every)
        drawn = self._negatives(rng)
        if hard is not None:
            drawn = np.concatenate([drawn, hard[hard >= 0]])
        labels = np.unique(np.concatenate([Y.indices, drawn])).astype(np.int64)
        inclusion = inclusion_chance(self.share[labels], Y.shape[0], self._drawn_chance(labels))
        if hard is not None:
            inclusion[np.isin(labels, hard)] = 1.0  # candidates by certainty, not by chance
        return Candidates(labels, np.maximum(inclusion, 1e-6).astype(np.float32), drawn)

    def _negatives(self, rng: np.random.Generator) -> np.ndarray:
        if self.kind == "frequency":
            # As `rng.choice(p=chance)`, which sums up all labels at every call.
            return self._cumulative.searchsorted(rng.random(self.count), side="right")
        return rng.choice(self.n_labels, self.count, replace=False, shuffle=False)

    def _drawn_chance(self, labels: np.ndarray) -> np.ndarray | float:
        if self.kind == "frequency":
            return np.asarray(1.0 - (1.0 - self.chance[labels]) ** self.count)
        return float(self.count / self.n_labels)


def inclusion_chance(share: np.ndarray, batch_size: int, drawn: np.ndarray | float) -> np.ndarray:
    """Return the chance of labels to be candidates of a batch, as its own or as negatives.

    Parameters
    ----------
    share : ndarray
        Share of the training examples that have each label.
    batch_size : int
    drawn : ndarray or float
        Chance of each label to be drawn as a negative.

    Returns
    -------
    ndarray
    """
    in_batch = 1.0 - (1.0 - share) ** batch_size
    return np.asarray(in_batch + (1.0 - in_batch) * drawn)


def negatives_per_row(Y: csr_matrix, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw labels that an example does not have, for each example of a batch.

    All labels outside the row are as likely, and one may be drawn twice. No draw is rejected: the
    u-th label outside of a sorted row is u plus the number of its labels that come before it.

    Parameters
    ----------
    Y : csr_matrix of shape (batch, labels)
        With sorted indices.
    count : int
        Draws per row.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (batch, count)
        int64; -1 in rows that have every label.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> Y = csr_matrix([[1, 0, 1, 0], [1, 1, 1, 1]])
    >>> negatives_per_row(Y, 5, np.random.default_rng(0))
    array([[ 3,  1,  1,  1,  3],
           [-1, -1, -1, -1, -1]])
    """
    found = np.full((Y.shape[0], count), -1, np.int64)
    _draw_outside(Y.indptr, Y.indices, Y.shape[1], rng.random(found.shape), found)
    return found


@loop
def _draw_outside(indptr, indices, n_labels, chances, found):  # type: ignore[no-untyped-def]
    for row in range(len(found)):
        own = indices[indptr[row] : indptr[row + 1]]
        outside = n_labels - len(own)
        if outside == 0:
            continue
        for place in range(found.shape[1]):
            drawn = int(chances[row, place] * outside)
            low, high = 0, len(own)
            while low < high:  # the number of own labels before the drawn one
                middle = (low + high) // 2
                if own[middle] - middle <= drawn:
                    low = middle + 1
                else:
                    high = middle
            found[row, place] = drawn + low


class Partners:
    """Draws for an example another one that shares a label with it.

    A batch drawn evenly from many examples has no two that share a rare label, so that nothing
    would be learned of it. A draw takes a label of the example, and then an example that has it. Of
    several draws the example with the most similar labels is returned: the best of many comes near
    to the nearest neighbour by label cosine, at no cost before training.

    Parameters
    ----------
    Y : csr_matrix of shape (examples, labels)
        With sorted indices.
    label_weight : ndarray of shape (labels,)
        The label of a draw is chosen in proportion to it; rare labels should weigh more.
    draws : int

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> Y = csr_matrix([[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    >>> Partners(Y, np.ones(3), draws=20).draw(np.arange(3), np.random.default_rng(0))
    array([1, 0, 2])
    """

    def __init__(self, Y: csr_matrix, label_weight: np.ndarray, draws: int = 1) -> None:
        self.Y, self.draws = Y, draws
        self.with_label = csr_matrix(Y.T)
        # Running sums over all cells of Y: a uniform draw between a row's ends picks a label.
        self.sums = np.concatenate([[0.0], np.cumsum(label_weight[Y.indices])])

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a partner of each row; the row itself if no other one was drawn.

        Parameters
        ----------
        rows : ndarray of int
        rng : numpy.random.Generator

        Returns
        -------
        ndarray of int, of the same length
        """
        found = rows.copy()
        labelled = np.flatnonzero(self.Y.indptr[rows + 1] > self.Y.indptr[rows])
        # The order of random numbers is that of earlier versions, whose models stay the same.
        if self.draws == 1:
            chances = rng.random((2, len(labelled), 1))
        else:
            chances = np.moveaxis(rng.random((len(rows), self.draws, 2))[labelled], 2, 0).copy()
        _draw_partners(
            *(labelled, rows, self.Y.indptr, self.Y.indices, self.sums),
            *(self.with_label.indptr, self.with_label.indices, chances, found),
        )
        return found


@loop
def _draw_partners(  # type: ignore[no-untyped-def]
    places, rows, indptr, indices, sums, t_indptr, t_indices, chances, found
):
    for number in range(len(places)):
        row, best = rows[places[number]], 0.0
        start, stop = indptr[row], indptr[row + 1]
        for draw in range(chances.shape[2]):
            drawn = sums[start] + chances[0, number, draw] * (sums[stop] - sums[start])
            low, high = start, stop
            while low < high:  # searchsorted takes longer to compile
                middle = (low + high) // 2
                if sums[middle] <= drawn:
                    low = middle + 1
                else:
                    high = middle
            cell = low - 1
            first, last = t_indptr[indices[cell]], t_indptr[indices[cell] + 1]
            other = t_indices[first + int(chances[1, number, draw] * (last - first))]
            similarity = _cosine(indices[start:stop], indices[indptr[other] : indptr[other + 1]])
            if other != row and similarity > best:
                best, found[places[number]] = similarity, other


@loop_part
def _cosine(one, other):  # type: ignore[no-untyped-def]
    """Return the cosine of two sorted sets."""
    a, b, shared = 0, 0, 0
    while a < len(one) and b < len(other):
        if one[a] == other[b]:
            shared += 1
            a += 1
            b += 1
        elif one[a] < other[b]:
            a += 1
        else:
            b += 1
    return shared / np.sqrt(len(one) * len(other))
