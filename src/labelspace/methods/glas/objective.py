"""The objective of GLaS on a batch (Algorithm 2 of Guo et al. 2019)."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.sparse import rows_of
from labelspace.labels.cooccurrence import CooccurrenceTarget
from labelspace.methods.glas.space import LabelSpace
from labelspace.nn import exchange, losses, regularisers
from labelspace.nn.sampling import Candidates, CandidateSampler, own_features
from labelspace.nn.trainer import Batch
from labelspace.runs.callbacks import Callback, Run
from labelspace.search.build import build_index

MAX_REGULARISED = 2048  # labels per batch, since the target of the regulariser is their square
SAMPLED_LOSSES = ("margin", "mined-margin")  # on one positive per example
HARD = 20  # hard negatives kept per example
HARD_PER_EXAMPLE = 2  # of these, how many are candidates in a batch
HARD_RECALL = 0.9  # of the search for them, which need not be exact
HARD_BLOCK = 8192  # examples per search, to bound memory


class BatchObjective(Callback):
    """The loss of a batch plus the regulariser.

    Parameters
    ----------
    space : LabelSpace
        The weights to train.
    params : SimpleNamespace
        The parameters of the method.
    X, Y : csr_matrix
        The training examples.

    Attributes
    ----------
    hard : Tensor of shape (examples, HARD), int32, or None
        The highest-scoring wrong labels of each example at the end of the last epoch; -1 pads. It
        is part of checkpoints. None unless negatives are "hard".
    """

    def __init__(
        self, space: LabelSpace, params: SimpleNamespace, X: csr_matrix, Y: csr_matrix
    ) -> None:
        self.space, self.params, self.X, self.Y = space, params, X, Y
        self.hard: torch.Tensor | None = None
        if params.negatives == "hard":
            self.hard = torch.full((X.shape[0], HARD), -1, dtype=torch.int32)
        self.sampler = CandidateSampler(Y, params.negatives, params.n_negatives)
        self.graph = None
        if params.lam > 0 and params.regulariser in ("glas", "laplacian"):
            self.graph = CooccurrenceTarget(Y, params.target, seed=params.seed)

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return loss and penalty of a batch, with gradient."""
        keep, rescale = self.params.keep, self.params.rescale_kept
        together = exchange.current()
        own = together.part(len(batch.rows))
        X = own_features(self.X, batch.rows, own, keep, batch.rng, rescale=rescale)
        # Candidates and regularised labels are those of the whole batch, also of other workers.
        z, Y = self.replayed(self.space.points(X), self.Y[batch.rows], batch.rng)
        candidates = self.sampler.draw(Y, batch.rng, self._hard_of(batch))
        vectors = self.space.vectors(candidates.labels)
        logits = self.space.logits(z, vectors, candidates.labels)
        sampled = None
        if self.params.loss in SAMPLED_LOSSES or self.params.regularised == "sampled":
            sampled = one_positive(Y, candidates, batch.rng)
        positives = None if sampled is None else together.own(sampled)
        loss = self._loss(logits, together.own(Y), candidates, positives)
        loss = together.weighted(loss, len(batch.rows))
        return loss + self.penalty(z, vectors, Y, candidates, sampled)

    def replayed(
        self,
        z: torch.Tensor,
        Y: csr_matrix,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> tuple[torch.Tensor, csr_matrix]:
        """Return the points and labels of a batch; updates append those of old examples."""
        return z, Y

    def penalty(
        self,
        z: torch.Tensor,
        vectors: torch.Tensor,
        Y: csr_matrix,
        candidates: Candidates,
        sampled: np.ndarray | None,
    ) -> torch.Tensor:
        """Return lam times the regulariser, of which each worker has a part.

        Y and `sampled` are those of the whole batch, z has this worker's examples.
        """
        if self.params.lam == 0 or self.params.regulariser is None:
            return torch.zeros(())
        if self.params.regularised == "distinct":
            labels, counts = distinct_labels(Y), None
        else:  # y_1 .. y_B of Algorithm 2: a label counts once for each example it was drawn for
            assert sampled is not None
            columns, times = np.unique(sampled[sampled >= 0], return_counts=True)
            labels, counts = candidates.labels[columns], torch.from_numpy(times.astype(np.float32))
        V = vectors[torch.from_numpy(candidates.columns(labels))]
        weight: float = self.params.lam
        return weight * self._regulariser(z, Y.shape[0], V, labels, counts)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return what checkpoints hold beside the weights."""
        return {} if self.hard is None else {"hard": self.hard}

    def _hard_of(self, batch: Batch) -> np.ndarray | None:
        """Draw HARD_PER_EXAMPLE hard negatives of each example."""
        if self.hard is None:
            return None
        drawn = batch.rng.integers(0, HARD, (len(batch.rows), HARD_PER_EXAMPLE))
        return np.asarray(self.hard.numpy()[batch.rows[:, None], drawn])

    def on_epoch(self, run: Run) -> None:  # noqa: ARG002
        """Search the hard negatives of every example by the current weights."""
        if self.hard is None:
            return
        n, hard = self.X.shape[0], self.hard.numpy()
        index = None
        for start in range(0, n, HARD_BLOCK):
            rows = slice(start, min(start + HARD_BLOCK, n))
            queries = self.space.queries(self.X[rows])
            if index is None:
                index = build_index(
                    self.space.search_vectors(),
                    recall=HARD_RECALL,
                    seed=self.params.seed,
                    queries=queries,
                )
            hard[rows] = -1
            labels, _ = index.search(queries, min(HARD, self.Y.shape[1]))
            own = self.Y[rows][np.arange(len(labels))[:, None], np.maximum(labels, 0)]
            labels[own.toarray() > 0] = -1
            hard[rows, : labels.shape[1]] = labels

    def _loss(
        self,
        logits: torch.Tensor,
        Y: csr_matrix,
        candidates: Candidates,
        sampled: np.ndarray | None,
    ) -> torch.Tensor:
        rows = torch.from_numpy(rows_of(Y))
        columns = torch.from_numpy(candidates.columns(Y.indices))
        inclusion = torch.from_numpy(candidates.inclusion)
        loss, margin = self.params.loss, self.params.margin
        if loss == "binary":
            return losses.binary_loss(logits, rows, columns, negative_weights=1.0 / inclusion)
        if loss == "softmax":
            return losses.softmax_loss(logits, rows, columns, log_q=torch.log(inclusion))
        assert sampled is not None
        positives = torch.from_numpy(sampled)
        if loss == "margin":
            return losses.margin_loss(logits, rows, columns, positives, margin)
        return losses.mined_margin_loss(
            logits, rows, columns, positives, margin, self.params.hardest
        )

    def _regulariser(
        self,
        z: torch.Tensor,
        n: int,
        V: torch.Tensor,
        labels: np.ndarray,
        counts: torch.Tensor | None,
    ) -> torch.Tensor:
        """Return the regulariser of these labels, whose vectors are V, on a batch of n examples."""
        kind, together = self.params.regulariser, exchange.current()
        if kind == "spread-out":
            return together.weighted(regularisers.spread_out(V, counts), n)
        if kind == "gravity":
            return together.weighted(regularisers.gravity(z, V, counts), n)
        assert self.graph is not None
        U = regularisers.sparse_tensor(self.graph.sparse_submatrix(labels))
        function = regularisers.glas if kind == "glas" else regularisers.graph_laplacian
        return function(V, U, counts)


def distinct_labels(Y: csr_matrix) -> np.ndarray:
    """Return the labels of a batch, sorted, at most the MAX_REGULARISED commonest."""
    labels, counts = np.unique(Y.indices, return_counts=True)
    return np.sort(labels[np.argsort(-counts, kind="stable")[:MAX_REGULARISED]])


def one_positive(Y: csr_matrix, candidates: Candidates, rng: np.random.Generator) -> np.ndarray:
    """Return the column of a random label of each example; -1 if it has none."""
    sizes = np.diff(Y.indptr)
    drawn = Y.indptr[:-1] + (rng.random(Y.shape[0]) * sizes).astype(np.int64)
    columns = np.full(Y.shape[0], -1, np.int64)
    columns[sizes > 0] = candidates.columns(Y.indices[drawn[sizes > 0]])
    return columns
