"""The space of one learner, an encoder of examples and a table of labels, in three geometries.

The encoder's output is mapped into the geometry: into the Poincare ball, to length 1 on the sphere,
or unchanged in Euclidean space. Everything else of the method is the same for all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace._core.dense import unit_array
from labelspace._core.schema import Schema, floats
from labelspace.nn import poincare
from labelspace.nn.encoder import Encoder, unit
from labelspace.nn.optimisers import Optimiser, OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.row_rules import (
    BallAdam,
    BallGradient,
    GradientLinear,
    GradientTable,
    RiemannianAdam,
)
from labelspace.nn.row_tables import RowTable

BALL_MAPS = ("exp", "clip")
OPTIMISERS = ("sgd", "adam", "riemannian-adam")
_BALL_TABLES: dict[str, Callable[[np.ndarray], RowTable]] = {
    "sgd": BallGradient,
    "adam": BallAdam,
    "riemannian-adam": RiemannianAdam,
}


class Space:
    """An encoder and the points of the labels.

    Parameters
    ----------
    geometry : {"hyperbolic", "euclidean", "spherical"}
    ball_map : {"exp", "clip"}
        How the encoder's output is mapped into the ball: by the exponential map at its centre, or
        by the paper's projection of points outside onto the rim.
    encoder : Encoder
    labels : RowTable
    """

    def __init__(self, geometry: str, ball_map: str, encoder: Encoder, labels: RowTable) -> None:
        self.geometry, self.ball_map = geometry, ball_map
        self.encoder, self.labels = encoder, labels

    @classmethod
    def fresh(
        cls,
        geometry: str,
        ball_map: str,
        optimiser: str,
        encoder: Encoder,
        initial_labels: np.ndarray,
    ) -> Space:
        """Return a space to train, whose tables move by the rule of the optimiser."""
        if optimiser == "sgd":
            encoder.input_layer = GradientLinear(
                encoder.input_layer.weight, encoder.input_layer.row_lr_scale
            )
        table: RowTable
        if geometry == "hyperbolic":
            table = _BALL_TABLES[optimiser](initial_labels)
        else:
            table = (GradientTable if optimiser == "sgd" else RowTable)(initial_labels)
        return cls(geometry, ball_map, encoder, table)

    @staticmethod
    def schema(arrays: Mapping[str, np.ndarray], prefix: str) -> Schema:
        """Declare what `arrays` returns; f"{prefix}code" is the dimension of the space."""
        return [
            *Encoder.schema(arrays, prefix),
            floats(f"{prefix}labels", "labels", f"{prefix}code"),
        ]

    @classmethod
    def frozen(cls, geometry: str, ball_map: str, arrays: Mapping[str, np.ndarray]) -> Space:
        """Return a space for prediction alone; the arrays may be read-only memory maps."""
        return cls(geometry, ball_map, Encoder.restore(arrays), RowTable.frozen(arrays["labels"]))

    def examples(self, encoded: Tensor) -> Tensor:
        """Return the encoder's output as points of the geometry, in float64."""
        free = encoded.double()
        if self.geometry != "hyperbolic":
            return unit(free) if self.geometry == "spherical" else free
        if self.ball_map == "exp":
            return poincare.exponential(torch.zeros_like(free), free)
        return poincare.metric_scaled(poincare.project(free))

    def label_rows(self, rows: Tensor) -> Tensor:
        """Return rows of the label table as points of the geometry; in the ball they are these."""
        return unit(rows.double()) if self.geometry == "spherical" else rows.double()

    def distances(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the (n, m) distances between points of the geometry."""
        if self.geometry == "hyperbolic":
            return poincare.pairwise_distance(x, y)
        squares = x.square().sum(1, keepdim=True) + y.square().sum(1) - 2.0 * x @ y.T
        # Above 0, so that the gradient of the root is finite where two points coincide.
        chords = squares.clamp_min(1e-12).sqrt()
        if self.geometry == "euclidean":
            return chords
        return 2.0 * torch.asin((0.5 * chords).clamp_max(1.0 - 1e-9))

    def embed(self, X: csr_matrix) -> np.ndarray:
        """Return the points of examples, (n, dim) float32; no row depends on the other rows."""
        with torch.no_grad():
            points: np.ndarray = self.examples(torch.from_numpy(self.encoder.encode(X))).numpy()
        return points.astype(np.float32)

    def label_points(self) -> np.ndarray:
        """Return the points of the labels, (labels, dim) float32."""
        if self.geometry == "spherical":
            return unit_array(self.labels.weight)
        return self.labels.weight

    def tensors(self) -> dict[str, Tensor]:
        """Return all weights by name, sharing memory, for the Trainer."""
        return {**self.encoder.tensors(), "labels": torch.from_numpy(self.labels.weight)}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all weights by name, which `frozen` takes."""
        return {**self.encoder.arrays(), "labels": self.labels.weight}


def optimiser_of(space: Space, params: SimpleNamespace) -> OptimiserGroup:
    """Return the optimiser of all weights of a space, by rows for encoder and labels."""
    tables: dict[str, tuple[RowTable, float]] = {"encoder": (space.encoder.input_layer, params.lr)}
    if params.loss == "labels":
        tables["labels"] = (space.labels, params.lr * params.label_lr_ratio)
    parts: dict[str, Optimiser] = {"rows": RowOptimiser(tables)}
    if space.encoder.hidden:
        dense = space.encoder.dense_parameters()
        rule = torch.optim.SGD if params.optimiser == "sgd" else torch.optim.Adam
        parts["dense"] = TorchOptimiser(rule(dense, lr=params.lr / 5))
    return OptimiserGroup(parts)
