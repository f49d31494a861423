"""Top-k lists and heaps against plain sorting."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace._core.top_k import keep_best, pop, push


@pytest.mark.parametrize("size", [1, 2, 7, 40])
@pytest.mark.parametrize("n", [0, 1, 5, 40, 200])
def test_the_best_are_those_of_sorting(n, size):
    values = np.random.default_rng(n + size).integers(-9, 10, n)  # ties abound
    best, items, filled = np.zeros(size), np.full(size, -1), 0
    for item in np.random.default_rng(0).permutation(n):
        filled = keep_best(values[item], item, best, items, filled)
    expected = np.argsort(-values, kind="stable")[:size]
    assert filled == len(expected)
    assert items[:filled].tolist() == expected.tolist()
    assert best[:filled].tolist() == values[expected].tolist()
    assert (items[filled:] == -1).all()


def test_a_heap_gives_the_largest_first():
    rng = np.random.default_rng(0)
    heap, items, size, queue = np.empty(500), np.empty(500, np.int64), 0, {}
    for step in range(400):
        value = float(rng.integers(50))
        size = push(value, step, heap, items, size)
        queue[step] = value
        if rng.random() < 0.6:
            assert heap[0] == max(queue.values()) == queue.pop(int(items[0]))
            size = pop(heap, items, size)
        assert size == len(queue)
    while size:
        assert heap[0] == max(queue.values()) == queue.pop(int(items[0]))
        size = pop(heap, items, size)
    assert not queue
