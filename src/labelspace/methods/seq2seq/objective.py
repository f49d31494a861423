"""The loss of a batch: how unlikely the paths of its examples are to be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.sparse import rows_of
from labelspace.methods.seq2seq.beam_search import next_log_probabilities
from labelspace.methods.seq2seq.model import written_states
from labelspace.methods.seq2seq.outputs import PAD
from labelspace.nn.trainer import Batch

if TYPE_CHECKING:
    from labelspace.methods.seq2seq.method import Seq2Seq


class WritingObjective:
    """The mean over examples of -log p(output | example), averaged over an example's outputs.

    has  (examples, outputs) which outputs each example has
    """

    def __init__(self, method: Seq2Seq, X: csr_matrix, has: csr_matrix) -> None:
        self.method, self.X, self.has = method, X, has
        walks = method.outputs_.trie.walks
        self.lengths = np.array([len(walk) for walk in walks])
        self.edges = np.full((len(walks), int(self.lengths.max())), -1, np.int64)
        for number, walk in enumerate(walks):
            self.edges[number, : len(walk)] = walk

    def __call__(self, batch: Batch) -> torch.Tensor:
        model = self.method.t5_
        device = model.shared.weight.device
        example, output = self._draw(batch)
        if not len(example):  # nobody in the batch has a label
            nothing: torch.Tensor = 0.0 * model.shared.weight.sum()
            return nothing
        present, example = np.unique(example, return_inverse=True)
        ids, mask = (part.to(device) for part in self.method.reading_(self.X[batch.rows[present]]))
        edges = self.edges[output, : self.lengths[output].max()]
        of = torch.from_numpy(example).to(device)
        # Dropout draws from torch's own generator: begun anew for each batch, resumed runs agree.
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
            written = written_states(model, hidden[pair, place])
            log_p = self._log_probabilities(written, edges[pair, place])
        # An example counts once, however many of its outputs were drawn.
        weights = 1.0 / np.bincount(example)[example[pair]]
        return -(torch.from_numpy(weights).to(log_p) * log_p).sum() / len(present)

    def _draw(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Some outputs of each example: (place in the batch, output)."""
        has = self.has[batch.rows]
        rows = rows_of(has)
        order = np.lexsort((batch.rng.random(len(rows)), rows))
        drawn = order[np.arange(len(rows)) - has.indptr[rows] < self.method.params_.max_outputs]
        return rows[drawn], has.indices[drawn]

    def _shifted(self, edges: np.ndarray) -> torch.Tensor:
        """What the decoder has written before each place: a start, then the tokens but the last."""
        before = np.where(edges >= 0, self.method.outputs_.trie.tokens[edges], PAD)
        before[:, 1:] = before[:, :-1].copy()
        before[:, 0] = PAD
        return torch.from_numpy(before)

    def _log_probabilities(self, hidden: torch.Tensor, edges: np.ndarray) -> torch.Tensor:
        """Of writing each edge: among those beside it, or among all tokens if writing is free."""
        method, vectors = self.method, self.method.t5_.lm_head.weight
        trie = method.outputs_.trie
        if method.params_.decoding == "free":
            every = torch.log_softmax((hidden @ vectors.T).float(), dim=1)
            return every[np.arange(len(edges)), trie.tokens[edges]]
        log_p, rows, columns, leaving = next_log_probabilities(
            hidden, vectors, trie, trie.state_before(edges)
        )
        written = leaving == edges[rows]
        return log_p[rows[written], columns[written]]
