"""The encoder of TreeSpace: the vectors of an example in all spaces, from one pass.

    z_s(x) = normalise(h(x) A_s)

h is an encoder that all spaces share, A_s a matrix per space, and `normalise` that of the geometry.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace.methods.treespace.geometry import Geometry
from labelspace.methods.treespace.vectors import Layout, orthonormal
from labelspace.nn.encoder import TINY, Encoder, unit_array
from labelspace.nn.products import dense_times_dense
from labelspace.nn.row_tables import SparseLinear

BLOCK_ROWS = 4096  # examples that are encoded at a time, to bound the memory


class LevelEncoder:
    """An encoder shared by all spaces, and a linear head per space.

    Attributes
    ----------
    trunk : Encoder
        The shared encoder h.
    heads : list of Tensor of shape (width, dimension of the space)
        The matrices A_s.
    geometry : Geometry
    """

    def __init__(self, trunk: Encoder, heads: list[Tensor], geometry: Geometry) -> None:
        self.trunk, self.heads, self.geometry = trunk, heads, geometry

    @classmethod
    def fresh(
        cls,
        n_features: int,
        width: int,
        dims: tuple[int, ...],
        geometry: Geometry,
        rng: np.random.Generator,
        **options: Any,
    ) -> LevelEncoder:
        """Return an untrained encoder; `options` are those of `Encoder.fresh`."""
        trunk = Encoder.fresh(n_features, (width,), rng, **options)
        heads = [torch.from_numpy(orthonormal(width, d, rng)).requires_grad_() for d in dims]
        return cls(trunk, heads, geometry)

    @classmethod
    def restore(
        cls, arrays: Mapping[str, np.ndarray], n_spaces: int, geometry: Geometry
    ) -> LevelEncoder:
        """Rebuild an encoder, for prediction only, from what `arrays` returned."""
        trunk = Encoder(SparseLinear.frozen(arrays["encoder.first"]), [])
        heads = [torch.from_numpy(np.array(arrays[f"head.{s}"])) for s in range(n_spaces)]
        return cls(trunk, heads, geometry)

    def tensors(self) -> dict[str, Tensor]:
        """Return the trained tensors by name."""
        return self.trunk.tensors() | {f"head.{s}": head for s, head in enumerate(self.heads)}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes."""
        heads = {f"head.{s}": head.detach().numpy() for s, head in enumerate(self.heads)}
        return self.trunk.arrays() | heads

    def __call__(self, X: csr_matrix) -> list[Tensor]:
        """Return the normalised vectors of the examples in each space, with gradients."""
        h = self.trunk(X)
        return [self.geometry.normalise(h @ head) for head in self.heads]

    def encode(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Return h(x) scaled to length 1, and the points of all spaces side by side.

        A row of the result does not depend on the rows beside it.
        """
        trunk, found = self._project(X)
        for part in self._parts():
            found[:, part] = self.geometry.points(self.geometry.normalise_array(found[:, part]))
        return unit_array(trunk), found

    def encode_trunk(self, X: csr_matrix) -> np.ndarray:
        """Return the first of the two arrays of `encode`, without computing the second."""
        return unit_array(self.trunk.encode(X))

    def scale_heads(self, X: csr_matrix) -> None:
        """Scale the heads so that the examples have the initial norm of the geometry on average."""
        found = self._project(X)[1]
        for head, part in zip(self.heads, self._parts(), strict=True):
            mean = np.linalg.norm(found[:, part], axis=1).mean()
            with torch.no_grad():
                head *= self.geometry.initial_norm / max(float(mean), TINY)

    def centroids(
        self,
        X: csr_matrix,
        layout: Layout,
        node_indicator: csr_matrix,
        rng: np.random.Generator,
    ) -> list[np.ndarray]:
        """Return initial vectors of the nodes of each space: the centroids of their examples.

        Nodes whose examples have no features get random directions.
        """
        points, found = self.encode(X)[1], []
        for space in range(len(layout.dims)):
            here = np.flatnonzero(layout.space == space)
            part = points[:, layout.starts[space] : layout.starts[space + 1]]
            sums = np.asarray(node_indicator[:, here].T @ part, np.float32)
            empty = np.abs(sums).max(axis=1, initial=0.0) == 0
            sums[empty] = rng.standard_normal((int(empty.sum()), part.shape[1]), np.float32)
            found.append(unit_array(sums) * np.float32(self.geometry.initial_norm))
        return found

    def _project(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Return h(x), and its products with all heads side by side."""
        heads = np.hstack([head.detach().numpy() for head in self.heads])
        found = np.empty((X.shape[0], heads.shape[1]), np.float32)
        trunk = np.empty((X.shape[0], heads.shape[0]), np.float32)
        for start in range(0, X.shape[0], BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            trunk[rows] = self.trunk.encode(X[rows])
            found[rows] = dense_times_dense(trunk[rows], heads)
        return trunk, found

    def _parts(self) -> list[slice]:
        """Return the columns of each space where all are side by side."""
        ends = np.cumsum([0, *(head.shape[1] for head in self.heads)]).tolist()
        return [slice(begin, end) for begin, end in pairwise(ends)]
