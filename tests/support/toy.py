"""A small method that is trained by the Trainer, to test all that training does."""

from __future__ import annotations

import numpy as np
import torch

from labelspace._core.schema import floats
from labelspace._core.sparse import as_csr
from labelspace.components.holdout import split_rows
from labelspace.methods.base import Method
from labelspace.methods.parameters import SEED, integer, number
from labelspace.metrics.ranking import evaluate
from labelspace.nn.optimisers import TorchOptimiser
from labelspace.nn.trainer import Trainer, TrainingTask
from labelspace.ranking import Ranking


class Toy(Method):
    """One-vs-all logistic regression by Adam, with input dropout so that randomness matters."""

    name = "toy"
    summary = "logistic regression, for tests"

    epochs: int = integer("Number of passes.", default=4, low=1)
    lr: float = number("Learning rate.", default=0.05, low=0.0)
    seed: int = SEED

    def _fit(self, data):
        X, Y = as_csr(data.X), data.Y
        rows, held = split_rows(X.shape[0], 0.1, self.params_.seed)
        weight = torch.zeros(X.shape[1], Y.shape[1], requires_grad=True)
        bias = torch.zeros(Y.shape[1], requires_grad=True)

        def loss(batch):
            x = torch.from_numpy(X[rows[batch.rows]].toarray())
            x = x * torch.from_numpy(batch.rng.random(x.shape) < 0.8)
            y = torch.from_numpy(Y[rows[batch.rows]].toarray())
            return torch.nn.functional.binary_cross_entropy_with_logits(x @ weight + bias, y)

        def score():
            self.weight_, self.bias_ = weight.detach().numpy(), bias.detach().numpy()
            return evaluate(self._predict(X[held], 1), Y[held], Y, ks=(1,))["P@1"]

        trainer = Trainer(
            epochs=self.params_.epochs, batch_size=32, seed=self.params_.seed,
            schedule="linear", warmup=0.1, patience=3,
            callbacks=data.callbacks, identity=data.identity,
        )  # fmt: skip
        adam = TorchOptimiser(torch.optim.Adam([weight, bias], lr=self.params_.lr))
        self.history_ = trainer.run(
            TrainingTask(
                {"weight": weight, "bias": bias}, loss, adam, score if Y[held].nnz else None
            ),
            len(rows),
        )
        self.weight_, self.bias_ = weight.detach().numpy(), bias.detach().numpy()

    def _predict(self, X, k):
        X = as_csr(X)
        best = Ranking.empty(X.shape[0], k)
        for row in range(X.shape[0]):  # BLAS rounds batches of other sizes in other ways
            logits = np.asarray(X[row] @ self.weight_).ravel() + self.bias_
            best.labels[row] = np.argsort(-logits, kind="stable")[:k]
            best.scores[row] = 1 / (1 + np.exp(-logits[best.labels[row]]))
        return best

    def state(self):
        return {"weight": self.weight_, "bias": self.bias_}

    def schema(self, arrays):  # noqa: ARG002
        return [
            floats("weight", "features", "labels", types="f4 f8"),
            floats("bias", "labels", types="f4 f8"),
        ]

    def load_state(self, arrays):
        self.weight_, self.bias_ = arrays["weight"], arrays["bias"]

    @classmethod
    def memory(cls, shape, params):  # noqa: ARG003
        return {"weights and biases": 4 * 4 * (shape.features + 1) * shape.labels}
