"""Requests that arrive together are computed together; too many are refused at once."""

from __future__ import annotations

import asyncio
import threading

import pytest

import support.served  # noqa: F401  # skips where the extra is not installed
from labelspace.serve.batching import Batcher, Threads
from labelspace.serve.problems import Failure


class Counting:
    """Doubles numbers; notes the batches, and waits until it is let go."""

    def __init__(self):
        self.batches, self.go = [], threading.Event()

    def __call__(self, works):
        assert self.go.wait(10)
        self.batches.append(list(works))
        if "bad" in works:
            raise ValueError("bad")
        return [work * 2 for work in works]


def run(scenario, **limits):
    compute = Counting()
    queue = []

    async def whole():
        batcher = Batcher(compute, **{"batch": 4, "queue": 100, **limits}, on_queue=queue.append)
        try:
            return await scenario(batcher, compute)
        finally:
            compute.go.set()
            await batcher.close()

    result = asyncio.run(whole())
    assert queue[-1] == 0
    return result, compute.batches


async def sent(batcher, works, key="k", rows=1, seconds=10):
    """Submit in this order, each before the next one."""
    tasks = []
    for work in works:
        tasks.append(asyncio.create_task(batcher.submit(key, work, rows, seconds)))
        await asyncio.sleep(0)
    return tasks


def test_what_arrives_during_a_computation_is_computed_together():
    async def scenario(batcher, compute):
        tasks = await sent(batcher, [1, 2, 3, 4, 5, 6, 7])
        await asyncio.sleep(0.05)  # the first one is being computed
        compute.go.set()
        return await asyncio.gather(*tasks)

    found, batches = run(scenario)
    assert found == [2, 4, 6, 8, 10, 12, 14]
    assert [work for batch in batches for work in batch] == [1, 2, 3, 4, 5, 6, 7]
    assert len(batches) <= 3
    assert max(map(len, batches)) == 4


def test_other_keys_are_other_batches_in_the_order_of_arrival():
    async def scenario(batcher, compute):
        first = await sent(batcher, [1])
        await asyncio.sleep(0.05)
        others = await sent(batcher, [2, 3]) + await sent(batcher, [4], "other")
        compute.go.set()
        return await asyncio.gather(*first, *others)

    assert run(scenario) == ([2, 4, 6, 8], [[1], [2, 3], [4]])


def test_a_batch_has_no_more_rows_than_allowed_unless_of_one_request():
    async def scenario(batcher, compute):
        first = await sent(batcher, [0])
        await asyncio.sleep(0.05)
        tasks = await sent(batcher, [1, 2], rows=3) + await sent(batcher, [3], rows=9)
        compute.go.set()
        return await asyncio.gather(*first, *tasks)

    assert run(scenario)[1] == [[0], [1], [2], [3]]


def test_a_failing_request_fails_alone():
    async def scenario(batcher, compute):
        first = await sent(batcher, [0])
        await asyncio.sleep(0.05)
        tasks = await sent(batcher, [1, "bad", 3])
        compute.go.set()
        return await asyncio.gather(*first, *tasks, return_exceptions=True)

    found, _ = run(scenario)
    assert (found[0], found[1], found[3]) == (0, 2, 6)
    assert isinstance(found[2], ValueError)


def test_a_full_queue_refuses_at_once_and_says_when_to_come_back():
    async def scenario(batcher, compute):
        tasks = await sent(batcher, [0])
        await asyncio.sleep(0.05)
        tasks += await sent(batcher, [1, 2, 3])
        with pytest.raises(Failure) as refused:
            await batcher.submit("k", 4, 1, 10)
        compute.go.set()
        return refused.value, await asyncio.gather(*tasks)

    (refused, found), _ = run(scenario, queue=3)
    assert (refused.status, refused.headers) == (503, {"Retry-After": "1"})
    assert found == [0, 2, 4, 6]


def test_what_took_too_long_is_not_computed_any_more():
    async def scenario(batcher, compute):
        first = await sent(batcher, [0])
        await asyncio.sleep(0.05)
        late = await sent(batcher, [1], seconds=0.05)
        with pytest.raises(Failure) as refused:
            await late[0]
        compute.go.set()
        await asyncio.gather(*first)
        return refused.value.status

    assert run(scenario) == (504, [[0]])


def test_closing_computes_what_waits():
    async def scenario(batcher, compute):
        tasks = await sent(batcher, [1, 2, 3])
        compute.go.set()
        await batcher.close()
        return [task.result() for task in tasks if task.done()] or await asyncio.gather(*tasks)

    assert run(scenario)[0] == [2, 4, 6]


def test_threads_refuse_what_is_too_much_and_too_long():
    go = threading.Event()

    async def scenario():
        threads = Threads(1, 2)
        first = asyncio.create_task(threads.run(10, go.wait, 10))
        await asyncio.sleep(0)
        with pytest.raises(Failure) as late:
            await threads.run(0.05, go.wait, 10)
        with pytest.raises(Failure) as refused:
            await threads.run(10, go.wait, 10)
        go.set()
        assert await first
        threads.close()
        return late.value.status, refused.value.status

    assert asyncio.run(scenario()) == (504, 503)
