"""What NeuralXC minimises on a batch: loss (1) of Srinivasan et al."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.sparse import rows_of, unit_rows
from labelspace.methods.neuralxc.network import Network
from labelspace.nn.autoencoder import Zeros
from labelspace.nn.losses import binary_loss, sigmoid_of
from labelspace.nn.sampling import Candidates, CandidateSampler, drop_features
from labelspace.nn.trainer import Batch
from labelspace.runs.callbacks import Callback, Run

if TYPE_CHECKING:
    from labelspace.methods.neuralxc.method import NeuralXC


class BatchObjective(Callback):
    """The loss of a batch, averaged over the networks; they share batches, not dropout."""

    def __init__(
        self, model: NeuralXC, networks: list[Network], X: csr_matrix, Y: csr_matrix
    ) -> None:
        self.model, self.networks, self.X, self.Y = model, networks, X, Y
        few_features = X.shape[1] <= model.params_.exact
        self.n_zeros = None if few_features else model.params_.samples
        kind = "all" if Y.shape[1] <= model.params_.exact else "uniform"
        self.sampler = CandidateSampler(Y, kind, model.params_.samples)  # type: ignore[arg-type]

    def on_start(self, run: Run) -> None:
        self.run = run

    @property
    def pretraining(self) -> bool:
        """Whether the autoencoders are alone yet."""
        return bool(self.run.progress.epoch < self.model.params_.pretrain)

    def __call__(self, batch: Batch) -> torch.Tensor:
        X, Y = self.X[batch.rows], self.Y[batch.rows]
        candidates = self.sampler.draw(Y, batch.rng)
        zeros = Zeros.draw(X.shape[1], self.n_zeros, batch.rng)
        losses = [
            self._loss(network, X, Y, candidates, zeros, batch.rng) for network in self.networks
        ]
        return torch.stack(losses).mean()

    def _loss(
        self,
        network: Network,
        X: csr_matrix,
        Y: csr_matrix,
        candidates: Candidates,
        zeros: Zeros,
        rng: np.random.Generator,
    ) -> torch.Tensor:
        model, decoder = self.model, network.outputs.decoder
        codes = network.inputs.encoder(drop_features(X, model.params_.keep, rng))
        vectors = decoder.table.rows(candidates.labels)
        rows = torch.from_numpy(rows_of(Y))
        columns = torch.from_numpy(candidates.columns(Y.indices))
        weights = torch.from_numpy(1.0 / candidates.inclusion)
        loss = torch.zeros(())
        if not self.pretraining:
            logits = decoder.activations(network.regressor(codes)) @ vectors.T
            loss = loss + binary_loss(logits, rows, columns, negative_weights=weights)
        if model.params_.alpha > 0:
            loss = loss + model.params_.alpha * network.inputs.loss(X, zeros, codes)
        if model.params_.beta > 0:
            label_codes = network.outputs.encoder(unit_rows(Y))
            found = sigmoid_of(decoder.activations(label_codes) @ vectors.T)
            loss = loss + model.params_.beta * label_reconstruction(found, rows, columns, weights)
        return loss


def label_reconstruction(
    found: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """|found - y|^2 of an average example; weights make the zeros of candidates stand for all."""
    ones = found[rows, columns]
    zeros = (found.square() * weights).sum(1).sum() - (ones.square() * weights[columns]).sum()
    return (zeros + (1.0 - ones).square().sum()) / len(found)
