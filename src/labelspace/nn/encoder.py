"""From sparse features to a point in the space: one sparse layer, hidden layers if wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from numba import njit
from scipy.sparse import csr_matrix

from labelspace._core.arrays import with_prefix
from labelspace._core.checks import are_numbers, expect
from labelspace._core.dense import unit_array as unit_array
from labelspace._core.threads import parallel_blocks
from labelspace.nn.row_tables import SparseLinear, sparse_times_dense

TINY = 1e-6


class Encoder:
    """phi(x): X W through ReLU layers; linear where there are no hidden ones.

    Hidden layers are weight-normalised as in section 3.1 of Guo et al. 2019: the weight vectors of
    a layer's neurons share one trainable length, each keeps its own direction. The sparse layer is
    if `length`, the shared one, is given. Its columns' own lengths are then constants of a batch: a
    gradient through them would touch every row and only undo growth that the division undoes too.
    """

    def __init__(
        self,
        first: SparseLinear,
        hidden: Sequence[dict[str, torch.Tensor]],
        length: torch.Tensor | None = None,
    ) -> None:
        self.first = first
        self.hidden = hidden
        self.length = length

    @classmethod
    def fresh(
        cls,
        n_features: int,
        widths: Sequence[int],
        rng: np.random.Generator,
        *,
        row_lr_scale: np.ndarray | None = None,
        weight_norm: bool = False,
    ) -> Encoder:
        """Random weights: a random projection where there are no hidden layers.

        pace         shortens the rows of rare features, and slows them down
        weight_norm  of the sparse layer, too; costs a pass over its weights a batch
        """
        weight = rng.standard_normal((n_features, widths[0]), np.float32)
        weight /= np.sqrt(np.float32(widths[0]))
        if row_lr_scale is not None:
            weight *= row_lr_scale[:, None]
        hidden = []
        for fan_in, fan_out in pairwise(widths):
            drawn = rng.standard_normal((fan_in, fan_out), np.float32)
            hidden.append(
                {
                    "direction": torch.from_numpy(drawn).requires_grad_(),
                    "length": torch.ones(1).mul_(np.sqrt(2.0)).requires_grad_(),
                    "bias": torch.zeros(fan_out, requires_grad=True),
                }
            )
        length = None
        if weight_norm:
            length = torch.tensor([float(_column_lengths(weight).mean())], requires_grad=True)
        return cls(SparseLinear(weight, row_lr_scale), hidden, length)

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], n_features: int | None = None) -> Encoder:
        """For prediction, from what `arrays` gave; the first layer may be a memory map."""
        first = arrays["encoder.first"]
        expect(are_numbers(first, n_features, None), "the encoder does not fit the features")
        hidden: list[dict[str, torch.Tensor]] = []
        while own := with_prefix(f"encoder.{len(hidden)}.", arrays):
            hidden.append({part: torch.from_numpy(np.array(a)) for part, a in own.items()})
        width = first.shape[1]
        for layer in hidden:
            weight, bias = _weight(layer), layer["bias"]
            fits = weight.ndim == 2 and len(weight) == width and bias.shape == weight.shape[1:]
            expect(fits, "the layers of the encoder do not fit each other")
            width = weight.shape[1]
        return cls(SparseLinear.frozen(first), hidden)

    @property
    def dim(self) -> int:
        """The length of its vectors."""
        last = _weight(self.hidden[-1]) if self.hidden else self.first.weight
        return int(last.shape[1])

    def __call__(self, X: csr_matrix) -> torch.Tensor:
        """With gradient, for training."""
        h = self.first(X)
        if self.length is not None:
            h = h * (self.length / torch.from_numpy(_column_lengths(self.first.weight)))
        for layer in self.hidden:
            h = torch.relu(h) @ _weight(layer) + layer["bias"]
        return h

    def encode(self, X: csr_matrix) -> np.ndarray:
        """Without gradient; a row's result does not depend on the rows beside it."""
        h = sparse_times_dense(X, self.first.weight)
        if self.length is not None:
            h *= self.length.detach().numpy() / _column_lengths(self.first.weight)
        for layer in self.hidden:
            h = _through_relu(h, _weight(layer).detach().numpy(), layer["bias"].detach().numpy())
        return h

    def fold(self) -> None:
        """Put the shared length into the weights: the same points, without a division each time."""
        if self.length is not None:
            self.first.weight *= self.length.detach().numpy() / _column_lengths(self.first.weight)
            self.length = None

    def trainable(self) -> Encoder:
        """A copy with no memory of earlier steps: one that was loaded has none either."""
        hidden = [
            {part: tensor.detach().clone().requires_grad_() for part, tensor in layer.items()}
            for layer in self.hidden
        ]
        return Encoder(SparseLinear(np.array(self.first.weight)), hidden)

    def projected(self, directions: np.ndarray) -> Encoder:
        """phi(x) D for orthogonal columns D (dim, fewer): the last layer's outputs are turned."""
        self.fold()
        if not self.hidden:
            return Encoder(SparseLinear(self.first.weight @ directions), [])
        with torch.no_grad():
            turn, last = torch.from_numpy(directions), self.hidden[-1]
            turned = {"weight": _weight(last) @ turn, "bias": last["bias"] @ turn}
        return Encoder(self.first, [*self.hidden[:-1], turned])

    def tensors(self) -> dict[str, torch.Tensor]:
        """All weights by name, sharing memory, for the Trainer."""
        shared = {} if self.length is None else {"encoder.length": self.length}
        first = torch.from_numpy(self.first.weight)
        return {"encoder.first": first, **shared, **self._hidden_by_name()}

    def arrays(self) -> dict[str, np.ndarray]:
        """All weights by name; the first may be a memory map, which torch does not take."""
        hidden = {name: tensor.detach().numpy() for name, tensor in self._hidden_by_name().items()}
        return {"encoder.first": self.first.weight, **hidden}

    def _hidden_by_name(self) -> dict[str, torch.Tensor]:
        return {
            f"encoder.{number}.{part}": tensor
            for number, layer in enumerate(self.hidden)
            for part, tensor in layer.items()
        }

    def dense_parameters(self) -> list[torch.Tensor]:
        shared = [] if self.length is None else [self.length]
        return shared + [tensor for layer in self.hidden for tensor in layer.values()]


def _through_relu(h: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """max(h, 0) W + b, row by row: BLAS would round a batch and a single row differently."""
    out = np.empty((len(h), weight.shape[1]), np.float32)

    def block(start: int, stop: int) -> None:
        _relu_times(h[start:stop], weight, bias, out[start:stop])

    parallel_blocks(len(h), block, block=64)
    return out


@njit(cache=True, nogil=True, fastmath={"contract"})
def _relu_times(h, weight, bias, out):  # type: ignore[no-untyped-def]
    for row in range(len(h)):
        target = out[row]
        target[:] = bias
        for neuron in range(h.shape[1]):
            value = h[row, neuron]
            if value > 0.0:
                source = weight[neuron]
                for j in range(len(target)):
                    target[j] += value * source[j]


def _column_lengths(weight: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(np.einsum("ij,ij->j", weight, weight))
    return np.asarray(np.maximum(lengths, np.float32(TINY)))


def _weight(layer: dict[str, torch.Tensor]) -> torch.Tensor:
    if "weight" in layer:  # of a layer that was turned, whose neurons no longer share a length
        return layer["weight"]
    direction = layer["direction"]
    lengths: torch.Tensor = direction.norm(dim=0, keepdim=True)
    return times_scalar(layer["length"], direction) / lengths.clamp_min(TINY)


def times_scalar(scalar: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The matrix times a trained number whose gradient does not depend on the number of threads.

    torch sums a whole matrix in as many parts as it has threads; here each row is summed first.
    """
    return scalar.expand(len(rows), 1) * rows


def principal_directions(points: np.ndarray, dim: int) -> np.ndarray:
    """The directions (columns) in which points (n, more) reach farthest from the origin."""
    _, directions = np.linalg.eigh(points.T.astype(np.float64) @ points)  # in rising order
    return np.ascontiguousarray(directions[:, ::-1][:, :dim], np.float32)


def unit(rows: torch.Tensor) -> torch.Tensor:
    """Return rows of length 1; rows of zeros stay, and have no gradient: theirs has no direction.

    The same for arrays is `unit_array`.
    """
    lengths: torch.Tensor = rows.norm(dim=1, keepdim=True)
    return rows / lengths.masked_fill(lengths < TINY, torch.inf)
