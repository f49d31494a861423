"""The models that a server holds: loaded, watched, and used for requests."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Dataset, Features
from labelspace.errors import InputError, LabelspaceError
from labelspace.model import store
from labelspace.model.tagger import Tagger, load
from labelspace.ranking import Ranking
from labelspace.serve.batching import Batcher
from labelspace.serve.figures import Figures
from labelspace.serve.problems import Failure
from labelspace.serve.settings import Limits, Settings

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
Sparse = tuple[Sequence[int], Sequence[float]]  # columns and their values


@dataclass(frozen=True)
class Choice:
    """How labels are chosen; requests with an equal choice are computed together."""

    k: int
    only: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    ancestors: bool = False


@dataclass(frozen=True)
class Examples:
    """The texts of a request, their feature vectors, or both."""

    texts: Sequence[str] | None = None
    dense: Sequence[Sequence[float | None]] | None = None
    sparse: Sequence[Sparse] | None = None

    def __len__(self) -> int:
        given = next(part for part in (self.texts, self.dense, self.sparse) if part is not None)
        return len(given)

    def dataset(self, tagger: Tagger) -> Dataset:
        """Return the examples as a model takes them."""
        features: Features | None = None
        if self.dense is not None:
            features = _dense(self.dense, tagger.pipeline.n_numeric)
        elif self.sparse is not None:
            features = _sparse(self.sparse, tagger.pipeline.n_numeric)
        none = csr_matrix((len(self), 0), dtype=np.float32)
        return Dataset(none, features=features, texts=self.texts)


@dataclass(frozen=True)
class TagWork:
    """A request for labels: what is ranked, and what makes its answer of the ranking."""

    choice: Choice
    examples: Examples
    finish: Callable[[Tagger, Ranking], Any]


class ServedModel:
    """A model that is being served.

    Parameters
    ----------
    name : str
        Its name in addresses.
    path : str or Path
        Its directory.
    limits : Limits
        Limits of requests.
    figures : Figures
        What `/metrics` shows.

    Attributes
    ----------
    tagger : Tagger
        The version that is served now.
    error : str or None
        Why the newest version in the directory is not served.

    Raises
    ------
    StoreError
        If the directory is not a complete model.
    """

    def __init__(self, name: str, path: str | Path, limits: Limits, figures: Figures) -> None:
        self.name, self.path, self.limits, self.figures = name, Path(path), limits, figures
        self.error: str | None = None
        self._loading = threading.Lock()
        self._seen = self._signature()
        self.tagger = _loaded(self.path)
        self.size = store.size_in_bytes(self.path)
        self._show_version(None)
        waiting, sizes = figures.waiting.labels(name), figures.batch_size.labels(name)
        self._batcher: Batcher[TagWork, Any] = Batcher(
            self._compute,
            batch=limits.batch,
            queue=limits.queue,
            on_batch=sizes.observe,
            on_queue=waiting.set,
        )

    @property
    def version(self) -> str:
        """Return what identifies the served version: the begin of the digest of `model.json`."""
        return self.tagger.digest[:12]

    async def tag(
        self, choice: Choice, examples: Examples, finish: Callable[[Tagger, Ranking], Result]
    ) -> Result:
        """Return finish(tagger, ranking) of some examples; both run in the model's thread.

        Raises
        ------
        Failure
            If too many texts wait (503), or it takes too long (504).
        LabelspaceError
            If the choice or the examples do not fit the model.
        """
        work = TagWork(choice, examples, finish)
        # Texts and vectors of different kinds cannot be in one matrix.
        kinds = (examples.texts is None, examples.dense is None, examples.sparse is None)
        try:
            found: Result = await self._batcher.submit(
                (choice, kinds), work, len(examples), self.limits.seconds
            )
        except Failure as failure:
            if failure.status == 503:
                self.figures.refused.labels(self.name).inc()
            raise
        return found

    def refresh(self) -> bool:
        """Load what is in the directory if it has changed; return whether it is served now.

        A version that cannot be loaded is refused: the one before is served on.
        """
        seen = self._signature()
        if seen is None or seen == self._seen:
            return False
        self._seen = seen
        return self.load_again()

    def load_again(self) -> bool:
        """Load the directory; return whether another version is served now."""
        with self._loading:  # the watch and a learner may both find it changed
            return self._load_again()

    def _load_again(self) -> bool:
        try:
            tagger = _loaded(self.path)
        except (LabelspaceError, OSError, MemoryError) as error:
            self.error = str(error) or type(error).__name__
            self.figures.reloads.labels(self.name, "refused").inc()
            logger.error("%s: the new version is refused: %s", self.name, self.error)
            return False
        self.error = None
        if tagger.digest == self.tagger.digest:
            return False
        before, self.tagger = self.tagger, tagger
        if gc.get_freeze_count():
            leave_to_collector()
        self.size = store.size_in_bytes(self.path)
        self._show_version(before)
        self.figures.reloads.labels(self.name, "loaded").inc()
        logger.info("%s: version %s is served", self.name, self.version)
        return True

    async def close(self) -> None:
        """Answer what waits, and end the thread."""
        await self._batcher.close()

    def _compute(self, requests: Sequence[TagWork]) -> list[Any]:
        tagger, choice = self.tagger, requests[0].choice
        ranking = tagger.predict(
            _together([request.examples for request in requests]).dataset(tagger),
            min(choice.k, len(tagger.label_names)),
            only=choice.only,
            exclude=choice.exclude,
            ancestors=choice.ancestors,
        )
        answers, start = [], 0
        for request in requests:
            rows = slice(start, start + len(request.examples))
            own = Ranking(ranking.labels[rows], ranking.scores[rows])
            answers.append(request.finish(tagger, own))
            start = rows.stop
        return answers

    def _signature(self) -> tuple[tuple[str, int, int, int], ...] | None:
        """Return names, sizes and times of the directory's files; None while it is replaced."""
        try:
            with os.scandir(self.path) as entries:
                found = [(entry.name, entry.stat()) for entry in entries]
        except OSError:
            return None
        return tuple(
            sorted((name, each.st_ino, each.st_size, each.st_mtime_ns) for name, each in found)
        )

    def _show_version(self, before: Tagger | None) -> None:
        shown = self.figures.version
        if before is not None:
            shown.labels(self.name, before.digest[:12], before.method.name).set(0)
        shown.labels(self.name, self.version, self.tagger.method.name).set(1)


class Models:
    """All models of a server, by name."""

    def __init__(self, settings: Settings, figures: Figures) -> None:
        self.by_name = {
            name: ServedModel(name, path, settings.limits, figures)
            for name, path in settings.models.items()
        }

    def __getitem__(self, name: str) -> ServedModel:
        """Return a model; raise a Failure (404) if there is none of this name."""
        found = self.by_name.get(name)
        if found is None:
            known = ", ".join(self.by_name)
            raise Failure(404, f"there is no model {name!r}; there are: {known}")
        return found

    async def watch(self, seconds: float) -> None:
        """Load new versions as they come, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            for served in self.by_name.values():
                await asyncio.to_thread(served.refresh)

    async def close(self) -> None:
        """Answer what waits, and end all threads."""
        for served in self.by_name.values():
            await served.close()


def leave_to_collector() -> None:
    """Exempt all objects that are there from further collections of garbage.

    Going through all objects of the libraries and a model took 0.2 seconds, during which nothing
    was answered, more than once per second under load. What older versions left is collected first.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _loaded(path: Path) -> Tagger:
    """Load a model and use it once, so that its compiled loops are there for the first request."""
    start = time.monotonic()
    tagger = load(path)
    n_numeric = tagger.pipeline.n_numeric
    texts = None if tagger.pipeline.text is None else ["a text"]
    sparse: list[Sparse] | None = [((), ())] if n_numeric else None
    tagger.to_tags(tagger.predict(Examples(texts, None, sparse).dataset(tagger)))
    logger.info("%s: loaded in %.1f seconds", path, time.monotonic() - start)
    return tagger


def _together(parts: Sequence[Examples]) -> Examples:
    """Return the examples of several requests as one; all have parts of the same kinds."""
    if len(parts) == 1:
        return parts[0]
    return Examples(
        *(
            None if getattr(parts[0], name) is None
            else [row for part in parts for row in getattr(part, name)]
            for name in ("texts", "dense", "sparse")
        )
    )  # fmt: skip


def _dense(rows: Sequence[Sequence[float | None]], width: int) -> np.ndarray:
    if any(len(row) != width for row in rows):
        given = next(len(row) for row in rows if len(row) != width)
        raise InputError(f"a vector has {given} numbers; the model takes {width}")
    # None, a missing number, becomes NaN; the pipeline refuses it where it is not allowed.
    return np.array(rows, dtype=np.float32).reshape(len(rows), width)


def _sparse(rows: Sequence[Sparse], width: int) -> csr_matrix:
    columns = np.array([column for row in rows for column in row[0]], np.int64)
    if len(columns) and (columns.min() < 0 or columns.max() >= width):
        raise InputError(f"an index is not one of the model's {width} features, from 0")
    values = np.array([value for row in rows for value in row[1]], np.float32)
    ends = np.cumsum([0, *(len(row[0]) for row in rows)])
    found = csr_matrix((values, columns, ends), shape=(len(rows), width))
    found.sum_duplicates()  # also sorts the indices
    return found
