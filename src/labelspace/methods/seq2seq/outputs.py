"""The outputs of Seq2Seq as sequences of tokens: label paths, or records of all fields.

In the format `paths`, an example has an output for each of its labels that is not an ancestor of
another one: a category path and a brand are two. In the format `record`, an example has one output
with a field for each kind of label and for each level of the taxonomy (`records.py`).

The ancestors of a predicted label are predicted with the share of training examples that have both:
1 if the data name all levels, 0 if they name the last level only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import expect
from labelspace._core.schema import Schema, Sizes, csr, filled, ints, optional
from labelspace._core.sparse import pack_csr, unpack_csr
from labelspace.data.taxonomy import Taxonomy, label_ancestors
from labelspace.errors import InputError
from labelspace.methods.seq2seq.trie import Chain, Trie

PAD, END, UNKNOWN = 0, 1, 2


@dataclass(frozen=True)
class Part:
    """A part of an output: all of it, or one that is followed by further parts.

    Attributes
    ----------
    trie : Trie
        The valid sequences.
    label_shares : csr_matrix of shape (n_sequences, n_labels)
        The probability of each label given a sequence: 1 for its own label, and the share in
        training for its ancestors.
    state_labels : csr_matrix of shape (n_states, n_labels) or None
        For free decoding, the same by state of the trie: where a sequence is not complete, the
        labels whose names are.
    stop : ndarray
        The tokens that all sequences end with; free decoding finds the next part by them.
    """

    trie: Trie
    label_shares: csr_matrix
    state_labels: csr_matrix | None
    stop: np.ndarray

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes."""
        sequences = [self.trie.tokens[path] for path in self.trie.paths]
        states = {} if self.state_labels is None else pack_csr("state_labels", self.state_labels)
        is_last = self.stop.tolist() == [END]
        return {
            "tokens": np.concatenate(sequences),
            "lengths": np.array([len(tokens) for tokens in sequences]),
            **({} if is_last else {"stop": self.stop}),
            **pack_csr("label_shares", self.label_shares),
            **states,
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Part:
        """Rebuild a part; raise ModelFormatError if its states are not those of the sequences."""
        tokens, lengths = np.array(arrays["tokens"]), arrays["lengths"]
        stop = np.array(arrays.get("stop", [END]))
        trie = Trie.build(np.split(tokens, np.cumsum(lengths)[:-1]))
        states = None
        if "state_labels.data" in arrays:
            states = unpack_csr("state_labels", arrays)
            fits = states.shape[0] == len(trie.outputs)
            expect(fits, "the labels of states do not fit the outputs")
        return cls(trie, unpack_csr("label_shares", arrays), states, stop)

    @staticmethod
    def schema(arrays: Mapping[str, np.ndarray], prefix: str) -> Schema:
        """Declare the arrays of `state`, for as many tokens as the size "tokens"."""
        outputs, tokens = f"{prefix}outputs", f"{prefix}tokens of outputs"

        def add_up(lengths: np.ndarray, sizes: Sizes) -> bool:
            return len(lengths) > 0 and int(lengths.sum(dtype=np.float64)) == sizes[tokens]

        return [
            ints(f"{prefix}tokens", tokens, limit="tokens"),
            ints(f"{prefix}lengths", outputs, low=1, limit=f"{tokens} + 1", rules=(add_up,)),
            ints(f"{prefix}stop", f"{prefix}stop", limit="tokens", rules=(filled,), required=False),
            *csr(f"{prefix}label_shares", outputs, "labels"),
            *optional(csr(f"{prefix}state_labels", f"{prefix}states", "labels"), arrays),
        ]


@dataclass(frozen=True)
class Outputs:
    """All outputs of the training data: a sequence of each part, in any combination.

    Attributes
    ----------
    parts : tuple of Part
    """

    parts: tuple[Part, ...]

    @cached_property
    def chain(self) -> Chain:
        """The valid sequences of tokens."""
        return Chain.of([part.trie for part in self.parts])

    @property
    def n_labels(self) -> int:
        return int(self.parts[0].label_shares.shape[1])

    def __len__(self) -> int:
        return math.prod(len(part.trie.paths) for part in self.parts)

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes."""
        found = self.parts[0].state()
        for number, part in enumerate(self.parts[1:], start=1):
            found |= prefixed(f"{number}.", part.state())
        return found

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Outputs:
        """Rebuild the outputs; raise ModelFormatError if they are inconsistent."""
        parts = [Part.restore(arrays)]
        while further := with_prefix(f"{len(parts)}.", arrays):
            parts.append(Part.restore(further))
        return cls(tuple(parts))

    @staticmethod
    def schema(arrays: Mapping[str, np.ndarray], prefix: str) -> Schema:
        """Declare the arrays of `state`, for as many tokens as the size "tokens"."""
        found, number = Part.schema(arrays, prefix), 1
        while f"{prefix}{number}.tokens" in arrays:
            found += Part.schema(arrays, f"{prefix}{number}.")
            number += 1
        return found


class Words:
    """The tokens of names; what has no name has a token of its own.

    Parameters
    ----------
    names : csr_matrix of shape (names, positions) or None
        Token ids + 1 of each name.
    first_own : int
        The id of the first token that is no token of a name.
    """

    def __init__(self, names: csr_matrix | None, first_own: int) -> None:
        self.names, self.first_own = names, first_own
        self._own: dict[int | str, int] = {}

    @property
    def n_tokens(self) -> int:
        """The number of all tokens."""
        return self.first_own + len(self._own)

    def own(self, what: int | str) -> list[int]:
        """Return the token that stands for a name alone."""
        return [self._own.setdefault(what, self.first_own + len(self._own))]

    def of(self, name: int) -> list[int]:
        """Return the tokens of a name, by its row."""
        if self.names is None or self.names.indptr[name] == self.names.indptr[name + 1]:
            return self.own(name)
        cells = slice(self.names.indptr[name], self.names.indptr[name + 1])
        # An end token within a name would end the sequence.
        return [max(int(value) - 1, UNKNOWN) for value in self.names.data[cells]]


@dataclass
class Piece:
    """Tokens of a sequence: the name of a node, or what stands between names (-1)."""

    tokens: list[int]
    node: int = -1


def plan_outputs(
    Y: csr_matrix,
    taxonomy: Taxonomy | None,
    names: csr_matrix | None,
    first_own: int,
    *,
    short: bool,
    free: bool = False,
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
    free : bool
        Whether incomplete sequences have labels, too.

    Raises
    ------
    InputError
        If the taxonomy is of other labels than Y, or no example has a label.
    """
    specific, above = most_specific(Y, taxonomy)
    labels = np.unique(specific.indices)
    indicator = csr_matrix(specific.tocsc()[:, labels])
    words = Words(names, first_own)
    sequences = (
        [*(Piece(words.of(node), node) for node in path), Piece([END])]
        for path in paths_to(labels, taxonomy, np.bincount(Y.indices, minlength=Y.shape[1]))
    )
    shares = label_shares(indicator, Y, above[labels], labels)
    part = planned_part(sequences, shares, words, short=short, free=free)
    return Outputs((part,)), indicator, words.n_tokens


def most_specific(Y: csr_matrix, taxonomy: Taxonomy | None) -> tuple[csr_matrix, csr_matrix]:
    """Return Y without labels that are ancestors of others of the example, and all ancestors.

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
    specific = csr_matrix(Y - Y.multiply((Y @ above) > 0))
    specific.eliminate_zeros()
    return specific, above


def label_shares(
    indicator: csr_matrix, Y: csr_matrix, above: csr_matrix, labels: np.ndarray
) -> csr_matrix:
    """Return the share of a sequence's examples that have each of the labels on its path."""
    together = csr_matrix((indicator.T @ Y).multiply(above))
    shares = csr_matrix(together.multiply(1.0 / np.asarray(indicator.sum(axis=0)).reshape(-1, 1)))
    own = (np.ones(len(labels)), (np.arange(len(labels)), labels))
    return csr_matrix(shares + csr_matrix(own, shape=shares.shape), dtype=np.float32)


def paths_to(labels: np.ndarray, taxonomy: Taxonomy | None, counts: np.ndarray) -> list[list[int]]:
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


def planned_part(
    sequences: Iterable[list[Piece]], shares: csr_matrix, words: Words, *, short: bool, free: bool
) -> Part:
    """Return the part with these sequences, whose last pieces are all the same."""
    distinct = _distinct(sequences, words)
    trie = Trie.build([np.array(_joined(pieces), np.int64) for pieces in distinct])
    states = _state_labels(trie, distinct, shares) if free else None
    if short:
        trie = Trie.build(trie.shortened())
    return Part(trie, shares, states, np.array(distinct[0][-1].tokens))


def _distinct(sequences: Iterable[list[Piece]], words: Words) -> list[list[Piece]]:
    """Return the sequences so that none is the same as another, or a prefix of another.

    Where names have the same tokens, the last node of the later sequence has a token of its own.
    """
    found: list[list[Piece]] = []
    seen: set[tuple[int, ...]] = set()
    for pieces in sequences:
        if _joined(pieces) in seen:
            _own_name(pieces, words)
        found.append(pieces)
        seen.add(_joined(pieces))
    last: tuple[int, ...] | None = None
    for pieces in sorted(found, key=_joined):
        tokens = _joined(pieces)
        if last is not None and tokens[: len(last)] == last:
            _own_name(pieces, words)
        else:
            last = tokens
    return found


def _joined(pieces: list[Piece]) -> tuple[int, ...]:
    return tuple(token for piece in pieces for token in piece.tokens)


def _own_name(pieces: list[Piece], words: Words) -> None:
    """Give the last node of a sequence a token of its own."""
    named = next(piece for piece in reversed(pieces) if piece.node >= 0)
    named.tokens = words.own(named.node)


def _state_labels(trie: Trie, sequences: Sequence[list[Piece]], shares: csr_matrix) -> csr_matrix:
    """Return the labels of each state: those of a complete sequence, or those named before it.

    A name is complete when the token after it is there. Labels that not all training examples of
    the sequence have are left out.
    """
    certain = shares.copy()
    certain.data = np.where(certain.data >= 1.0, 1.0, 0.0).astype(np.float32)
    certain.eliminate_zeros()
    rows, columns = [], []
    for number, (path, pieces) in enumerate(zip(trie.paths, sequences, strict=True)):
        sure = set(certain.indices[certain.indptr[number] : certain.indptr[number + 1]].tolist())
        length = 0
        for piece in pieces:
            length += len(piece.tokens)
            if piece.node in sure:
                inner = path[length:-1] + 1  # the last state is that of the complete sequence
                rows.append(inner)
                columns.append(np.full(len(inner), piece.node))
    ends = np.array([path[-1] + 1 for path in trie.paths])
    cells = shares.tocoo()
    rows, columns = [*rows, ends[cells.row]], [*columns, cells.col]
    values = np.ones(sum(map(len, rows)), np.float32)
    values[len(values) - cells.nnz :] = cells.data
    shape = (len(trie.outputs), shares.shape[1])
    place = np.concatenate(rows) * shape[1] + np.concatenate(columns)
    _, first = np.unique(place, return_index=True)  # sequences share the states of a prefix
    kept = np.concatenate(rows)[first], np.concatenate(columns)[first]
    return csr_matrix((values[first], kept), shape=shape)
