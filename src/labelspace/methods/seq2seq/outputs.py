"""The outputs of Seq2Seq: paths of most specific labels as sequences of tokens.

An example has an output for each of its labels that is not an ancestor of another one: a category
path and a brand are two. The ancestors of a predicted label are predicted with the share of
training examples that have both: 1 if the data name all levels, 0 if they name the last level only.
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
    """All outputs of the training data.

    Attributes
    ----------
    trie : Trie
        The valid sequences.
    label_shares : csr_matrix of shape (n_outputs, n_labels)
        The probability of each label given an output: 1 for the output's own label, and the share
        in training for its ancestors.
    """

    trie: Trie
    label_shares: csr_matrix

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes."""
        sequences = [self.trie.tokens[path] for path in self.trie.paths]
        return {
            "tokens": np.concatenate(sequences),
            "lengths": np.array([len(tokens) for tokens in sequences]),
            **pack_csr("label_shares", self.label_shares),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], n_tokens: int, n_labels: int) -> Outputs:
        """Rebuild the outputs; raise ModelFormatError if a token is not below `n_tokens`."""
        tokens, lengths = np.array(arrays["tokens"]), arrays["lengths"]
        holds = (
            tokens.ndim == lengths.ndim == 1
            and len(lengths) > 0
            and all_within(tokens, 0, n_tokens)
            and all_within(lengths, 1, len(tokens) + 1)
            and int(lengths.sum()) == len(tokens)
        )
        expect(holds, "the outputs are not sequences of tokens")
        label_shares = unpack_csr("label_shares", arrays, (len(lengths), n_labels))
        return cls(Trie.build(np.split(tokens, np.cumsum(lengths)[:-1])), label_shares)


def plan_outputs(
    Y: csr_matrix,
    taxonomy: Taxonomy | None,
    names: csr_matrix | None,
    first_own: int,
    *,
    short: bool,
) -> tuple[Outputs, csr_matrix, int]:
    """Return the outputs, the (examples, outputs) indicator matrix and the number of tokens.

    Parameters
    ----------
    Y : csr_matrix of shape (examples, labels)
    taxonomy : Taxonomy or None
        None: every path has one level.
    names : csr_matrix of shape (nodes of the taxonomy, positions) or None
        Token ids + 1 of the name of each node. Without names, and if two labels would have the same
        sequence, a label has a token of its own.
    first_own : int
        The id of the first such token.
    short : bool
        Whether to leave out tokens that have no alternative.

    Raises
    ------
    InputError
        If the taxonomy is of other labels than Y, or no example has a label.
    """
    if taxonomy is not None and taxonomy.n_labels != Y.shape[1]:
        raise InputError(
            f"the taxonomy has {taxonomy.n_labels} labels and Y has {Y.shape[1]}: "
            "build the taxonomy from the names of the columns of Y"
        )
    if Y.nnz == 0:
        raise InputError("no example has a label: there is nothing to generate")
    above = label_ancestors(taxonomy, Y.shape[1])
    specific = Y - Y.multiply((Y @ above) > 0)
    specific.eliminate_zeros()
    labels = np.unique(specific.indices)
    output_indicator = csr_matrix(specific.tocsc()[:, labels])
    paths = _paths(labels, taxonomy, np.bincount(Y.indices, minlength=Y.shape[1]))
    sequences, n_tokens = _tokenised(paths, names, first_own)
    trie = Trie.build(sequences)
    if short:
        trie = Trie.build(trie.shortened())
    label_shares = _label_shares(output_indicator, Y, above[labels], labels)
    return Outputs(trie, label_shares), output_indicator, n_tokens


def _label_shares(
    output_indicator: csr_matrix, Y: csr_matrix, above: csr_matrix, labels: np.ndarray
) -> csr_matrix:
    """Return the share of an output's examples that have each of the labels on its path."""
    together = csr_matrix((output_indicator.T @ Y).multiply(above))
    shares = csr_matrix(
        together.multiply(1.0 / np.asarray(output_indicator.sum(axis=0)).reshape(-1, 1))
    )
    own = (np.ones(len(labels)), (np.arange(len(labels)), labels))
    return csr_matrix(shares + csr_matrix(own, shape=shares.shape), dtype=np.float32)


def _paths(labels: np.ndarray, taxonomy: Taxonomy | None, counts: np.ndarray) -> list[list[int]]:
    """Return the nodes from the root to each label, by way of the most frequent parents."""
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


def _tokenised(
    paths: list[list[int]], names: csr_matrix | None, first_own: int
) -> tuple[list[np.ndarray], int]:
    """Return distinct sequences of tokens for the paths, and the number of all tokens."""
    own: dict[int, int] = {}

    def own_token(node: int) -> list[int]:
        return [own.setdefault(node, first_own + len(own))]

    def tokens_of(node: int) -> list[int]:
        if names is None or names.indptr[node] == names.indptr[node + 1]:
            return own_token(node)
        cells = slice(names.indptr[node], names.indptr[node + 1])
        # An end token within a name would end the sequence.
        return [max(int(value) - 1, UNKNOWN) for value in names.data[cells]]

    seen: set[tuple[int, ...]] = set()
    sequences = []
    for path in paths:
        before = [token for node in path[:-1] for token in tokens_of(node)]
        sequence = (*before, *tokens_of(path[-1]), END)
        if sequence in seen:
            sequence = (*before, *own_token(path[-1]), END)
        seen.add(sequence)
        sequences.append(np.array(sequence, np.int64))
    return sequences, first_own + len(own)
