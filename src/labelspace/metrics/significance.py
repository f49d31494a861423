"""Significance of differences between systems that were tested on the same examples.

The paired randomisation test [1]_ asks how often a difference as large as the measured one comes
about if the two systems do not differ: then the two values of an example may be exchanged, which
flips the sign of its difference. It assumes no distribution, only that a metric is a mean over
examples. Written here because `scipy.stats.permutation_test` keeps all flips of one pair in memory;
here the same flips serve all pairs, in blocks.

References
----------
.. [1] M. D. Smucker, J. Allan and B. Carterette. A Comparison of Statistical Significance Tests for
   Information Retrieval Evaluation. CIKM 2007.
.. [2] S. Holm. A Simple Sequentially Rejective Multiple Test Procedure. Scandinavian Journal of
   Statistics 6, 1979.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from labelspace.errors import InputError

FLIPS, RESAMPLES, CONFIDENCE = 10_000, 2_000, 0.95
_EXAMPLES, _AT_ONCE = 1 << 14, 16  # of a block: a few MB
_ROUNDING = 1e-10  # sums of differences that are closer, relative to the largest sum, are equal


@dataclass(frozen=True)
class PairedTest:
    """The difference of two systems: the mean over examples of the first less that of the second.

    Attributes
    ----------
    difference : float
    low, high : float
        Its confidence interval.
    p : float
        The two-sided p-value of the randomisation test.
    """

    difference: float
    low: float
    high: float
    p: float


def paired_tests(
    values: np.ndarray,
    pairs: Sequence[tuple[int, int]],
    *,
    flips: int = FLIPS,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> list[PairedTest]:
    """Test whether systems differ on the same examples, and by how much.

    All pairs are tested by the same random flips of signs and the same resamples of the examples.

    Parameters
    ----------
    values : ndarray of shape (examples, columns)
        A metric of each example, one column per system, or per system and metric.
    pairs : sequence of (int, int)
        The columns to compare.
    flips : int
        Random flips of signs. The p-value is (1 + those with a difference at least as large as the
        measured one, in absolute value) / (1 + flips), so that it is never 0.
    resamples : int
        Samples of the examples, drawn with replacement, of the bootstrap interval.
    confidence : float
        Share of the resamples within the interval.
    seed : int
        Seed of both.

    Returns
    -------
    list of PairedTest
        One for each pair.

    Raises
    ------
    InputError
        If the values are not a matrix of numbers with at least one row.

    Examples
    --------
    >>> import numpy as np
    >>> right = np.array([[1.0, 0.0]] * 30 + [[0.0, 1.0]] * 10)  # 30 and 10 of 40 examples
    >>> (found,) = paired_tests(right, [(0, 1)])
    >>> found.difference, found.p < 0.01, found.low > 0
    (0.5, True, True)
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise InputError(
            "expected a matrix of numbers (examples, systems) with at least one row, got shape "
            f"{values.shape}"
        )
    n, total = len(values), values.sum(axis=0)
    generator = np.random.default_rng(seed)
    flipped = total - 2.0 * _sums_of_random_halves(values, flips, generator)
    resampled = _sums_of_resamples(values, resamples, generator)
    rounding = _ROUNDING * n * float(np.abs(values).max())
    tail = 50.0 * (1.0 - confidence)
    found = []
    for one, other in pairs:
        difference = total[one] - total[other]
        by_chance = np.abs(flipped[:, one] - flipped[:, other])
        as_large = int(np.count_nonzero(by_chance >= abs(difference) - rounding))
        bounds = np.percentile(resampled[:, one] - resampled[:, other], [tail, 100.0 - tail])
        # Sums of equal columns may differ in the last digit; 0 is added so that none is -0.
        mean, low, high = (np.round(np.array([difference, *bounds]) / n, 10) + 0.0).tolist()
        found.append(PairedTest(mean, low, high, p=(1 + as_large) / (1 + flips)))
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for their number by the method of Holm [2]_.

    The chance that any of the true null hypotheses is rejected at a level is at most that level.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return [float(value) for value in corrected]


def _sums_of_random_halves(
    values: np.ndarray, n_sums: int, generator: np.random.Generator
) -> np.ndarray:
    """Return sums of the columns over examples that are each taken with probability 1/2."""
    sums = np.zeros((n_sums, values.shape[1]))
    for part, block, _ in _blocks(values, sums):
        width = -(-len(part) // 8)
        drawn = np.frombuffer(generator.bytes(len(block) * width), np.uint8)
        taken = np.unpackbits(drawn.reshape(len(block), width), axis=1, count=len(part))
        block += taken.astype(np.float64) @ part
    return sums


def _sums_of_resamples(
    values: np.ndarray, n_sums: int, generator: np.random.Generator
) -> np.ndarray:
    """Return sums of the columns over as many examples as there are, drawn with replacement."""
    sums = np.zeros((n_sums, values.shape[1]))
    sizes = np.diff([*range(0, len(values), _EXAMPLES), len(values)])
    # How many examples of each part, then which.
    drawn = generator.multinomial(len(values), sizes / len(values), size=n_sums)
    for part, block, (first, number) in _blocks(values, sums):
        rows = np.repeat(
            np.arange(len(block)) * len(part), drawn[first : first + len(block), number]
        )
        rows += generator.integers(0, len(part), len(rows))
        counts = np.bincount(rows, minlength=len(block) * len(part)).reshape(len(block), -1)
        block += counts.astype(np.float64) @ part
    return sums


def _blocks(
    values: np.ndarray, sums: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, tuple[int, int]]]:
    """Yield parts of the examples with views of the sums, so that a block of both is small.

    With them come the number of the first sum and that of the part.
    """
    for number, start in enumerate(range(0, len(values), _EXAMPLES)):
        for first in range(0, len(sums), _AT_ONCE):
            part = values[start : start + _EXAMPLES]
            yield part, sums[first : first + _AT_ONCE], (first, number)
