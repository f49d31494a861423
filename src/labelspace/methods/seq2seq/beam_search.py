"""Beam search: the likeliest outputs of many examples at once, from encoder states computed once.

Bound to the trie, a step shares its probability among the tokens that may follow, so the outputs of
an example have the sum 1 and nothing invalid can be written. Free, it shares it among all tokens,
and what leaves the trie is invalid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from labelspace.methods.seq2seq.model import written_states
from labelspace.methods.seq2seq.outputs import END, PAD
from labelspace.methods.seq2seq.trie import ROOT, Trie

OFF = -1  # the state of a beam that has left the trie


@dataclass(frozen=True)
class Beams:
    """What has been written so far: a beam a place in each array.

    example  which example it belongs to
    score    log-probability
    state    where in the trie it stands
    token    what was written last
    """

    example: np.ndarray
    score: np.ndarray
    state: np.ndarray
    token: np.ndarray

    @classmethod
    def begin(cls, n: int) -> Beams:
        return cls(np.arange(n), np.zeros(n), np.full(n, ROOT), np.full(n, PAD))

    def take(self, which: np.ndarray) -> Beams:
        return Beams(self.example[which], self.score[which], self.state[which], self.token[which])

    def joined(self, other: Beams) -> Beams:
        return Beams(*(np.concatenate([mine, vars(other)[k]]) for k, mine in vars(self).items()))

    def best(self, width: int) -> np.ndarray:
        """The places of the best `width` beams of each example, best first."""
        order = np.lexsort((-self.score, self.example))
        example = self.example[order]
        rank = np.arange(len(order)) - np.searchsorted(example, example)
        return np.asarray(order[rank < width])


def next_log_probabilities(
    hidden: torch.Tensor, vectors: torch.Tensor, trie: Trie, states: np.ndarray
) -> tuple[torch.Tensor, np.ndarray, np.ndarray, np.ndarray]:
    """Of the edges that leave each state, normalised over these.

    Returns a matrix (states, tokens in use), and for each edge its row, its column and its number.
    """
    edges, begins = trie.edges_of(states)
    used, columns = np.unique(trie.tokens[edges], return_inverse=True)
    rows = np.repeat(np.arange(len(states)), np.diff(begins))
    barred = torch.ones(len(states), len(used), dtype=torch.bool)
    barred[torch.from_numpy(rows), torch.from_numpy(columns)] = False
    logits = hidden @ vectors[torch.from_numpy(used).to(vectors.device)].T
    logits = logits.float() if logits.dtype == torch.bfloat16 else logits
    logits = logits.masked_fill(barred.to(logits.device), -torch.inf)
    return torch.log_softmax(logits, dim=1), rows, columns, edges


class Writer:
    """Writes outputs with a T5 that is not trained any more.

    width  beams kept of an example
    free   do not bind them to the trie
    """

    def __init__(self, model: Any, trie: Trie, width: int, free: bool) -> None:
        self.model, self.trie, self.width, self.free = model, trie, width, free
        self.longest = max(len(walk) for walk in trie.walks)

    @torch.no_grad()
    def write(self, ids: torch.Tensor, mask: torch.Tensor) -> Beams:
        """The finished beams; `state` is OFF where what is written is no output."""
        device = self.model.shared.weight.device
        ids, mask = ids.to(device), mask.to(device)
        encoded = self.model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        live, cache = Beams.begin(len(ids)), None
        done = live.take(np.empty(0, np.int64))
        for _ in range(self.longest):
            of = torch.from_numpy(live.example).to(device)
            step = self.model.decoder(
                input_ids=torch.from_numpy(live.token).to(device)[:, None],
                encoder_hidden_states=encoded[of],
                encoder_attention_mask=mask[of],
                past_key_values=cache,
                use_cache=True,
            )
            cache = step.past_key_values
            parents, longer = self._longer(live, step.last_hidden_state[:, 0])
            both = done.joined(longer)
            kept = both.best(self.width)
            n_done = len(done.score)
            complete = (kept < n_done) | self._complete(both.take(kept))
            done, going = both.take(kept[complete]), kept[~complete]
            live = both.take(going)
            if not len(going):
                break
            cache.batch_select_indices(torch.from_numpy(parents[going - n_done]).to(device))
        return done

    def _longer(self, live: Beams, hidden: torch.Tensor) -> tuple[np.ndarray, Beams]:
        """Every beam with every token that may follow, and which beam each comes from."""
        hidden, vectors = written_states(self.model, hidden), self.model.lm_head.weight
        if self.free:
            return self._freely(live, torch.log_softmax(hidden @ vectors.T, dim=1))
        log_p, rows, columns, edges = next_log_probabilities(hidden, vectors, self.trie, live.state)
        score = live.score[rows] + log_p.double().cpu().numpy()[rows, columns]
        return rows, Beams(live.example[rows], score, edges + 1, self.trie.tokens[edges])

    def _freely(self, live: Beams, log_p: torch.Tensor) -> tuple[np.ndarray, Beams]:
        best, tokens = log_p.topk(min(self.width, log_p.shape[1]), dim=1)
        rows = np.repeat(np.arange(len(live.score)), tokens.shape[1])
        token = tokens.cpu().numpy().ravel()
        state = self.trie.follow(live.state[rows], token)
        score = live.score[rows] + best.double().cpu().numpy().ravel()
        return rows, Beams(live.example[rows], score, state, token)

    def _complete(self, beams: Beams) -> np.ndarray:
        if self.free:
            return np.asarray(beams.token == END)
        return np.asarray(self.trie.outputs[beams.state] >= 0)
