"""Autoencoders of sparse rows, such as features or labels.

    L = 1/B sum_i |decode(encode(x_i)) - x_i|^2

Most cells of a row are zeros, and so are most terms of the sum. For wide rows the zeros are
sampled: the loss is over all non-zeros and over the zeros of m columns drawn out of n, with the
weight n / m. The expected value of loss and gradient over the draws is L and its gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.compiled import loop
from labelspace.nn.activations import LINEAR, RELU, Activation
from labelspace.nn.dense_layers import DenseLayers
from labelspace.nn.encoder import Encoder
from labelspace.nn.products import sparse_times_dense
from labelspace.nn.row_tables import RowTable


class Decoder:
    """Maps a code to a wide row: dense layers, all with activation, then one vector per column.

    Parameters
    ----------
    hidden : DenseLayers
    table : RowTable of shape (columns, width + 1)
        The value of a column is the inner product of its row with the activations and a one, its
        bias. So a batch trains the rows of its columns alone, and inner-product search finds the
        largest values.
    output : Activation
        Of the columns' values in `reconstruction_loss`. It keeps their order, so search does
        without it.
    """

    def __init__(self, hidden: DenseLayers, table: RowTable, output: Activation = LINEAR) -> None:
        self.hidden, self.table, self.output = hidden, table, output

    @classmethod
    def fresh(
        cls,
        widths: Sequence[int],
        n_columns: int,
        spread: float,
        rng: np.random.Generator,
        activation: Activation = RELU,
        output: Activation = LINEAR,
    ) -> Decoder:
        """Return a decoder with random weights.

        Parameters
        ----------
        widths : sequence of int
            Width of the code and of hidden layers.
        n_columns : int
        spread : float
            Expected length of the columns' vectors.
        rng : numpy.random.Generator
        activation, output : Activation
            Of the hidden layers and of the columns' values.
        """
        table = rng.standard_normal((n_columns, widths[-1] + 1), np.float32)
        table *= np.float32(spread / np.sqrt(widths[-1]))
        table[:, -1] = 0.0
        return cls(DenseLayers.fresh(widths, rng, activation), RowTable(table), output)

    def activations(self, codes: Tensor) -> Tensor:
        """Return the input of the last layer, with a one appended for the biases."""
        h = self.hidden.activation(self.hidden(codes)) if self.hidden.layers else codes
        return torch.cat([h, torch.ones(len(h), 1)], dim=1)

    def queries(self, codes: np.ndarray) -> np.ndarray:
        """Return the same as `activations`, without gradient."""
        h = self.hidden.activation.apply(self.hidden.apply(codes)) if self.hidden.layers else codes
        return np.hstack([h, np.ones((len(h), 1), np.float32)])

    def tensors(self) -> dict[str, Tensor]:
        """Return all weights by name, sharing memory, for the Trainer."""
        hidden = prefixed("decoder.", self.hidden.tensors())
        return {**hidden, "decoder.table": torch.from_numpy(self.table.weight)}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all weights by name; the table may be a memory map, unlike torch's tensors."""
        hidden = prefixed("decoder.", self.hidden.arrays())
        return {**hidden, "decoder.table": self.table.weight}


@dataclass(frozen=True)
class Zeros:
    """The columns whose zeros are part of the loss.

    Attributes
    ----------
    columns : ndarray of shape (m,)
        Sorted.
    weight : float
        Weight of each of their zeros: the number of all columns over m.
    """

    columns: np.ndarray
    weight: float

    @classmethod
    def draw(cls, n_columns: int, count: int | None, rng: np.random.Generator) -> Zeros:
        """Draw `count` columns; take all if it is None or not less than their number."""
        if count is None or count >= n_columns:
            return cls(np.arange(n_columns), 1.0)
        drawn = np.sort(rng.choice(n_columns, count, replace=False, shuffle=False))
        return cls(drawn, n_columns / count)


def reconstruction_loss(decoder: Decoder, codes: Tensor, X: csr_matrix, zeros: Zeros) -> Tensor:
    """Return L over the non-zeros of X and the sampled zeros."""
    used = np.union1d(X.indices, zeros.columns)
    rows = decoder.table.rows(used)
    h = decoder.activations(codes)
    cells = decoder.output(cell_products(h, rows, X.indptr, np.searchsorted(used, X.indices)))
    at_zeros = decoder.output(h @ rows[torch.from_numpy(np.searchsorted(used, zeros.columns))].T)
    # All cells of the drawn columns are summed, then those of non-zeros are subtracted.
    drawn = torch.from_numpy(np.isin(X.indices, zeros.columns))
    squares = at_zeros.square().sum(1).sum() - cells[drawn].square().sum()
    misses = (cells - torch.from_numpy(X.data)).square().sum()
    loss: Tensor = (misses + zeros.weight * squares) / X.shape[0]
    return loss


def cell_products(h: Tensor, rows: Tensor, indptr: np.ndarray, columns: np.ndarray) -> Tensor:
    """Return <h_i, rows_j> for the cells (i, j) of a CSR pattern alone."""
    found = _CellProducts.apply(h, rows, indptr, columns)  # type: ignore[no-untyped-call]  # torch's `apply` has no types
    return cast(Tensor, found)


class _CellProducts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, rows: Tensor, indptr: np.ndarray, columns: np.ndarray
    ) -> Tensor:
        ctx.save_for_backward(h, rows)
        ctx.pattern = indptr, columns
        out = np.empty(len(columns), np.float32)
        _multiply_cells(h.detach().numpy(), rows.detach().numpy(), indptr, columns, out)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None, None]:
        h, rows = ctx.saved_tensors
        indptr, columns = ctx.pattern
        slopes = csr_matrix((outer.numpy(), columns, indptr), shape=(len(h), len(rows)))
        to_h = sparse_times_dense(slopes, rows.detach().numpy())
        to_rows = sparse_times_dense(csr_matrix(slopes.T), h.detach().numpy())
        return torch.from_numpy(to_h), torch.from_numpy(to_rows), None, None


@loop(fastmath={"reassoc", "contract"})
def _multiply_cells(h, rows, indptr, columns, out):  # type: ignore[no-untyped-def]
    for i in range(len(h)):
        for cell in range(indptr[i], indptr[i + 1]):
            total, row = np.float32(0.0), rows[columns[cell]]
            for j in range(len(row)):
                total += h[i, j] * row[j]
            out[cell] = total


class Autoencoder:
    """An encoder of sparse rows and a decoder with the same widths in reverse order.

    Parameters
    ----------
    encoder : Encoder
    decoder : Decoder
    """

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        self.encoder, self.decoder = encoder, decoder

    @classmethod
    def fresh(
        cls,
        n_columns: int,
        widths: Sequence[int],
        rng: np.random.Generator,
        *,
        row_lr_scale: np.ndarray | None = None,
        spread: float = 1.0,
        weight_norm: bool = True,
        encoding: Activation = RELU,
        decoding: Activation = RELU,
        output: Activation = LINEAR,
    ) -> Autoencoder:
        """Return an autoencoder with random weights.

        Parameters
        ----------
        n_columns : int
        widths : sequence of int
            Widths of the encoder's layers, that of the code last.
        rng : numpy.random.Generator
        row_lr_scale : ndarray of shape (n_columns,), optional
            Factor of the learning rate and initial weights of the encoder's rows.
        spread : float
            Expected initial length of the decoder's vectors.
        weight_norm : bool
            Normalise the weights of the encoder's hidden layers, and leave out the bias of its
            first layer.
        encoding, decoding, output : Activation
            Of the hidden layers of encoder and decoder, and of the reconstructed values.

        Returns
        -------
        Autoencoder
        """
        encoder = Encoder.fresh(
            *(n_columns, widths, rng),
            row_lr_scale=row_lr_scale,
            hidden_norm=weight_norm,
            input_bias=not weight_norm,
            activation=encoding,
        )
        decoder = Decoder.fresh(widths[::-1], n_columns, spread, rng, decoding, output)
        return cls(encoder, decoder)

    @classmethod
    def along(
        cls, directions: np.ndarray, widths: Sequence[int], rng: np.random.Generator
    ) -> Autoencoder:
        """Return an autoencoder initialised as the linear map x -> D D' x, whatever its depth.

        A hidden layer represents a coordinate by two neurons, since ReLU passes one sign alone.

        Parameters
        ----------
        directions : ndarray of shape (columns, r)
            D. r is at most the width of the code and half that of each hidden layer.
        widths : sequence of int
            Widths of the encoder's layers, that of the code last.
        rng : numpy.random.Generator
        """
        n_columns, r = directions.shape
        fresh = cls.fresh(n_columns, widths, rng)
        deep = len(widths) > 1
        pairs = np.hstack([directions, -directions]) if deep else directions
        fresh.encoder.input_layer.weight[:, : pairs.shape[1]] = pairs
        fresh.decoder.table.weight[:] = 0.0
        fresh.decoder.table.weight[:, : pairs.shape[1]] = pairs
        encoding = [layer["direction"] for layer in fresh.encoder.hidden]
        for number, layer in enumerate(encoding, 1):
            _pass_on(layer, r, pairs_in=True, pairs_out=number < len(encoding))
        for number, parts in enumerate(fresh.decoder.hidden.layers):
            _pass_on(parts["weight"], r, pairs_in=number > 0, pairs_out=True)
        return fresh

    def loss(self, X: csr_matrix, zeros: Zeros, codes: Tensor | None = None) -> Tensor:
        """Return L; of these codes if given, such as those of rows with dropout."""
        codes = self.encoder(X) if codes is None else codes
        return reconstruction_loss(self.decoder, codes, X, zeros)

    def encode(self, X: csr_matrix) -> np.ndarray:
        """Return codes without gradient."""
        return self.encoder.encode(X)

    def tables(self) -> dict[str, RowTable]:
        """Return the tables that are trained by rows."""
        return {"encoder": self.encoder.input_layer, "decoder": self.decoder.table}

    def dense_parameters(self) -> list[Tensor]:
        """Return the weights that every batch trains."""
        return [*self.encoder.dense_parameters(), *self.decoder.hidden.tensors().values()]

    def tensors(self) -> dict[str, Tensor]:
        """Return all weights by name, sharing memory, for the Trainer."""
        return {**self.encoder.tensors(), **self.decoder.tensors()}


def _pass_on(weight: Tensor, r: int, *, pairs_in: bool, pairs_out: bool) -> None:
    """Initialise a layer to copy r coordinates, each as one neuron or as a pair of them."""
    eye = torch.eye(r)
    with torch.no_grad():
        weight[:, : 2 * r if pairs_out else r] = 0.0
        for start, sign in ((0, 1.0), (r, -1.0))[: 1 + pairs_in]:
            weight[start : start + r, :r] = sign * eye
            if pairs_out:
                weight[start : start + r, r : 2 * r] = -sign * eye


def restore_decoder(arrays: Mapping[str, np.ndarray]) -> Decoder:
    """Return a decoder for prediction from what `Decoder.arrays` returned."""
    own = with_prefix("decoder.", arrays)
    table = RowTable.frozen(own.pop("table"))
    return Decoder(DenseLayers.restore(own), table)
