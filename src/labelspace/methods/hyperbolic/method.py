"""Examples and labels in the Poincare ball (Gerald & Baskiotis, CAp 2019).

A linear encoder f maps an example to r = p(f(x)), where p maps into the unit ball; each label has a
point l in the same ball. Training lowers, for every label i of an example,

    -log ( e(l_i) / (e(l_i) + sum_{k not a label of x} e(l_k)) ),    e(l) = exp(-alpha d(r, l))

with d the hyperbolic distance and the sum over sampled labels. The nearest training examples of a
query then vote for their labels. Extensions of the paper: a second term of the same form between
examples that share labels (`examples_weight`), votes weighted by exp(-sharpness alpha d), a
Riemannian Adam, and the same method in Euclidean and in spherical space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import expect
from labelspace._core.schema import Schema, csr, floats, scalars
from labelspace._core.sparse import as_csr, bounded_rows, pack_csr, unit_rows, unpack_csr
from labelspace.components.calibration import CALIBRATION_K, VOTE_EPS, Calibration
from labelspace.components.held_out_ranking import HeldOutRanking
from labelspace.components.holdout import HoldOut
from labelspace.components.training_counts import TrainingCounts
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import ParameterError, TrainingError
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.hyperbolic.annexml import (
    NeighbourObjective,
    label_centroids,
    label_neighbours,
)
from labelspace.methods.hyperbolic.defaults import resolve
from labelspace.methods.hyperbolic.objective import BatchObjective
from labelspace.methods.hyperbolic.presets import PAPER, PAPER_ANNEXML
from labelspace.methods.hyperbolic.space import BALL_MAPS, OPTIMISERS, Space, optimiser_of
from labelspace.methods.hyperbolic.voting import label_shares
from labelspace.methods.parameters import (
    AUTO,
    BATCH_SIZE,
    EPOCHS,
    FEATURE_DAMPING,
    KEEP,
    METRIC,
    NEIGHBOUR_RECALL,
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
from labelspace.nn.encoder import Encoder
from labelspace.nn.ensemble_trainer import Arrays, MemberTrainer
from labelspace.nn.trainer import TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.history import watch
from labelspace.search.faiss import load_faiss
from labelspace.search.geometry.build import (
    build_neighbours,
    neighbour_schema,
    restore_neighbours,
)
from labelspace.search.geometry.points import GEOMETRIES, ExactNeighbours, NeighbourIndex

MAX_HELD_OUT = 2000  # examples; after every epoch each is compared with all training examples
QUERIES_AT_A_TIME = 4096  # bounds the memory of the votes
LONGEST_ROW = 1e12  # of inputs that are not scaled: squares of their points are finite in float32


class Hyperbolic(Method):
    """Examples and labels in the Poincare ball; the nearest training examples vote.

    An encoder maps examples into the ball in which each label has a point, such that examples are
    near their labels and near examples with the same labels. The nearest training examples of a
    query vote for their labels, and Platt's sigmoid turns shares of the votes into probabilities.
    `geometry` replaces the ball by Euclidean space or the sphere: the figures in the documentation
    show no benefit of the ball.

    Attributes
    ----------
    spaces_ : list of Space
        Encoder and label points, one per learner of the ensemble.
    points_ : list of ndarray of shape (examples, dim)
        Points of the training examples, one array per learner.
    Y_ : csr_matrix of shape (examples, labels)
        Labels of the training examples.
    calibration_ : Calibration
        From shares of the votes to probabilities.
    history_ : list of dict
        Loss and validation score of each epoch.

    References
    ----------
    T. Gerald, N. Baskiotis. Joint Label/Example Hyperbolic Representation for Extreme
    Classification. CAp 2019.

    M. Nickel, D. Kiela. Poincare Embeddings for Learning Hierarchical Representations. NIPS 2017.

    G. Becigneul, O.-E. Ganea. Riemannian Adaptive Optimization Methods. ICLR 2019.

    Examples
    --------
    Twelve examples of three kinds, each kind with a label and a feature of its own:

    >>> import numpy as np
    >>> from labelspace import Hyperbolic
    >>> kinds = np.arange(12) % 3
    >>> Y = np.eye(3, dtype=np.float32)[kinds]
    >>> X = np.hstack([Y, np.ones_like(Y)])
    >>> model = Hyperbolic(dim=4, epochs=20, lr=0.1, neighbours=3).fit(X, Y)
    >>> model.predict(X[:3], k=1).labels.ravel().tolist()
    [0, 1, 2]
    >>> bool((np.linalg.norm(model.embed(X), axis=1) < 1).all())
    True
    """

    name: ClassVar[str] = "hyperbolic"
    can_train_in_workers: ClassVar[bool] = True
    has_space: ClassVar[bool] = True
    summary: ClassVar[str] = "examples and labels in the Poincare ball, near examples vote"
    # Rounded to 16 bits, points near the rim would be outside the ball.
    full_precision: ClassVar[tuple[str, ...]] = ("points", "labels", "centres")

    dim: int = integer(
        "Dimension of the space.",
        default=50,
        group="usual",
        low=1,
        high=4096,
        search=between(20, 200, log=True),
    )
    geometry: str = choice(
        "Geometry of the space.",
        *GEOMETRIES,
        default="hyperbolic",
        group="usual",
    )
    preset: str | None = preset(paper=PAPER, paper_annexml=PAPER_ANNEXML)
    ball_map: str = choice(
        "How examples are mapped into the ball: by the exponential map, or by projecting those "
        "outside onto the rim.",
        *BALL_MAPS,
        default="exp",
        group="paper",
    )
    hidden: tuple[int, ...] | None = layers(
        "Widths of hidden ReLU layers of the encoder.", default=None, none="the encoder is linear"
    )
    loss: str = choice(
        "Loss: of an example against labels, as the paper has it, or AnnexML's, of an example "
        "against others, which needs `geometry` spherical and `predict_by` examples.",
        "labels",
        "annexml",
        default="labels",
        group="paper",
    )
    alpha: float = number(
        "Inverse temperature of the distances in the loss.",
        default=20.0,
        group="paper",
        low=0.0,
        search=between(5.0, 60.0, log=True),
    )
    negatives: str = choice(
        "How to sample negative labels: for the whole batch, evenly, by frequency or those that "
        "are nearest now, or for each example, evenly among the labels that it does not have.",
        "uniform",
        "frequency",
        "hard",
        "per-example",
        default="uniform",
        group="paper",
    )
    n_negatives: int = integer(
        "Number of sampled negative labels per batch, or per example.",
        default=300,
        group="paper",
        low=0,
    )
    batch_negatives: bool = flag(
        "Whether labels of the other examples of a batch are negatives, too.",
        default=True,
        group="paper",
    )
    weighting: str = choice(
        "What counts alike in the loss: examples, or pairs of an example and a label.",
        "examples",
        "pairs",
        default="examples",
        group="paper",
    )
    label_neighbours: int = integer(
        "Number of neighbours of an example by the cosine of labels in AnnexML's loss.",
        default=10,
        low=1,
    )
    examples_weight: float = number(
        "Weight of the loss between examples that share labels; 0 is the paper's loss.",
        default=1.0,
        low=0.0,
    )
    partners: int = integer(
        "Number of examples to draw per example of a batch for the loss between examples; the one "
        "with the most similar labels is taken.",
        default=8,
        low=1,
    )
    optimiser: str = choice(
        "Optimiser of the label points and of the encoder.",
        *OPTIMISERS,
        default="adam",
        group="paper",
    )
    label_lr_ratio: float | Auto = number(
        "Learning rate of the label points divided by `lr`.",
        default=AUTO,
        group="paper",
        low=0.0,
        auto="4 in the ball, or 2 sqrt(dim) if `optimiser` is riemannian-adam; 1 elsewhere",
    )
    schedule: str = choice(
        "Learning rate over the epochs: constant, or falling to 0.",
        "constant",
        "linear",
        default="linear",
        group="paper",
    )
    label_spread: float = number(
        "Standard deviation of the initial label points.", default=0.001, group="paper", low=0.0
    )
    map_spread: float = number(
        "Standard deviation of the encoder's initial weights.",
        default=0.0001,
        group="paper",
        low=0.0,
    )
    unit_inputs: bool = flag("Scale the rows of X to length 1.", default=True, group="paper")
    keep: float = having(KEEP, default=1.0, group="expert")
    feature_damping: float | Auto | None = having(FEATURE_DAMPING, default=None)
    epochs: int = having(
        EPOCHS,
        default=5,
        search=between(3, 15),
    )
    batch_size: int = having(BATCH_SIZE, default=512, auto=None)
    lr: float = number(
        "Learning rate.",
        default=0.004,
        group="usual",
        low=0.0,
        search=between(0.0005, 0.03, log=True),
    )
    patience: int = having(
        PATIENCE,
        help="Epochs without a better validation score after which training stops; without effect "
        "unless `epochs` is larger.",
        default=25,
        group="paper",
    )
    validation: float = having(VALIDATION, default=0.05, auto=None, group="paper")
    metric: str = METRIC
    predict_by: str = choice(
        "What ranks the labels: votes of the nearest training examples, distances to label points, "
        "or both.",
        "examples",
        "labels",
        "both",
        default="examples",
        group="paper",
    )
    neighbours: int = integer(
        "Number of nearest training examples that vote.",
        default=50,
        group="usual",
        low=1,
        search=between(10, 200, log=True),
    )
    sharpness: float = number(
        "Votes are weighted by exp(-sharpness * alpha * distance); 0 counts every vote alike.",
        default=1.5,
        low=0.0,
        search=between(0.5, 4.0),
    )
    labels_share: float = number(
        "Weight of label distances beside votes if `predict_by` is both.",
        default=0.3,
        low=0.0,
        high=1.0,
    )
    ensemble: int = integer(
        "Number of spaces whose votes are averaged.", default=1, group="usual", low=1
    )
    search: str = choice(
        "Index of the training examples: exact search, 4-bit codes, or cells around random points "
        "as in the paper.",
        "exact",
        "codes",
        "cells",
        default=AUTO,
        auto="exact for few examples, else codes, cells or exact, the first that reaches `recall`",
        tuned=True,
    )
    recall: float = having(NEIGHBOUR_RECALL, default=0.99)
    seed: int = SEED

    spaces_: list[Space]
    points_: list[np.ndarray]
    Y_: csr_matrix
    calibration_: Calibration
    history_: list[dict[str, float]]

    def check_parameters(self) -> None:
        """Raise ParameterError for parameters out of range, MissingExtraError without faiss."""
        super().check_parameters()
        if self.loss == "annexml" and (self.geometry, self.predict_by) != ("spherical", "examples"):
            raise ParameterError(
                "loss='annexml' compares examples by their cosine: set geometry='spherical' and "
                "predict_by='examples'"
            )
        if self.search == "codes":
            load_faiss()

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        return resolve(params, shape)

    def _fit(self, data: TrainingData) -> None:
        params = self.params_
        hold_out = HoldOut.of(data, params.validation, params.seed, cap=MAX_HELD_OUT)
        X, Y, held = self._inputs(hold_out.X), hold_out.Y, hold_out.valid
        if held is not None:
            held = (self._inputs(held[0]), held[1])
        self.spaces_ = [self._frozen(arrays) for arrays in self._train(data, X, Y, held)]
        self.calibration_ = Calibration(eps=VOTE_EPS)
        if held is not None:
            self._index_examples(X, Y, search="exact")
            best = self._rank(held[0], min(CALIBRATION_K, Y.shape[1]))
            self.calibration_ = Calibration.fit(best.labels, best.scores, held[1], VOTE_EPS)
            ranked = best.labels, best.scores
            self.held_out_ = HeldOutRanking.calibrated(*ranked, held[1], VOTE_EPS)
        if held is not None and len(hold_out.held_rows):  # in the end the hold-out votes too
            X, Y = vstack([X, held[0]], "csr"), vstack([Y, held[1]], "csr")
        self._index_examples(X, Y, params.search, None if held is None else held[0])

    def _inputs(self, X: csr_matrix) -> csr_matrix:
        """Return examples as the encoder takes them."""
        return unit_rows(X) if self.params_.unit_inputs else bounded_rows(X, LONGEST_ROW)

    def _train(
        self,
        data: TrainingData,
        X: csr_matrix,
        Y: csr_matrix,
        held: tuple[csr_matrix, csr_matrix] | None,
    ) -> list[Arrays]:
        """Train all learners, one after the other, and return their weights."""
        params = self.params_
        done: list[Arrays] = []
        counts = LabelCounts.of(Y)
        near = label_neighbours(Y, params.label_neighbours) if params.loss == "annexml" else None
        self.history_ = []
        while len(done) < params.ensemble:
            trainer = MemberTrainer(
                done,
                params.ensemble,
                epochs=params.epochs,
                batch_size=params.batch_size,
                seed=params.seed,
                schedule=params.schedule,
                patience=params.patience,
                callbacks=data.callbacks,
                identity=data.identity,
            )
            space = self._fresh_space(X, Y, trainer.seed)
            objective = (
                BatchObjective(self, space, X, Y)
                if near is None
                else NeighbourObjective(self, space, X, near)
            )
            score = self._validation(space, X, Y, held, counts)
            self._watch(data, space, (X, Y), held)
            trainer.progress.history = self.history_
            task = TrainingTask(space.tensors(), objective, optimiser_of(space, params), score)
            self.history_ = trainer.run(task, X.shape[0])
            if near is not None:
                space.labels.weight[:] = label_centroids(space.embed(X), Y)
            if not all(np.isfinite(array).all() for array in space.arrays().values()):
                raise TrainingError("the weights became NaN or infinite; lower the learning rate")
            done.append({name: np.array(array) for name, array in space.arrays().items()})
        return done

    def _fresh_space(self, X: csr_matrix, Y: csr_matrix, seed: int) -> Space:
        """Return the initial space of a learner."""
        params = self.params_
        rng = np.random.default_rng([seed, X.shape[1]])
        lr_scale = TrainingCounts.of(X, Y).row_lr_scale(params.feature_damping)
        widths = (*params.hidden, params.dim)
        encoder = Encoder.fresh(X.shape[1], widths, rng, row_lr_scale=lr_scale)
        if params.hidden:
            with torch.no_grad():  # begin near the centre, as the linear encoder does
                encoder.hidden[-1]["length"] *= 0.1
        else:
            encoder.input_layer.weight *= np.float32(params.map_spread * np.sqrt(params.dim))
        labels = rng.standard_normal((Y.shape[1], params.dim), np.float32)
        labels *= np.float32(params.label_spread)
        return Space.fresh(params.geometry, params.ball_map, params.optimiser, encoder, labels)

    def _frozen(self, arrays: Arrays) -> Space:
        return Space.frozen(self.params_.geometry, self.params_.ball_map, arrays)

    def _validation(
        self,
        space: Space,
        X: csr_matrix,
        Y: csr_matrix,
        held: tuple[csr_matrix, csr_matrix] | None,
        counts: LabelCounts,
    ) -> Callable[[], float] | None:
        """Return a function that computes the validation score of one learner."""
        if held is None:
            return None
        X_held, Y_held = held

        def score() -> float:
            queries = space.embed(X_held)
            if not np.isfinite(queries).all():
                raise TrainingError("points became NaN or infinite; lower the learning rate")
            ranking = self._rank_by(space, queries, X, Y, min(5, Y.shape[1]))
            return measure(self.params_.metric, ranking, Y_held, counts)

        return score

    def _rank_by(
        self,
        space: Space,
        queries: np.ndarray,
        X: csr_matrix,
        Y: csr_matrix,
        k: int,
        own: np.ndarray | None = None,
    ) -> Ranking:
        """Rank by one learner as it is now; `own` are the rows of X that the queries are."""
        examples = ExactNeighbours(space.embed(X), self.params_.geometry)
        labels = self._label_index(space)
        shares = label_shares(self.params_, [queries], [examples], [labels], Y, own)
        return Ranking.from_sparse(shares, k)

    def _watch(
        self,
        data: TrainingData,
        space: Space,
        train: tuple[csr_matrix, csr_matrix],
        held: tuple[csr_matrix, csr_matrix] | None,
    ) -> None:
        """Measure the learner after each epoch if a callback records a history."""

        def rank(queries: csr_matrix, k: int) -> Ranking:
            return self._rank_by(space, space.embed(queries), *train, k)

        def rank_own(rows: np.ndarray, k: int) -> Ranking:
            return self._rank_by(space, space.embed(train[0][rows]), *train, k, rows)

        watch(data.callbacks, rank, train, held, rank_own=rank_own, prepare=self._inputs)

    def _label_index(self, space: Space) -> NeighbourIndex:
        return ExactNeighbours(space.label_points(), self.params_.geometry)

    def _index_examples(
        self, X: csr_matrix, Y: csr_matrix, search: str, queries: csr_matrix | None = None
    ) -> None:
        """Build the indexes of the examples that vote; recall is measured on the queries."""
        self.Y_ = Y
        self.points_ = [space.embed(X) for space in self.spaces_]
        self.indexes_ = [
            build_neighbours(
                points,
                self.params_.geometry,
                kind=search,
                k=self.params_.neighbours,
                recall=self.params_.recall,
                seed=self.params_.seed,
                queries=None if queries is None else space.embed(queries),
            )
            for space, points in zip(self.spaces_, self.points_, strict=True)
        ]
        self.label_indexes_ = [self._label_index(space) for space in self.spaces_]

    def _rank(self, X: csr_matrix, k: int) -> Ranking:
        """Rank by all learners, without calibration."""
        queries = [space.embed(X) for space in self.spaces_]
        shares = label_shares(self.params_, queries, self.indexes_, self.label_indexes_, self.Y_)
        return Ranking.from_sparse(shares, k)

    def _predict(self, X: Features, k: int) -> Ranking:
        rows = self._inputs(as_csr(X))
        starts = range(0, max(1, rows.shape[0]), QUERIES_AT_A_TIME)
        best = Ranking.stack(
            [self._rank(rows[start : start + QUERIES_AT_A_TIME], k) for start in starts]
        )
        return Ranking(best.labels, self.calibration_(best.labels, best.scores))

    def embed(self, X: Any) -> np.ndarray:
        """Return the points of examples in the space of the first learner.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, features)

        Returns
        -------
        ndarray of shape (n, dim)
            Points of the ball, of length 1, or anywhere, by `geometry`.
        """
        return self.spaces_[0].embed(self._inputs(as_csr(X)))

    @property
    def label_vectors_(self) -> np.ndarray:
        """Points of the labels in the space of the first learner, of shape (labels, dim)."""
        return self.spaces_[0].label_points()

    @property
    def space_geometry(self) -> str:
        """Geometry that `label_vectors_` are points of."""
        return str(self.params_.geometry)

    def metadata(self) -> dict[str, Any]:
        """Return the kinds of the indexes and their lowest recall."""
        recalls = [index.recall for index in self.indexes_]
        kinds = sorted({index.kind for index in self.indexes_})
        return {"search": {"kind": ", ".join(kinds), "recall": min(recalls)}}

    def state(self) -> dict[str, np.ndarray]:
        """Return the fitted model as arrays."""
        arrays = {**pack_csr("Y", self.Y_), "calibration": self.calibration_.state()}
        learners = zip(self.spaces_, self.points_, self.indexes_, strict=True)
        for learner, (space, points, index) in enumerate(learners):
            own = {**space.arrays(), "points": points, **prefixed("index.", index.state())}
            arrays |= prefixed(f"{learner}.", own)
        return arrays

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:
        """Declare the arrays of `state`."""
        n_learners = self.params_.ensemble
        expect(f"{n_learners - 1}.points" in arrays, "the points of a learner are missing")
        found: Schema = [*csr("Y", "examples", "labels", sets=True), scalars("calibration", 2)]
        for prefix in (f"{learner}." for learner in range(n_learners)):
            found += [
                *Space.schema(arrays, prefix),
                floats(f"{prefix}points", "examples", f"{prefix}code"),
                *neighbour_schema(arrays, f"{prefix}index.", "examples"),
            ]
        return found

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        geometry, n_learners = self.params_.geometry, self.params_.ensemble
        self.Y_ = unpack_csr("Y", arrays)
        self.calibration_ = Calibration.restore(arrays["calibration"], VOTE_EPS)
        learners = [with_prefix(f"{learner}.", arrays) for learner in range(n_learners)]
        self.spaces_ = [self._frozen(own) for own in learners]
        self.points_ = [own["points"] for own in learners]
        self.indexes_ = [
            restore_neighbours(own["points"], geometry, with_prefix("index.", own))
            for own in learners
        ]
        self.label_indexes_ = [self._label_index(space) for space in self.spaces_]

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        """Return the bytes that `fit` allocates at its peak, by purpose."""
        dim, n = params["dim"], params["ensemble"]
        first = (*params["hidden"], dim)[0]
        in_batch = min(shape.labels, 8 * params["batch_size"]) + params["n_negatives"]
        own = 0  # label points looked up for negatives of each example
        if params["negatives"] == "per-example":
            own = min(shape.labels, params["batch_size"] * params["n_negatives"]) * dim
        return {
            "training data and hold-out": shape.data_bytes,
            "encoders: weights, moments and the best epoch": 4 * (3 + n) * shape.features * first,
            "label points: weights, moments and the best epoch": 4 * (3 + n) * shape.labels * dim,
            "points of the examples and search index": 8 * (n + 1) * shape.points * dim,
            "labels by example and by label": 24 * shape.label_nnz,
            "distances of a batch": 48 * params["batch_size"] * (in_batch + params["batch_size"])
            + 100 * own,
        }
