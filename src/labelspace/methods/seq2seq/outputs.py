"""What Seq2Seq writes: the path of a most specific label, level by level, as tokens.

An example's outputs are the paths of those of its labels that have none of its other labels below
them: a category path and a brand are two. The labels above come with a path as often as they did in
training: always, where the data name all levels, and never, where they name the last one alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import all_within, expect
from labelspace._core.sparse import pack_csr, unpack_csr
from labelspace.data.taxonomy import Taxonomy, label_ancestors
from labelspace.errors import InputError
from labelspace.methods.seq2seq.trie import Trie

PAD, END, UNKNOWN = 0, 1, 2


@dataclass(frozen=True)
class Outputs:
    """All outputs seen in training.

    trie     what may be written
    carries  (outputs, labels) how likely a label comes with an output: its own one surely, those
             above as often as in training
    """

    trie: Trie
    carries: csr_matrix

    def state(self) -> dict[str, np.ndarray]:
        written = [self.trie.tokens[walk] for walk in self.trie.walks]
        return {
            "tokens": np.concatenate(written),
            "lengths": np.array([len(tokens) for tokens in written]),
            **pack_csr("carries", self.carries),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], n_tokens: int, n_labels: int) -> Outputs:
        """From `state`, for tokens below this number."""
        tokens, lengths = np.array(arrays["tokens"]), arrays["lengths"]
        holds = (
            tokens.ndim == lengths.ndim == 1
            and len(lengths) > 0
            and all_within(tokens, 0, n_tokens)
            and all_within(lengths, 1, len(tokens) + 1)
            and int(lengths.sum()) == len(tokens)
        )
        expect(holds, "the outputs are no sequences of tokens")
        carries = unpack_csr("carries", arrays, (len(lengths), n_labels))
        return cls(Trie.build(np.split(tokens, np.cumsum(lengths)[:-1])), carries)


def plan_outputs(
    Y: csr_matrix,
    taxonomy: Taxonomy | None,
    names: csr_matrix | None,
    first_own: int,
    *,
    short: bool,
) -> tuple[Outputs, csr_matrix, int]:
    """The outputs; which example has which, (examples, outputs); and how many tokens there are.

    names      (nodes, places) tokens that write each node, ids + 1; without them, and where two
               labels would be written alike, a label has a token of its own
    first_own  the number of the first of these
    short      leave out tokens that are bound to follow
    """
    if taxonomy is not None and taxonomy.n_labels != Y.shape[1]:
        raise InputError(f"the taxonomy is about {taxonomy.n_labels} labels and Y has {Y.shape[1]}")
    if Y.nnz == 0:
        raise InputError("no example has a label: there is nothing to write")
    above = label_ancestors(taxonomy, Y.shape[1])
    specific = Y - Y.multiply((Y @ above) > 0)
    specific.eliminate_zeros()
    labels = np.unique(specific.indices)
    has = csr_matrix(specific.tocsc()[:, labels])
    paths = _paths(labels, taxonomy, np.bincount(Y.indices, minlength=Y.shape[1]))
    sequences, n_tokens = _spelled(paths, names, first_own)
    trie = Trie.build(sequences)
    if short:
        trie = Trie.build(trie.deciding())
    return Outputs(trie, _carried(has, Y, above[labels], labels)), has, n_tokens


def _carried(has: csr_matrix, Y: csr_matrix, above: csr_matrix, labels: np.ndarray) -> csr_matrix:
    """The share of an output's examples that have each of the labels on its path."""
    together = csr_matrix((has.T @ Y).multiply(above))
    shares = csr_matrix(together.multiply(1.0 / np.asarray(has.sum(axis=0)).reshape(-1, 1)))
    own = (np.ones(len(labels)), (np.arange(len(labels)), labels))
    return csr_matrix(shares + csr_matrix(own, shape=shares.shape), dtype=np.float32)


def _paths(labels: np.ndarray, taxonomy: Taxonomy | None, counts: np.ndarray) -> list[list[int]]:
    """The nodes from the root to each label; of several parents, the most frequent one leads."""
    if taxonomy is None:
        return [[int(label)] for label in labels]
    children, parents = taxonomy.edges.T
    counted = np.zeros(len(taxonomy))
    counted[: len(counts)] = counts
    order = np.lexsort((parents, -counted[parents], children))
    first = order[np.unique(children[order], return_index=True)[1]]
    parent_of = dict(zip(children[first].tolist(), parents[first].tolist(), strict=True))
    paths = []
    for label in labels.tolist():
        path = [label]
        while path[-1] in parent_of:
            path.append(parent_of[path[-1]])
        paths.append(path[::-1])
    return paths


def _spelled(
    paths: list[list[int]], names: csr_matrix | None, first_own: int
) -> tuple[list[np.ndarray], int]:
    """Each path as different tokens, with an end, and the number of all tokens."""
    own: dict[int, int] = {}

    def token_of(node: int) -> list[int]:
        return [own.setdefault(node, first_own + len(own))]

    def tokens_of(node: int) -> list[int]:
        if names is None or names.indptr[node] == names.indptr[node + 1]:
            return token_of(node)
        cells = slice(names.indptr[node], names.indptr[node + 1])
        # An end within a name would cut it short.
        return [max(int(value) - 1, UNKNOWN) for value in names.data[cells]]

    seen: set[tuple[int, ...]] = set()
    sequences = []
    for path in paths:
        before = [token for node in path[:-1] for token in tokens_of(node)]
        sequence = (*before, *tokens_of(path[-1]), END)
        if sequence in seen:
            sequence = (*before, *token_of(path[-1]), END)
        seen.add(sequence)
        sequences.append(np.array(sequence, np.int64))
    return sequences, first_own + len(own)
