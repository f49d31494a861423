"""Figures of a running server in the format of Prometheus."""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # where several processes share their figures

_SECONDS = (
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
    30.0,
)  # fmt: skip
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Figures:
    """What `/metrics` shows.

    With several processes, each writes to files of a common folder, and any of them answers with
    the sums of all.
    """

    def __init__(self, several: bool = False) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the lines
        self.several = several and FOLDER in os.environ
        self._registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self._registry, "namespace": "labelspace"}
        self.requests = Counter(
            "requests", "Answered requests.", ("method", "route", "status"), **own
        )
        self.seconds = Histogram(
            "request_seconds", "Time of a request.", ("route",), buckets=_SECONDS, **own
        )
        self.waiting = Gauge(
            "queue_length", "Texts that wait to be computed.", ("model",),
            multiprocess_mode="livesum", **own,
        )  # fmt: skip
        self.batch_size = Histogram(
            "batch_size", "Texts that were computed together.", ("model",), buckets=_SIZES, **own
        )
        self.refused = Counter("refused", "Requests that found the queue full.", ("model",), **own)
        self.version = Gauge(
            "model_version", "1 for the version of the model that is served.",
            ("model", "version", "method"), multiprocess_mode="livemax", **own,
        )  # fmt: skip
        self.reloads = Counter(
            "model_reloads", "New versions of a model, by result.", ("model", "result"), **own
        )
        self.learned = Counter("learned", "Examples accepted for an update.", ("model",), **own)
        self.pending = Gauge(
            "learn_pending", "Accepted examples that the model does not contain yet.", ("model",),
            multiprocess_mode="livesum", **own,
        )  # fmt: skip

    def text(self) -> bytes:
        """Return all figures."""
        if not self.several:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
