"""Blocks of rows over threads."""

from __future__ import annotations

import multiprocessing
import os
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from labelspace._core import threads as parallel
from labelspace._core.threads import (
    cores,
    parallel_blocks,
    parallel_map,
    product,
    single_blas_thread,
)


@pytest.mark.parametrize("n", [0, 1, 255, 256, 1000])
def test_every_row_is_visited_once(n):
    visits = np.zeros(n, int)

    def work(start, stop):
        visits[start:stop] += 1

    parallel_blocks(n, work)
    assert (visits == 1).all()


@pytest.mark.parametrize(
    ("n", "n_cores", "blocks"),
    [
        (64, 1, [(0, 64)]),
        (64, 4, [(0, 16), (16, 32), (32, 48), (48, 64)]),
        (10, 4, [(0, 8), (8, 10)]),  # no smaller ones than `least`
        (200, 2, [(0, 64), (64, 128), (128, 192), (192, 200)]),  # no larger ones than `block`
    ],
)
def test_few_rows_are_shared_out_among_cores(monkeypatch, n, n_cores, blocks):
    monkeypatch.setattr(parallel, "cores", lambda: n_cores)
    found = []
    parallel_blocks(n, lambda start, stop: found.append((start, stop)), block=64, least=8)
    assert sorted(found) == blocks


def test_an_error_in_a_block_is_raised():
    with pytest.raises(ZeroDivisionError):
        parallel_blocks(1000, lambda start, _: 1 // (start - 512))


def test_cores():
    assert cores() >= 1
    if hasattr(os, "sched_getaffinity"):
        assert cores() <= len(os.sched_getaffinity(0))


def test_cores_are_bounded_by_a_quota(monkeypatch):
    """joblib reads the quota of a container; this variable acts as one."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    parallel._quota.cache_clear()
    try:
        assert cores() == 1
    finally:
        parallel._quota.cache_clear()


def test_no_block_is_at_work_once_one_has_failed():
    at_work = []

    def work(start, _):
        at_work.append(start)
        time.sleep(0.01)
        at_work.remove(start)
        if start == 0:
            raise ValueError("the first block")

    with pytest.raises(ValueError, match="the first block"):
        parallel_blocks(40, work, block=1)
    assert at_work == []


def test_a_block_may_have_blocks_of_its_own():
    seen = np.zeros((8, 8), int)

    def outer(row, _):
        parallel_blocks(
            8, lambda first, last: seen[row].__setitem__(slice(first, last), 1), block=1
        )

    parallel_blocks(8, outer, block=1)
    assert (seen == 1).all()


@pytest.mark.parametrize("n_cores", [1, 2])
def test_mapped_items_come_in_order_each_with_its_own_result(monkeypatch, n_cores):
    monkeypatch.setattr(parallel, "cores", lambda: n_cores)
    found = [(item, result()) for item, result in parallel_map(lambda n: n * n, range(50), 3)]
    assert found == [(n, n * n) for n in range(50)]


def test_items_are_taken_only_a_little_ahead():
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    mapped = parallel_map(str, items(), ahead=3)
    next(mapped)
    assert len(taken) <= 4


def test_an_error_of_an_item_is_raised_with_that_item():
    mapped = parallel_map(lambda n: 1 // (n - 2), range(4), ahead=2)
    good = [result() for _, result in (next(mapped), next(mapped))]
    _, failed = next(mapped)
    assert good == [-1, -1]
    with pytest.raises(ZeroDivisionError):
        failed()


def test_mapping_within_a_block_is_done_by_its_thread():
    found = {}

    def outer(row, _):
        found[row] = [result() for _, result in parallel_map(str, range(5), ahead=2)]

    parallel_blocks(8, outer, block=1)
    assert found == {row: list("01234") for row in range(8)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_has_threads_of_its_own():
    parallel_blocks(64, lambda *_: None, block=1)
    context = multiprocessing.get_context("fork")
    child = context.Process(target=parallel_blocks, args=(64, _nothing, 1))
    child.start()
    child.join(20)
    assert child.exitcode == 0


def _nothing(start, stop):
    del start, stop


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_has_one_thread_for_a_while():
    with threadpool_limits(2, "blas"):
        with single_blas_thread(), single_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {2}


def test_products_are_right_with_one_blas_thread_and_with_many():
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal((1300, 40)), rng.standard_normal((40, 7))
    np.testing.assert_allclose(product(one, other), one @ other)
    with single_blas_thread():
        np.testing.assert_allclose(product(one, other), one @ other)
