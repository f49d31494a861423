"""The two geometries of TreeSpace's spaces: unit vectors, and points of a Poincare ball.

Nodes and examples are computed as unconstrained rows, which a geometry normalises: to length 1, or
to a length below RADIUS as tangents at the centre of the ball, whose points are exp_0 of them.
log_0 of such a point is its tangent again, so a parent's tangent is projected for its children.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from labelspace.nn import poincare
from labelspace.nn.encoder import TINY, unit, unit_array

# exp_0 of this length lies 0.995 from the centre, where float32 still represents 1 - |x|^2 well.
RADIUS = 3.0


class Geometry(Protocol):
    """What differs between geometries.

    Attributes
    ----------
    initial_norm : float
        Initial length of the vectors of nodes and, on average, of examples.
    neutral_distance : float
        Distance at which the logit of a node is its bias; 0 if the similarity is an inner product.
    """

    initial_norm: ClassVar[float]
    neutral_distance: ClassVar[float]

    def normalise(self, rows: Tensor) -> Tensor:
        """Return unconstrained rows as vectors of the geometry."""

    def normalise_array(self, rows: np.ndarray) -> np.ndarray:
        """Return the same for arrays; a row does not depend on the rows beside it."""

    def unnormalise(self, vectors: Tensor) -> Tensor:
        """Return rows that `normalise` maps to these vectors."""

    def points(self, vectors: np.ndarray) -> np.ndarray:
        """Return the float32 points that search compares."""

    def similarity(self, examples: Tensor, nodes: Tensor) -> Tensor:
        """Return (n, m) similarities of normalised vectors, which scale and bias make logits of."""

    def parent_distance(self, nodes: Tensor, projected: Tensor) -> Tensor:
        """Return the (m,) distances of normalised vectors to the unnormalised projections of their
        parents."""


class Euclidean:
    """Unit vectors and their inner products."""

    initial_norm: ClassVar[float] = 1.0
    neutral_distance: ClassVar[float] = 0.0

    def normalise(self, rows: Tensor) -> Tensor:
        return unit(rows)

    def normalise_array(self, rows: np.ndarray) -> np.ndarray:
        return unit_array(rows)

    def unnormalise(self, vectors: Tensor) -> Tensor:
        return vectors

    def points(self, vectors: np.ndarray) -> np.ndarray:
        return vectors

    def similarity(self, examples: Tensor, nodes: Tensor) -> Tensor:
        return examples @ nodes.T

    def parent_distance(self, nodes: Tensor, projected: Tensor) -> Tensor:
        return 1.0 - torch.cosine_similarity(nodes, projected, dim=1)


class Hyperbolic:
    """Tangents at the centre of a Poincare ball, and the distances of their points.

    Logits are linear in the distance, whose gradient has length 1 everywhere. The squared distance
    has gradients without bound, with which the most distant examples would dominate a batch.
    """

    # exp_0 of it has the distance 1 from the centre; farther out, all distances but those of close
    # neighbours are nearly equal.
    initial_norm: ClassVar[float] = 0.5
    # The distance of two points of the initial norm at a right angle.
    neutral_distance: ClassVar[float] = float(np.arccosh(np.cosh(2.0 * initial_norm) ** 2))

    def normalise(self, rows: Tensor) -> Tensor:
        return rows * (1.0 + rows.square().sum(1, keepdim=True) / RADIUS**2).rsqrt()

    def normalise_array(self, rows: np.ndarray) -> np.ndarray:
        squares = np.einsum("ij,ij->i", rows, rows)[:, None]
        return np.asarray(rows / np.sqrt(1.0 + squares / np.float32(RADIUS**2)))

    def unnormalise(self, vectors: Tensor) -> Tensor:
        return vectors * (1.0 - vectors.square().sum(1, keepdim=True) / RADIUS**2).rsqrt()

    def points(self, vectors: np.ndarray) -> np.ndarray:
        doubles = vectors.astype(np.float64)
        length = np.maximum(np.sqrt(np.einsum("ij,ij->i", doubles, doubles)), TINY)[:, None]
        return np.asarray(doubles * (np.tanh(length) / length), np.float32)

    def similarity(self, examples: Tensor, nodes: Tensor) -> Tensor:
        distance = poincare.pairwise_distance(_in_ball(examples), _in_ball(nodes))
        return (self.neutral_distance - distance).float()

    def parent_distance(self, nodes: Tensor, projected: Tensor) -> Tensor:
        return poincare.distance(_in_ball(nodes), _in_ball(self.normalise(projected))).float()


def _in_ball(tangents: Tensor) -> Tensor:
    """Return exp_0 of tangents in float64, which `poincare` requires.

    `poincare.exponential` would add every result to the centre, which changes nothing here.
    """
    doubles = tangents.double()
    length = doubles.square().sum(1, keepdim=True).clamp_min(TINY**2).sqrt()
    return doubles * (torch.tanh(length) / length)


GEOMETRIES: dict[str, Geometry] = {"euclidean": Euclidean(), "hyperbolic": Hyperbolic()}
