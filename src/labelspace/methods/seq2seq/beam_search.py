"""Beam search for the most probable outputs, of many examples at once.

Restricted to the valid outputs, a step normalises over the valid next tokens: the probabilities of
an example's outputs sum to 1 and no invalid output is generated. Unrestricted, it normalises over
all tokens, and a beam that leaves the tries is invalid. It has the labels of the part that it has
finished, and it may continue with the next part once the tokens that end a part are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from labelspace.methods.seq2seq.model import decoder_outputs
from labelspace.methods.seq2seq.outputs import END, PAD
from labelspace.methods.seq2seq.trie import ROOT, Chain, Transitions

LOST = -1  # state of a beam that has left the tries
NOT_REACHED = -1  # of a part


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
        State in the chain of tries, or LOST.
    token : ndarray
        The last token.
    part : ndarray
        The part that the beam is in.
    reached : ndarray of shape (n, parts)
        The last state of each part: that of its output, or the last one before the beam was lost;
        NOT_REACHED if the part has not ended.
    valid : ndarray
        False from when a beam is lost.
    latest : ndarray of shape (n, m)
        The last tokens, as many as the longest that end a part; only kept where needed.
    """

    example: np.ndarray
    score: np.ndarray
    state: np.ndarray
    token: np.ndarray
    part: np.ndarray
    reached: np.ndarray
    valid: np.ndarray
    latest: np.ndarray

    @classmethod
    def begin(cls, n: int, parts: int, latest: int) -> Beams:
        """Return one empty beam for each of n examples."""
        return cls(
            example=np.arange(n),
            score=np.zeros(n),
            state=np.full(n, ROOT),
            token=np.full(n, PAD),
            part=np.zeros(n, np.int64),
            reached=np.full((n, parts), NOT_REACHED),
            valid=np.ones(n, bool),
            latest=np.full((n, latest), PAD),
        )

    def take(self, which: np.ndarray) -> Beams:
        """Return the beams at these positions."""
        return Beams(**{name: array[which] for name, array in vars(self).items()})

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
    hidden: torch.Tensor, vectors: torch.Tensor, trie: Transitions, states: np.ndarray
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
    chain : Chain
        The valid outputs.
    width : int
        Beams per example.
    stops : sequence of ndarray, optional
        For beams that are not restricted to the valid outputs: the tokens that end each part.
    """

    def __init__(
        self, model: Any, chain: Chain, width: int, stops: Sequence[np.ndarray] | None = None
    ) -> None:
        self.model, self.chain, self.width, self.stops = model, chain, width, stops
        further = stops[:-1] if stops is not None else ()  # the last part is followed by none
        self.latest = max((len(stop) for stop in further), default=0)

    @torch.no_grad()
    def generate(self, ids: torch.Tensor, mask: torch.Tensor) -> Beams:
        """Return the finished beams.

        Encoder states are computed once, keys and values of the decoder are cached.
        """
        device = self.model.shared.weight.device
        ids, mask = ids.to(device), mask.to(device)
        encoded = self.model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        active, cache = Beams.begin(len(ids), len(self.chain.tries), self.latest), None
        done = active.take(np.empty(0, np.int64))
        for _ in range(self.chain.max_length):
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
        if self.stops is not None:
            return self._extend_freely(active, torch.log_softmax(hidden @ vectors.T, dim=1))
        found = next_log_probabilities(hidden, vectors, self.chain, active.state)
        log_p, rows, columns, edges = found
        score = active.score[rows] + log_p.double().cpu().numpy()[rows, columns]
        tokens, states = self.chain.tokens[edges], self.chain.targets[edges]
        extended = replace(active.take(rows), score=score, state=states, token=tokens)
        return rows, self._arrived(extended)

    def _extend_freely(self, active: Beams, log_p: torch.Tensor) -> tuple[np.ndarray, Beams]:
        """Return the beams extended by their most probable tokens, valid or not."""
        best, tokens = log_p.topk(min(self.width, log_p.shape[1]), dim=1)
        rows = np.repeat(np.arange(len(active.score)), tokens.shape[1])
        token = tokens.cpu().numpy().ravel()
        before = active.take(rows)
        state = self.chain.follow(before.state, token)
        leaves = np.flatnonzero((before.state != LOST) & (state == LOST))
        before.reached[leaves, before.part[leaves]] = before.state[leaves]
        extended = replace(
            before,
            score=before.score + best.double().cpu().numpy().ravel(),
            state=state,
            token=token,
            valid=before.valid & (state != LOST),
            latest=np.hstack([before.latest, token[:, None]])[:, 1:]
            if self.latest
            else before.latest,
        )
        self._find_next_part(extended)
        return rows, self._arrived(extended)

    def _find_next_part(self, beams: Beams) -> None:
        """Let lost beams that have generated what ends their part begin the next one."""
        for part, stop in enumerate((self.stops or ())[:-1]):
            lost = np.flatnonzero((beams.state == LOST) & (beams.part == part))
            ends = (beams.latest[lost, beams.latest.shape[1] - len(stop) :] == stop).all(axis=1)
            beams.state[lost[ends]] = self.chain.roots[part + 1]
            beams.part[lost[ends]] = part + 1

    def _arrived(self, beams: Beams) -> Beams:
        """Let beams whose part is complete begin the next one."""
        complete = np.flatnonzero((beams.state != LOST) & (self.chain.outputs[beams.state] >= 0))
        part = beams.part[complete]
        beams.reached[complete, part] = beams.state[complete]
        further = part + 1 < len(self.chain.tries)
        complete, part = complete[further], part[further]
        beams.state[complete] = self.chain.roots[part + 1]
        beams.part[complete] = part + 1
        return beams

    def _complete(self, beams: Beams) -> np.ndarray:
        """Return which beams are finished."""
        if self.stops is not None:
            return np.asarray(beams.token == END)
        return np.asarray(self.chain.outputs[beams.state] >= 0)
