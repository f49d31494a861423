"""NeuralXC: autoencoders of features and of labels, and a regressor between their codes.

After Srinivasan, Rao and Agarwal, "Extreme Classification using Autoencoders". phi_i and phi_o
encode features and labels, psi_i and psi_o decode them, f maps a code of features to one of labels;
all are trained together on

    L(x, y) = alpha |psi_i(phi_i(x)) - x|^2 + beta |psi_o(phi_o(y)) - y|^2
              + BCE(psi_o(f(phi_i(x))), y)                                                  (1)

and labels are ranked by psi_o(f(phi_i(x))). What goes past the paper: input dropout, rows of rare
features that start short and move slowly, sampled zeros for wide rows, several networks whose
logits are averaged, and the votes of near training examples (`components/neighbour_blend.py`).
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

FEW_EXAMPLES = 10_000
LABEL_PACE = 0.05


class NeuralXC(Method):
    """Codes of features to codes of labels, decoded to probabilities."""

    name: ClassVar[str] = "neuralxc"
    summary: ClassVar[str] = "autoencoders of features and labels, a regressor between their codes"

    preset: str | None = choice(
        "Layers of the paper for a data set, in place of the three lists of layers.",
        *PRESETS,
        default=None,
        group="paper",
        none="the three lists hold",
    )
    input_layers: tuple[int, ...] = layers(
        "Widths of the encoder of features; the last is the code's.", default=(512,), group="usual"
    )
    output_layers: tuple[int, ...] = layers(
        "Widths of the encoder of labels; the last is the code's.", default=(512,), group="usual"
    )
    regressor_layers: tuple[int, ...] | None = layers(
        "Hidden widths of the regressor between the codes.",
        default=None,
        group="paper",
        none="the regressor is linear",
    )
    alpha: float = number(
        "Weight of the reconstruction of features.", default=0.1, group="paper", low=0.0
    )
    beta: float = number(
        "Weight of the reconstruction of labels.", default=0.1, group="paper", low=0.0
    )
    pretrain: int = integer(
        "Number of epochs in which the autoencoders are trained alone, first.",
        default=0,
        group="paper",
        low=0,
    )
    exact: int = integer(
        "Up to this number of features or labels the loss is computed over all of them.",
        default=10000,
        low=0,
    )
    samples: int = integer("Number of sampled features and labels above that.", default=1000, low=1)
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
    lr: float = number("Learning rate of Adam.", default=0.008, group="usual", low=0.0)
    label_lr_scale: float | Auto = number(
        "Factor on the learning rate for the vectors that decode labels.",
        default=AUTO,
        low=0.0,
        high=1.0,
        auto="0.05, more where labels are sampled and so move in fewer steps",
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
                    f"{self.name}.{name}=(): expected the width of a code at least"
                )
        if self.pretrain and self.alpha == self.beta == 0:
            raise ParameterError(
                f"{self.name}.pretrain={self.pretrain}: with alpha and beta at 0 there is nothing "
                "to train first"
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
                np.random.default_rng([self.params_.seed, X.shape[1], learner]),
            )
            for learner in range(self.params_.ensemble)
        ]
        self.paths_ = [network.path for network in networks]
        check_search(*self._vectors().shape)
        watch(data.callbacks, self._rank_exactly, (X, Y), valid)
        self.history_ = self._train(networks, X, Y, valid, data)
        self._finish(X, Y, valid, returns=len(hold_out.held_rows) > 0)

    def _train(
        self,
        networks: list[Network],
        X: csr_matrix,
        Y: csr_matrix,
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> list[dict[str, float]]:
        """All networks at once, so that one checkpoint holds the whole run."""
        objective = BatchObjective(self, networks, X, Y)
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
            if objective.pretraining:  # below any score, and rising, so that patience lasts
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
        learner = TrainingTask(tensors, objective, adam, None if valid is None else score)
        return trainer.run(learner, X.shape[0])

    def _finish(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        valid: tuple[csr_matrix, csr_matrix] | None,
        returns: bool,
    ) -> None:
        """Build index, voters and calibration; with `returns` the hold-out votes in the end."""
        points = queries = None
        if valid is not None:
            points, queries = self._both(valid[0])
        typical = None
        if queries is not None:  # examples of training, too, where few were cut off
            more = evenly(X.shape[0], max(0, TYPICAL - len(queries)))
            typical = np.concatenate([queries, self._queries(X[more])])
        index = build_index(
            self._vectors(), recall=self.params_.recall, seed=self.params_.seed, queries=typical
        )
        voters = None
        if self.params_.neighbours:
            voters = CompressedExamples.build(self._points, X, Y, self.params_.seed, points)
        self.blend_ = NeighbourBlend(index, voters, self.params_.neighbours)
        if valid is None or queries is None or points is None:
            return
        held, counts = valid[1], LabelCounts.of(Y)
        self.blend_.fit(
            *(points, queries, held),
            lambda *best: measure(self.params_.metric, Ranking(*best), held, counts),
        )
        if returns:
            self.blend_.add_examples(self._points, *valid)

    def _queries(self, X: csr_matrix) -> np.ndarray:
        """The networks' side by side, so that <query, vector> is the mean of their logits."""
        return self._both(X)[1]

    def _both(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """What `_points` and `_queries` give, from one pass of the encoders."""
        codes = [path.codes(X) for path in self.paths_]
        pairs = zip(self.paths_, codes, strict=True)
        queries = np.hstack([path.decoder.queries(code) for path, code in pairs])
        return unit_array(np.hstack(codes)), queries / np.float32(len(codes))

    def _vectors(self) -> np.ndarray:
        each = [path.vectors for path in self.paths_]
        return each[0] if len(each) == 1 else np.hstack(each)

    def _points(self, X: csr_matrix) -> np.ndarray:
        return unit_array(np.hstack([path.codes(X) for path in self.paths_]))

    def _rank_exactly(self, X: csr_matrix, k: int) -> Ranking:
        """By the networks as they are now, without votes; scores are not calibrated."""
        exact = build_index(self._vectors(), kind="exact")
        return Ranking(*exact.search(self._queries(X), min(k, len(exact.vectors))))

    def embed(self, X: Any) -> np.ndarray:
        """The label codes expected of the examples, of length 1."""
        return self._points(unit_rows(as_csr(X)))

    def _predict(self, X: Features, k: int) -> Ranking:
        X = unit_rows(as_csr(X))
        return Ranking(*self.blend_.rank(*self._both(X), k))

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

        def looked_at(width: int, own: int) -> int:
            return width if width <= params["exact"] else params["samples"] + own

        row = 16 * many  # weight, two moments and the best so far
        columns = looked_at(shape.features, 0) + looked_at(shape.labels, 8 * batch)
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
    if params["preset"] is not None:
        return PRESETS[params["preset"]]
    names = ("input_layers", "output_layers", "regressor_layers")
    return Layers(*(tuple(params[name]) for name in names))
