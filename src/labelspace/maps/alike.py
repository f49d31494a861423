"""Labels with similar names: where a label without a vector is drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix

_LEAST = 0.35  # cosine below which names have nothing in common but an ending
_ROWS = 1000  # names compared at once
_COMMON = 2000  # names from which on a part is not compared: the work stays linear in the labels
_NO_LETTERS = re.compile(r"[\W\d_]+")


def most_alike(names: Sequence[str], wanted: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return for each wanted label the one among others with the most similar name, or -1.

    Names are compared by the cosine of their parts of three and four letters, weighted by rarity.

    Parameters
    ----------
    names : sequence of str
        Names of all labels.
    wanted, among : int array
        Labels to find one for, and those to choose from.

    Examples
    --------
    >>> most_alike(["motor", "tree", "motors", "17"], np.array([2, 3]), np.array([0, 1]))
    array([ 0, -1])
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    found = np.full(len(wanted), -1)
    if len(wanted) == 0 or len(among) == 0:
        return found
    # Letters alone: numbers are alike without a meaning.
    plain = [_NO_LETTERS.sub(" ", names[label].lower()) for label in (*among, *wanted)]
    parts = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 4), max_df=min(_COMMON, len(plain)), dtype=np.float32
    )
    try:
        rows = csr_matrix(parts.fit_transform(plain))
    except ValueError:  # no letters, or only parts that are in too many names
        return found
    columns = csr_matrix(rows[: len(among)].T)
    for start in range(0, len(wanted), _ROWS):
        cosines = csr_matrix(rows[len(among) + start : len(among) + start + _ROWS] @ columns)
        has_any = np.flatnonzero(np.diff(cosines.indptr))
        if len(has_any) == 0:
            continue
        best = np.asarray(cosines.argmax(axis=1)).ravel()[has_any]
        enough = np.asarray(cosines[has_any, best]).ravel() >= _LEAST
        found[start + has_any[enough]] = among[best[enough]]
    return found
