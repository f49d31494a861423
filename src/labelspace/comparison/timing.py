"""How long predictions take, measured alike for all systems of a comparison.

The processes of other Python environments run this file too (`pecos_process.py`): it imports
nothing but numpy and the standard library.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ONE_AT_A_TIME = 1000  # single examples to predict
MOST_SECONDS = 60.0  # after so many, no more single examples are predicted
WARM_UP = 20


def timed(predict: Callable[[Any, int], Any], queries: Any, k: int) -> tuple[Any, dict[str, float]]:
    """Return all predictions, and milliseconds per example in a batch and one at a time."""
    n = queries.shape[0] if hasattr(queries, "shape") else len(queries)
    predict(queries[:WARM_UP], k)
    start = time.perf_counter()
    predictions = predict(queries, k)
    batch_ms = 1000 * (time.perf_counter() - start) / n
    alone = [queries[i : i + 1] for i in range(min(n, ONE_AT_A_TIME))]
    for query in alone[:WARM_UP]:
        predict(query, k)
    one_ms: list[float] = []
    for query in alone:
        if sum(one_ms) > 1000 * MOST_SECONDS:
            break
        start = time.perf_counter()
        predict(query, k)
        one_ms.append(1000 * (time.perf_counter() - start))
    p50, p99 = np.percentile(one_ms, [50, 99])
    return predictions, {"batch_ms": batch_ms, "one_ms_p50": float(p50), "one_ms_p99": float(p99)}


def end_with_input() -> None:
    """End this process when the caller's end of standard input is closed, however it ends."""
    threading.Thread(target=_wait_for_input, daemon=True).start()


def _wait_for_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)
