"""DeepWalk (Perozzi et al. 2014): vectors for the nodes of a graph, near for nodes near each other.

Walks are read as sentences and nodes as words; skip-gram with negative sampling learns the vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.dense import unit_array
from labelspace._core.threads import cores
from labelspace.errors import MissingExtraError
from labelspace.labels.walks import RandomWalks

ENOUGH_STEPS = 500_000
LARGEST_SEED = 2**32 - 1  # that gensim takes


def deepwalk(
    graph: csr_matrix,
    dim: int,
    *,
    walks: int | None = None,
    length: int = 40,
    window: int = 5,
    negatives: int = 5,
    seed: int = 0,
    deterministic: bool = True,
) -> np.ndarray:
    """Return unit vectors of the nodes, (nodes, dim) float32.

    Nodes without edges get random directions, which in many dimensions are about orthogonal to each
    other and to everything else.

    Parameters
    ----------
    graph : csr_matrix of shape (nodes, nodes)
        Symmetric, with positive weights.
    dim : int
    walks : int, optional
        Walks per node; by default 10, and more on small graphs, up to half a million steps.
    length : int
        Nodes per walk.
    window, negatives : int
        Of skip-gram: context in steps, and negative samples.
    seed : int
    deterministic : bool
        Whether to use one worker, and so give the same bits every time; otherwise all cores.

    Raises
    ------
    MissingExtraError
        If gensim is not installed.
    """
    rng = np.random.default_rng([seed, dim])
    vectors = rng.standard_normal((graph.shape[0], dim), np.float32)
    linked = np.flatnonzero(np.diff(graph.indptr))
    if len(linked):
        per_node = walks or default_walks(len(linked), length)
        stream = RandomWalks(graph, per_node=per_node, length=length, seed=seed)
        model = _skip_gram(stream, dim, window, negatives, seed, 1 if deterministic else cores())
        # Our own beginning, as short as word2vec's: the library's may change with its version.
        model.wv.vectors[:] = vectors[model.wv.index_to_key] / np.float32(dim)
        model.train(
            _Sentences(stream),
            total_examples=len(stream),
            total_words=len(stream) * length,
            epochs=1,
        )
        vectors[model.wv.index_to_key] = model.wv.vectors
    return unit_array(vectors)


def deepwalk_bytes(n_labels: int, dim: int) -> int:
    """Return the peak memory: vectors, gensim's two tables, and its dictionary of nodes."""
    return n_labels * (4 * 4 * dim + 400)


def default_walks(n_nodes: int, length: int) -> int:
    """Return the number of walks from each node: 10, and more on small graphs."""
    return max(10, ENOUGH_STEPS // (length * max(1, n_nodes)))


class _Sentences:
    """Iterate over walks, each a list of nodes."""

    def __init__(self, walks: RandomWalks) -> None:
        self.walks = walks

    def __iter__(self) -> Iterator[list[int]]:
        for block in self.walks.blocks():
            yield from block.tolist()


def _skip_gram(
    walks: RandomWalks, dim: int, window: int, negatives: int, seed: int, workers: int
) -> Any:
    """Return gensim's model with the nodes as its words, not trained yet."""
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise MissingExtraError(
            f"label vectors from walks need gensim ({error}): pip install 'labelspace[neural]'"
        ) from None
    model = Word2Vec(
        vector_size=dim, sg=1, hs=0, negative=negatives, window=window, min_count=0, sample=0,
        seed=seed % LARGEST_SEED, workers=workers,
    )  # fmt: skip
    # A walk of an undirected graph is at a node about as often as the node has edges.
    visits = np.asarray(walks.graph.sum(axis=1)).ravel()[walks.starts]
    visits *= len(walks) * walks.length / visits.sum()
    counts = np.maximum(1, np.rint(visits)).astype(np.int64)
    frequencies = dict(zip(walks.starts.tolist(), counts.tolist(), strict=True))
    model.build_vocab_from_freq(frequencies, corpus_count=len(walks))
    return model
