"""NeuralXC: autoencoders of features and of labels, and a regressor between their codes.

phi_i and phi_o encode features and labels, psi_i and psi_o decode them, f maps a code of features
to a code of labels; all are trained together on

    L(x, y) = alpha |psi_i(phi_i(x)) - x|^2 + beta |psi_o(phi_o(y)) - y|^2
              + BCE(psi_o(f(phi_i(x))), y)                                                  (1)

and labels are ranked by psi_o(f(phi_i(x))). Not in the paper: input dropout, smaller weights and
learning rates for rare features, sampled zeros for wide rows, several networks whose logits are
averaged, and the votes of near training examples (`components/neighbour_blend.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import joined_parts, with_prefix
from labelspace._core.sparse import as_csr, unit_rows
from labelspace.components.holdout import HoldOut
from labelspace.components.neighbour_blend import BlendParameters, NeighbourBlend
from labelspace.components.training_counts import TrainingCounts
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import ParameterError
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.neuralxc.defaults import resolve
from labelspace.methods.neuralxc.network import PRESETS, Layers, Network, Path, optimiser
from labelspace.methods.neuralxc.objective import BatchObjective
from labelspace.methods.parameters import (
    ADAM_LR,
    AUTO,
    BATCH_SIZE,
    FEATURE_DAMPING,
    KEEP,
    METRIC,
    PATIENCE,
    SEED,
    VALIDATION,
    Auto,
    choice,
    having,
    integer,
    layers,
    number,
)
from labelspace.metrics.ranking import measure
from labelspace.nn.encoder import unit_array
from labelspace.nn.trainer import Trainer, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.history import watch
from labelspace.search.build import build_index, check_search, index_bytes, restore_index
from labelspace.search.neighbours.compressed import CompressedExamples, compressed_bytes
from labelspace.search.tuning import TYPICAL, evenly


class NeuralXC(Method):
    """Autoencoders of features and labels with a regressor from code to code.

    One autoencoder maps features to a code, another one maps labels to a code, and a regressor
    maps the first code to the second; all are trained together. In prediction the decoder of labels
    is applied to the regressor's output: its last layer is searched like any set of label vectors,
    and the result is blended with the votes of near training examples.

    Attributes
    ----------
    params_ : SimpleNamespace
        The parameters as they were fitted: every "auto" is a value.
    paths_ : list of Path
        Encoder, regressor and decoder of labels of each network.
    blend_ : NeighbourBlend
        The label index, the training examples that vote, and the calibration.
    history_ : list of dict
        Loss and validation score after each epoch.

    References
    ----------
    .. [1] Srinivasan, Rao, Agarwal. "Extreme Classification using Autoencoders".

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> from labelspace.methods.neuralxc import NeuralXC
    >>> X = np.tile(np.eye(3, dtype=np.float32), (4, 1))
    >>> Y = csr_matrix(X[:, [1, 2, 0]])  # feature 0 means label 2, and so on
    >>> model = NeuralXC(input_layers=(8,), output_layers=(8,), ensemble=1, lr=0.05).fit(X, Y)
    >>> model.predict(X[:3], k=1).labels.ravel()
    array([2, 0, 1])
    >>> model.embed(X[:3]).shape
    (3, 8)
    """

    name: ClassVar[str] = "neuralxc"
    summary: ClassVar[str] = "autoencoders of features and labels, a regressor between their codes"

    preset: str | None = choice(
        "Layers of the paper for a data set, in place of the three lists of layers.",
        *PRESETS,
        default=None,
        group="paper",
        none="the three lists of layers are used",
    )
    input_layers: tuple[int, ...] = layers(
        "Widths of the layers of the feature encoder; the last is that of the code.",
        default=(512,),
        group="usual",
    )
    output_layers: tuple[int, ...] = layers(
        "Widths of the layers of the label encoder; the last is that of the code.",
        default=(512,),
        group="usual",
    )
    regressor_layers: tuple[int, ...] | None = layers(
        "Widths of hidden layers of the regressor between the codes.",
        default=None,
        group="paper",
        none="the regressor is linear",
    )
    alpha: float = number(
        "Weight of the reconstruction loss of features.", default=0.1, group="paper", low=0.0
    )
    beta: float = number(
        "Weight of the reconstruction loss of labels.", default=0.1, group="paper", low=0.0
    )
    pretrain: int = integer(
        "Number of epochs at the start that train the autoencoders alone.",
        default=0,
        group="paper",
        low=0,
    )
    exact: int = integer(
        "Number of features, and of labels, up to which the loss is a sum over all of them.",
        default=10000,
        low=0,
    )
    samples: int = integer(
        "Number of features, and of labels, that are sampled per batch above `exact`.",
        default=1000,
        low=1,
    )
    keep: float = KEEP
    feature_damping: float | Auto | None = having(FEATURE_DAMPING, default=None)
    ensemble: int | Auto = integer(
        "Number of networks whose logits are averaged.",
        default=AUTO,
        group="usual",
        low=1,
        auto="3 for fewer than 10,000 examples, else 1",
    )
    neighbours: int = integer(
        "Number of nearest training examples that vote beside the network's scores; 0, as in the "
        "paper, ranks by the network alone.",
        default=10,
        group="usual",
        low=0,
    )
    epochs: int = integer(
        "Maximum number of passes over the training data, after pre-training.",
        default=15,
        group="usual",
        low=1,
    )
    batch_size: int | Auto = BATCH_SIZE
    lr: float = having(ADAM_LR, default=0.008)
    label_lr_scale: float | Auto = number(
        "Factor on the learning rate of the last layer of the label decoder.",
        default=AUTO,
        low=0.0,
        high=1.0,
        auto="0.05; if labels are sampled, times labels / samples, at most 1",
    )
    patience: int = having(PATIENCE, default=3)
    validation: float | Auto = VALIDATION
    metric: str = METRIC
    recall: float = number(
        "Share of the best 5 labels that approximate search has to find.",
        default=0.99,
        group="usual",
        low=0.5,
        high=1.0,
    )
    seed: int = SEED

    def check_parameters(self) -> None:
        super().check_parameters()
        for name in ("input_layers", "output_layers"):
            if not getattr(self, name):
                raise ParameterError(
                    f"{self.name}.{name}=(): expected at least one width, that of the code"
                )
        if self.pretrain and self.alpha == self.beta == 0:
            raise ParameterError(
                f"{self.name}.pretrain={self.pretrain}: alpha and beta are 0, so that there is "
                "nothing to pre-train; set pretrain=0 or one of the weights above 0"
            )

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        return resolve(params, shape)

    def _fit(self, data: TrainingData) -> None:
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed)
        X, Y, valid = unit_rows(hold_out.X), hold_out.Y, hold_out.valid
        if valid is not None:
            valid = (unit_rows(valid[0]), valid[1])
        counts = TrainingCounts.of(X, Y)
        lr_scale = counts.row_lr_scale(self.params_.feature_damping)
        networks = [
            Network.fresh(
                _layers(vars(self.params_)),
                X.shape[1],
                counts.log_odds(),
                lr_scale,
                np.random.default_rng([self.params_.seed, X.shape[1], number]),
            )
            for number in range(self.params_.ensemble)
        ]
        self.paths_ = [network.path for network in networks]
        check_search(*self._vectors().shape)
        watch(data.callbacks, self._rank_exactly, (X, Y), valid, prepare=unit_rows)
        self.history_ = self._train(networks, X, Y, valid, data)
        self._build_blend(X, Y, valid)
        if valid is not None and len(hold_out.held_rows):
            self.blend_.add_examples(self._points, *valid)

    def _train(
        self,
        networks: list[Network],
        X: csr_matrix,
        Y: csr_matrix,
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> list[dict[str, float]]:
        """Train all networks together, so that one checkpoint holds the whole run."""
        objective = BatchObjective(networks, self.params_, X, Y)
        trainer = Trainer(
            epochs=self.params_.pretrain + self.params_.epochs,
            batch_size=self.params_.batch_size,
            seed=self.params_.seed,
            schedule="linear",
            patience=self.params_.patience,
            callbacks=[objective, *data.callbacks],
            identity=data.identity,
        )
        counts = LabelCounts.of(Y)

        def score() -> float:
            assert valid is not None
            if objective.pretraining:  # below any score, and rising, so that training goes on
                return float(trainer.progress.epoch - self.params_.pretrain)
            return measure(self.params_.metric, self._rank_exactly(valid[0], 5), valid[1], counts)

        tensors = joined_parts({str(n): network.tensors() for n, network in enumerate(networks)})
        adam = optimiser(
            networks,
            self.params_.lr,
            self.params_.label_lr_scale,
            self.params_.alpha,
            self.params_.beta,
        )
        task = TrainingTask(tensors, objective, adam, None if valid is None else score)
        return trainer.run(task, X.shape[0])

    def _build_blend(
        self, X: csr_matrix, Y: csr_matrix, valid: tuple[csr_matrix, csr_matrix] | None
    ) -> None:
        """Build the label index and the neighbour search; calibrate on the hold-out."""
        points = queries = None
        if valid is not None:
            points, queries = self._encode(valid[0])
        typical = None
        if queries is not None:  # training examples are added where the hold-out is small
            more = evenly(X.shape[0], max(0, TYPICAL - len(queries)))
            typical = np.concatenate([queries, self._encode(X[more])[1]])
        index = build_index(
            self._vectors(), recall=self.params_.recall, seed=self.params_.seed, queries=typical
        )
        voters = None
        if self.params_.neighbours:
            voters = CompressedExamples.build(self._points, X, Y, self.params_.seed, points)
        self.blend_ = NeighbourBlend(index, voters, self.params_.neighbours)
        if valid is not None and points is not None and queries is not None:
            held, counts = valid[1], LabelCounts.of(Y)
            self.blend_.fit(
                *(points, queries, held),
                lambda *best: measure(self.params_.metric, Ranking(*best), held, counts),
            )

    def _encode(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Return the points of `_points`, which vote, and the queries of `_vectors`."""
        codes = [path.codes(X) for path in self.paths_]
        pairs = zip(self.paths_, codes, strict=True)
        queries = np.hstack([path.decoder.queries(code) for path, code in pairs])
        return unit_array(np.hstack(codes)), queries / np.float32(len(codes))

    def _points(self, X: csr_matrix) -> np.ndarray:
        """Return the codes of all networks side by side, of length 1."""
        return unit_array(np.hstack([path.codes(X) for path in self.paths_]))

    def _vectors(self) -> np.ndarray:
        """Return label vectors: the inner product with a query is the mean of all logits."""
        each = [path.vectors for path in self.paths_]
        return each[0] if len(each) == 1 else np.hstack(each)

    def _rank_exactly(self, X: csr_matrix, k: int) -> Ranking:
        """Rank by the current weights, without votes; scores are not calibrated."""
        exact = build_index(self._vectors(), kind="exact")
        return Ranking(*exact.search(self._encode(X)[1], min(k, len(exact.vectors))))

    def _predict(self, X: Features, k: int) -> Ranking:
        X = unit_rows(as_csr(X))
        return Ranking(*self.blend_.rank(*self._encode(X), k))

    def embed(self, X: Any) -> np.ndarray:
        """Return the label codes that the regressor predicts for examples.

        Parameters
        ----------
        X : csr_matrix or array-like of shape (n, features)

        Returns
        -------
        ndarray of shape (n, networks x width of the label code), float32
            The codes of all networks side by side, of length 1.
        """
        return self._points(unit_rows(as_csr(X)))

    def metadata(self) -> dict[str, Any]:
        index, blend = self.blend_.index, self.blend_
        metadata: dict[str, Any] = {"search": {"kind": index.kind, "recall@5": index.recall}}
        if blend.voters is not None:
            share = blend.parameters.neighbour_share
            metadata["votes"] = {"share": share, "examples": len(blend.voters)}
        return metadata

    def state(self) -> dict[str, np.ndarray]:
        parts = {str(number): path.arrays() for number, path in enumerate(self.paths_)}
        parts["index"] = self.blend_.index.state()
        if self.blend_.voters is not None:
            parts["voters"] = self.blend_.voters.state()
        return {**joined_parts(parts), "blend": np.array(self.blend_.parameters)}

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        first = {name.partition(".")[0] for name in arrays}
        networks = sorted(int(part) for part in first if part.isdigit())
        sizes = self.n_features_in_, self.n_labels_
        self.paths_ = [Path.restore(with_prefix(f"{n}.", arrays), *sizes) for n in networks]
        vectors, voters = self._vectors(), with_prefix("voters.", arrays)
        width = len(networks) * _layers(vars(self.params_)).outputs[-1]
        self.blend_ = NeighbourBlend(
            restore_index(vectors, with_prefix("index.", arrays)),
            CompressedExamples.restore(voters, len(vectors), width) if voters else None,
            self.params_.neighbours,
            BlendParameters.restore(arrays["blend"]),
        )

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        inputs, outputs, _ = _layers(params)
        batch, many = params["batch_size"], params["ensemble"]

        def columns_of(width: int, positives: int) -> int:
            return width if width <= params["exact"] else params["samples"] + positives

        row = 16 * many  # weight, two moments and the best so far
        columns = columns_of(shape.features, 0) + columns_of(shape.labels, 8 * batch)
        needs = {
            "the data, cut in two": shape.data_bytes,
            "rows of features": row * (1 + (params["alpha"] > 0)) * shape.features * inputs[0],
            "rows of labels": row * (1 + (params["beta"] > 0)) * shape.labels * outputs[0],
            "scores of a batch": 12 * many * batch * columns,
            "the search index": index_bytes(shape.labels, many * (outputs[0] + 1)),
        }
        if params["neighbours"]:
            needs["training examples that vote"] = compressed_bytes(shape.points)
        return needs


def _layers(params: Mapping[str, Any]) -> Layers:
    """Return the widths of the preset, or those given."""
    if params["preset"] is not None:
        return PRESETS[params["preset"]]
    names = ("input_layers", "output_layers", "regressor_layers")
    return Layers(*(tuple(params[name]) for name in names))
