"""Data and parameters at the edge: each gives a model with finite numbers, or an error of ours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import all_finite
from labelspace.errors import LabelspaceError
from labelspace.methods.registry import method_class
from support.planted import planted
from support.small import SMALL

Pair = tuple[Any, Any]


def data_sets() -> dict[str, Pair]:
    """Return examples and labels by what is unusual about them."""
    X, Y = planted(70)
    dense, labels = X.toarray(), Y.toarray()
    every = labels.copy()
    every[:, 3] = 1
    few = np.zeros_like(labels)
    few[:5] = labels[:5]
    outlier = dense.copy()
    outlier[7, 3] = 1e30
    mixed = dense * np.float32(10) ** np.arange(-30, 30).repeat(2)[:70, None]
    last = np.zeros((70, 1), np.float32)
    return {
        "one example": (X[:1], Y[:1]),
        "one example with all labels": (X[:1], np.ones((1, 12))),
        "two equal examples": (dense[[0, 0]], labels[[0, 1]]),
        "one label": (X, np.ones((70, 1))),
        "one label on a few": (X, labels[:, :1]),
        "all labels on all": (X, np.ones((70, 12))),
        "a label on every example": (X, every),
        "no labels at all": (X, csr_matrix(Y.shape)),
        "batches without labels": (X, few),
        "as many labels as examples": (X, np.eye(70)),
        "all zero": (csr_matrix(X.shape), Y),
        "constant": (np.ones_like(dense), labels),
        "one column": (dense[:, :1], labels),
        "no columns": (csr_matrix((70, 0)), Y),
        "a column per example": (np.eye(70), labels),
        "duplicates": (dense[np.zeros(70, int)], labels),
        "duplicates with other labels": (np.repeat(dense[:35], 2, 0), labels),
        "1e30": (X * 1e30, Y),
        "-1e30": (X * -1e30, Y),
        "1e30 beside others": (outlier, labels),
        "largest float32": (np.sign(dense) * np.finfo(np.float32).max, labels),
        "denormal": (X * 1e-42, Y),
        "1e-30": (X * 1e-30, Y),
        "from 1e-30 to 1e30": (mixed, labels),
        "negative": (-dense, labels),
        "float16": (dense.astype(np.float16), labels.astype(np.float16)),
        "largest float16": (np.full(dense.shape, 65504, np.float16), labels),
        "float64": (dense.astype(np.float64) * 1e300 / 1e280, labels),
        "integers": ((dense * 10).astype(np.int64), labels.astype(np.int64)),
        "truth values": (dense > 0, labels > 0),
        "one label of many": (X, np.hstack([last] * 200 + [labels])),
        "labels in one row": (X, np.vstack([np.ones((1, 12)), np.zeros((69, 12))])),
    }


def parameter_sets(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield settings of a method with one number at, or beyond, an end of what it may be."""
    for parameter, declared in method_class(name).parameters.items():
        if declared.kind not in ("number", "integer") or parameter == "seed":
            continue
        ends = [declared.low, declared.high]
        values = [end for end in ends if end is not None]
        if declared.kind == "number":
            beyond = [1e-300, 1e-30, 1e30, 1e39, 1e200, 1.7e308]
            values += [value for value in beyond if _inside(value, *ends)]
        else:
            values += [value for value in (10**9, 10**20) if _inside(value, *ends)]
            values = [int(value) for value in values]
        if parameter in ("epochs", "ensemble", "code_epochs", "iterations"):
            values = [value for value in values if value < 1000]  # it would only take long
        for value in values:
            yield f"{parameter}={value:g}", {parameter: value}


def _inside(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def wrong_with(name: str, X: Any, Y: Any, params: Mapping[str, Any] | None = None) -> str:
    """Fit a method and predict; return what is wrong with it, or "".

    Our own error is right, and so is a model with finite numbers.
    """
    model = method_class(name)(**{**SMALL.get(name, {}), **(params or {})})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of an overflow on the way
            model.fit(X, Y)
            infinite = [key for key, array in model.state().items() if not all_finite(array)]
            if infinite:
                return f"{infinite[0]} is not finite"
            for row in (X, csr_matrix((2, X.shape[1])), 1e30 * np.ones((2, X.shape[1]))):
                found = model.predict(row, 3)
                scores = np.asarray(found.scores)
                if not (np.isfinite(scores).all() and (scores >= 0).all() and (scores <= 1).all()):
                    return f"a score is {scores[~((scores >= 0) & (scores <= 1))][0]}"
                if len(found) != row.shape[0] or found.labels.max(initial=-1) >= model.n_labels_:
                    return "labels out of range"
    except LabelspaceError as error:
        return "" if str(error) else "an error without a text"
    except MemoryError as error:
        return f"MemoryError: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
