"""The two geometries of TreeSpace's levels: unit vectors, and points of a Poincare ball.

Nodes and examples are trained as rows of numbers that a geometry settles: to length 1, or to less
than RADIUS as tangents at the centre of the ball, whose points are exp_0 of them. As log_0 of such
a point is its tangent again, a parent's tangent is what is projected for its children.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from labelspace.nn import poincare
from labelspace.nn.encoder import TINY, unit, unit_array

# exp_0 of this length is 0.995 from the centre: float32 coordinates still tell 1 - |x|^2 well.
RADIUS = 3.0


class Geometry(Protocol):
    """What differs between geometries.

    start  length at which nodes and, on average, examples begin
    reach  distance at which a node's logit is its bias; 0 where nearness is an inner product
    """

    start: ClassVar[float]
    reach: ClassVar[float]

    def settle(self, rows: Tensor) -> Tensor:
        """Free rows as vectors of the geometry."""

    def settle_array(self, rows: np.ndarray) -> np.ndarray:
        """The same for arrays; a row does not depend on the rows beside it."""

    def free(self, vectors: Tensor) -> Tensor:
        """Rows that settle to these vectors."""

    def points(self, vectors: np.ndarray) -> np.ndarray:
        """What search compares, float32."""

    def nearness(self, examples: Tensor, nodes: Tensor) -> Tensor:
        """(n, m) of settled vectors: what scales and biases turn into logits."""

    def apart(self, nodes: Tensor, said: Tensor) -> Tensor:
        """(m,) how far settled vectors are from what their parents, unsettled, say of them."""


class Euclidean:
    """Unit vectors and their inner products."""

    start: ClassVar[float] = 1.0
    reach: ClassVar[float] = 0.0

    def settle(self, rows: Tensor) -> Tensor:
        return unit(rows)

    def settle_array(self, rows: np.ndarray) -> np.ndarray:
        return unit_array(rows)

    def free(self, vectors: Tensor) -> Tensor:
        return vectors

    def points(self, vectors: np.ndarray) -> np.ndarray:
        return vectors

    def nearness(self, examples: Tensor, nodes: Tensor) -> Tensor:
        return examples @ nodes.T

    def apart(self, nodes: Tensor, said: Tensor) -> Tensor:
        return 1.0 - torch.cosine_similarity(nodes, said, dim=1)


class Hyperbolic:
    """Tangents at the centre of a ball, and the distances of their points.

    Logits fall with the distance, whose slope is 1 however far apart two points are. Those of its
    square grow without bound, and training is then ruled by examples that are hopelessly far away.
    """

    # exp_0 of it is 1 from the centre; farther out all distances are alike but those of neighbours.
    start: ClassVar[float] = 0.5
    # Between points that begin at right angles: they have nothing to do with each other.
    reach: ClassVar[float] = float(np.arccosh(np.cosh(2.0 * start) ** 2))

    def settle(self, rows: Tensor) -> Tensor:
        return rows * (1.0 + rows.square().sum(1, keepdim=True) / RADIUS**2).rsqrt()

    def settle_array(self, rows: np.ndarray) -> np.ndarray:
        squares = np.einsum("ij,ij->i", rows, rows)[:, None]
        return np.asarray(rows / np.sqrt(1.0 + squares / np.float32(RADIUS**2)))

    def free(self, vectors: Tensor) -> Tensor:
        return vectors * (1.0 - vectors.square().sum(1, keepdim=True) / RADIUS**2).rsqrt()

    def points(self, vectors: np.ndarray) -> np.ndarray:
        wide = vectors.astype(np.float64)
        length = np.maximum(np.sqrt(np.einsum("ij,ij->i", wide, wide)), TINY)[:, None]
        return np.asarray(wide * (np.tanh(length) / length), np.float32)

    def nearness(self, examples: Tensor, nodes: Tensor) -> Tensor:
        apart = poincare.pairwise_distance(_in_ball(examples), _in_ball(nodes))
        return (self.reach - apart).float()

    def apart(self, nodes: Tensor, said: Tensor) -> Tensor:
        return poincare.distance(_in_ball(nodes), _in_ball(self.settle(said))).float()


def _in_ball(tangents: Tensor) -> Tensor:
    """exp_0, in float64 as `poincare` asks for; its own goes through sums that are nothing at 0."""
    wide = tangents.double()
    length = wide.square().sum(1, keepdim=True).clamp_min(TINY**2).sqrt()
    return wide * (torch.tanh(length) / length)


GEOMETRIES: dict[str, Geometry] = {"euclidean": Euclidean(), "hyperbolic": Hyperbolic()}
