"""The trie of all valid outputs, as arrays: the tokens that may follow a state are one slice.

An output of several parts, such as the brand and the path of a record, is a chain of tries: a part
that is complete is followed by the root of the next trie. All combinations are valid, and none of
them has to be stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

ROOT = 0


@dataclass(frozen=True)
class Transitions:
    """States and the tokens that lead from one to another.

    Attributes
    ----------
    starts : ndarray of shape (n_states + 1,)
        The edges that leave state s are starts[s]:starts[s + 1].
    tokens, targets : ndarray of shape (n_edges,)
        The token of each edge, ascending within a state, and the state that it leads to.
    """

    starts: np.ndarray
    tokens: np.ndarray
    targets: np.ndarray

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
        return np.where(valid, self.targets[edges], -1)

    @cached_property
    def _keys(self) -> tuple[np.ndarray, int]:
        """One number per edge, state * base + token, and the base."""
        base = int(self.tokens.max()) + 1
        return self.state_before(np.arange(len(self.tokens))) * base + self.tokens, base


@dataclass(frozen=True)
class Trie(Transitions):
    """Outputs as paths from state 0; no output is a prefix of another.

    Edge e leads to state e + 1.

    Attributes
    ----------
    outputs : ndarray of shape (n_states,)
        The output that is complete in a state, -1 if none is.
    paths : tuple of ndarray
        The edges of each output, in order.
    """

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
            np.arange(1, n_edges + 1),
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


@dataclass(frozen=True)
class Chain(Transitions):
    """Tries one after another: an output is an output of each.

    States and edges are those of all tries, numbered one trie after another.

    Attributes
    ----------
    tries : tuple of Trie
        The parts, in order.
    outputs : ndarray of shape (n_states,)
        The output of its part that is complete in a state, -1 if none is.
    roots, first_edges : ndarray of shape (n_parts,)
        The first state and the first edge of each part.
    """

    tries: tuple[Trie, ...]
    outputs: np.ndarray
    roots: np.ndarray
    first_edges: np.ndarray

    @classmethod
    def of(cls, tries: Sequence[Trie]) -> Self:
        """Return the chain of these tries."""
        roots = np.cumsum([0, *(len(trie.outputs) for trie in tries)])
        edges = np.cumsum([0, *(len(trie.tokens) for trie in tries)])
        starts = [trie.starts[:-1] + first for trie, first in zip(tries, edges[:-1], strict=True)]
        targets = [trie.targets + root for trie, root in zip(tries, roots[:-1], strict=True)]
        return cls(
            np.concatenate([*starts, edges[-1:]]),
            np.concatenate([trie.tokens for trie in tries]),
            np.concatenate(targets),
            tuple(tries),
            np.concatenate([trie.outputs for trie in tries]),
            roots[:-1],
            edges[:-1],
        )

    @property
    def max_length(self) -> int:
        """The number of tokens of the longest output."""
        return sum(max(len(path) for path in trie.paths) for trie in self.tries)
