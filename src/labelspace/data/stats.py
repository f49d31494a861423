"""Statistics of a data set as papers report them, and head, torso and tail labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelspace._core.sparse import rows_of
from labelspace.data.dataset import Dataset
from labelspace.errors import InputError

HEAD, TORSO, TAIL = 0, 1, 2

_SHOWN_ROWS, _SHOWN_LETTERS = 3, 200


def label_bands(counts: np.ndarray) -> np.ndarray:
    """Return the band of each label: 0 (head), 1 (torso) or 2 (tail).

    Labels are sorted from the most frequent to the rarest, ties by id. The head holds the first
    50 % of all label assignments, the torso the next 35 %, the tail the rest. A label belongs to
    the band of its first assignment; labels without examples are tail.

    Parameters
    ----------
    counts : array-like of shape (n_labels,)
        Number of training examples per label.

    Returns
    -------
    ndarray of int8
        The band of each label.

    Raises
    ------
    InputError
        If the counts are not whole numbers from 0 on.

    Examples
    --------
    >>> label_bands([10, 5, 2, 1, 1, 1, 0]).tolist()
    [0, 1, 1, 2, 2, 2, 2]
    """
    counts = np.asarray(counts)
    if counts.ndim != 1 or (counts < 0).any() or (counts != np.floor(counts)).any():
        raise InputError("counts must be one whole number, not negative, for each label")
    counts = counts.astype(np.int64)
    order = np.argsort(-counts, kind="stable")
    total = counts.sum()
    before = np.cumsum(counts[order]) - counts[order]
    bands = np.empty(len(counts), np.int8)
    # In whole numbers, so that no rounding moves a label: before/total < 1/2 and < 17/20.
    bands[order] = np.where(
        2 * before < total, HEAD, np.where(20 * before < 17 * total, TORSO, TAIL)
    )
    return bands


def statistics(dataset: Dataset) -> dict[str, Any]:
    """Return the statistics that papers report.

    Parameters
    ----------
    dataset : Dataset
        The data.

    Returns
    -------
    dict
        Numbers of points, features and labels, means per point and per label, rows without labels
        or features, labels per band; `features` is None where the examples are text only.

    Examples
    --------
    >>> from labelspace.data import read
    >>> figures = statistics(read([{"text": "a", "labels": ["x", "y"]}, {"text": "b"}]))
    >>> figures["points"], figures["labels_per_point"], figures["rows_without_labels"]
    (2, 1.0, 1)
    """
    # Only labels that occur are counted, as a file may claim any number. The others are tail.
    _, counts = np.unique(dataset.labels.indices, return_counts=True)
    bands = np.bincount(label_bands(counts), minlength=3)
    bands[TAIL] += dataset.n_labels - len(counts)
    features = _features_per_row(dataset)
    taxonomy = dataset.taxonomy
    figures: dict[str, Any] = {
        "points": len(dataset),
        "features": dataset.n_features,
        "labels": dataset.n_labels,
        "points_per_label": _ratio(dataset.labels.nnz, dataset.n_labels),
        "labels_per_point": _ratio(dataset.labels.nnz, len(dataset)),
        "features_per_point": None if features is None else _ratio(features.sum(), len(features)),
        "labels_used": len(counts),
        "rows_without_labels": int(np.count_nonzero(np.diff(dataset.labels.indptr) == 0)),
        "rows_without_features": _rows_without_features(dataset, features),
        "head_labels": int(bands[HEAD]),
        "torso_labels": int(bands[TORSO]),
        "tail_labels": int(bands[TAIL]),
    }
    if isinstance(dataset.features, np.ndarray) and np.isnan(dataset.features).any():
        figures["missing_numbers"] = int(np.count_nonzero(np.isnan(dataset.features)))
    if taxonomy is not None:
        figures["taxonomy_edges"] = len(taxonomy.edges)
        figures["taxonomy_depth"] = int(taxonomy.depths().max(initial=0))
    return figures


def _features_per_row(dataset: Dataset) -> np.ndarray | None:
    """Return the number of nonzero features per row."""
    if dataset.features is None:
        return None
    if isinstance(dataset.features, np.ndarray):
        return np.asarray(np.count_nonzero(np.nan_to_num(dataset.features), axis=1))
    rows = rows_of(dataset.features)
    return np.bincount(rows[dataset.features.data != 0], minlength=len(dataset))


def _rows_without_features(dataset: Dataset, features: np.ndarray | None) -> int:
    """Count the rows without features, or without text where there are no features."""
    if features is not None:
        return int(np.count_nonzero(features == 0))
    if dataset.texts is None:
        return len(dataset)
    return sum(not text.strip() for text in dataset.texts)


def _ratio(amount: float, of: int) -> float:
    return float(amount) / of if of else 0.0


def samples(dataset: Dataset) -> list[dict[str, Any]]:
    """Return the first rows as they were understood, long texts shortened."""
    numbers = dataset.number_names
    found = []
    for row in range(min(_SHOWN_ROWS, len(dataset))):
        sample: dict[str, Any] = {}
        if dataset.ids is not None:
            sample["id"] = dataset.ids[row]
        if dataset.texts is not None:
            text = dataset.texts[row]
            long = len(text) > _SHOWN_LETTERS
            sample["text"] = text[: _SHOWN_LETTERS - 1] + "…" if long else text
        sample["labels"] = _label_names(dataset, row)
        if isinstance(dataset.features, np.ndarray):
            values = [None if np.isnan(value) else float(value) for value in dataset.features[row]]
            sample["numbers"] = dict(zip(numbers, values, strict=True)) if numbers else values
        elif dataset.features is not None:
            sample["features"] = int(np.diff(dataset.features.indptr)[row])
        found.append(sample)
    return found


def _label_names(dataset: Dataset, row: int) -> list[str]:
    names, labels = dataset.label_names, dataset.labels[row].indices.tolist()
    return [str(label) if names is None else names[label] for label in labels]


def suspicions(dataset: Dataset) -> list[str]:
    """Return warnings, as sentences, on data that were probably read the wrong way."""
    one_each = len(dataset) > 0 and bool((np.diff(dataset.labels.indptr) == 1).all())
    is_table = dataset.texts is not None or isinstance(dataset.features, np.ndarray)
    if one_each and is_table and dataset.n_labels > 1:
        return [
            "every example has exactly one label: if cells hold several, set the separator "
            "with --label-separator"
        ]
    return []
