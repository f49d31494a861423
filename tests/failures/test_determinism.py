"""The same seed gives the same bits in every process, whatever the seed of its hashes.

What depends on the number of threads is in docs/training.md; `tests/methods/test_threads.py` has
larger layers, and the contract tests resume.
"""

from __future__ import annotations

from labelspace.methods.registry import HOMES
from support.bits import in_own_process

CHANGE_WITH_THREADS = {
    "seq2seq",
    "dual-encoder",
    "glas",
    "neuralxc",
    "treespace",
}  # with narrow layers


def test_processes_and_threads_give_the_same_bits():
    methods = sorted(HOMES)
    alone = in_own_process(1, methods, hash_seed=1, size="small")
    two = in_own_process(2, methods, hash_seed=2, size="small")
    same = {name for name in methods if two[name] == alone[name]}
    assert set(methods) - same <= CHANGE_WITH_THREADS
    for name in set(methods) - same:
        assert in_own_process(1, [name], 3, "small") == {name: alone[name]}
