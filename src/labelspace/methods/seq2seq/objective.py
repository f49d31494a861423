"""The loss of Seq2Seq on a batch: the negative log-likelihood of the outputs of its examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.sparse import rows_of
from labelspace.methods.seq2seq.beam_search import next_log_probabilities
from labelspace.methods.seq2seq.model import decoder_outputs
from labelspace.methods.seq2seq.outputs import PAD
from labelspace.nn.trainer import Batch

if TYPE_CHECKING:
    from labelspace.methods.seq2seq.method import Seq2Seq


class SequenceObjective:
    """The mean over examples of -log p(output | example), averaged over an example's outputs.

    Parameters
    ----------
    method : Seq2Seq
        Its T5 is trained.
    X : csr_matrix of shape (examples, features)
    indicators : sequence of csr_matrix of shape (examples, sequences)
        The sequences of each example, by part of the outputs. Where there are several parts, an
        example has one of each, or none at all.
    """

    def __init__(self, method: Seq2Seq, X: csr_matrix, indicators: Sequence[csr_matrix]) -> None:
        self.method, self.X, self.indicators = method, X, indicators
        self.chain = method.outputs_.chain
        self.edges = [
            _padded([path + first for path in trie.paths])
            for trie, first in zip(self.chain.tries, self.chain.first_edges, strict=True)
        ]

    def __call__(self, batch: Batch) -> torch.Tensor:
        model = self.method.t5_
        device = model.shared.weight.device
        example, outputs = self._sample(batch)
        if not len(example):  # no example of the batch has a label
            zero: torch.Tensor = 0.0 * model.shared.weight.sum()
            return zero
        present, example = np.unique(example, return_inverse=True)
        tokens = self.method.input_tokens_(self.X[batch.rows[present]])
        ids, mask = (part.to(device) for part in tokens)
        edges = self._edges_of(outputs)
        of = torch.from_numpy(example).to(device)
        # Dropout draws from torch's generator: it is seeded per batch, so that runs can be resumed.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(int(batch.rng.integers(2**62)))
            encoded = model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            hidden = model.decoder(
                input_ids=self._shifted(edges).to(device),
                encoder_hidden_states=encoded[of],
                encoder_attention_mask=mask[of],
                use_cache=False,
            ).last_hidden_state
            pair, place = np.nonzero(edges >= 0)
            hidden = decoder_outputs(model, hidden[pair, place])
            log_p = self._log_probabilities(hidden, edges[pair, place])
        # An example has the weight 1, however many of its outputs were drawn.
        weights = 1.0 / np.bincount(example)[example[pair]]
        return -(torch.from_numpy(weights).to(log_p) * log_p).sum() / len(present)

    def _sample(self, batch: Batch) -> tuple[np.ndarray, list[np.ndarray]]:
        """Draw outputs of each example; return positions in the batch, and outputs by part."""
        indicators = [indicator[batch.rows] for indicator in self.indicators]
        rows = rows_of(indicators[0])
        if len(indicators) > 1:
            return rows, [indicator.indices for indicator in indicators]
        order = np.lexsort((batch.rng.random(len(rows)), rows))
        rank = np.arange(len(rows)) - indicators[0].indptr[rows]
        drawn = order[rank < self.method.params_.max_outputs]
        return rows[drawn], [indicators[0].indices[drawn]]

    def _edges_of(self, outputs: list[np.ndarray]) -> np.ndarray:
        """Return the edges of each output, part after part; -1 pads."""
        parts = [edges[output] for edges, output in zip(self.edges, outputs, strict=True)]
        edges = np.hstack(parts)
        if len(parts) > 1:  # without gaps between parts
            edges = np.take_along_axis(edges, np.argsort(edges < 0, axis=1, kind="stable"), axis=1)
        return edges[:, : int((edges >= 0).sum(axis=1).max())]

    def _shifted(self, edges: np.ndarray) -> torch.Tensor:
        """Return the decoder's input: the start token, then all tokens but the last."""
        before = np.where(edges >= 0, self.chain.tokens[edges], PAD)
        before[:, 1:] = before[:, :-1].copy()
        before[:, 0] = PAD
        return torch.from_numpy(before)

    def _log_probabilities(self, hidden: torch.Tensor, edges: np.ndarray) -> torch.Tensor:
        """Return the log-probability of each edge among the valid ones, or among all if free."""
        method, vectors = self.method, self.method.t5_.lm_head.weight
        if method.params_.decoding == "free":
            every = torch.log_softmax((hidden @ vectors.T).float(), dim=1)
            return every[np.arange(len(edges)), self.chain.tokens[edges]]
        log_p, rows, columns, leaving = next_log_probabilities(
            hidden, vectors, self.chain, self.chain.state_before(edges)
        )
        chosen = leaving == edges[rows]
        return log_p[rows[chosen], columns[chosen]]


def _padded(paths: Sequence[np.ndarray]) -> np.ndarray:
    """Return the paths as rows of one array; -1 pads."""
    rows = np.full((len(paths), max(len(path) for path in paths)), -1, np.int64)
    for number, path in enumerate(paths):
        rows[number, : len(path)] = path
    return rows
