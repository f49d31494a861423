"""The trie of all valid outputs, as arrays: the tokens that may follow a state are one slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

ROOT = 0


@dataclass(frozen=True)
class Trie:
    """Outputs as paths from state 0; no output is a prefix of another.

    Attributes
    ----------
    starts : ndarray of shape (n_states + 1,)
        The edges that leave state s are starts[s]:starts[s + 1].
    tokens : ndarray of shape (n_edges,)
        The token of each edge, ascending within a state; edge e leads to state e + 1.
    outputs : ndarray of shape (n_states,)
        The output that is complete in a state, -1 if none is.
    paths : tuple of ndarray
        The edges of each output, in order.
    """

    starts: np.ndarray
    tokens: np.ndarray
    outputs: np.ndarray
    paths: tuple[np.ndarray, ...]

    @classmethod
    def build(cls, sequences: Sequence[np.ndarray]) -> Self:
        """Return the trie of distinct sequences none of which is a prefix of another."""
        lengths = np.array([len(sequence) for sequence in sequences])
        base = max(int(sequence.max()) for sequence in sequences) + 1
        state = np.zeros(len(sequences), np.int64)
        paths = np.full((len(sequences), int(lengths.max())), -1, np.int64)
        parents, tokens, n_edges = [], [], 0
        for depth in range(int(lengths.max())):
            alive = np.flatnonzero(lengths > depth)
            token = np.array([sequences[i][depth] for i in alive.tolist()], np.int64)
            keys, edge = np.unique(state[alive] * base + token, return_inverse=True)
            parents.append(keys // base)
            tokens.append(keys % base)
            paths[alive, depth] = n_edges + edge
            n_edges += len(keys)
            state[alive] = paths[alive, depth] + 1
        outputs = np.full(n_edges + 1, -1, np.int64)
        outputs[state] = np.arange(len(sequences))
        # Edges are in the order of their states: they were sorted at every depth.
        leaving = np.bincount(np.concatenate(parents), minlength=n_edges + 1)
        return cls(
            np.concatenate([[0], np.cumsum(leaving)]),
            np.concatenate(tokens),
            outputs,
            tuple(path[path >= 0] for path in paths),
        )

    def shortened(self) -> list[np.ndarray]:
        """Return the outputs without the tokens that have no alternative.

        They are still distinct; a single output keeps its last token.
        """
        n_edges = np.diff(self.starts)
        states = np.repeat(np.arange(len(n_edges)), n_edges)
        kept = []
        for path in self.paths:
            chosen = path[n_edges[states[path]] > 1]
            kept.append(self.tokens[chosen if len(chosen) else path[-1:]])
        return kept

    def edges_of(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges that leave these states, concatenated, and where those of each begin."""
        sizes = self.starts[states + 1] - self.starts[states]
        begins = np.concatenate([[0], np.cumsum(sizes)])
        edges = np.arange(begins[-1]) + np.repeat(self.starts[states] - begins[:-1], sizes)
        return edges, begins

    def state_before(self, edges: np.ndarray) -> np.ndarray:
        """Return the state that each edge leaves."""
        return np.searchsorted(self.starts, edges, side="right") - 1

    def follow(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Return the state that a token leads to from each state; -1 if it is not valid there.

        State -1 leads to -1.
        """
        keys, base = self._keys
        wanted = states * base + tokens
        edges = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        valid = (keys[edges] == wanted) & (states >= 0) & (tokens < base)
        return np.where(valid, edges + 1, -1)

    @cached_property
    def _keys(self) -> tuple[np.ndarray, int]:
        """One number per edge, state * base + token, and the base."""
        base = int(self.tokens.max()) + 1
        return self.state_before(np.arange(len(self.tokens))) * base + self.tokens, base
