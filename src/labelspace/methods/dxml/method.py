"""DXML: an embedding of examples whose nearest neighbours vote for their labels.

A network puts an example on the unit sphere, z = F(x) / |F(x)|; the k training examples nearest to
a query vote for their labels, each weighted by (similarity / that of the nearest) ** power.

Zhang et al. (ICMR 2018) train z towards f_y = V y / nnz(y), where V are DeepWalk vectors of the
labels on their co-occurrence graph, by a smooth L1 distance: loss="smooth-l1", or "contrastive" or
"triplet". The default extends the paper: loss="votes" trains on what prediction does, the votes of
the neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace._core.arrays import joined_parts, with_prefix
from labelspace._core.checks import expect
from labelspace._core.dense import unit_array
from labelspace._core.schema import Schema, floats
from labelspace._core.sparse import as_csr
from labelspace.components.holdout import HoldOut
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import ParameterError
from labelspace.labels.cooccurrence import MEASURES
from labelspace.labels.deepwalk import deepwalk_bytes
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method, Neighbour
from labelspace.methods.dxml.defaults import resolve
from labelspace.methods.dxml.presets import PAPER
from labelspace.methods.dxml.targets import graph_vectors
from labelspace.methods.dxml.training import TARGET_LOSSES, fresh_encoders, train
from labelspace.methods.dxml.update import update
from labelspace.methods.dxml.voting import NeighbourVote, VoteParameters, voter_rows, voters
from labelspace.methods.explanation import checked_row
from labelspace.methods.parameters import (
    AUTO,
    BATCH_SIZE,
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
from labelspace.nn.activations import Activation
from labelspace.nn.encoder import Encoder, principal_directions
from labelspace.ranking import Ranking
from labelspace.runs.history import watch
from labelspace.search.build import check_search
from labelspace.search.faiss import load_faiss
from labelspace.search.neighbours.build import build_neighbours, neighbour_bytes
from labelspace.search.neighbours.sparse import SparseNeighbours

VALIDATED = 2000  # held-out examples at most by which epochs are compared


class DXML(Method):
    """k-nearest neighbours in a learned space (Deep eXtreme Multi-label Learning).

    A network maps examples to the unit sphere such that examples with common labels are near each
    other. The nearest training examples of a query vote for their labels, and Platt's sigmoid turns
    shares of the votes into probabilities.

    `partial_fit` trains the encoders on further examples, which may have new labels, for
    `update_epochs`, and lets these examples vote. The points of the examples known before stay as
    they are, and so do the parameters of the vote. Examples without labels are left out.

    Attributes
    ----------
    encoders_ : list of Encoder
        The networks, one per learner of the ensemble.
    vote_ : NeighbourVote
        The training examples, indexed, with the parameters of their vote.
    graph_vectors_ : ndarray of shape (labels, dim) or None
        DeepWalk vectors of the labels; None with loss="votes".
    history_ : list of dict
        Loss and validation score of each epoch.

    References
    ----------
    W. Zhang, J. Yan, X. Wang, H. Zha. Deep Extreme Multi-label Learning. ICMR 2018.

    B. Perozzi, R. Al-Rfou, S. Skiena. DeepWalk: Online Learning of Social Representations.
    KDD 2014.

    J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov. Neighbourhood Components Analysis.
    NIPS 2004.

    Examples
    --------
    Twelve examples of three kinds, each kind with a label and a feature of its own:

    >>> import numpy as np
    >>> from labelspace import DXML
    >>> kinds = np.arange(12) % 3
    >>> Y = np.eye(3, dtype=np.float32)[kinds]
    >>> X = np.hstack([Y, np.ones_like(Y)])
    >>> model = DXML(dim=8, epochs=2, ensemble=1, neighbours=3).fit(X, Y)
    >>> model.predict(X[:3], k=1).labels.ravel().tolist()
    [0, 1, 2]
    >>> model.embed(X).shape
    (12, 8)
    """

    name: ClassVar[str] = "dxml"
    can_train_in_workers: ClassVar[bool] = True
    has_space: ClassVar[bool] = True
    summary: ClassVar[str] = "deep embedding of examples, whose nearest neighbours vote"
    can_update: ClassVar[bool] = True
    can_find_examples: ClassVar[bool] = True

    dim: int | Auto = integer(
        "Dimension of the space.",
        default=300,
        group="usual",
        low=1,
        high=4096,
        auto="100 up to 5,000 labels, else 300, as in the paper",
        search=between(100, 600, log=True),
    )
    hidden: tuple[int, ...] | Auto | None = layers(
        "Widths of hidden ReLU layers of the encoder.",
        default=AUTO,
        group="paper",
        auto="512 below 1,000 features, else none; with preset=paper 256 up to 5,000 labels, "
        "else 512",
        none="the encoder is linear",
    )
    activation: str | None = choice(
        "Activation of the hidden layers.",
        "relu",
        default="relu",
        group="paper",
        none="the layers are linear, as in the paper's ablation",
    )
    weight_norm: bool = flag(
        "Let the weights of a hidden layer's neurons share one trained length.",
        default=True,
        group="paper",
    )
    input_bias: bool = flag(
        "Add a bias in the first layer, as in the hidden ones.", default=False, group="paper"
    )
    input_spread: float | None = number(
        "Standard deviation of the initial weights of the first layer.",
        default=None,
        low=1e-6,
        none="one by the square root of its outputs",
    )
    hidden_spread: float | None = number(
        "Standard deviation of the initial weights of the hidden layers.",
        default=None,
        low=1e-6,
        none="the square root of two by the number of their inputs",
    )
    loss: str = choice(
        "Training objective: the likelihood of the neighbours' votes, or the distance to a target "
        "made of label vectors, as in the paper.",
        "votes",
        *TARGET_LOSSES,
        default="votes",
        group="paper",
    )
    reduction: str = choice(
        "Minimise the mean of the loss over the examples of a batch, or its sum as in equation 3.",
        "mean",
        "sum",
        default="mean",
        group="paper",
    )
    unit_targets: bool = flag(
        "Scale label vectors, and targets made of them, to length 1, which points have.",
        default=True,
        group="paper",
    )
    scale: float = number(
        "Inverse temperature of the similarities within a batch, for the loss on votes.",
        default=20.0,
        low=0.1,
        search=between(5.0, 50.0, log=True),
    )
    partners: bool = flag(
        "Add to each example of a batch one that shares a label with it, for the loss on votes.",
        default=True,
    )
    margin: float = number(
        "Margin of the contrastive and triplet losses.", default=1.0, group="paper", low=0.0
    )
    graph: str = choice(
        "Label graph of the losses on targets.",
        "cooccurrence",
        "taxonomy",
        default="cooccurrence",
        group="paper",
    )
    graph_weights: str | None = choice(
        "Weights of co-occurrence edges.",
        *MEASURES,
        default=None,
        group="paper",
        none="every edge counts the same",
    )
    walks: int | Auto = integer(
        "DeepWalk: number of walks from each label.",
        default=AUTO,
        group="paper",
        low=1,
        auto="10, or more up to half a million steps in total",
    )
    walk_length: int = integer(
        "DeepWalk: number of labels per walk.", default=40, group="paper", low=2
    )
    window: int = integer(
        "DeepWalk: number of steps of a walk that are context.", default=5, group="paper", low=1
    )
    negatives: int = integer(
        "DeepWalk: number of negative samples of skip-gram; 0 trains by hierarchical softmax.",
        default=5,
        group="paper",
        low=0,
    )
    keep: float = having(KEEP, default=0.7)
    dropout: float = number(
        "Share of the encoder's outputs to drop in training.",
        default=0.1,
        low=0.0,
        high=0.95,
        search=between(0.0, 0.5),
    )
    optimiser: str = choice(
        "Optimiser of the encoder: Adam, or SGD with momentum 0.9 and weight decay 0.0005 as in "
        "the paper.",
        "adam",
        "sgd",
        default="adam",
        group="paper",
    )
    lazy: bool = flag(
        "Apply momentum and weight decay of SGD only to rows of features that the batch has.",
        default=True,
        group="paper",
    )
    lr: float = number(
        "Learning rate.",
        default=0.005,
        group="usual",
        low=0.0,
        search=between(0.0005, 0.03, log=True),
    )
    epochs: int | Auto = integer(
        "Maximum number of passes over the training data.",
        default=AUTO,
        group="usual",
        low=1,
        auto="6 to 30, for about 1,000 training steps",
    )
    batch_size: int | Auto = having(BATCH_SIZE, low=2, auto="1024 below 10,000 examples, else 512")
    patience: int | None = having(PATIENCE, default=10, none="training is not stopped early")
    validation: float = having(VALIDATION, default=0.1, auto=None)
    validate_from: float = number(
        "Share of the epochs before the first one that is validated; while the learning rate is "
        "high, none is the best.",
        default=0.0,
        low=0.0,
        high=0.99,
    )
    metric: str = METRIC
    neighbours: int | Auto = integer(
        "Number of nearest training examples that vote.",
        default=AUTO,
        group="usual",
        low=1,
        auto="chosen on held-out examples",
        tuned=True,
    )
    power: float | Auto = number(
        "Power of the similarity that a vote is weighted by; 0 counts every vote alike.",
        default=AUTO,
        low=0.0,
        high=256.0,
        auto="chosen on held-out examples",
        tuned=True,
    )
    raw_neighbours: bool = flag(
        "Let nearest neighbours by raw features vote too, with a weight chosen on held-out "
        "examples.",
        default=True,
    )
    reduced_dim: int | None = integer(
        "Dimension to which the trained space is reduced by principal components.",
        default=None,
        low=1,
        none="the space is not reduced",
    )
    ensemble: int | Auto = integer(
        "Number of encoders whose neighbours' votes are averaged.",
        default=AUTO,
        group="usual",
        low=1,
        auto="5 below 10,000 examples, else 1",
    )
    search: str = choice(
        "Index of the training examples: exact search, k-means clusters as in the paper, or 4-bit "
        "codes.",
        "exact",
        "clusters",
        "quantised",
        default=AUTO,
        auto="exact for few examples, else 4-bit codes if they reach `recall`, or clusters if "
        "their number or that of probes is given",
        tuned=True,
    )
    clusters: int | Auto = integer(
        "Number of clusters of training examples.",
        default=AUTO,
        group="paper",
        low=1,
        auto="twice the square root of the number of examples; with preset=paper "
        "one per 6,000 examples, at least 2",
        tuned=True,
    )
    probes: int | Auto = integer(
        "Number of clusters to search per query.",
        default=AUTO,
        group="paper",
        low=1,
        auto="the fewest that reach `recall`",
        tuned=True,
    )
    recall: float = having(NEIGHBOUR_RECALL, default=0.99)
    update_epochs: int = integer(
        "Number of passes over new examples in `partial_fit`.", default=2, group="usual", low=0
    )
    preset: str | None = preset(paper=PAPER)
    seed: int = SEED

    encoders_: list[Encoder]
    vote_: NeighbourVote
    graph_vectors_: np.ndarray | None
    history_: list[dict[str, float]]

    def check_parameters(self) -> None:
        """Raise ParameterError for parameters that are out of range or exclude each other."""
        super().check_parameters()
        if self.search == "quantised":
            load_faiss()
        if self.reduced_dim is not None and self.loss in TARGET_LOSSES:
            raise ParameterError(
                f"dxml.reduced_dim={self.reduced_dim}: with loss={self.loss} examples are compared "
                f"with label vectors, which have all {self.dim} dimensions; set dim instead"
            )

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        return resolve(params, shape)

    def _fit(self, data: TrainingData) -> None:
        params = self.params_
        if (params.search, params.clusters, params.probes) == (AUTO, AUTO, AUTO):
            check_search(data.X.shape[0], params.reduced_dim or params.dim)
        labelled = voter_rows(data.Y)
        hold_out = HoldOut.of(voters(data), params.validation, params.seed)
        X, Y, held = hold_out.X, hold_out.Y, hold_out.valid
        self.graph_vectors_ = None
        if params.loss in TARGET_LOSSES:
            self.graph_vectors_ = graph_vectors(self, Y, data.taxonomy)
        self.encoders_ = fresh_encoders(params, X.shape[1])
        default = VoteParameters()
        vote_params = VoteParameters(
            _given(params.neighbours) or default.neighbours,
            default.power if params.power == AUTO else params.power,
        )

        def rank(queries: csr_matrix, k: int) -> Ranking:
            vote = NeighbourVote.exact(self.points(X, by_row=False), Y, vote_params)
            return vote.rank(self.points(queries, by_row=False), None, k)

        def rank_own(rows: np.ndarray, k: int) -> Ranking:
            points = self.points(X, by_row=False)
            return NeighbourVote.exact(points, Y, vote_params).rank_own(rows, k)

        def score() -> float:
            assert held is not None
            every = -(-held[0].shape[0] // VALIDATED)
            return measure(params.metric, rank(held[0][::every], 5), held[1][::every], counts)

        counts = LabelCounts.of(Y)
        watch(data.callbacks, rank, (X, Y), held, rank_own=rank_own)
        self.history_ = train(self, data, X, Y, params.epochs, None if held is None else score)
        if params.reduced_dim is not None and params.reduced_dim < params.dim:
            self.encoders_ = [
                encoder.projected(principal_directions(points, params.reduced_dim))
                for encoder, points in zip(self.encoders_, self.points(X), strict=True)
            ]
        if held is not None:
            raw = SparseNeighbours.of(X) if params.raw_neighbours else None
            vote = NeighbourVote.exact(self.points(X), Y, vote_params, raw)
            vote_params, self.held_out_ = vote.tuned(
                self.points(held[0]),
                *held,
                params.metric,
                _given(params.neighbours),
                _given(params.power),
            )
        queries = [None] * len(self.encoders_) if held is None else self.points(held[0])
        examples = X, Y
        if held is not None and len(hold_out.held_rows):  # in the end the hold-out votes too
            examples = vstack([X, held[0]], "csr"), vstack([Y, held[1]], "csr")
        self.vote_ = self._indexed(*examples, vote_params, queries)
        voting = np.concatenate([hold_out.train_rows, hold_out.held_rows])
        self.vote_.rows, self.vote_.n_seen = labelled[voting], data.Y.shape[0]

    def _indexed(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        vote_params: VoteParameters,
        queries: Sequence[np.ndarray | None],
    ) -> NeighbourVote:
        """Return the vote of these examples; recall is measured on queries, given per learner."""
        indexes = [
            build_neighbours(
                points,
                vote_params.neighbours,
                kind=self.params_.search,
                recall=self.params_.recall,
                clusters=_given(self.params_.clusters),
                probes=_given(self.params_.probes),
                seed=self.params_.seed,
                queries=typical,
            )
            for points, typical in zip(self.points(X), queries, strict=True)
        ]
        raw = SparseNeighbours.of(X) if vote_params.raw_weight > 0 else None
        return NeighbourVote(indexes, Y, vote_params, raw)

    def points(self, X: csr_matrix, *, by_row: bool = True) -> list[np.ndarray]:
        """Return the points of the examples, (n, dim) of length 1, one array per learner.

        `by_row` is that of `Encoder.encode`.
        """
        return [unit_array(encoder.encode(X, by_row=by_row)) for encoder in self.encoders_]

    def embed(self, X: Any) -> np.ndarray:
        """Return the points of examples in the learned space.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, features)

        Returns
        -------
        ndarray of shape (n, learners * dim)
            Rows of length 1; those of the learners of an ensemble are concatenated. `dim` is
            `reduced_dim` where that is set.
        """
        return np.hstack(self.points(as_csr(X))) / np.float32(np.sqrt(len(self.encoders_)))

    @property
    def label_vectors_(self) -> np.ndarray:
        """Mean direction of each label's examples, in the space of `embed`.

        An array of shape (labels, learners * dim), computed at the first access after `fit`,
        `partial_fit` or loading. Labels without examples have zeros.
        """
        return self.vote_.centroids

    def nearest_examples(self, X: Any, k: int = 5) -> list[Neighbour]:
        """Return the training examples with labels that are nearest in the learned space.

        The similarity is the mean of the cosines over the learners; the rest is as in `Method`.
        """
        self._check_fitted()
        return self.vote_.nearest(self.points(checked_row(self, X)), k)

    def _partial_fit(self, data: TrainingData) -> None:
        update(self, data)

    def _predict(self, X: Features, k: int) -> Ranking:
        X = as_csr(X)
        return self.vote_.rank(self.points(X), X, k)

    def metadata(self) -> dict[str, Any]:
        """Return the kind and recall of the index, and the parameters of the vote."""
        return self.vote_.metadata()

    def state(self) -> dict[str, np.ndarray]:
        """Return the fitted model as arrays."""
        encoders = {str(learner): one.arrays() for learner, one in enumerate(self.encoders_)}
        arrays = {**self.vote_.state(), **joined_parts(encoders)}
        if self.graph_vectors_ is not None:
            arrays["graph_vectors"] = self.graph_vectors_
        return arrays

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:
        """Declare the arrays of `state`."""
        n_learners = self.params_.ensemble
        expect(f"{n_learners - 1}.encoder.first" in arrays, "the encoder of a learner is missing")
        encoders = [Encoder.schema(arrays, f"{learner}.") for learner in range(n_learners)]
        graph = floats("graph_vectors", "labels", "graph dimensions", required=False)
        return [*chain(*encoders), *NeighbourVote.schema(arrays, n_learners), graph]

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        n_learners = self.params_.ensemble
        self.graph_vectors_ = arrays.get("graph_vectors")
        activation = Activation(self.params_.activation or "linear")
        self.encoders_ = [
            Encoder.restore(with_prefix(f"{learner}.", arrays), activation=activation)
            for learner in range(n_learners)
        ]
        self.vote_ = NeighbourVote.restore(arrays, n_learners)

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        """Return the bytes that `fit` allocates at its peak, by purpose."""
        dim, size = params["dim"], params["batch_size"]
        n_learners = params["ensemble"]
        first = (*params["hidden"], dim)[0]
        mean = shape.label_nnz / max(1, shape.points)
        labels = min(float(shape.labels), size * mean)
        needs = {
            "training data and hold-out": shape.data_bytes,
            "encoders, moments and the best epoch": 16 * n_learners * shape.features * first,
            "points of the examples": 8 * n_learners * shape.points * (dim + max(first, dim)),
            "votes in a batch": int(16 * size * (2 * size + labels)),
            "search index": n_learners * neighbour_bytes(shape.points, dim, params["search"]),
        }
        if params["raw_neighbours"]:
            needs["neighbours by raw features"] = 3 * 8 * shape.feature_nnz + 8 * shape.features
        if params["loss"] in TARGET_LOSSES:
            needs["label graph"] = 12 * shape.cooccurrences()
            needs["label vectors"] = deepwalk_bytes(shape.labels, dim)
            needs["targets of the examples"] = 4 * shape.points * dim
        return needs


def _given(value: Any) -> Any:
    """Return a value, or None for "auto"."""
    return None if value == AUTO else value
