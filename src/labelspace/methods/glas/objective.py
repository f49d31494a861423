"""What GLaS minimises on a batch: Algorithm 2 of Guo et al. 2019, from the batch on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.sparse import rows_of
from labelspace.labels.cooccurrence import CooccurrenceTarget
from labelspace.nn import losses, regularisers
from labelspace.nn.encoder import times_scalar, unit
from labelspace.nn.sampling import Candidates, CandidateSampler, drop_features
from labelspace.nn.trainer import Batch
from labelspace.runs.callbacks import Callback, Run

if TYPE_CHECKING:
    from labelspace.methods.glas.method import GLaS

MOST_REGULARISED = 2048
HARD = 20  # hard labels kept of an example
HARD_PER_EXAMPLE = 2  # of them drawn for a batch
HARD_RECALL = 0.9
REFRESHED_AT_A_TIME = 8192


class BatchObjective(Callback):
    """The loss of a batch: Algorithm 2 from the batch on.

    hard  (examples, HARD) the labels that scored highest for each example at the end of the last
          epoch and are not its own, -1 for those that are; it goes into checkpoints
    """

    def __init__(self, model: GLaS, X: csr_matrix, Y: csr_matrix) -> None:
        self.model, self.X, self.Y = model, X, Y
        self.hard: torch.Tensor | None = None
        if model.params_.negatives == "hard":
            self.hard = torch.full((X.shape[0], HARD), -1, dtype=torch.int32)
        self.sampler = CandidateSampler(Y, model.params_.negatives, model.params_.n_negatives)
        self.graph = None
        if model.params_.lam > 0 and model.params_.regulariser in ("glas", "laplacian"):
            self.graph = CooccurrenceTarget(Y, model.params_.target, seed=model.params_.seed)

    def __call__(self, batch: Batch) -> torch.Tensor:
        model = self.model
        X = drop_features(self.X[batch.rows], model.params_.keep, batch.rng)
        Y = self.Y[batch.rows]
        z = model.encoder_(X)
        z = unit(z) if model.params_.unit_inputs else z
        z, Y = self.beside(z, Y, batch.rng)
        candidates = self.sampler.draw(Y, batch.rng, self._hard_of(batch))
        vectors = model.table_.rows(candidates.labels)
        vectors = unit(vectors) if model.params_.unit_labels else vectors
        logits = times_scalar(model.scale_, z @ vectors.T)
        if model.params_.prior:
            logits = logits + model.bias_[torch.from_numpy(candidates.labels)]
        loss = self._loss(logits, Y, candidates, batch.rng)
        return loss + self.penalty(z, vectors, Y, candidates)

    def beside(
        self,
        z: torch.Tensor,
        Y: csr_matrix,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> tuple[torch.Tensor, csr_matrix]:
        """The batch's points and labels, with more of them where there are any."""
        return z, Y

    def penalty(
        self, z: torch.Tensor, vectors: torch.Tensor, Y: csr_matrix, candidates: Candidates
    ) -> torch.Tensor:
        """lam times the regulariser; zero where there is none."""
        if self.model.params_.lam == 0 or self.model.params_.regulariser is None:
            return torch.zeros(())
        weight: float = self.model.params_.lam
        return weight * self._regulariser(z, vectors, Y, candidates)

    def tensors(self) -> dict[str, torch.Tensor]:
        """What a resumed run needs of the objective."""
        return {} if self.hard is None else {"hard": self.hard}

    def _hard_of(self, batch: Batch) -> np.ndarray | None:
        if self.hard is None:
            return None
        drawn = batch.rng.integers(0, HARD, (len(batch.rows), HARD_PER_EXAMPLE))
        return np.asarray(self.hard.numpy()[batch.rows[:, None], drawn])

    def on_epoch(self, run: Run) -> None:  # noqa: ARG002
        """Ask the current index which labels each example is taken for wrongly."""
        if self.hard is None:
            return
        n, hard = self.X.shape[0], self.hard.numpy()
        index = None
        for start in range(0, n, REFRESHED_AT_A_TIME):
            rows = slice(start, min(start + REFRESHED_AT_A_TIME, n))
            queries = self.model.queries(self.X[rows])
            if index is None:
                index = self.model.build_index(queries, recall=HARD_RECALL)
            hard[rows] = -1
            labels, _ = index.search(queries, min(HARD, self.Y.shape[1]))
            own = self.Y[rows][np.arange(len(labels))[:, None], np.maximum(labels, 0)]
            labels[own.toarray() > 0] = -1
            hard[rows, : labels.shape[1]] = labels

    def _loss(
        self, logits: torch.Tensor, Y: csr_matrix, candidates: Candidates, rng: np.random.Generator
    ) -> torch.Tensor:
        model = self.model
        rows = torch.from_numpy(rows_of(Y))
        columns = torch.from_numpy(candidates.columns(Y.indices))
        inclusion = torch.from_numpy(candidates.inclusion)
        if model.params_.loss == "binary":
            return losses.binary_loss(logits, rows, columns, negative_weights=1.0 / inclusion)
        if model.params_.loss == "softmax":
            return losses.softmax_loss(logits, rows, columns, log_q=torch.log(inclusion))
        sampled = torch.from_numpy(_one_positive(Y, candidates, rng))
        if model.params_.loss == "margin":
            return losses.margin_loss(logits, rows, columns, sampled, model.params_.margin)
        return losses.mined_margin_loss(
            logits, rows, columns, sampled, model.params_.margin, model.params_.hardest
        )

    def _regulariser(
        self, z: torch.Tensor, vectors: torch.Tensor, Y: csr_matrix, candidates: Candidates
    ) -> torch.Tensor:
        """On the labels of the batch's examples, the most frequent ones of the batch first."""
        labels, counts = np.unique(Y.indices, return_counts=True)
        labels = np.sort(labels[np.argsort(-counts, kind="stable")[:MOST_REGULARISED]])
        V = vectors[torch.from_numpy(candidates.columns(labels))]
        kind = self.model.params_.regulariser
        if kind == "spread-out":
            return regularisers.spread_out(V)
        if kind == "gravity":
            return regularisers.gravity(z, V)
        assert self.graph is not None
        U = regularisers.sparse_tensor(self.graph.sparse_submatrix(labels))
        return (regularisers.glas if kind == "glas" else regularisers.graph_laplacian)(V, U)


def _one_positive(Y: csr_matrix, candidates: Candidates, rng: np.random.Generator) -> np.ndarray:
    """A column of one of each example's labels, drawn uniformly; -1 where it has none."""
    sizes = np.diff(Y.indptr)
    drawn = Y.indptr[:-1] + (rng.random(Y.shape[0]) * sizes).astype(np.int64)
    columns = np.full(Y.shape[0], -1, np.int64)
    columns[sizes > 0] = candidates.columns(Y.indices[drawn[sizes > 0]])
    return columns
