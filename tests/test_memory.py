"""Memory is asked for before it is used."""

from __future__ import annotations

import pytest

from labelspace import memory
from labelspace.errors import MemoryBudgetError
from labelspace.methods.base import Shape
from labelspace.methods.knn import KNN

SMALL = Shape(100, 50, 20, 500, 200)
HUGE = Shape(10**9, 10**9, 10**9, 10**13, 10**10)


def test_what_fits_passes_and_what_does_not_is_refused_in_words():
    memory.refuse_if_too_large(KNN(), SMALL)
    with pytest.raises(MemoryBudgetError, match=r"training knn needs about [\d.]+ TB more"):
        memory.refuse_if_too_large(KNN(), HUGE)


def test_available_memory_is_a_sane_number():
    assert 10**7 < memory.available_bytes() < 10**14


@pytest.mark.parametrize(
    ("n", "words"),
    [(0, "0 B"), (999, "999 B"), (1234, "1.2 kB"), (5 * 10**9, "5.0 GB"), (10**13, "10.0 TB")],
)
def test_in_words(n, words):
    assert memory.in_words(n) == words
