"""The trained weights of the dual encoder, and the vectors that follow from them.

    z(x) = unit(W x),    u(l) = unit(unit(W t_l) + m_l v_l)

W is the encoder of texts and label texts, v_l the vector of label l alone. m_l is 0 or 1: in
training it is drawn, in search it is 1, where labels without examples have a v_l of zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack

from labelspace._core.schema import Schema, csr, floats, scalars
from labelspace._core.sparse import pack_csr, unit_rows, unpack_csr
from labelspace.nn.encoder import Encoder, unit, unit_array
from labelspace.nn.optimisers import OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.row_tables import RowTable

SCALE_LR = 0.01  # Adam's, of the scale: near 20, it needs larger steps than weights near 0
SMALLEST_SCALE = 1e-6  # of a model file: a negative scale would turn the ranking round


@dataclass(frozen=True, eq=False)
class DualSpace:
    """The space of texts and labels.

    Attributes
    ----------
    encoder : Encoder
        W.
    table : RowTable
        The vectors v of the labels; zeros for labels without examples.
    scale : Tensor
        The factor of inner products, a scalar.
    texts : csr_matrix of shape (n_labels, n_features)
        The features t of the labels' texts, of length 1.
    """

    encoder: Encoder
    table: RowTable
    scale: torch.Tensor
    texts: csr_matrix

    @classmethod
    def fresh(
        cls, X: csr_matrix, Y: csr_matrix, texts: csr_matrix, params: SimpleNamespace
    ) -> DualSpace:
        """Return the initial space: W is a random projection, v the zero vector.

        Where a label has no text, v starts at the mean of its examples: at zero it would have no
        direction, and no gradient.
        """
        rng = np.random.default_rng([params.seed, X.shape[1]])
        encoder = Encoder.fresh(X.shape[1], (params.dim,), rng)
        vectors = np.zeros((Y.shape[1], params.dim), np.float32)
        without = np.flatnonzero(np.diff(texts.indptr) == 0)
        if len(without):
            points = unit_array(encoder.encode(unit_rows(X)))
            vectors[without] = unit_array(np.asarray(Y[:, without].T @ points, np.float32))
        scale = torch.tensor(float(params.scale), requires_grad=True)
        return cls(encoder, RowTable(vectors), scale, unit_rows(texts))

    @staticmethod
    def schema() -> Schema:
        """Declare what `arrays` returns; "code" is the dimension of the space."""
        return [
            floats("encoder.first", "features", "code"),
            floats("labels", "labels", "code"),
            scalars("scale", low=SMALLEST_SCALE),
            *csr("texts", "labels", "features", low=-2.0, high=2.0),
        ]

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> DualSpace:
        """Return a space for search, of the arrays that `arrays` returned."""
        return cls(
            Encoder.restore(arrays),
            RowTable.frozen(arrays["labels"]),
            torch.tensor(float(arrays["scale"])),
            unpack_csr("texts", arrays),
        )

    # With gradient, for training.

    def pair(
        self, X: csr_matrix, labels: np.ndarray, kept: np.ndarray
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return z of a batch, of rows of length 1, and u of labels; m is 1 where `kept`.

        Both views go through the encoder at once, as it keeps the gradient of its last batch.
        """
        h = self.encoder(vstack([X, self.texts[labels]], "csr", dtype=np.float32))
        z, of_texts = unit(h[: X.shape[0]]), unit(h[X.shape[0] :])
        m = torch.from_numpy(kept.astype(np.float32))[:, None]
        return z, unit(of_texts + m * self.table.rows(labels))

    # Without gradient, for search.

    def embed(self, X: csr_matrix) -> np.ndarray:
        """Return z of each row, (n, dim)."""
        return unit_array(self.encoder.encode(unit_rows(X)))

    def label_vectors(self) -> np.ndarray:
        """Return u of each label, (n_labels, dim); zeros without text and examples."""
        return unit_array(unit_array(self.encoder.encode(self.texts)) + self.table.weight)

    def with_labels(self, vectors: np.ndarray, texts: csr_matrix | None = None) -> DualSpace:
        """Return a space for search with other vectors v and, unless None, other texts."""
        texts = self.texts if texts is None else unit_rows(texts)
        return replace(self, table=RowTable.frozen(vectors), texts=texts)

    # What the trainer and the store read.

    def optimiser(self, lr: float) -> OptimiserGroup:
        """Return Adam for all weights, by rows for the tables of which a batch uses few."""
        tables = {"encoder": (self.encoder.input_layer, lr), "labels": (self.table, lr)}
        scale = torch.optim.Adam([self.scale], lr=SCALE_LR)
        return OptimiserGroup({"rows": RowOptimiser(tables), "scale": TorchOptimiser(scale)})

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return all weights by name, sharing memory, for the Trainer."""
        labels = torch.from_numpy(self.table.weight)
        return {**self.encoder.tensors(), "labels": labels, "scale": self.scale}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all weights and the texts by name, for `restore`."""
        return {
            **self.encoder.arrays(),
            "labels": self.table.weight,
            "scale": self.scale.detach().numpy(),
            **pack_csr("texts", self.texts),
        }
