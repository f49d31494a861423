"""The loss of Seq2Seq on a batch: the negative log-likelihood of the outputs of its examples."""

from __future__ import annotations

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
    output_indicator : csr_matrix of shape (examples, outputs)
        The outputs of each example.
    """

    def __init__(self, method: Seq2Seq, X: csr_matrix, output_indicator: csr_matrix) -> None:
        self.method, self.X, self.output_indicator = method, X, output_indicator
        paths = method.outputs_.trie.paths
        self.lengths = np.array([len(path) for path in paths])
        self.edges = np.full((len(paths), int(self.lengths.max())), -1, np.int64)
        for number, path in enumerate(paths):
            self.edges[number, : len(path)] = path

    def __call__(self, batch: Batch) -> torch.Tensor:
        model = self.method.t5_
        device = model.shared.weight.device
        example, output = self._sample(batch)
        if not len(example):  # no example of the batch has a label
            zero: torch.Tensor = 0.0 * model.shared.weight.sum()
            return zero
        present, example = np.unique(example, return_inverse=True)
        tokens = self.method.input_tokens_(self.X[batch.rows[present]])
        ids, mask = (part.to(device) for part in tokens)
        edges = self.edges[output, : self.lengths[output].max()]
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

    def _sample(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Draw outputs of each example; return positions in the batch, and outputs."""
        indicator = self.output_indicator[batch.rows]
        rows = rows_of(indicator)
        order = np.lexsort((batch.rng.random(len(rows)), rows))
        rank = np.arange(len(rows)) - indicator.indptr[rows]
        drawn = order[rank < self.method.params_.max_outputs]
        return rows[drawn], indicator.indices[drawn]

    def _shifted(self, edges: np.ndarray) -> torch.Tensor:
        """Return the decoder's input: the start token, then all tokens but the last."""
        before = np.where(edges >= 0, self.method.outputs_.trie.tokens[edges], PAD)
        before[:, 1:] = before[:, :-1].copy()
        before[:, 0] = PAD
        return torch.from_numpy(before)

    def _log_probabilities(self, hidden: torch.Tensor, edges: np.ndarray) -> torch.Tensor:
        """Return the log-probability of each edge among the valid ones, or among all if free."""
        method, vectors = self.method, self.method.t5_.lm_head.weight
        trie = method.outputs_.trie
        if method.params_.decoding == "free":
            every = torch.log_softmax((hidden @ vectors.T).float(), dim=1)
            return every[np.arange(len(edges)), trie.tokens[edges]]
        log_p, rows, columns, leaving = next_log_probabilities(
            hidden, vectors, trie, trie.state_before(edges)
        )
        chosen = leaving == edges[rows]
        return log_p[rows[chosen], columns[chosen]]
