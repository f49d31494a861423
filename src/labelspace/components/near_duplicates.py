"""Near duplicates among examples: groups of them, and a hold-out that keeps groups together.

Two examples are near duplicates if the cosine of their features is at least
NEAR_DUPLICATE_COSINE. A group is a connected component of that relation: an example, its near
duplicates, and the near duplicates of these.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.compiled import loop
from labelspace._core.sparse import unit_rows
from labelspace._core.top_k import pop, push

NEAR_DUPLICATE_COSINE = 0.8  # different listings of one product are above it, products below
# The search reads at most so many entries of features, about half a minute's worth; examples that
# it has not reached by then are taken to have no near duplicates.
MAX_WORK, WORK_PER_NONZERO = 1e10, 100
WORK_PER_SECOND = 3e8  # entries that are read, on a slow core
WORK_PER_CALL = 2e8  # entries between two returns to Python, where Ctrl-C is noticed


def cut_by_group(
    X: csr_matrix, n_held: int, seed: int, max_work: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Split rows so that half of the hold-out has no near duplicates among the training rows.

    Catalogues are full of near duplicates, and of the examples to predict some resemble a training
    example and some do not. Methods that memorise examples are accurate on the first kind alone; a
    random hold-out holds hardly any of the second.

    Parameters
    ----------
    X : csr_matrix
        Features.
    n_held : int
        Rows to hold out. Half of them are whole groups, the others random.
    seed : int
        Seed of the permutation that groups and rows are taken by.
    max_work : float, optional
        As of `near_duplicates`.

    Returns
    -------
    train_rows, held_rows : ndarray
        Sorted row numbers.
    """
    n_rows = X.shape[0]
    order = np.random.default_rng([seed, n_rows]).permutation(n_rows)
    held = near_duplicates(X, order, n_held // 2, max_work)[0] > 0
    others = order[~held[order]]
    held[others[: n_held - np.count_nonzero(held)]] = True
    return np.nonzero(~held)[0], np.nonzero(held)[0]


def group_sizes(X: csr_matrix) -> np.ndarray:
    """Return the size of each example's group of near duplicates, 1 if it has none.

    A hundred versions of one product are no more evidence about a method than one of them is:
    1 / size is a sample weight by which each group counts once.
    """
    sizes, _ = near_duplicates(X, np.arange(X.shape[0]), X.shape[0])
    return np.asarray(np.maximum(sizes, 1))


def near_duplicates(
    X: csr_matrix, order: np.ndarray, size: int, max_work: float | None = None
) -> tuple[np.ndarray, int]:
    """Take whole groups of near duplicates until they hold `size` examples.

    Parameters
    ----------
    X : csr_matrix
        Features.
    order : ndarray
        Row numbers; groups are taken in the order of their first row.
    size : int
        Examples to take at most. A group that does not fit any more is left out.
    max_work : float, optional
        Entries of features to read before the search stops; by default it grows with the data.

    Returns
    -------
    sizes : ndarray of shape (n_rows,)
        The size of an example's group, or 0 if its group was not taken.
    work : int
        Entries that were read.
    """
    rows = unit_rows(X)
    postings = csr_matrix(rows.T)
    if max_work is None:
        max_work = MAX_WORK + WORK_PER_NONZERO * rows.nnz
    sizes, n_rows = np.zeros(X.shape[0], np.int64), X.shape[0]
    progress = np.zeros(5, np.int64)
    scratch = (
        np.zeros(X.shape[1], np.float32),
        np.full(n_rows, -1, np.int64),
        np.zeros(n_rows, np.bool_),
        np.empty(n_rows, np.int64),
        *np.empty((2, np.diff(rows.indptr).max(initial=0)), np.int64),
    )
    ends = postings.indptr[1:].copy()
    while progress[-1] < max_work and not _take_groups(
        *(order, size, rows.indptr, rows.indices, rows.data),
        *(postings.indptr, ends, postings.indices, *scratch, sizes, progress),
        min(progress[-1] + WORK_PER_CALL, max_work),
    ):
        pass
    return sizes, int(progress[-1])


@loop
def _take_groups(  # type: ignore[no-untyped-def]
    order, size, indptr, indices, data, p_indptr, p_ends, p_indices, query, compared, visited,
    group, lengths, longest, sizes, progress, pause,
):  # fmt: skip
    """Continue the search until the work reaches `pause`; return True once it has finished.

    Groups are explored breadth first. A near duplicate shares more than the features that many
    examples have: as long as the features left aside weigh less than NEAR_DUPLICATE_COSINE in sum,
    all near duplicates are found without reading their long posting lists. Visited examples are
    removed from the lists, so that many near duplicates are read once.

    `progress` holds the position in the order, the members of the current group, how many of them
    were expanded, the examples taken so far, and the work done.
    """
    place, count, done, taken, work = (
        progress[0],
        progress[1],
        progress[2],
        progress[3],
        progress[4],
    )
    finished = False
    while work < pause:
        if done == count:
            if count > 0 and taken + count <= size:
                for member in group[:count]:
                    sizes[member] = count
                taken += count
            count = done = 0
            while place < len(order) and visited[order[place]]:
                place += 1
            if place == len(order) or taken >= size:
                finished = True
                break
            group[0], visited[order[place]], count = order[place], True, 1
        row = group[done]
        done += 1
        first, last = indptr[row], indptr[row + 1]
        work += 1 + last - first
        # A heap, since numpy's sort takes longer to compile than all other loops of a training.
        queued = np.int64(0)
        for cell in range(first, last):
            query[indices[cell]] = data[cell]
            length = p_indptr[indices[cell] + 1] - p_indptr[indices[cell]]
            queued = push(length, indices[cell], lengths, longest, queued)
        aside = 0.0
        while queued > 0:
            feature = longest[0]
            queued = pop(lengths, longest, queued)
            aside += query[feature] ** 2
            if aside < NEAR_DUPLICATE_COSINE**2:
                continue
            kept = p_indptr[feature]
            work += p_ends[feature] - kept
            for entry in range(p_indptr[feature], p_ends[feature]):
                other = p_indices[entry]
                if visited[other]:
                    continue
                if compared[other] != row:
                    compared[other] = row
                    cosine = 0.0
                    for cell in range(indptr[other], indptr[other + 1]):
                        cosine += query[indices[cell]] * data[cell]
                    work += indptr[other + 1] - indptr[other]
                    if cosine >= NEAR_DUPLICATE_COSINE:
                        group[count], visited[other] = other, True
                        count += 1
                        continue
                p_indices[kept] = other
                kept += 1
            p_ends[feature] = kept
        for cell in range(first, last):
            query[indices[cell]] = 0.0
    progress[0], progress[1], progress[2], progress[3], progress[4] = (
        place, count, done, taken, work,
    )  # fmt: skip
    return finished
