"""Beam search for the most probable outputs, of many examples at once.

Restricted to the trie, a step normalises over the valid next tokens: the probabilities of an
example's outputs sum to 1 and no invalid output is generated. Unrestricted, it normalises over all
tokens, and a beam that leaves the trie is invalid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from labelspace.methods.seq2seq.model import decoder_outputs
from labelspace.methods.seq2seq.outputs import END, PAD
from labelspace.methods.seq2seq.trie import ROOT, Trie

INVALID = -1  # state of a beam that has left the trie


@dataclass(frozen=True)
class Beams:
    """Partial or finished outputs; all arrays have one entry per beam.

    Attributes
    ----------
    example : ndarray
        The example that the beam belongs to.
    score : ndarray
        Log-probability.
    state : ndarray
        State in the trie, or INVALID.
    token : ndarray
        The last token.
    """

    example: np.ndarray
    score: np.ndarray
    state: np.ndarray
    token: np.ndarray

    @classmethod
    def begin(cls, n: int) -> Beams:
        """Return one empty beam for each of n examples."""
        return cls(np.arange(n), np.zeros(n), np.full(n, ROOT), np.full(n, PAD))

    def take(self, which: np.ndarray) -> Beams:
        """Return the beams at these positions."""
        return Beams(self.example[which], self.score[which], self.state[which], self.token[which])

    def joined(self, other: Beams) -> Beams:
        """Return these beams followed by the other ones."""
        return Beams(*(np.concatenate([mine, vars(other)[k]]) for k, mine in vars(self).items()))

    def best(self, width: int) -> np.ndarray:
        """Return the positions of the best `width` beams of each example, best first."""
        order = np.lexsort((-self.score, self.example))
        example = self.example[order]
        rank = np.arange(len(order)) - np.searchsorted(example, example)
        return np.asarray(order[rank < width])


def next_log_probabilities(
    hidden: torch.Tensor, vectors: torch.Tensor, trie: Trie, states: np.ndarray
) -> tuple[torch.Tensor, np.ndarray, np.ndarray, np.ndarray]:
    """Return the log-probabilities of the edges that leave each state, normalised over these.

    Returns
    -------
    log_p : Tensor of shape (n_states, number of distinct tokens)
    rows, columns, edges : ndarray
        The position of each edge in `log_p`, and its number in the trie.
    """
    edges, begins = trie.edges_of(states)
    used, columns = np.unique(trie.tokens[edges], return_inverse=True)
    rows = np.repeat(np.arange(len(states)), np.diff(begins))
    invalid = torch.ones(len(states), len(used), dtype=torch.bool)
    invalid[torch.from_numpy(rows), torch.from_numpy(columns)] = False
    logits = hidden @ vectors[torch.from_numpy(used).to(vectors.device)].T
    # A pretrained T5 may be in bfloat16, whose sums are too coarse for a softmax.
    logits = logits.float() if logits.dtype == torch.bfloat16 else logits
    logits = logits.masked_fill(invalid.to(logits.device), -torch.inf)
    return torch.log_softmax(logits, dim=1), rows, columns, edges


class Decoder:
    """Generates outputs with a trained T5.

    Parameters
    ----------
    model : transformers.T5ForConditionalGeneration
    trie : Trie
        The valid outputs.
    width : int
        Beams per example.
    free : bool
        Whether beams are not restricted to the trie.
    """

    def __init__(self, model: Any, trie: Trie, width: int, free: bool) -> None:
        self.model, self.trie, self.width, self.free = model, trie, width, free
        self.max_length = max(len(path) for path in trie.paths)

    @torch.no_grad()
    def generate(self, ids: torch.Tensor, mask: torch.Tensor) -> Beams:
        """Return the finished beams; `state` is INVALID if a beam is not a valid output.

        Encoder states are computed once, keys and values of the decoder are cached.
        """
        device = self.model.shared.weight.device
        ids, mask = ids.to(device), mask.to(device)
        encoded = self.model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        active, cache = Beams.begin(len(ids)), None
        done = active.take(np.empty(0, np.int64))
        for _ in range(self.max_length):
            of = torch.from_numpy(active.example).to(device)
            step = self.model.decoder(
                input_ids=torch.from_numpy(active.token).to(device)[:, None],
                encoder_hidden_states=encoded[of],
                encoder_attention_mask=mask[of],
                past_key_values=cache,
                use_cache=True,
            )
            cache = step.past_key_values
            parents, extended = self._extend(active, step.last_hidden_state[:, 0])
            both = done.joined(extended)
            kept = both.best(self.width)
            n_done = len(done.score)
            complete = (kept < n_done) | self._complete(both.take(kept))
            done, remaining = both.take(kept[complete]), kept[~complete]
            active = both.take(remaining)
            if not len(remaining):
                break
            cache.batch_select_indices(torch.from_numpy(parents[remaining - n_done]).to(device))
        return done

    def _extend(self, active: Beams, hidden: torch.Tensor) -> tuple[np.ndarray, Beams]:
        """Return the beams extended by each valid token, and the beam that each comes from."""
        hidden, vectors = decoder_outputs(self.model, hidden), self.model.lm_head.weight
        if self.free:
            return self._extend_freely(active, torch.log_softmax(hidden @ vectors.T, dim=1))
        found = next_log_probabilities(hidden, vectors, self.trie, active.state)
        log_p, rows, columns, edges = found
        score = active.score[rows] + log_p.double().cpu().numpy()[rows, columns]
        return rows, Beams(active.example[rows], score, edges + 1, self.trie.tokens[edges])

    def _extend_freely(self, active: Beams, log_p: torch.Tensor) -> tuple[np.ndarray, Beams]:
        """Return the beams extended by their most probable tokens, valid or not."""
        best, tokens = log_p.topk(min(self.width, log_p.shape[1]), dim=1)
        rows = np.repeat(np.arange(len(active.score)), tokens.shape[1])
        token = tokens.cpu().numpy().ravel()
        state = self.trie.follow(active.state[rows], token)
        score = active.score[rows] + best.double().cpu().numpy().ravel()
        return rows, Beams(active.example[rows], score, state, token)

    def _complete(self, beams: Beams) -> np.ndarray:
        """Return which beams are finished."""
        if self.free:
            return np.asarray(beams.token == END)
        return np.asarray(self.trie.outputs[beams.state] >= 0)
