"""Search over vectors that are divided among the nodes of a Ray cluster.

Each shard is an actor with an exact index of its labels; the best of all shards are merged. Scores
of a query and a label do not depend on the shard, so that the result is that of one index.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from labelspace._core.compiled import loop
from labelspace._core.top_k import keep_best
from labelspace.engine.ray import RayEngine
from labelspace.engine.ray_nodes import node_cores, threads_for, use_cores
from labelspace.engine.tasks import begin_worker
from labelspace.errors import LabelspaceError, ParameterError
from labelspace.search.exact import ExactIndex
from labelspace.search.index import checked_rows


class ShardedIndex:
    """Finds the vectors with the largest inner product, each node searching some of them.

    A shard whose worker or node ends is started again on another node.

    Parameters
    ----------
    engine : RayEngine
        The cluster.
    vectors : ndarray of shape (labels, dimension)
        float32, of labels or of examples. A shard has its rows only.
    shards : int, optional
        The number of shards; by default one per node.

    Examples
    --------
    >>> from labelspace.engine.ray import RayEngine
    >>> from labelspace.search.sharded import ShardedIndex
    >>> with RayEngine() as engine, ShardedIndex(engine, vectors) as index:  # doctest: +SKIP
    ...     labels, scores = index.search(queries, 10)
    """

    def __init__(self, engine: RayEngine, vectors: np.ndarray, shards: int | None = None) -> None:
        if shards is not None and shards < 1:
            raise ParameterError(f"shards={shards}: expected an integer of at least 1, or none")
        vectors = checked_rows(vectors, "vectors")
        self._ray = ray = engine.connect()
        self.dim = vectors.shape[1]
        nodes = node_cores() or [1]
        n_shards = max(1, min(shards or len(nodes), len(vectors)))
        self._firsts = [len(vectors) * number // n_shards for number in range(n_shards)]
        # Without cores of its own, the shard of a killed node finds a place on another one.
        actor = ray.remote(_Shard).options(
            num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD"
        )
        n_cores = max(1, min(nodes) // -(-n_shards // len(nodes)))
        # Kept here: a shard that is started again reads its rows again.
        self._rows = [ray.put(part) for part in np.split(vectors, self._firsts[1:])]
        self._shards = [actor.remote([part], n_cores, threads_for(n_cores)) for part in self._rows]

    def search(self, queries: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labels of each query, as `InnerProductIndex.search` does."""
        if k < 1:
            raise ParameterError(f"k={k}: expected an integer of at least 1")
        queries = checked_rows(queries, "queries", self.dim)
        labels = np.full((len(queries), k), -1, np.int64)
        scores = np.full((len(queries), k), -np.inf, np.float32)
        sent = self._ray.put(queries)
        try:
            found = self._ray.get([shard.search.remote(sent, k) for shard in self._shards])
        except self._ray.exceptions.RayError as error:
            raise LabelspaceError(
                f"a shard of the search failed: {str(error).strip().splitlines()[-1]}"
            ) from None
        filled = np.zeros(len(queries), np.int64)
        for first, (shard_labels, shard_scores) in zip(self._firsts, found, strict=True):
            _merge(shard_labels, shard_scores, first, labels, scores, filled)
        return labels, scores

    def close(self) -> None:
        """End the shards."""
        for shard in self._shards:
            self._ray.kill(shard)
        self._shards, self._rows = [], []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Shard:
    """The index of some rows, in an actor."""

    def __init__(self, rows: list[Any], n_cores: int, threads: str) -> None:
        import ray

        begin_worker()
        use_cores(n_cores, threads)
        self.index = ExactIndex(ray.get(rows[0]))

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        return self.index.search(queries, k)


@loop
def _merge(shard_labels, shard_scores, first, labels, scores, filled):  # type: ignore[no-untyped-def]
    for row in range(len(labels)):
        for place in range(shard_labels.shape[1]):
            label = shard_labels[row, place]
            if label < 0:
                break
            filled[row] = keep_best(
                shard_scores[row, place], label + first, scores[row], labels[row], filled[row]
            )
