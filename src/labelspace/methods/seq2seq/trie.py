"""The trie of all outputs that may be written, as arrays: what can follow a state, in one slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

ROOT = 0


@dataclass(frozen=True)
class Trie:
    """Outputs as walks from state 0; no output is the beginning of another.

    starts   (states + 1,) the edges that leave a state are starts[s]:starts[s + 1]
    tokens   (edges,) what is written on an edge, rising within a state; edge e ends in state e + 1
    outputs  (states,) the output that is complete here, -1 if none is
    walks    (outputs,) the edges of each output, in order
    """

    starts: np.ndarray
    tokens: np.ndarray
    outputs: np.ndarray
    walks: tuple[np.ndarray, ...]

    @classmethod
    def build(cls, sequences: Sequence[np.ndarray]) -> Self:
        """From different sequences of which none begins another; one depth at a time."""
        lengths = np.array([len(sequence) for sequence in sequences])
        base = max(int(sequence.max()) for sequence in sequences) + 1
        state = np.zeros(len(sequences), np.int64)
        walks = np.full((len(sequences), int(lengths.max())), -1, np.int64)
        parents, tokens, n_edges = [], [], 0
        for depth in range(int(lengths.max())):
            alive = np.flatnonzero(lengths > depth)
            written = np.array([sequences[i][depth] for i in alive.tolist()], np.int64)
            keys, edge = np.unique(state[alive] * base + written, return_inverse=True)
            parents.append(keys // base)
            tokens.append(keys % base)
            walks[alive, depth] = n_edges + edge
            n_edges += len(keys)
            state[alive] = walks[alive, depth] + 1
        outputs = np.full(n_edges + 1, -1, np.int64)
        outputs[state] = np.arange(len(sequences))
        # Depth by depth and sorted within: edges are in the order of their states already.
        leaving = np.bincount(np.concatenate(parents), minlength=n_edges + 1)
        return cls(
            np.concatenate([[0], np.cumsum(leaving)]),
            np.concatenate(tokens),
            outputs,
            tuple(walk[walk >= 0] for walk in walks),
        )

    def deciding(self) -> list[np.ndarray]:
        """The outputs without what is bound to follow: only tokens that had an alternative.

        Which output it is remains clear; the sole output there is keeps its last token.
        """
        ways = np.diff(self.starts)
        states = np.repeat(np.arange(len(ways)), ways)
        kept = []
        for walk in self.walks:
            chosen = walk[ways[states[walk]] > 1]
            kept.append(self.tokens[chosen if len(chosen) else walk[-1:]])
        return kept

    def edges_of(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The edges that leave each of these states, one after another, and where each begins."""
        sizes = self.starts[states + 1] - self.starts[states]
        begins = np.concatenate([[0], np.cumsum(sizes)])
        edges = np.arange(begins[-1]) + np.repeat(self.starts[states] - begins[:-1], sizes)
        return edges, begins

    def state_before(self, edges: np.ndarray) -> np.ndarray:
        """The state that an edge leaves."""
        return np.searchsorted(self.starts, edges, side="right") - 1

    def follow(self, states: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Where a token leads from each state; -1 where it may not follow, and from -1."""
        keys, base = self._keys
        wanted = states * base + tokens
        edges = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        may = (keys[edges] == wanted) & (states >= 0) & (tokens < base)
        return np.where(may, edges + 1, -1)

    @cached_property
    def _keys(self) -> tuple[np.ndarray, int]:
        """One number for each pair of a state and a token that may follow, and its base."""
        base = int(self.tokens.max()) + 1
        return self.state_before(np.arange(len(self.tokens))) * base + self.tokens, base
