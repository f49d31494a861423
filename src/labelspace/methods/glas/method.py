"""GLaS: regularised embeddings of examples and labels, and inner-product search.

An encoder phi maps an example into the space of the label vectors v; labels are ranked by

    h(x)_l = s <phi(x), v_l> + b_l

with phi(x) and v_l of length 1 (`space.py`). Training follows Algorithm 2 of the paper: a batch of
examples with input dropout, a loss over candidate labels, and the regulariser

    l_GLaS = 1/m^2 || V_b V_b^T - U_b ||_F^2,    U = 1/2 (A Z^-1 + Z^-1 A),  A = Y^T Y,  Z = diag(A)

on m labels of the batch (`objective.py`). With lam = 0 and keep = 1 it is Algorithm 1. The preset
"paper" (`presets.py`) is the paper's own form. By default, and not in the paper: a binary loss,
Adam, a bias b_l per label, label vectors initialised at the centroids of their examples, smaller
weights and learning rates for rare features, which such a model overfits on, and the votes of near
training examples beside the labels' scores (`components/neighbour_blend.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import joined_parts, with_prefix
from labelspace._core.schema import Schema, scalars
from labelspace._core.sparse import as_csr
from labelspace.components.calibration import CALIBRATION_K, EPS
from labelspace.components.held_out_ranking import HeldOutRanking
from labelspace.components.holdout import HoldOut
from labelspace.components.neighbour_blend import BlendParameters, NeighbourBlend
from labelspace.components.training_counts import TrainingCounts, default_batch_size
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.explanation import LabelExplanation, checked_example
from labelspace.methods.glas.defaults import resolve
from labelspace.methods.glas.explain import explain
from labelspace.methods.glas.objective import BatchObjective
from labelspace.methods.glas.presets import PAPER
from labelspace.methods.glas.space import LabelSpace, as_queries
from labelspace.methods.glas.update import UpdateObjective, extended, update_epochs
from labelspace.methods.parameters import (
    ADAM_LR,
    AUTO,
    BATCH_SIZE,
    EPOCHS,
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
from labelspace.search.index import InnerProductIndex
from labelspace.search.neighbours.compressed import CompressedExamples, compressed_bytes
from labelspace.search.stored_vectors import PRECISIONS
from labelspace.search.tuning import TYPICAL, evenly


class GLaS(Method):
    """Embeddings of examples and labels in one space, ranked by inner product.

    A linear or ReLU encoder and one vector per label are trained together; a regulariser brings
    the inner products of label vectors close to the co-occurrence of the labels (graph Laplacian
    and spread-out regulariser, GLaS). Prediction is maximum inner product search, blended with the
    votes of near training examples. `partial_fit` learns further examples and labels without the
    old examples.

    Attributes
    ----------
    params_ : SimpleNamespace
        The parameters as they were fitted: every "auto" is a value.
    label_vectors_ : ndarray of shape (labels, dim)
        The points of the labels in the space.
    space_ : LabelSpace
        The trained weights.
    counts_ : TrainingCounts
        In how many training examples each feature and label occurs.
    blend_ : NeighbourBlend
        The label index, the training examples that vote, and the calibration.
    history_ : list of dict
        Loss and validation score after each epoch of `fit`.

    References
    ----------
    .. [1] C. Guo, A. Mousavi, X. Wu, D. Holtmann-Rice, S. Kale, S. Reddi, S. Kumar. "Breaking the
       Glass Ceiling for Embedding-Based Classifiers for Large Output Spaces". NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> from labelspace.methods.glas import GLaS
    >>> X = np.tile(np.eye(3, dtype=np.float32), (4, 1))
    >>> Y = csr_matrix(X[:, [1, 2, 0]])  # feature 0 means label 2, and so on
    >>> model = GLaS(dim=8, epochs=4, lr=0.05).fit(X, Y)
    >>> model.predict(X[:3], k=1).labels.ravel()
    array([2, 0, 1])
    >>> model.embed(X[:3]).shape, model.label_vectors_.shape
    ((3, 8), (3, 8))
    >>> model.explain(X[:1], label=2, k=1).features[0][0]
    0

    Add a fourth label from two examples with features 0 and 1:

    >>> new = csr_matrix(np.array([[0, 0, 0, 1], [0, 0, 0, 1]]))
    >>> model.partial_fit(np.array([[1, 1, 0], [1, 1, 0]]), new).n_labels_
    4
    """

    name: ClassVar[str] = "glas"
    version: ClassVar[int] = 3
    can_explain: ClassVar[bool] = True
    can_train_in_workers: ClassVar[bool] = True
    has_space: ClassVar[bool] = True
    can_update: ClassVar[bool] = True
    summary: ClassVar[str] = "neural embedding with a label-graph regulariser, inner-product search"

    dim: int | Auto = integer(
        "Dimension of the space.",
        default=AUTO,
        group="usual",
        low=1,
        high=4096,
        auto="512, or 1024 above 25,000 labels",
        search=between(128, 1024, log=True),
    )
    preset: str | None = preset(paper=PAPER)
    hidden: tuple[int, ...] | None = layers(
        "Widths of hidden ReLU layers of the encoder.",
        default=None,
        group="paper",
        none="the encoder is linear",
    )
    hidden_bias: bool = flag("Train biases in the hidden layers.", default=True, group="paper")
    loss: str = choice(
        "Loss of a batch.",
        "binary",
        "softmax",
        "margin",
        "mined-margin",
        default="binary",
        group="paper",
    )
    margin: float = number("Margin of the margin losses.", default=1.0, group="paper", low=0.0)
    hardest: int = integer(
        "Number of highest-scoring negatives in the mined-margin loss.",
        default=10,
        group="paper",
        low=1,
    )
    negatives: str = choice(
        "How to sample the labels that are scored beside those of the batch.",
        "in-batch",
        "uniform",
        "frequency",
        "hard",
        "all",
        default="uniform",
        group="paper",
    )
    n_negatives: int = integer("Number of sampled labels per batch.", default=1000, low=0)
    regulariser: str | None = choice(
        "Regulariser of the label vectors.",
        "spread-out",
        "laplacian",
        "glas",
        "gravity",
        default="glas",
        group="paper",
        none="no regulariser",
    )
    lam: float = number(
        "Weight of the regulariser.",
        default=0.1,
        group="paper",
        low=0.0,
        search=between(0.001, 10.0, log=True),
    )
    target: str = choice(
        "Co-occurrence measure that the GLaS regulariser approximates.",
        "arithmetic",
        "geometric",
        "jaccard",
        "pmi",
        default="arithmetic",
        group="paper",
    )
    regularised: str = choice(
        "Labels of a batch that the regulariser is computed on: each of them once, or one drawn "
        "for each example, as in the paper.",
        "distinct",
        "sampled",
        default="distinct",
        group="paper",
    )
    keep: float = KEEP
    rescale_kept: bool = flag(
        "Divide the features that dropout keeps by `keep`, which the paper does not do.",
        default=True,
        group="paper",
    )
    feature_damping: float | Auto | None = FEATURE_DAMPING
    scale: float = number(
        "Factor of inner products, or its initial value if it is trained.",
        default=20.0,
        low=0.1,
        search=between(5.0, 50.0, log=True),
    )
    train_scale: bool = flag("Train the factor of inner products.", default=True, group="paper")
    unit_inputs: bool = flag(
        "Scale the examples' vectors to length 1.", default=True, group="paper"
    )
    unit_labels: bool = flag("Scale the label vectors to length 1.", default=True, group="paper")
    weight_norm: bool = flag(
        "Normalise the weights of the sparse layer as those of hidden layers: the weights of its "
        "outputs share one trained length.",
        default=False,
        group="paper",
    )
    prior: bool = flag("Train a bias per label, initialised at its log odds.", default=True)
    init: str = choice(
        "Initial label vectors: centroids of the labels' examples, or random.",
        "centroid",
        "random",
        default="centroid",
    )
    epochs: int = having(
        EPOCHS,
        default=8,
        search=between(4, 20),
    )
    batch_size: int | Auto = BATCH_SIZE
    optimiser: str = choice(
        "Update rule of the weights: Adam, or gradient descent as in the paper.",
        "adam",
        "sgd",
        default="adam",
        group="paper",
    )
    lr: float = having(
        ADAM_LR,
        default=0.004,
        help="Learning rate of the encoder, and of the labels unless `label_lr` is given.",
    )
    label_lr: float | None = number(
        "Learning rate of the label vectors, eta_V of the paper.",
        default=None,
        group="paper",
        low=0.0,
        none="the same as `lr`",
    )
    hidden_lr_divisor: float = number(
        "Divide the learning rate of hidden layers, which every example updates, by this.",
        default=5.0,
        low=1.0,
    )
    schedule: str = choice(
        "Learning rate over the epochs: constant, or falling to 0 in equal steps.",
        "linear",
        "constant",
        default="linear",
        group="paper",
    )
    patience: int = PATIENCE
    validation: float | Auto = VALIDATION
    metric: str = METRIC
    neighbours: int = integer(
        "Number of nearest training examples that vote beside the labels' scores; 0, as in the "
        "paper, ranks by the labels' scores alone.",
        default=10,
        group="usual",
        low=0,
        search=between(5, 50, log=True),
    )
    recall: float | Auto = number(
        "Share of the best 5 labels that approximate search has to find.",
        default=AUTO,
        group="usual",
        low=0.5,
        high=1.0,
        auto="0.95 if training examples vote, which add what search misses, else 0.998",
    )
    precision: str = choice(
        "Numbers by which label vectors are searched and stored: in 32, 16 or 8 bits.",
        *PRECISIONS,
        default="float32",
    )
    seed: int = SEED

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        return resolve(params, shape)

    def _fit(self, data: TrainingData) -> None:
        check_search(data.Y.shape[1], self.params_.dim + 1)
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed)
        X, Y, valid = hold_out.X, hold_out.Y, hold_out.valid
        self.counts_ = TrainingCounts.of(X, Y)
        self.space_ = LabelSpace.fresh(X, Y, self.counts_, self.params_)
        counts = LabelCounts.of(Y)
        score = None if valid is None else lambda: self._score(*valid, counts)
        watch(data.callbacks, self._rank_exactly, (X, Y), valid)
        objective = BatchObjective(self.space_, self.params_, X, Y)
        self.history_ = self._train(objective, data, self.params_.epochs, score)
        self.space_.encoder.fold()
        self.space_.store(self.params_.precision)
        self._build_blend(X, Y, valid)
        if valid is not None and len(hold_out.held_rows):
            self.blend_.add_examples(self.space_.embed, *valid)
            self.counts_ = self.counts_.plus(*valid)
            if self.blend_.voters is not None:
                rows = np.concatenate([hold_out.train_rows, hold_out.held_rows])
                self.blend_.voters = self.blend_.voters.renumbered(rows)

    def _train(
        self,
        objective: BatchObjective,
        data: TrainingData,
        epochs: int,
        score: Callable[[], float] | None = None,
        batch_size: int | None = None,
    ) -> list[dict[str, float]]:
        """Minimise the objective over its examples; return the history."""
        trainer = Trainer(
            epochs=epochs,
            batch_size=batch_size or self.params_.batch_size,
            seed=self.params_.seed,
            schedule=self.params_.schedule,
            patience=self.params_.patience,
            # The objective first: a checkpoint holds what it did at the end of an epoch.
            callbacks=[objective, *data.callbacks],
            identity=data.identity,
        )
        tensors = {**self.space_.tensors(), **objective.tensors()}
        task = TrainingTask(tensors, objective, self.space_.optimiser(self.params_), score)
        return trainer.run(task, objective.X.shape[0])

    def _build_blend(
        self, X: csr_matrix, Y: csr_matrix, valid: tuple[csr_matrix, csr_matrix] | None
    ) -> None:
        """Build the label index and the neighbour search; calibrate on the hold-out."""
        z = None if valid is None else self.space_.embed(valid[0])
        queries = None if z is None else as_queries(z)
        voters = None
        if self.params_.neighbours:
            voters = CompressedExamples.build(self.space_.embed, X, Y, self.params_.seed, z)
        typical = None
        if queries is not None:  # training examples are added where the hold-out is small
            more = evenly(X.shape[0], max(0, TYPICAL - len(queries)))
            typical = np.concatenate([queries, self.space_.queries(X[more])])
        self.blend_ = NeighbourBlend(self._build_index(typical), voters, self.params_.neighbours)
        if valid is not None and z is not None and queries is not None:
            held, counts = valid[1], LabelCounts.of(Y)
            self.blend_.fit(
                *(z, queries, held),
                lambda *best: measure(self.params_.metric, Ranking(*best), held, counts),
            )
            best = self.blend_.rank(z, queries, min(CALIBRATION_K, held.shape[1]))
            self.held_out_ = HeldOutRanking.calibrated(*best, held, EPS)

    def _partial_fit(self, data: TrainingData) -> None:
        """Update the space by further examples and labels; see `update.py`."""
        X, Y, voters = as_csr(data.X), data.Y, self.blend_.voters
        counts = self.counts_.plus(X, Y)
        known = self.space_.trained_vectors()
        self.space_ = extended(self.space_, self.counts_, counts, X, Y, self.params_, known)
        self.counts_ = counts
        # A stored example is a point of length 1: it cannot be replayed where lengths matter.
        replayed = voters if self.params_.unit_inputs else None
        objective = UpdateObjective(self.space_, self.params_, X, Y, known, replayed)
        batch_size = self.batch_size
        if batch_size == AUTO:
            batch_size = default_batch_size(X.shape[0])
        epochs = update_epochs(self.params_.epochs, X.shape[0], batch_size)
        self._train(objective, data, epochs, batch_size=batch_size)
        self.space_.store(self.params_.precision)
        self._rebuild_index(X)
        self.blend_.add_examples(self.space_.embed, X, Y)

    def _rebuild_index(self, X: csr_matrix) -> None:
        """Index the labels after an update by the examples X."""
        before, voters = self.blend_.index, self.blend_.voters
        typical = self.space_.queries(X)
        if voters is not None and self.params_.unit_inputs:
            old = voters.points(evenly(len(voters), max(0, TYPICAL - len(typical))))
            typical = np.concatenate([typical, as_queries(old)])
        index = self.blend_.index = self._build_index(typical, at_least=before)
        if index.kind == before.kind:
            # New examples may be few or of one kind: the recall on the hold-out counts too.
            index.recall = min(index.recall, before.recall)

    def _build_index(
        self, queries: np.ndarray | None, at_least: InnerProductIndex | None = None
    ) -> InnerProductIndex:
        """Index the labels, tuned to the parameter `recall` on these queries."""
        return build_index(
            self.space_.search_vectors(),
            recall=self.params_.recall,
            seed=self.params_.seed,
            queries=queries,
            at_least=at_least,
        )

    def _score(self, X: csr_matrix, Y: csr_matrix, counts: LabelCounts) -> float:
        return measure(self.params_.metric, self._rank_exactly(X, min(5, Y.shape[1])), Y, counts)

    def _rank_exactly(self, X: csr_matrix, k: int) -> Ranking:
        """Rank by the current weights, without votes; scores are not calibrated."""
        exact = build_index(self.space_.search_vectors(), kind="exact")
        return Ranking(*exact.search(self.space_.queries(X), k))

    def _predict(self, X: Features, k: int) -> Ranking:
        z = self.embed(X)
        return Ranking(*self.blend_.rank(z, as_queries(z), k))

    def embed(self, X: Any) -> np.ndarray:
        """Return the points of examples in the space.

        Parameters
        ----------
        X : csr_matrix or array-like of shape (n, features)

        Returns
        -------
        ndarray of shape (n, dim), float32
            Of length 1, unless `unit_inputs` is false. A row without features is all zeros.
        """
        return self.space_.embed(as_csr(X))

    @property
    def label_vectors_(self) -> np.ndarray:
        """The points of the labels in the space, (labels, dim); computed at each access.

        They have length 1, unless `unit_labels` is false.
        """
        return self.space_.label_vectors

    def explain(self, X: Any, label: int, k: int = 5) -> LabelExplanation:
        """Explain why a label is, or is not, assigned to one example.

        Parameters
        ----------
        X : csr_matrix or array-like of shape (1, features)
        label : int
            Column of the label.
        k : int
            Number of features, labels and training examples to return at most.

        Returns
        -------
        LabelExplanation
            The features by how much h(x)_l falls without each (votes are no part of it), the
            labels with the largest cosine to this one, and the nearest training examples, which
            are empty if `neighbours` is 0.

        Raises
        ------
        InputError
            If X is not one row or there is no such label.
        """
        self._check_fitted()
        return explain(self, checked_example(self, X, label), label, k)

    def metadata(self) -> dict[str, Any]:
        index, blend = self.blend_.index, self.blend_
        metadata: dict[str, Any] = {"search": {"kind": index.kind, "recall@5": index.recall}}
        if blend.voters is not None:
            share = blend.parameters.neighbour_share
            metadata["votes"] = {"share": share, "examples": len(blend.voters)}
        return metadata

    def state(self) -> dict[str, np.ndarray]:
        parts = {"index": self.blend_.index.state(), "counts": self.counts_.state()}
        if self.blend_.voters is not None:
            parts["voters"] = self.blend_.voters.state()
        return {
            **self.space_.arrays(),
            "blend": np.array(self.blend_.parameters),
            **joined_parts(parts),
        }

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:
        return [
            *LabelSpace.schema(arrays, self.params_.precision),
            *TrainingCounts.schema("counts."),
            *CompressedExamples.schema(arrays, "voters.", "code"),
            *index_schema(arrays, "index.", "labels", "code + 1"),
            scalars("blend", 5),
        ]

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.space_ = LabelSpace.restore(arrays, self.params_)
        self.counts_ = TrainingCounts(**with_prefix("counts.", arrays))
        voters = with_prefix("voters.", arrays)
        self.blend_ = NeighbourBlend(
            restore_index(self.space_.search_vectors(), with_prefix("index.", arrays)),
            CompressedExamples.restore(voters) if voters else None,
            self.params_.neighbours,
            BlendParameters.restore(arrays["blend"]),
        )

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        dim = params["dim"]
        first = (*params["hidden"], dim)[0]
        batch = params["batch_size"]
        moments = 8 if params["optimiser"] == "adam" else 0
        drawn = 8 * batch + params["n_negatives"]
        candidates = shape.labels if params["negatives"] == "all" else min(drawn, shape.labels)
        always = {"the data, cut in two": shape.data_bytes}
        begin = {"the encoder": 4 * shape.features * first}
        begin["label vectors and centroids"] = 12 * shape.labels * dim
        if params["init"] == "centroid":
            widest = max(*params["hidden"], dim) if params["hidden"] else dim
            begin["points of all examples, for label centroids"] = 8 * shape.points * widest
        # While the weights of a better epoch are copied, those of the best one before are there.
        train = {
            "the encoder, moments and the best so far": (12 + moments) * shape.features * first,
            "label vectors, moments and the best so far": (12 + moments) * shape.labels * dim,
            "scores of a batch": 12 * batch * candidates,
        }
        if params["regulariser"] in ("glas", "laplacian") and params["lam"] > 0:
            train["the label graph"] = 12 * shape.cooccurrences()
        end = {
            "the encoder": 4 * shape.features * first,
            "label vectors as they are trained and searched": (8 + moments) * shape.labels * dim,
            "the search index": index_bytes(shape.labels, dim + 1),
        }
        if params["neighbours"]:
            end["training examples that vote"] = compressed_bytes(shape.points)
        return always | max((begin, train, end), key=lambda phase: sum(phase.values()))
