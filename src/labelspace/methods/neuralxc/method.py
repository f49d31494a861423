"""NeuralXC: autoencoders of features and of labels, and a regressor between their codes.

phi_i and phi_o encode features and labels, psi_i and psi_o decode them, f maps a code of features
to a code of labels; all are trained together on

    L(x, y) = alpha |psi_i(phi_i(x)) - x|^2 + beta |psi_o(phi_o(y)) - y|^2
              + BCE(psi_o(f(phi_i(x))), y)                                                  (1)

and labels are ranked by psi_o(f(phi_i(x))). Not in the paper: rows of length 1, learning rates that
differ between layers, input dropout, smaller weights and learning rates for rare features, sampled
zeros for wide rows, several networks whose logits are averaged, and the votes of near training
examples (`components/neighbour_blend.py`). `preset="paper"` does without all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import joined_parts, with_prefix
from labelspace._core.checks import expect
from labelspace._core.schema import Schema, scalars
from labelspace._core.sparse import as_csr, unit_rows
from labelspace.components.calibration import CALIBRATION_K, EPS
from labelspace.components.held_out_ranking import HeldOutRanking
from labelspace.components.holdout import HoldOut
from labelspace.components.neighbour_blend import BlendParameters, NeighbourBlend
from labelspace.components.training_counts import TrainingCounts
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import ParameterError
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.neuralxc.defaults import resolve
from labelspace.methods.neuralxc.network import Activations, Network, Path
from labelspace.methods.neuralxc.objective import BatchObjective
from labelspace.methods.neuralxc.optimiser import optimiser
from labelspace.methods.neuralxc.presets import (
    BIBTEX,
    DELICIOUS,
    EURLEX,
    MEDIAMILL,
    PAPER,
    SEQUENTIAL,
)
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
    flag,
    having,
    integer,
    layers,
    number,
)
from labelspace.methods.presets import preset
from labelspace.methods.search_range import between
from labelspace.metrics.ranking import measure
from labelspace.nn.encoder import unit_array
from labelspace.nn.trainer import Trainer, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.history import watch
from labelspace.search.build import (
    build_index,
    check_search,
    index_bytes,
    index_schema,
    restore_index,
)
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
    version: ClassVar[int] = 3
    can_train_in_workers: ClassVar[bool] = True
    summary: ClassVar[str] = "autoencoders of features and labels, a regressor between their codes"

    preset: str | None = preset(
        paper=PAPER,
        bibtex=BIBTEX,
        delicious=DELICIOUS,
        mediamill=MEDIAMILL,
        eurlex=EURLEX,
        paper_sequential=SEQUENTIAL,
    )
    input_layers: tuple[int, ...] | Auto = layers(
        "Widths of the layers of the feature encoder; the last is that of the code.",
        default=(512,),
        group="usual",
        auto="a hidden layer of half the features, at most 2,500, and a code of 6 times the square "
        "root of their number, at most 500",
    )
    output_layers: tuple[int, ...] | Auto = layers(
        "Widths of the layers of the label encoder; the last is that of the code.",
        default=(512,),
        group="usual",
        auto="a hidden layer of half the labels, at most 1,331, and a code of 2.6 times the square "
        "root of their number, at most 141",
    )
    regressor_layers: tuple[int, ...] | Auto | None = layers(
        "Widths of hidden layers of the regressor between the codes.",
        default=None,
        group="paper",
        auto="one of the mean width of the two codes",
        none="the regressor is linear",
    )
    activations: str = choice(
        "Activations of hidden layers and of codes of labels: relu is ReLU and linear codes; "
        "mixed is leaky ReLU in the decoder of features (slope 0.2) and the encoder of labels "
        "(0.1), ReLU elsewhere, and codes by tanh.",
        "relu",
        "mixed",
        default="relu",
        group="paper",
    )
    feature_output: str = choice(
        "Activation of the last layer of the feature decoder; sigmoid suits features from 0 to 1.",
        "linear",
        "sigmoid",
        "relu",
        default="linear",
        group="paper",
    )
    weight_norm: bool = flag(
        "Normalise the weights of the encoders' hidden layers, and leave out the bias of their "
        "first layers.",
        default=True,
        group="paper",
    )
    unit_features: bool = flag("Scale rows of features to length 1.", default=True, group="paper")
    unit_labels: bool = flag(
        "Scale rows of labels to length 1 before they are encoded.", default=True, group="paper"
    )
    alpha: float = number(
        "Weight of the reconstruction loss of features.",
        default=0.1,
        group="paper",
        low=0.0,
        search=between(0.001, 1.0, log=True),
    )
    beta: float = number(
        "Weight of the reconstruction loss of labels.",
        default=0.1,
        group="paper",
        low=0.0,
        search=between(0.001, 1.0, log=True),
    )
    pretrain: int = integer(
        "Number of epochs at the start that train the autoencoders alone.",
        default=0,
        group="paper",
        low=0,
    )
    after_pretraining: str = choice(
        "What is trained after pre-training: everything on the whole loss (joint), or the "
        "regressor alone, on its error in labels (regressor) or in codes of labels (codes).",
        "joint",
        "regressor",
        "codes",
        default="joint",
        group="paper",
    )
    reduction: str = choice(
        "Whether each term of the loss is a sum or a mean over the features or labels.",
        "sum",
        "mean",
        default="sum",
        group="paper",
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
        search=between(5, 50, log=True),
    )
    epochs: int = integer(
        "Maximum number of passes over the training data, after pre-training.",
        default=15,
        group="usual",
        low=1,
        search=between(5, 30),
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
    dense_lr_scale: float = number(
        "Factor on the learning rate of dense layers, which every example updates.",
        default=0.02,
        low=0.0,
    )
    schedule: str = choice(
        "Learning rate over the run: constant, or falling linearly to 0.",
        "linear",
        "constant",
        default="linear",
    )
    weight_decay: float = number(
        "Weight of the L2 penalty, whose gradient Adam adds to that of the loss.",
        default=0.0,
        low=0.0,
    )
    lazy: bool = flag(
        "Update the rows of features and labels that a batch uses alone; otherwise Adam updates "
        "all in each step.",
        default=True,
    )
    init: str = choice(
        "Initial weights: normal, with a square linear regressor as the identity; or xavier, "
        "uniform by Glorot and Bengio, with uniform biases.",
        "normal",
        "xavier",
        default="normal",
    )
    initial_factor: float = number(
        "Factor on the initial weights of features.", default=0.1, low=0.0
    )
    prior: bool = flag(
        "Initialise the bias of each label as the log odds of its frequency.", default=True
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
        if self.after_pretraining != "joint" and not (self.pretrain and self.alpha and self.beta):
            raise ParameterError(
                f"{self.name}.after_pretraining={self.after_pretraining}: both autoencoders have "
                "to be pre-trained; set pretrain, alpha and beta above 0"
            )

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        return resolve(params, shape)

    def _fit(self, data: TrainingData) -> None:
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed)
        X, Y, valid = self._rows(hold_out.X), hold_out.Y, hold_out.valid
        if valid is not None:
            valid = (self._rows(valid[0]), valid[1])
        counts = TrainingCounts.of(X, Y)
        lr_scale = counts.row_lr_scale(self.params_.feature_damping)
        networks = [
            Network.fresh(
                self.params_,
                X.shape[1],
                counts.log_odds(),
                lr_scale,
                np.random.default_rng([self.params_.seed, X.shape[1], number]),
            )
            for number in range(self.params_.ensemble)
        ]
        self.paths_ = [network.path for network in networks]
        check_search(*self._vectors().shape)
        watch(data.callbacks, self._rank_exactly, (X, Y), valid, prepare=self._rows)
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
            schedule=self.params_.schedule,
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
        adam = optimiser(networks, self.params_, objective.frozen)
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
            best = self.blend_.rank(points, queries, min(CALIBRATION_K, held.shape[1]))
            self.held_out_ = HeldOutRanking.calibrated(*best, held, EPS)

    def _rows(self, X: Features) -> csr_matrix:
        """Return features as the network reads them."""
        rows = as_csr(X)
        return unit_rows(rows) if self.params_.unit_features else rows

    def _codes(self, X: csr_matrix) -> list[np.ndarray]:
        """Return the codes of each network; features of 1e25 and more overflow to zeros."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = [path.codes(X) for path in self.paths_]
        return [np.nan_to_num(codes, copy=False, posinf=0.0, neginf=0.0) for codes in found]

    def _encode(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Return the points of `_points`, which vote, and the queries of `_vectors`."""
        codes = self._codes(X)
        pairs = zip(self.paths_, codes, strict=True)
        queries = np.hstack([path.decoder.queries(code) for path, code in pairs])
        return unit_array(np.hstack(codes)), queries / np.float32(len(codes))

    def _points(self, X: csr_matrix) -> np.ndarray:
        """Return the codes of all networks side by side, of length 1."""
        return unit_array(np.hstack(self._codes(X)))

    def _vectors(self) -> np.ndarray:
        """Return label vectors: the inner product with a query is the mean of all logits."""
        each = [path.vectors for path in self.paths_]
        return each[0] if len(each) == 1 else np.hstack(each)

    def _rank_exactly(self, X: csr_matrix, k: int) -> Ranking:
        """Rank by the current weights, without votes; scores are not calibrated."""
        exact = build_index(self._vectors(), kind="exact")
        return Ranking(*exact.search(self._encode(X)[1], min(k, len(exact.vectors))))

    def _predict(self, X: Features, k: int) -> Ranking:
        return Ranking(*self.blend_.rank(*self._encode(self._rows(X)), k))

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
        return self._points(self._rows(X))

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

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:
        expect(_n_networks(arrays) > 0, "the networks are missing")
        found: Schema = [scalars("blend", 5)]
        codes, vectors = [], []
        for prefix in (f"{network}." for network in range(_n_networks(arrays))):
            path, code, vector = Path.schema(arrays, prefix)
            found += path
            codes.append(code)
            vectors.append(vector)
        found += CompressedExamples.schema(arrays, "voters.", " + ".join(codes))
        return [*found, *index_schema(arrays, "index.", "labels", " + ".join(vectors))]

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        kinds = Activations.of(self.params_.activations, self.params_.feature_output)
        self.paths_ = [
            Path.restore(with_prefix(f"{number}.", arrays), kinds.label_code)
            for number in range(_n_networks(arrays))
        ]
        vectors, voters = self._vectors(), with_prefix("voters.", arrays)
        self.blend_ = NeighbourBlend(
            restore_index(vectors, with_prefix("index.", arrays)),
            CompressedExamples.restore(voters) if voters else None,
            self.params_.neighbours,
            BlendParameters.restore(arrays["blend"]),
        )

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        inputs, outputs = params["input_layers"], params["output_layers"]
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


def _n_networks(arrays: Mapping[str, np.ndarray]) -> int:
    """Return the number of networks whose arrays these are."""
    return next(n for n in count() if f"{n}.encoder.first" not in arrays)
