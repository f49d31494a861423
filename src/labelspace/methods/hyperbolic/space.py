"""One learner of `hyperbolic`: a map of examples and a table of labels, in one of three geometries.

What the map gives is placed into the geometry: brought into the Poincare ball, to length 1 for the
sphere, or left as it is. Everything else of the method is the same for all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace.nn import poincare
from labelspace.nn.encoder import Encoder, unit, unit_array
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
    """f_theta and the labels' points.

    into  how examples come into the ball: "exp", the exponential map at its centre, or "clip",
          the paper's p, which draws those outside back to the rim
    """

    def __init__(self, geometry: str, into: str, encoder: Encoder, labels: RowTable) -> None:
        self.geometry, self.into, self.encoder, self.labels = geometry, into, encoder, labels

    @classmethod
    def fresh(
        cls,
        geometry: str,
        into: str,
        optimiser: str,
        encoder: Encoder,
        first_labels: np.ndarray,
    ) -> Space:
        """With tables that move by the rule of the optimiser."""
        if optimiser == "sgd":
            encoder.input_layer = GradientLinear(
                encoder.input_layer.weight, encoder.input_layer.row_lr_scale
            )
        table: RowTable
        if geometry == "hyperbolic":
            table = _BALL_TABLES[optimiser](first_labels)
        else:
            table = (GradientTable if optimiser == "sgd" else RowTable)(first_labels)
        return cls(geometry, into, encoder, table)

    @classmethod
    def frozen(cls, geometry: str, into: str, arrays: Mapping[str, np.ndarray]) -> Space:
        """For prediction alone; the arrays may be read-only memory maps."""
        return cls(geometry, into, Encoder.restore(arrays), RowTable.frozen(arrays["labels"]))

    def examples(self, mapped: Tensor) -> Tensor:
        """What the map gives as points of the geometry, in float64."""
        free = mapped.double()
        if self.geometry != "hyperbolic":
            return unit(free) if self.geometry == "spherical" else free
        if self.into == "exp":
            return poincare.exponential(torch.zeros_like(free), free)
        return poincare.metric_scaled(poincare.project(free))

    def label_rows(self, rows: Tensor) -> Tensor:
        """Rows of the label table as points of the geometry; those of the ball are its points."""
        return unit(rows.double()) if self.geometry == "spherical" else rows.double()

    def distances(self, x: Tensor, y: Tensor) -> Tensor:
        """(n, m) distances of placed points."""
        if self.geometry == "hyperbolic":
            return poincare.pairwise_distance(x, y)
        squares = x.square().sum(1, keepdim=True) + y.square().sum(1) - 2.0 * x @ y.T
        # The floor keeps the slope of the root finite where two points coincide.
        chords = squares.clamp_min(1e-12).sqrt()
        if self.geometry == "euclidean":
            return chords
        return 2.0 * torch.asin((0.5 * chords).clamp_max(1.0 - 1e-9))

    def embed(self, X: csr_matrix) -> np.ndarray:
        """The examples' points, (n, dim) float32; a row does not depend on the rows beside it."""
        with torch.no_grad():
            points: np.ndarray = self.examples(torch.from_numpy(self.encoder.encode(X))).numpy()
        return points.astype(np.float32)

    def label_points(self) -> np.ndarray:
        """The labels' points, (labels, dim) float32."""
        if self.geometry == "spherical":
            return unit_array(self.labels.weight)
        return self.labels.weight

    def tensors(self) -> dict[str, Tensor]:
        """All weights by name, sharing memory, for the Trainer."""
        return {**self.encoder.tensors(), "labels": torch.from_numpy(self.labels.weight)}

    def arrays(self) -> dict[str, np.ndarray]:
        return {**self.encoder.arrays(), "labels": self.labels.weight}
