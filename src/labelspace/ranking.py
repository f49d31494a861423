"""What a method answers with: for each example the best k labels and how sure it is of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import csr_matrix

_SHOWN, _SHOWN_IN_HTML = 5, 20  # rows that a repr holds


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """The best k labels of n examples, best first.

    labels  (n, k) int64; -1 pads a row that has fewer than k labels
    scores  (n, k) float32 in [0, 1], never rising along a row; 0 where padded
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
        return int(self.labels.shape[1])

    def take(self, rows: np.ndarray) -> Ranking:
        return Ranking(self.labels[rows], self.scores[rows])

    @classmethod
    def empty(cls, n: int, k: int) -> Ranking:
        """n rows of pads."""
        return cls(np.full((n, k), -1, np.int64), np.zeros((n, k), np.float32))

    @classmethod
    def from_sparse(cls, scores: csr_matrix, k: int) -> Ranking:
        """The k largest stored values of each row; ties go to the smaller label."""
        rows = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
        order = np.lexsort((scores.indices, -scores.data, rows))
        place = np.arange(len(rows)) - scores.indptr[rows]
        kept = place < k
        best = cls.empty(scores.shape[0], k)
        best.labels[rows[kept], place[kept]] = scores.indices[order][kept]
        best.scores[rows[kept], place[kept]] = scores.data[order][kept]
        return best

    @classmethod
    def stack(cls, parts: list[Ranking]) -> Ranking:
        """Rankings of consecutive examples as one."""
        return cls(
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.scores for part in parts]),
        )
