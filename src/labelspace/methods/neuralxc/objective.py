"""The objective of NeuralXC on a batch: loss (1) of Srinivasan et al."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.sparse import rows_of, unit_rows
from labelspace.methods.neuralxc.network import Network
from labelspace.nn import exchange
from labelspace.nn.autoencoder import Zeros
from labelspace.nn.losses import binary_loss, sigmoid_of
from labelspace.nn.sampling import Candidates, CandidateSampler, own_features
from labelspace.nn.trainer import Batch
from labelspace.runs.callbacks import Callback, Run


class BatchObjective(Callback):
    """The loss of a batch, averaged over the networks: these share batches, but not dropout.

    Parameters
    ----------
    networks : list of Network
        The weights to train.
    params : SimpleNamespace
        The parameters of the method.
    X, Y : csr_matrix
        The training examples.
    """

    def __init__(
        self, networks: list[Network], params: SimpleNamespace, X: csr_matrix, Y: csr_matrix
    ) -> None:
        self.networks, self.params, self.X, self.Y = networks, params, X, Y
        self.n_zeros = None if X.shape[1] <= params.exact else params.samples
        kind = "all" if Y.shape[1] <= params.exact else "uniform"
        self.sampler = CandidateSampler(Y, kind, params.samples)  # type: ignore[arg-type]
        self.per_feature = 1.0 / X.shape[1] if params.reduction == "mean" else 1.0
        self.per_label = 1.0 / Y.shape[1] if params.reduction == "mean" else 1.0

    def on_start(self, run: Run) -> None:
        """Keep the run, whose epoch decides whether the autoencoders are trained alone."""
        self.run = run

    @property
    def pretraining(self) -> bool:
        """Whether the autoencoders are trained alone."""
        return bool(self.run.progress.epoch < self.params.pretrain)

    def frozen(self) -> bool:
        """Return whether the autoencoders are trained no more, and the regressor alone is."""
        return not self.pretraining and self.params.after_pretraining != "joint"

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the loss of a batch, with gradient."""
        together, rows, Y = exchange.current(), batch.rows, self.Y[batch.rows]
        candidates = self.sampler.draw(Y, batch.rng)  # of the whole batch, as what follows
        zeros = Zeros.draw(self.X.shape[1], self.n_zeros, batch.rng)
        X, Y = self.X[together.own(rows)], together.own(Y)
        losses = [
            self._loss(network, rows, X, Y, candidates, zeros, batch.rng)
            for network in self.networks
        ]
        return together.weighted(torch.stack(losses).mean(), len(rows))

    def _loss(
        self,
        network: Network,
        batch_rows: np.ndarray,
        X: csr_matrix,
        Y: csr_matrix,
        candidates: Candidates,
        zeros: Zeros,
        rng: np.random.Generator,
    ) -> torch.Tensor:
        """Return the loss of one network: (1), or the part of it that the stage trains.

        `batch_rows` is the whole batch; X and Y have this worker's part of it.
        """
        own = exchange.current().part(len(batch_rows))
        kept = own_features(self.X, batch_rows, own, self.params.keep, rng)
        codes = network.inputs.encoder(kept)
        if self.frozen() and self.params.after_pretraining == "codes":
            missed = network.regress(codes) - network.encode_labels(self._labels(Y)).detach()
            return missed.square().sum(1).sum() / len(missed)
        alpha, beta, decoder = self.params.alpha, self.params.beta, network.outputs.decoder
        vectors = decoder.table.rows(candidates.labels)
        positives = torch.from_numpy(rows_of(Y))
        columns = torch.from_numpy(candidates.columns(Y.indices))
        weights = torch.from_numpy(1.0 / candidates.inclusion)
        loss = torch.zeros(())
        if not self.pretraining:
            logits = decoder.activations(network.regress(codes)) @ vectors.T
            entropy = binary_loss(logits, positives, columns, negative_weights=weights)
            loss = loss + self.per_label * entropy
        if self.frozen():
            return loss
        if alpha > 0:
            loss = loss + self.per_feature * alpha * network.inputs.loss(X, zeros, codes)
        if beta > 0:
            label_codes = network.encode_labels(self._labels(Y))
            found = sigmoid_of(decoder.activations(label_codes) @ vectors.T)
            missed = label_reconstruction(found, positives, columns, weights)
            loss = loss + self.per_label * beta * missed
        return loss

    def _labels(self, Y: csr_matrix) -> csr_matrix:
        """Return labels as the encoder of labels reads them."""
        return unit_rows(Y) if self.params.unit_labels else Y


def label_reconstruction(
    found: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Return |found - y|^2, averaged over examples.

    Parameters
    ----------
    found : Tensor of shape (examples, candidates)
        Reconstructed labels.
    rows, columns : Tensors of shape (pairs,)
        The cells where y is 1.
    weights : Tensor of shape (candidates,)
        Weights of the cells where y is 0. With one over the inclusion chance of a candidate, the
        result estimates the loss over all labels.
    """
    ones = found[rows, columns]
    zeros = (found.square() * weights).sum(1).sum() - (ones.square() * weights[columns]).sum()
    return (zeros + (1.0 - ones).square().sum()) / len(found)
