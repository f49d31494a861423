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
from labelspace._core.checks import are_numbers, expect
from labelspace._core.sparse import as_csr, unit_rows
from labelspace.components.holdout import parts_of
from labelspace.components.neighbour_blend import NeighbourBlend
from labelspace.components.training_counts import TrainingCounts, batch_of, row_lr_scale
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import ParameterError
from labelspace.methods.base import Method
from labelspace.methods.neuralxc.network import PRESETS, Layers, Network, Path, optimiser
from labelspace.methods.neuralxc.objective import BatchObjective
from labelspace.methods.parameters import (
    BATCH_SIZE,
    KEEP,
    METRIC,
    PATIENCE,
    RARE,
    SEED,
    VALIDATION,
    Parameter,
    choice,
    integer,
    layers,
    number,
)
from labelspace.metrics.ranking import measure
from labelspace.nn.encoder import unit_array
from labelspace.nn.trainer import Trainer, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.history import watch
from labelspace.search.inner_product import build_index, check_search, index_bytes, restore_index
from labelspace.search.tuning import TYPICAL, evenly
from labelspace.search.voters import Voters, voter_bytes

FEW_EXAMPLES = 10_000
LABEL_PACE = 0.05


class NeuralXC(Method):
    """Codes of features to codes of labels, decoded to probabilities."""

    name: ClassVar[str] = "neuralxc"
    summary: ClassVar[str] = "autoencoders of features and labels, a regressor between their codes"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "preset": choice(
            "the paper's layers for a data set, in place of the three lists", *PRESETS, none=True
        ),
        "input_layers": layers("widths of the encoder of features, its code last"),
        "output_layers": layers("widths of the encoder of labels, its code last"),
        "regressor_layers": layers("hidden widths between the codes; none is a linear map"),
        "alpha": number("weight of the features' reconstruction", low=0.0),
        "beta": number("weight of the labels' reconstruction", low=0.0),
        "pretrain": integer("epochs in which the autoencoders are trained alone, first", low=0),
        "exact": integer("up to so many features or labels the loss is over all of them", low=0),
        "samples": integer("of features and labels that stand for all others above that", low=1),
        "keep": KEEP,
        "rare": RARE,
        "ensemble": integer(
            "networks whose logits are averaged; none: 3 for fewer than 10,000 examples, else 1",
            low=1,
            none=True,
        ),
        "neighbours": integer("training examples that vote; 0: none, as in the paper", low=0),
        "epochs": integer("passes over the training data at most, after pretraining", low=1),
        "batch_size": BATCH_SIZE,
        "lr": number("learning rate of Adam", low=0.0),
        "label_pace": number(
            "share of it for the vectors that decode labels; none: 0.05, more where these are "
            "sampled and so move in fewer steps",
            low=0.0,
            high=1.0,
            none=True,
        ),
        "patience": PATIENCE,
        "validation": VALIDATION,
        "metric": METRIC,
        "recall": number("share of the best 5 labels that search must find", low=0.5, high=1.0),
        "seed": SEED,
    }

    def __init__(
        self,
        *,
        preset: str | None = None,
        input_layers: tuple[int, ...] = (512,),
        output_layers: tuple[int, ...] = (512,),
        regressor_layers: tuple[int, ...] = (),
        alpha: float = 0.1,
        beta: float = 0.1,
        pretrain: int = 0,
        exact: int = 10_000,
        samples: int = 1000,
        keep: float = 0.8,
        rare: float | None = 0.0,
        ensemble: int | None = None,
        neighbours: int = 10,
        epochs: int = 15,
        batch_size: int | None = None,
        lr: float = 0.008,
        label_pace: float | None = None,
        patience: int = 3,
        validation: float | None = None,
        metric: str = "nDCG@5",
        recall: float = 0.99,
        seed: int = 0,
    ) -> None:
        self.preset = preset
        self.input_layers = input_layers
        self.output_layers = output_layers
        self.regressor_layers = regressor_layers
        self.alpha = alpha
        self.beta = beta
        self.pretrain = pretrain
        self.exact = exact
        self.samples = samples
        self.keep = keep
        self.rare = rare
        self.ensemble = ensemble
        self.neighbours = neighbours
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.label_pace = label_pace
        self.patience = patience
        self.validation = validation
        self.metric = metric
        self.recall = recall
        self.seed = seed

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

    def _fit(self, data: TrainingData) -> None:
        X, Y, valid, _ = parts_of(data, self.validation, self.seed)
        X = unit_rows(X)
        if valid is not None:
            valid = (unit_rows(valid[0]), valid[1])
        counts = TrainingCounts.of(X, Y)
        damping = row_lr_scale(self.rare, counts.features, counts.labels)
        networks = [
            Network.fresh(
                _layers(self.get_params()),
                X.shape[1],
                counts.log_odds(),
                damping,
                np.random.default_rng([self.seed, X.shape[1], learner]),
            )
            for learner in range(_networks(self.ensemble, data.X.shape[0]))
        ]
        self.paths_ = [network.path for network in networks]
        check_search(*self._vectors().shape)
        watch(data.callbacks, self._rank_exactly, (X, Y), valid)
        self.history_ = self._train(networks, X, Y, valid, data)
        self._finish(X, Y, valid, data)

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
            epochs=self.pretrain + self.epochs,
            batch_size=batch_of(self.batch_size, X.shape[0]),
            seed=self.seed,
            schedule="linear",
            patience=self.patience,
            callbacks=[objective, *data.callbacks],
            identity=data.identity,
        )

        def score() -> float:
            assert valid is not None
            if objective.pretraining:  # below any score, and rising, so that patience lasts
                return float(trainer.progress.epoch - self.pretrain)
            return measure(self.metric, self._rank_exactly(valid[0], 5), valid[1], Y)

        tensors = joined_parts({str(n): network.tensors() for n, network in enumerate(networks)})
        adam = optimiser(networks, self.lr, self._label_pace(Y.shape[1]), self.alpha, self.beta)
        learner = TrainingTask(tensors, objective, adam, None if valid is None else score)
        return trainer.run(learner, X.shape[0])

    def _label_pace(self, n_labels: int) -> float:
        """A label that is sampled in one step of ten has a tenth of the steps to get anywhere."""
        if self.label_pace is not None:
            return self.label_pace
        rarely = n_labels / self.samples if n_labels > self.exact else 1.0
        return min(1.0, LABEL_PACE * max(1.0, rarely))

    def _finish(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> None:
        """Index, voters and calibration; what was cut off for validation returns to vote."""
        points = queries = None
        if valid is not None:
            points, queries = self._both(valid[0])
        typical = None
        if queries is not None:  # examples of training, too, where few were cut off
            more = evenly(X.shape[0], max(0, TYPICAL - len(queries)))
            typical = np.concatenate([queries, self._queries(X[more])])
        index = build_index(self._vectors(), recall=self.recall, seed=self.seed, queries=typical)
        voters = None
        if self.neighbours:
            voters = Voters.build(self._points, X, Y, self.seed, points)
        self.blend_ = NeighbourBlend(index, voters, self.neighbours)
        if valid is None or queries is None or points is None:
            return
        held = valid[1]
        self.blend_.fit(
            *(points, queries, held),
            lambda *best: measure(self.metric, Ranking(*best), held, Y),
        )
        if voters is not None and data.valid is None:
            self.blend_.voters = voters.extended(self._points, *valid)

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
            metadata["votes"] = {"share": float(blend.numbers[2]), "examples": len(blend.voters)}
        return metadata

    def state(self) -> dict[str, np.ndarray]:
        parts = {str(number): path.arrays() for number, path in enumerate(self.paths_)}
        parts["index"] = self.blend_.index.state()
        if self.blend_.voters is not None:
            parts["voters"] = self.blend_.voters.state()
        return {**joined_parts(parts), "blend": self.blend_.numbers}

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        first = {name.partition(".")[0] for name in arrays}
        networks = sorted(int(part) for part in first if part.isdigit())
        sizes = self.n_features_in_, self.n_labels_
        self.paths_ = [Path.restore(with_prefix(f"{n}.", arrays), *sizes) for n in networks]
        expect(are_numbers(arrays["blend"], 5), "the calibration is not five numbers")
        vectors, voters = self._vectors(), with_prefix("voters.", arrays)
        width = len(networks) * _layers(self.get_params()).outputs[-1]
        self.blend_ = NeighbourBlend(
            restore_index(vectors, with_prefix("index.", arrays)),
            Voters.restore(voters, len(vectors), width) if voters else None,
            self.neighbours,
            arrays["blend"],
        )

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        inputs, outputs, _ = _layers(params)
        batch = batch_of(params["batch_size"], shape.points)
        many = _networks(params["ensemble"], shape.points)

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
            needs["training examples that vote"] = voter_bytes(shape.points)
        return needs


def _networks(given: int | None, n_examples: int) -> int:
    """Averages pay where examples are few, and are cheap there."""
    if given is not None:
        return given
    return 3 if n_examples < FEW_EXAMPLES else 1


def _layers(params: Mapping[str, Any]) -> Layers:
    if params["preset"] is not None:
        return PRESETS[params["preset"]]
    names = ("input_layers", "output_layers", "regressor_layers")
    return Layers(*(tuple(params[name]) for name in names))
