"""Requests that arrive together are computed together, in a thread beside the event loop.

Nothing waits for a batch to fill: while one is computed, the next ones queue, so that a lone
request starts at once and the batches grow with the load.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from labelspace.serve.problems import Failure, overloaded

Work = TypeVar("Work")
Result = TypeVar("Result")


@dataclass
class _Request(Generic[Work, Result]):
    """What one request needs; requests with an equal key can be computed together."""

    key: Hashable
    work: Work
    rows: int
    answer: asyncio.Future[Result]


class Batcher(Generic[Work, Result]):
    """Computes requests in batches, in the order of their arrival.

    Parameters
    ----------
    compute : callable
        Called in a thread with the work of several requests that have the same key; returns one
        result per request.
    batch : int
        Rows that are computed together, unless a single request has more.
    queue : int
        Rows that may wait; a request beyond that is refused at once.
    on_batch : callable, optional
        Called with the number of rows of each computed batch.
    on_queue : callable, optional
        Called with the number of rows that wait, whenever it has changed.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Work]], Sequence[Result]],
        *,
        batch: int,
        queue: int,
        on_batch: Callable[[int], None] = lambda _: None,
        on_queue: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._compute, self._batch, self._queue = compute, batch, queue
        self._on_batch, self._on_queue = on_batch, on_queue
        self._waiting: deque[_Request[Work, Result]] = deque()
        self._rows = 0  # that wait
        self._thread = ThreadPoolExecutor(1, "labelspace-batch")
        self._task: asyncio.Task[None] | None = None

    async def submit(self, key: Hashable, work: Work, rows: int, seconds: float) -> Result:
        """Return the result of a request with this number of rows.

        Raises
        ------
        Failure
            503 if the queue is full, 504 if the result takes longer than these seconds.
        """
        if self._rows and self._rows + rows > self._queue:
            raise overloaded(f"{self._rows} texts are waiting: repeat the request later")
        loop = asyncio.get_running_loop()
        request: _Request[Work, Result] = _Request(key, work, rows, loop.create_future())
        self._waiting.append(request)
        self._count(rows)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())
        try:
            async with asyncio.timeout(seconds):
                return await request.answer
        except TimeoutError:
            raise Failure(504, f"the labels were not computed within {seconds:g} seconds") from None

    async def close(self) -> None:
        """Compute what still waits, and end the thread."""
        if self._task is not None:
            await self._task
        self._thread.shutdown()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while requests := self._next():
            results = await loop.run_in_executor(self._thread, self._together, requests)
            for request, (result, error) in zip(requests, results, strict=True):
                if request.answer.done():  # it took too long, or the client has gone
                    continue
                if error is None:
                    request.answer.set_result(result)
                else:
                    request.answer.set_exception(error)

    def _next(self) -> list[_Request[Work, Result]]:
        """Take requests of one key from the front of the queue, as many as fit into a batch."""
        taken: list[_Request[Work, Result]] = []
        rows = 0
        while self._waiting:
            first = self._waiting[0]
            if first.answer.done():
                self._waiting.popleft()
                self._count(-first.rows)
                continue
            if taken and (rows + first.rows > self._batch or first.key != taken[0].key):
                break
            taken.append(self._waiting.popleft())
            rows += first.rows
        self._count(-rows)
        if rows:
            self._on_batch(rows)
        return taken

    def _count(self, change: int) -> None:
        self._rows += change
        if change:
            self._on_queue(self._rows)

    def _together(
        self, requests: Sequence[_Request[Work, Result]]
    ) -> list[tuple[Any, Exception | None]]:
        """Compute all of them; if that fails, each alone, so that one cannot fail others."""
        try:
            results = self._compute([request.work for request in requests])
            return [(result, None) for result in results]
        except Exception as error:
            if len(requests) == 1:
                return [(None, error)]
            return [found for request in requests for found in self._together([request])]


class Threads:
    """Work other than tagging, such as explanations and label searches, in a few threads.

    Parameters
    ----------
    threads : int
        Number of threads.
    queue : int
        Calls that may wait or run; one beyond that is refused at once.
    """

    def __init__(self, threads: int, queue: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "labelspace-serve")
        self._queue, self._running = queue, 0

    async def run(self, seconds: float, work: Callable[..., Result], *args: Any) -> Result:
        """Return work(*args), computed in a thread.

        Raises
        ------
        Failure
            503 if too many calls wait, 504 if the result takes longer than these seconds; the
            computation then goes on, and what it caches is there for the next request.
        """
        if self._running >= self._queue:
            raise overloaded(f"{self._running} requests are waiting: repeat the request later")
        self._running += 1
        call = asyncio.get_running_loop().run_in_executor(self._pool, work, *args)
        call.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(call)
        except TimeoutError:
            raise Failure(504, f"there was no result within {seconds:g} seconds") from None

    def close(self) -> None:
        """End the threads when they have done what they are at."""
        self._pool.shutdown(cancel_futures=True)

    def _ended(self, call: asyncio.Future[Any]) -> None:
        self._running -= 1
        if not call.cancelled():
            call.exception()  # seen, also if the request took too long and nobody waits
