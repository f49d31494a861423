"""DeepWalk (Perozzi et al. 2014): vectors of the nodes of a graph, similar for nearby nodes.

Skip-gram is trained on random walks, with walks as sentences and nodes as words; by negative
sampling, or by hierarchical softmax as in that paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.dense import unit_array
from labelspace.errors import MissingExtraError
from labelspace.labels.walks import RandomWalks

MIN_STEPS = 500_000  # of all walks together: small graphs get more walks per node than 10
MAX_SEED = 2**32 - 1  # that gensim takes


def deepwalk(
    graph: csr_matrix,
    dim: int,
    *,
    walks: int | None = None,
    length: int = 40,
    window: int = 5,
    negatives: int = 5,
    unit: bool = True,
    seed: int = 0,
) -> np.ndarray:
    """Return DeepWalk vectors of the nodes of a graph.

    Walks run on all cores, skip-gram on one, so that the same seed gives the same bits.

    Parameters
    ----------
    graph : csr_matrix of shape (nodes, nodes)
        Symmetric, with positive weights.
    dim : int
        Dimension of the vectors.
    walks : int, optional
        Number of walks per node; by default that of `default_walks`.
    length : int
        Number of nodes per walk.
    window : int
        Context of skip-gram, in steps.
    negatives : int
        Number of negative samples of skip-gram; 0: hierarchical softmax.
    unit : bool
        Whether to scale the vectors to length 1.
    seed : int

    Returns
    -------
    ndarray of shape (nodes, dim)
        In float32. Nodes without edges get random directions, which in many dimensions are about
        orthogonal to all others; if not `unit`, they keep the short vectors that training starts
        with.

    Raises
    ------
    MissingExtraError
        If gensim is not installed.

    Examples
    --------
    Two nodes with an edge, and one without:

    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> graph = csr_matrix(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], np.float32))
    >>> deepwalk(graph, 8, walks=2, length=4).shape
    (3, 8)
    """
    rng = np.random.default_rng([seed, dim])
    vectors = rng.standard_normal((graph.shape[0], dim), np.float32)
    linked = np.flatnonzero(np.diff(graph.indptr))
    if len(linked):
        per_node = walks or default_walks(len(linked), length)
        stream = RandomWalks(graph, per_node=per_node, length=length, seed=seed)
        model = _skip_gram(stream, dim, window, negatives, seed)
        # Initial vectors as short as word2vec's, but not by gensim: its versions may differ.
        model.wv.vectors[:] = vectors[linked] / np.float32(dim)
        model.train(
            _Sentences(stream),
            total_examples=len(stream),
            total_words=len(stream) * length,
            epochs=1,
        )
        vectors[linked] = model.wv.vectors
    if unit:
        return unit_array(vectors)
    vectors[np.diff(graph.indptr) == 0] /= np.float32(dim)
    return vectors


def deepwalk_bytes(n_labels: int, dim: int) -> int:
    """Return the bytes at the peak: vectors, gensim's two tables, and its dictionary of nodes."""
    return n_labels * (4 * 4 * dim + 400)


def default_walks(n_nodes: int, length: int) -> int:
    """Return the number of walks from each node: 10, or more until all have MIN_STEPS steps."""
    return max(10, MIN_STEPS // (length * max(1, n_nodes)))


class _Sentences:
    """Iterate over walks, each a list of the nodes' places among those that have edges."""

    def __init__(self, walks: RandomWalks) -> None:
        self.walks = walks
        self.places = np.zeros(walks.graph.shape[0], np.int32)
        self.places[walks.starts] = np.arange(len(walks.starts))

    def __iter__(self) -> Iterator[list[int]]:
        for block in self.walks.blocks():
            yield from self.places[block].tolist()


def _skip_gram(walks: RandomWalks, dim: int, window: int, negatives: int, seed: int) -> Any:
    """Return gensim's untrained model; word i is the i-th node that has an edge.

    gensim takes an integer for the number of a word or for the word itself, so that both must be
    the same; otherwise frequencies and codes are those of other words.
    """
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise MissingExtraError(
            f"DeepWalk needs gensim ({error}): pip install 'labelspace[neural]'"
        ) from None
    model = Word2Vec(
        vector_size=dim, sg=1, hs=int(negatives == 0), negative=negatives, window=window,
        min_count=0, sample=0, sorted_vocab=0, seed=seed % MAX_SEED, workers=1,
    )  # fmt: skip
    # The stationary distribution of walks on an undirected graph: proportional to the degree.
    visits = np.asarray(walks.graph.sum(axis=1)).ravel()[walks.starts]
    visits *= len(walks) * walks.length / visits.sum()
    counts = np.maximum(1, np.rint(visits)).astype(np.int64)
    frequencies = dict(enumerate(counts.tolist()))
    model.build_vocab_from_freq(frequencies, corpus_count=len(walks))
    return model
