"""Records: brand and path of an example as one sequence, with NA for what it does not have.

    details_Brand: Alisha L0_category: Clothing L1_category: Women's Clothing L2_category: NA

The fields are the kinds of labels outside of the taxonomy, then its levels. A record consists of a
part for each kind and a part for the path: a part is one of those of the training data, and parts
are combined freely, so that a brand may be generated with a path that it was never seen with.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace.data.kinds import label_kinds
from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import InputError
from labelspace.features.label_texts import NA, record_fields
from labelspace.methods.seq2seq.outputs import (
    END,
    Outputs,
    Part,
    Piece,
    Words,
    label_shares,
    most_specific,
    paths_to,
    planned_part,
)


def plan_records(
    Y: csr_matrix,
    taxonomy: Taxonomy | None,
    names: csr_matrix | None,
    first_own: int,
    *,
    short: bool,
    free: bool,
    own_fields: bool,
) -> tuple[Outputs, list[csr_matrix], int]:
    """Return the outputs, an (examples, sequences) indicator per part, and the number of tokens.

    Examples without labels have no record.

    Parameters
    ----------
    Y : csr_matrix of shape (examples, labels)
    taxonomy : Taxonomy
    names : csr_matrix of shape (texts, positions) or None
        Token ids + 1 of `labelspace.features.label_texts.record_texts`, or of the nodes' names
        alone.
    first_own : int
        The id of the first token that is no token of a name.
    short, free : bool
        As in `plan_outputs`.
    own_fields : bool
        Whether what begins a field, and NA, is a token of its own even if it has a text.

    Raises
    ------
    InputError
        If there is no taxonomy, or if an example has two labels for one field.
    """
    if taxonomy is None:
        raise InputError(
            "format='record' needs a taxonomy: give the path of each example, or use format='paths'"
        )
    specific, above = most_specific(Y, taxonomy)
    kinds, kind_of = label_kinds(taxonomy, taxonomy.node_names[: taxonomy.n_labels])
    groups = [np.flatnonzero(kind_of == kind) for kind in range(len(kinds))]
    groups.append(np.flatnonzero(kind_of < 0))  # the taxonomy
    used = np.bincount(Y.indices, minlength=Y.shape[1]) > 0
    kept = [number for number, group in enumerate(groups) if used[group].any()]
    words = Words(names, first_own)
    fields = _Fields(words, taxonomy, own_fields)
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    parts: list[Part] = []
    indicators = []
    for place, number in enumerate(kept):
        labels, indicator = _of_group(specific, groups[number], record_fields(taxonomy)[number])
        following = [END] if place == len(kept) - 1 else fields.begin(kept[place + 1])
        begin = fields.begin(number) if place == 0 else []
        paths = paths_to(labels[labels >= 0], taxonomy, counts)
        depth = 1 if number < len(kinds) else fields.n_fields - len(kinds)
        without: list[list[int]] = [[]] if labels[0] < 0 else []  # NA is the first sequence
        sequences = [
            fields.written(path, number, depth, begin, following) for path in without + paths
        ]
        shares = _shares(indicator, Y, above, labels)
        parts.append(planned_part(sequences, shares, words, short=short, free=free))
        indicators.append(indicator)
    return Outputs(tuple(parts)), indicators, words.n_tokens


class _Fields:
    """The tokens of fields and of NA."""

    def __init__(self, words: Words, taxonomy: Taxonomy, own_fields: bool) -> None:
        texts = record_fields(taxonomy)
        self.words, self.n_fields, n_nodes = words, len(texts), len(taxonomy)
        given = words.names is not None and words.names.shape[0] == n_nodes + len(texts) + 1
        as_text = given and not own_fields
        self._begin = [
            words.of(n_nodes + place) if as_text else words.own(text)
            for place, text in enumerate(texts)
        ]
        self._na = words.of(n_nodes + len(texts)) if as_text else words.own(NA)

    def begin(self, field: int) -> list[int]:
        """Return the tokens that begin a field."""
        return list(self._begin[field])

    def written(
        self, path: list[int], first: int, depth: int, begin: list[int], following: list[int]
    ) -> list[Piece]:
        """Return the pieces of a path, NA below its end; the next field begins at the end."""
        pieces = [Piece(begin)] if begin else []
        for level in range(depth):
            if level:
                pieces.append(Piece(self.begin(first + level)))
            named = level < len(path)
            pieces.append(
                Piece(self.words.of(path[level]), path[level]) if named else Piece(list(self._na))
            )
        return [*pieces, Piece(following)]


def _of_group(specific: csr_matrix, group: np.ndarray, field: str) -> tuple[np.ndarray, csr_matrix]:
    """Return the labels of a group that examples have, and which example has which.

    Every example with labels has exactly one; -1 for NA comes first.
    """
    labelled = np.diff(specific.indptr) > 0
    own = csr_matrix(specific.tocsc()[:, group])
    count = np.diff(own.indptr)
    if (count > 1).any():
        row = int(np.argmax(count > 1))
        raise InputError(
            f"format='record': {int((count > 1).sum())} examples have several labels for the field "
            f"{field} example {row} has {count[row]}; use format='paths'"
        )
    label = np.full(specific.shape[0], -2)  # no record
    label[labelled] = -1
    label[count == 1] = group[own.indices]
    labels, place = np.unique(label[labelled], return_inverse=True)
    rows = np.flatnonzero(labelled)
    shape = (specific.shape[0], len(labels))
    return labels, csr_matrix((np.ones(len(rows), np.float32), (rows, place)), shape=shape)


def _shares(
    indicator: csr_matrix, Y: csr_matrix, above: csr_matrix, labels: np.ndarray
) -> csr_matrix:
    """Return `label_shares` with an empty row for NA."""
    if labels[0] >= 0:
        return label_shares(indicator, Y, above[labels], labels)
    named = labels[1:]
    empty = csr_matrix((1, Y.shape[1]), dtype=np.float32)
    shares = label_shares(indicator.tocsc()[:, 1:].tocsr(), Y, above[named], named)
    return csr_matrix(vstack([empty, shares], format="csr"))
