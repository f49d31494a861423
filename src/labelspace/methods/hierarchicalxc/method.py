"""HierarchicalXC: a tree of classifiers over the labels, ranked by path probability."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import expect
from labelspace._core.schema import Schema, ints, scalars
from labelspace._core.sparse import as_csr
from labelspace.classifiers.dual_descent import Loss
from labelspace.classifiers.sibling_loops import SIBLING_BYTES
from labelspace.classifiers.tree_edges import CELLS_AT_A_TIME, reached, train_edges
from labelspace.classifiers.tree_networks import (
    NO_NETWORKS,
    Networks,
    check_networks,
    network_schema,
    train_networks,
)
from labelspace.classifiers.tree_search import Classifiers, Search, averaged, find_labels
from labelspace.classifiers.tree_weights import (
    NO_EDGE_WEIGHTS,
    EdgeWeights,
    edge_schema,
    lay_out,
)
from labelspace.components.calibration import CALIBRATION_K, PATH_EPS, Calibration
from labelspace.components.examples import (
    Examples,
    check_kept,
    examples_schema,
    restored_counts,
)
from labelspace.components.held_out_ranking import HeldOutRanking
from labelspace.components.holdout import HoldOut
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import ParameterError, UnsupportedError
from labelspace.labels.clustering import JOINS, TREE_KINDS, TreeKind, build_tree
from labelspace.labels.tree import LabelTree
from labelspace.methods.base import Method
from labelspace.methods.hierarchicalxc.defaults import MANY_LABELS, resolve
from labelspace.methods.hierarchicalxc.inputs import CODE_INITS, INPUTS, Inputs, fit_encoder
from labelspace.methods.hierarchicalxc.presets import (
    BIBTEX,
    DELICIOUS,
    EURLEX,
    IOU,
    MEDIAMILL,
    PAPER,
)
from labelspace.methods.hierarchicalxc.update import update
from labelspace.methods.parameters import (
    AUTO,
    KEEP_EXAMPLES,
    PRUNE,
    SEED,
    VALIDATION,
    Auto,
    choice,
    having,
    integer,
    layers,
    number,
)
from labelspace.methods.presets import preset
from labelspace.methods.search_range import among, between
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import Callback, kept_blocks, progress_reporter

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.runs.checkpoint_files import Blocks

LOSSES = ("logistic", "squared_hinge", "both")
SEARCHES = ("best-first", "beam", "hard")
CANDIDATES = 50  # labels per tree that are averaged, if there are several trees
SEED_STEP = 1_000_003  # between the seeds of trees: trees of adjacent seeds have nothing in common


class HierarchicalXC(Method):
    """Classifiers along label trees; labels are ranked by the probability of their paths.

    Labels are the leaves of a tree. Every edge has a classifier that predicts whether an example
    has a label below the child, trained on the examples that have one below the parent [1]_.
    Siblings are classified independently: none, one or all of them may be right. Labels are ranked
    by the product along their paths, averaged over the trees,

        p(l | x) = product over the edges of l's path of P(child | parent, x)

    and scored by a sigmoid of its log odds, calibrated on a hold-out. The paper follows every child
    whose probability exceeds a threshold (`search="hard"`), which gives a set of labels. Searched
    by path probability alone, it is a probabilistic label tree [2]_.

    With at most 200 labels and the default `leaf_size`, the tree is flat: the method is then
    one-vs-all classification.

    Attributes
    ----------
    trees_ : list of LabelTree
    classifiers_ : list of Classifiers
        Weights of each tree.
    inputs_ : Inputs
        Transforms features into the classifiers' inputs.
    calibration_ : Calibration

    References
    ----------
    .. [1] Srinivasan, Rao, Agarwal. Extreme Classification using Autoencoders. Section 4.
    .. [2] K. Jasinska, K. Dembczyński, R. Busa-Fekete, K. Pfannschmidt, T. Klerx, E. Hüllermeier.
       Extreme F-measure Maximization using Sparse Probability Estimates. ICML 2016.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.tile(np.eye(4), (3, 1))
    >>> model = HierarchicalXC(fanout=2, leaf_size=2, ensemble=1).fit(X, X)
    >>> int(model.trees_[0].depth.max())
    2
    >>> model.predict(X[2:3], 1).labels.tolist()
    [[2]]
    """

    name: ClassVar[str] = "hierarchicalxc"
    has_label_trees: ClassVar[bool] = True
    can_update: ClassVar[bool] = True
    can_refit_grown: ClassVar[bool] = True
    summary: ClassVar[str] = "classifiers along a label tree, ranked by path probability"

    preset: str | None = preset(
        paper=PAPER,
        paper_iou=IOU,
        bibtex=BIBTEX,
        delicious=DELICIOUS,
        mediamill=MEDIAMILL,
        eurlex=EURLEX,
    )
    tree: str = choice(
        "How labels are clustered into a tree; mixed uses average link for the first tree (above "
        "10,000 labels for the second too) and balanced k-means for the others.",
        "mixed",
        *TREE_KINDS,
        default="mixed",
        group="usual",
        search=among("mixed", "kmeans"),
    )
    fanout: int = integer(
        "Number of children of a node of a balanced tree.",
        default=16,
        group="usual",
        low=2,
        search=between(4, 64, log=True),
    )
    leaf_size: int | Auto = integer(
        "Number of labels that are not divided any further.",
        default=AUTO,
        group="usual",
        low=2,
        auto="100; with at most 200 labels the tree is flat, which is one-vs-all",
    )
    join: str = choice(
        "How clusters of labels that share no example are joined, with complete, iou and average: "
        "by balanced splits of their centroids, or one after another in the order of labels.",
        *JOINS,
        default="centroids",
        group="paper",
    )
    inputs: str = choice(
        "Inputs of the classifiers: the features, an autoencoder's code of them, or both.",
        *INPUTS,
        default="raw",
        group="paper",
    )
    layers: tuple[int, ...] = layers(
        "Widths of the encoder's layers; the last is the width of the code.",
        default=(256,),
        group="paper",
    )
    code_init: str = choice(
        "Initial weights of the autoencoder: leading singular vectors of the examples, which are "
        "the optimum of a single layer; or random ones.",
        *CODE_INITS,
        default="svd",
        group="paper",
    )
    code_lr: float = number(
        "Learning rate of Adam for the autoencoder; singular vectors need small steps.",
        default=2e-4,
        low=0.0,
    )
    epochs: int = integer(
        "Number of training epochs of an autoencoder that is not a single layer of singular "
        "vectors.",
        default=10,
        group="paper",
        low=1,
    )
    node_hidden: int | None = integer(
        "Width of the hidden layer of a node's network, with inputs=code.",
        default=None,
        group="paper",
        low=1,
        none="linear classifiers",
    )
    loss: str = choice(
        "Loss of the classifiers; both is logistic in the first tree, squared hinge in the others.",
        *LOSSES,
        default="both",
        search=among("both", "squared_hinge", "logistic"),
    )
    C: float | Auto = number(
        "Weight of the losses against the size of the weights.",
        default=AUTO,
        group="usual",
        low=1e-6,
        auto="6 for the logistic loss, 0.5 for the squared hinge, twice that above 10,000 labels",
        search=between(0.03, 30.0, log=True),
    )
    prune: float = having(PRUNE, default=0.1)
    search: str = choice(
        "Search for the best labels; hard follows every edge above the threshold, as in the paper.",
        *SEARCHES,
        default="beam",
        group="paper",
    )
    beam: int = integer(
        "Number of nodes per level that beam search expands.",
        default=10,
        group="usual",
        low=1,
        search=between(5, 40, log=True),
    )
    threshold: float = number(
        "Probability above which hard search follows an edge.",
        default=0.5,
        group="paper",
        low=1e-6,
        high=1.0,
    )
    ensemble: int = integer(
        "Number of trees, whose probabilities are averaged.", default=3, group="usual", low=1
    )
    validation: float | Auto = having(
        VALIDATION,
        help="Share of the training examples to hold out for calibration, at most 2,000 examples; "
        "with 0, scores are path probabilities.",
        auto="500 examples, at most a tenth",
    )
    keep_examples: bool = KEEP_EXAMPLES
    seed: int = SEED

    examples_: Examples | None
    fitted_counts_: list[np.ndarray]

    def check_parameters(self) -> None:
        super().check_parameters()
        if not self.layers or min(self.layers[:-1], default=2) < 2:
            raise ParameterError(
                f"{self.name}.layers={self.layers}: expected the width of the code, and before "
                "it widths of hidden layers of at least 2"
            )
        if self.node_hidden and self.inputs != "code":
            raise ParameterError(
                f"{self.name}.node_hidden={self.node_hidden}: networks need inputs=code, "
                f"not inputs={self.inputs}"
            )

    def check_resolved(self, resolved: Mapping[str, Any]) -> None:
        pair = resolved["C"]
        expect(isinstance(pair, tuple) and len(pair) == 2, "C is not a pair")
        for one in pair:
            super().check_resolved({**resolved, "C": one})

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        return resolve(params, shape)

    def _fit(self, data: TrainingData) -> None:
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed)
        X, Y = hold_out.X, hold_out.Y
        self.inputs_ = self._inputs(X, data)
        self._fit_trees(X, Y, data.taxonomy, data.callbacks, (data.identity, "part"))
        self.calibration_ = Calibration(eps=PATH_EPS)
        if hold_out.valid is not None:
            held_X, held_Y = hold_out.valid
            best = self._rank(held_X, min(CALIBRATION_K, Y.shape[1]))
            self.calibration_ = Calibration.fit(*best, held_Y, PATH_EPS)
            self.held_out_ = HeldOutRanking.calibrated(*best, held_Y, PATH_EPS)
        if hold_out.refits:
            X, run = as_csr(data.X), (data.identity, "all")
            self._fit_trees(X, data.Y, data.taxonomy, data.callbacks, run)
        keeps = self.params_.keep_examples
        self.examples_ = Examples.of(as_csr(data.X), data.Y) if keeps else None

    def _check_updatable(self) -> None:
        if self.params_.node_hidden:
            raise UnsupportedError(f"{self.name} with node_hidden cannot be updated: fit it again")
        check_kept(self.examples_, self.name)

    def _partial_fit(self, data: TrainingData) -> None:
        assert self.examples_ is not None
        self.examples_ = self.examples_.plus(as_csr(data.X), data.Y)
        self.refit_grown(self.examples_)

    def refit_grown(self, examples: Examples) -> None:
        """Add leaves for new labels and fit classifiers again that are due; see `update`."""
        update(self, examples)
        self.n_labels_ = examples.Y.shape[1]

    def refit(self, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None) -> bool:
        self._fit_trees(X, Y, taxonomy)
        return True

    def _inputs(self, X: csr_matrix, data: TrainingData) -> Inputs:
        """Return the fitted inputs of the classifiers."""
        if self.params_.inputs == "raw":
            return Inputs(self.params_.inputs, None)
        encoder, history = fit_encoder(X, self.params_, data)
        if history:
            self.history_ = history
        return Inputs(self.params_.inputs, encoder)

    def _fit_trees(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        taxonomy: Taxonomy | None,
        callbacks: Sequence[Callback] = (),
        run: tuple[str, str] = ("", ""),
    ) -> None:
        """Fit all trees; `run` is the identity of the data and their part, for checkpoints."""
        inputs = self.inputs_(X)
        self.trees_: list[LabelTree] = []
        self.classifiers_: list[Classifiers] = []
        self.fitted_counts_ = []
        for member in range(self.params_.ensemble):
            seed = self.seed_of(member)
            tree = build_tree(
                self._kind_of(member, Y.shape[1]),
                *(X, Y),
                fanout=self.params_.fanout,
                leaf_size=self.params_.leaf_size,
                seed=seed,
                taxonomy=taxonomy,
                join=self.params_.join,
            )
            self.trees_.append(tree)
            self.fitted_counts_.append(np.diff(reached(Y, tree).indptr).astype(np.int64))
            what = f"tree {member + 1} of {self.params_.ensemble}"
            progress = progress_reporter(callbacks, what, len(tree) - 1)
            loss = self._loss_of(member)

            def blocks(number: int, member: int = member) -> Blocks | None:
                name = f"{run[1]}-tree-{member + 1}-{number + 1}"
                return kept_blocks(callbacks, name, run[0])

            self.classifiers_.append(
                self._classifiers(inputs, Y, tree, loss, seed, progress, blocks)
            )

    def _classifiers(
        self,
        inputs: csr_matrix,
        Y: csr_matrix,
        tree: LabelTree,
        loss: Loss,
        seed: int,
        progress: Callable[[int], None],
        blocks: Callable[[int], Blocks | None],
    ) -> Classifiers:
        """Return the fitted classifiers of one tree."""
        C, width = self.params_.C[loss != "logistic"], self.params_.node_hidden
        linear, networks = NO_EDGE_WEIGHTS, NO_NETWORKS
        if width:
            networks = train_networks(inputs, Y, tree, width=width, loss=loss, C=C, seed=seed)
        else:
            weights = train_edges(
                *(inputs, Y, tree),
                loss=loss, C=C, prune=self.params_.prune, seed=seed, progress=progress,
                blocks=blocks,
            )  # fmt: skip
            linear = lay_out(tree, weights)
        return Classifiers.of(tree, linear, networks)

    def seed_of(self, member: int) -> int:
        """Return the seed of a tree."""
        return int(self.params_.seed + SEED_STEP * member)

    def descent(self, member: int) -> dict[str, Any]:
        """Return the settings by which the classifiers of a tree are fitted, but the seed."""
        loss = self._loss_of(member)
        return {"loss": loss, "C": self.params_.C[loss != "logistic"], "prune": self.params_.prune}

    def _kind_of(self, member: int, n_labels: int) -> TreeKind:
        """Return how the labels of a tree are clustered."""
        if self.params_.tree == "mixed":
            linked = 2 if n_labels > MANY_LABELS else 1
            return "average" if member < linked else "kmeans"
        kind: TreeKind = self.params_.tree
        return kind

    def _loss_of(self, member: int) -> Loss:
        """Return the loss of a tree's classifiers."""
        logistic = self.params_.loss == "logistic" or (self.params_.loss == "both" and member == 0)
        return "logistic" if logistic else "squared_hinge"

    def _predict(self, X: Features, k: int) -> Ranking:
        labels, scores = self._rank(as_csr(X), k)
        return Ranking(labels, self.calibration_(labels, scores))

    def _rank(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labels and their path probabilities, averaged over the trees."""
        inputs = X if self.params_.inputs == "raw" else self.inputs_(X)
        wanted = k if self.params_.ensemble == 1 else max(k, CANDIDATES)
        found = [self.find(inputs, member, wanted)[:2] for member in range(self.params_.ensemble)]
        return averaged(found, k)

    def find(
        self, inputs: csr_matrix, member: int, k: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the k best labels of one tree, log path probabilities and nodes expanded.

        Parameters
        ----------
        inputs : csr_matrix
            What `inputs_` returns.
        member : int
            Number of the tree.
        k : int
            Number of labels per row.
        """
        hinge = self._loss_of(member) == "squared_hinge"
        # Codes have length 1 already; features are scaled in the search loop.
        unit = self.params_.inputs == "raw"
        search = Search(
            SEARCHES.index(self.params_.search),
            self.params_.beam,
            self.params_.threshold,
            hinge,
            unit,
        )
        return find_labels(inputs, self.classifiers_[member], search, k)

    def metadata(self) -> dict[str, Any]:
        return {
            "trees": [
                {"nodes": len(tree), "depth": int(tree.depth.max()), "leaves": len(tree.leaves)}
                for tree in self.trees_
            ]
        }

    def arrays_to_round(self) -> dict[str, np.ndarray]:
        return self.state()

    def state(self) -> dict[str, np.ndarray]:
        arrays = {"line": self.calibration_.state(), **self.inputs_.arrays()}
        if self.examples_ is not None:
            arrays |= self.examples_.state()
        fitted = zip(self.trees_, self.classifiers_, self.fitted_counts_, strict=True)
        for member, (tree, model, counts) in enumerate(fitted):
            weights = model.networks if self.params_.node_hidden else model.linear
            parts = {**tree.arrays(), **weights._asdict(), "fitted_counts": counts}
            arrays |= prefixed(f"{member}.", parts)
        return arrays

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:
        encoder, inputs = Inputs.schema(self.params_.inputs, arrays)
        found: Schema = [scalars("line", 2), *encoder, *examples_schema(arrays)]
        expect(f"{self.params_.ensemble - 1}.parent" in arrays, "a tree is missing")
        weights = network_schema if self.params_.node_hidden else edge_schema
        for member in range(self.params_.ensemble):
            prefix = f"{member}."
            nodes = f"{prefix}nodes"
            found += [
                *LabelTree.schema(prefix, nodes, f"{prefix}widest"),
                *weights(prefix, nodes, f"{prefix}widest", inputs),
                ints(f"{prefix}fitted_counts", nodes, required=False),
            ]
        return found

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.calibration_ = Calibration.restore(arrays["line"], PATH_EPS)
        self.inputs_ = Inputs.restore(self.params_.inputs, arrays)
        self.examples_ = Examples.restore(arrays)
        self.trees_, self.classifiers_, self.fitted_counts_ = [], [], []
        for member in range(self.params_.ensemble):
            parts = with_prefix(f"{member}.", arrays)
            tree = LabelTree.from_arrays(parts)
            linear, networks = NO_EDGE_WEIGHTS, NO_NETWORKS
            if self.params_.node_hidden:
                networks = Networks(*(parts[part] for part in Networks._fields))
                check_networks(networks, tree)
            else:
                linear = EdgeWeights(*(parts[part] for part in EdgeWeights._fields))
            self.trees_.append(tree)
            self.fitted_counts_.append(restored_counts(parts, len(tree)))
            self.classifiers_.append(Classifiers.of(tree, linear, networks))

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        per_example = shape.feature_nnz / max(1, shape.points)
        depth = 2 + int(np.log(max(2, shape.labels)) / np.log(params["fanout"]))
        # At most the features of a label's examples have weights; pruning leaves few of them.
        kept = int(shape.label_nnz * per_example)
        leaf_size = params["leaf_size"]
        # Each thread has the examples of one node: the root's and those of nodes near it.
        siblings = 2 * (8 * shape.feature_nnz + SIBLING_BYTES * shape.points)
        edges = 5 * min(CELLS_AT_A_TIME, shape.label_nnz * leaf_size)
        by_loss = {"squared_hinge": siblings, "logistic": edges}
        needs = {
            "training and held-out examples of length 1": 2 * shape.data_bytes
            + 16 * shape.feature_nnz,
            "label centroids": 8 * kept,
            "examples of each node": 16 * shape.label_nnz * depth,
            "training examples of each edge": by_loss.get(params["loss"], max(siblings, edges)),
            "weights": 14 * kept * params["ensemble"],
        }
        if params["keep_examples"]:
            needs["kept examples"] = shape.data_bytes
        if params["inputs"] == "raw":
            return needs
        code, width = params["layers"][-1], params["node_hidden"]
        needs["codes"] = 8 * shape.points * code
        # Encoder and decoder, each with Adam's two moments.
        needs["autoencoder"] = 24 * shape.features * params["layers"][0]
        if width:
            nodes = 1 + 2 * shape.labels // leaf_size
            needs["weights"] = 4 * params["ensemble"] * width * (nodes * code + shape.labels)
        return needs
