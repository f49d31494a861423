"""`Ranking`, the result of every method: the best k labels of each example with their scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import rows_of

_SHOWN, _SHOWN_IN_HTML = 5, 20  # rows that a repr holds


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """The best k labels of n examples, best first.

    Attributes
    ----------
    labels : ndarray of shape (n, k), int64
        Label numbers; -1 pads a row that has fewer than k labels.
    scores : ndarray of shape (n, k), float32
        Scores in [0, 1]; 0 where padded. They fall within a row, unless the method ranks by
        another quantity than its scores: `Fusion(objective="psp")` ranks rare labels higher than
        their probabilities, which are the scores.

    Examples
    --------
    >>> import numpy as np
    >>> from labelspace import Ranking
    >>> ranking = Ranking(np.array([[4, 2], [7, -1]]), np.array([[0.9, 0.5], [0.25, 0.0]]))
    >>> len(ranking), ranking.k
    (2, 2)
    >>> ranking
    Ranking(2 examples, k=2)
      4 (0.900), 2 (0.500)
      7 (0.250)
    """

    labels: np.ndarray
    scores: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Any) -> Ranking:
        """Return the ranking of some examples: a number, a slice, or an array of either kind."""
        labels, scores = self.labels[rows], self.scores[rows]
        return Ranking(np.atleast_2d(labels), np.atleast_2d(scores))

    def __iter__(self) -> Iterator[Ranking]:
        return (self[row] for row in range(len(self)))

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a ranking is two arrays: use its labels or its scores")

    def __array_function__(self, function: Any, _: Any, args: Any, kwargs: Any) -> Any:
        # scikit-learn's cross_val_predict joins the predictions of its folds by this function.
        if function is np.concatenate and not kwargs and len(args) == 1:
            return Ranking.stack(list(args[0]))
        return NotImplemented

    def __repr__(self) -> str:
        shown = []
        for labels, scores in zip(self.labels[:_SHOWN], self.scores[:_SHOWN], strict=True):
            pairs = zip(labels[:_SHOWN].tolist(), scores[:_SHOWN].tolist(), strict=True)
            best = [f"{label} ({score:.3f})" for label, score in pairs if label >= 0]
            shown.append(", ".join(best) or "no label")
        head = f"Ranking({len(self):,} examples, k={self.k})"
        more = [f"  ... {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        return "\n".join([head, *(f"  {line}" for line in shown), *more])

    def _repr_html_(self) -> str:
        rows = []
        for number in range(min(len(self), _SHOWN_IN_HTML)):
            pairs = zip(self.labels[number].tolist(), self.scores[number].tolist(), strict=True)
            cells = "".join(
                f"<td>{label} <small>{score:.3f}</small></td>" if label >= 0 else "<td></td>"
                for label, score in pairs
            )
            rows.append(f"<tr><th>{number}</th>{cells}</tr>")
        places = "".join(f"<th>{place}</th>" for place in range(1, self.k + 1))
        more = len(self) - len(rows)
        caption = f"{len(self):,} examples" + (f", the first {len(rows)} shown" if more else "")
        return (
            f"<table><caption>{caption}</caption>"
            f"<tr><th>row</th>{places}</tr>{''.join(rows)}</table>"
        )

    @property
    def k(self) -> int:
        """Return the number of labels per example, padding included."""
        return int(self.labels.shape[1])

    def take(self, rows: np.ndarray) -> Ranking:
        """Return the ranking of these rows.

        Parameters
        ----------
        rows : ndarray
            Row numbers, or a mask.
        """
        return Ranking(self.labels[rows], self.scores[rows])

    @classmethod
    def empty(cls, n: int, k: int) -> Ranking:
        """Return a ranking of n examples without any label: padding only."""
        return cls(np.full((n, k), -1, np.int64), np.zeros((n, k), np.float32))

    @classmethod
    def from_sparse(cls, scores: csr_matrix, k: int) -> Ranking:
        """Return the labels of the k largest stored values of each row.

        Parameters
        ----------
        scores : csr_matrix of shape (n, labels)
            Scores in [0, 1]. Of equal scores the smaller label comes first.
        k : int
            Labels per example.

        Examples
        --------
        >>> from scipy.sparse import csr_matrix
        >>> Ranking.from_sparse(csr_matrix([[0.0, 0.25, 0.75]]), k=2).labels
        array([[2, 1]])
        """
        rows = rows_of(scores)
        order = np.lexsort((scores.indices, -scores.data, rows))
        place = np.arange(len(rows)) - scores.indptr[rows]
        kept = place < k
        best = cls.empty(scores.shape[0], k)
        best.labels[rows[kept], place[kept]] = scores.indices[order][kept]
        best.scores[rows[kept], place[kept]] = scores.data[order][kept]
        return best

    @classmethod
    def stack(cls, parts: list[Ranking]) -> Ranking:
        """Return the rankings of consecutive examples as one."""
        return cls(
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.scores for part in parts]),
        )
