"""The cut of the training data that methods validate on: how large it is, and which rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

from labelspace._core.sparse import as_csr, unit_rows
from labelspace.components.training_data import TrainingData

LEAST_VALIDATED, MOST_VALIDATED = 1000, 4000
RELATED = 0.8  # cosine from which two examples are versions of one
# The search for versions reads so many entries at most, half a minute's worth; what it has not
# found by then is cut at random.
MOST_WORK, WORK_PER_CELL = 1e10, 100
WORK_AT_A_TIME = 2e8


def validation_share(wanted: float | None, n_examples: int) -> float:
    """2 % of the examples, up to 10 % where these are fewer than 1,000, and 4,000 at most."""
    if wanted is None:
        wanted = max(0.02, min(0.1, LEAST_VALIDATED / n_examples))
    return min(wanted, MOST_VALIDATED / n_examples)


def cut_size(fraction: float, n_rows: int) -> int:
    """How many rows a cut of this share holds: never all."""
    return max(0, min(round(fraction * n_rows), n_rows - 1))


def cut_validation(
    n_rows: int, fraction: float = 0.05, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(training rows, validation rows): a seeded cut of the given share, both sorted."""
    order = np.random.default_rng([seed, n_rows]).permutation(n_rows)
    size = cut_size(fraction, n_rows)
    return np.sort(order[size:]), np.sort(order[:size])


def cut_apart(X: csr_matrix, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """As `cut_validation`, but half of the cut has no version of its examples on the other side.

    Catalogues are full of near duplicates, and of what is asked some are versions of what is known
    and some are new. Whatever remembers examples is worth much for the one kind and less for the
    other: a cut at random shows the first alone.
    """
    n_rows = X.shape[0]
    order = np.random.default_rng([seed, n_rows]).permutation(n_rows)
    size = cut_size(fraction, n_rows)
    held = _families(X, order, size // 2)[0] > 0
    others = order[~held[order]]
    held[others[: size - np.count_nonzero(held)]] = True
    return np.nonzero(~held)[0], np.nonzero(held)[0]


def family_sizes(X: csr_matrix) -> np.ndarray:
    """Of each example, how many there are of it: itself, its versions, and the versions of these.

    A hundred versions of one product tell no more of a method than one of them does. Examples
    that the search for versions does not come to count as one each.
    """
    sizes, _ = _families(X, np.arange(X.shape[0]), X.shape[0])
    return np.asarray(np.maximum(sizes, 1))


def _families(
    X: csr_matrix, order: np.ndarray, size: int, most_work: float | None = None
) -> tuple[np.ndarray, int]:
    """The sizes of whole families, taken in this order until they make up the size; else 0.

    Also returns the work done, in entries of lists and rows that were read. The search ends after
    `most_work` (None: an amount that grows with the data), with the families found by then.
    """
    rows = unit_rows(X)
    postings = csr_matrix(rows.T)
    if most_work is None:
        most_work = MOST_WORK + WORK_PER_CELL * rows.nnz
    family, n_rows = np.zeros(X.shape[0], np.int64), X.shape[0]
    progress = np.zeros(5, np.int64)
    scratch = (
        np.zeros(X.shape[1], np.float32),
        np.full(n_rows, -1, np.int64),
        np.zeros(n_rows, np.bool_),
        np.empty(n_rows, np.int64),
    )
    ends = postings.indptr[1:].copy()
    # Back to Python now and then: Ctrl-C is heard there alone.
    while progress[-1] < most_work and not _take_families(
        *(order, size, rows.indptr, rows.indices, rows.data),
        *(postings.indptr, ends, postings.indices, *scratch, family, progress),
        min(progress[-1] + WORK_AT_A_TIME, most_work),
    ):
        pass
    return family, int(progress[-1])


class Parts(NamedTuple):
    """Examples to train on, those to validate on, if any, and which rows of the data both are."""

    X: csr_matrix
    Y: csr_matrix
    valid: tuple[csr_matrix, csr_matrix] | None
    rows: np.ndarray


def parts_of(data: TrainingData, wanted: float | None, seed: int) -> Parts:
    """What the caller holds out is taken for validation, else a cut of the share that is wanted.

    Where either side would be without labels, there is no validation.
    """
    X, Y = as_csr(data.X), data.Y
    everything = np.arange(X.shape[0])
    if data.valid is not None:
        held = (as_csr(data.valid[0]), data.valid[1])
        return Parts(X, Y, held if held[1].nnz else None, everything)
    rows, cut = cut_validation(X.shape[0], validation_share(wanted, X.shape[0]), seed)
    if Y[cut].nnz == 0 or Y[rows].nnz == 0:
        return Parts(X, Y, None, everything)
    return Parts(X[rows], Y[rows], (X[cut], Y[cut]), np.concatenate([rows, cut]))


@njit(cache=True, nogil=True)
def _take_families(  # type: ignore[no-untyped-def]
    order, size, indptr, indices, data, p_indptr, p_ends, p_indices, query, met, seen, versions,
    family, progress, pause,
):  # fmt: skip
    """Mark examples in the given order, with their versions and the versions of these.

    Those that do not fit into the size together are left out. A version shares more than the
    features that many examples have: as long as those left aside weigh less than RELATED together,
    all versions are met without their long lists. Examples that were seen are taken off the lists,
    so that many that are alike are read once.

    progress  where the search stands: place in the order, members of the family at hand, those of
              them that were looked at, examples taken, and work done
    pause     the amount of work at which to return; True is returned when all is done
    """
    place, count, done, taken, work = progress
    finished = False
    while work < pause:
        if done == count:
            if count > 0 and taken + count <= size:
                family[versions[:count]] = count
                taken += count
            count = done = 0
            while place < len(order) and seen[order[place]]:
                place += 1
            if place == len(order) or taken >= size:
                finished = True
                break
            versions[0], seen[order[place]], count = order[place], True, 1
        row = versions[done]
        done += 1
        own = indices[indptr[row] : indptr[row + 1]]
        query[own] = data[indptr[row] : indptr[row + 1]]
        work += 1 + len(own)
        aside = 0.0
        for feature in own[np.argsort(p_indptr[own] - p_indptr[own + 1])]:
            aside += query[feature] ** 2
            if aside < RELATED**2:
                continue
            kept = p_indptr[feature]
            work += p_ends[feature] - kept
            for entry in range(p_indptr[feature], p_ends[feature]):
                other = p_indices[entry]
                if seen[other]:
                    continue
                if met[other] != row:
                    met[other] = row
                    cosine = 0.0
                    for cell in range(indptr[other], indptr[other + 1]):
                        cosine += query[indices[cell]] * data[cell]
                    work += indptr[other + 1] - indptr[other]
                    if cosine >= RELATED:
                        versions[count], seen[other] = other, True
                        count += 1
                        continue
                p_indices[kept] = other
                kept += 1
            p_ends[feature] = kept
        query[own] = 0.0
    progress[0], progress[1], progress[2], progress[3], progress[4] = (
        place, count, done, taken, work,
    )  # fmt: skip
    return finished
