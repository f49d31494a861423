"""HierarchicalXC: a tree of classifiers over the labels (Srinivasan et al., section 4).

Labels are the leaves of a tree. Each edge has a classifier for "some label below the child is
right", trained on the examples that have one below the parent; children of a node are judged apart,
so that none, one or all may be right. Classifiers are linear, or a node's children share a small
network. Labels are ranked by the product along their paths, averaged over trees:

    p(l | x) = product over the edges of l's path of P(child | parent, x)

and scored by the sigmoid of a line in its log odds, which makes it the frequency it stands for.

The paper follows every child with a yes, which ranks nothing and did worse than chance. Ranked by
path probability, found best first or by beam search, it is a probabilistic label tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import expect
from labelspace._core.sparse import as_csr
from labelspace.classifiers.dual_descent import Loss
from labelspace.classifiers.tree_edges import CELLS_AT_A_TIME, train_edges
from labelspace.classifiers.tree_networks import (
    NO_NETWORKS,
    Networks,
    check_networks,
    train_networks,
)
from labelspace.classifiers.tree_search import Classifiers, Search, averaged, find_labels
from labelspace.classifiers.tree_weights import (
    NO_EDGE_WEIGHTS,
    EdgeWeights,
    check_edge_weights,
    lay_out,
)
from labelspace.components.calibration import CALIBRATION_K, PATH_EPS, Calibration
from labelspace.components.holdout import HoldOut
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import ParameterError
from labelspace.labels.clustering import TREE_KINDS, TreeKind, build_tree
from labelspace.labels.tree import LabelTree
from labelspace.methods.base import Method
from labelspace.methods.hierarchicalxc.defaults import MANY_LABELS, resolve
from labelspace.methods.hierarchicalxc.inputs import INPUTS, Inputs, fit_encoder
from labelspace.methods.parameters import (
    AUTO,
    SEED,
    VALIDATION,
    Auto,
    choice,
    having,
    integer,
    layers,
    number,
)
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import Callback, kept_blocks, progress_reporter

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.runs.checkpoint_files import Blocks

LOSSES = ("logistic", "squared_hinge", "both")
SEARCHES = ("best-first", "beam", "hard")
CANDIDATES = 50  # labels that each tree of several names
# Examples held out by default, at most, and their largest share: a calibration is two numbers.
HELD_OUT, LARGEST_SHARE = 500, 0.1
MAX_HELD_OUT = 2000  # whatever share is given


class HierarchicalXC(Method):
    """A classifier at every edge of a label tree; labels are ranked by the probability of paths."""

    name: ClassVar[str] = "hierarchicalxc"
    has_label_trees: ClassVar[bool] = True
    summary: ClassVar[str] = "classifiers along a label tree, ranked by path probability"

    tree: str = choice(
        "How labels are clustered into a tree; mixed: the first tree by average link, the second "
        "too above 10,000 labels, others by balanced k-means.",
        "mixed",
        *TREE_KINDS,
        default="mixed",
        group="usual",
    )
    fanout: int = integer("Number of parts of a balanced split.", default=16, group="usual", low=2)
    leaf_size: int | Auto = integer(
        "Number of labels that are not split further.",
        default=AUTO,
        group="usual",
        low=2,
        auto="100; up to 200 labels form no tree, which is one-vs-all",
    )
    inputs: str = choice(
        "Inputs of the classifiers: the features, an autoencoder's code of them, or both.",
        *INPUTS,
        default="raw",
        group="paper",
    )
    layers: tuple[int, ...] = layers(
        "Widths of the encoder that makes the code; the last is the code's.",
        default=(256,),
        group="paper",
    )
    epochs: int = integer(
        "Number of passes that train an autoencoder of several layers.",
        default=10,
        group="paper",
        low=1,
    )
    node_hidden: int | None = integer(
        "Width of the hidden layer of a node's network on the code.",
        default=None,
        group="paper",
        low=1,
        none="classifiers are linear",
    )
    loss: str = choice(
        "Loss of the classifiers; both: logistic in the first tree, squared hinge in others.",
        *LOSSES,
        default="both",
    )
    C: float | Auto = number(
        "Weight of the losses against the size of the weights.",
        default=AUTO,
        group="usual",
        low=1e-6,
        auto="6 for the logistic loss, 0.5 for the squared hinge, twice that above 10,000 labels",
    )
    prune: float = number(
        "Weights below this absolute value are set to zero.", default=0.1, group="usual", low=0.0
    )
    search: str = choice(
        "Search for the best labels; hard follows every edge above the threshold, as in the paper.",
        *SEARCHES,
        default="beam",
        group="paper",
    )
    beam: int = integer(
        "Number of nodes per level that beam search opens.", default=10, group="usual", low=1
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
    seed: int = SEED

    def check_parameters(self) -> None:
        super().check_parameters()
        if not self.layers or min(self.layers[:-1], default=2) < 2:
            raise ParameterError(
                f"{self.name}.layers={self.layers}: expected the width of a code, and before it "
                "hidden layers of at least 2"
            )
        if self.node_hidden and self.inputs != "code":
            raise ParameterError(
                f"{self.name}.node_hidden={self.node_hidden}: networks classify the code alone; "
                f"set inputs=code, not {self.inputs}"
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
        self._learn(X, Y, data.taxonomy, data.callbacks, (data.identity, "part"))
        self.calibration_ = Calibration(eps=PATH_EPS)
        if hold_out.valid is not None:
            held_X, held_Y = hold_out.valid
            best = self._rank(held_X, min(CALIBRATION_K, Y.shape[1]))
            self.calibration_ = Calibration.fit(*best, held_Y, PATH_EPS)
        if hold_out.refits:
            self._learn(
                as_csr(data.X), data.Y, data.taxonomy, data.callbacks, (data.identity, "all")
            )

    def refit(self, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None) -> bool:
        self._learn(X, Y, taxonomy)
        return True

    def _inputs(self, X: csr_matrix, data: TrainingData) -> Inputs:
        if self.params_.inputs == "raw":
            return Inputs(self.params_.inputs, None)
        encoder, history = fit_encoder(
            X, self.params_.layers, self.params_.epochs, self.params_.seed, data
        )
        if history:
            self.history_ = history
        return Inputs(self.params_.inputs, encoder)

    def _learn(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        taxonomy: Taxonomy | None,
        callbacks: Sequence[Callback] = (),
        run: tuple[str, str] = ("", ""),
    ) -> None:
        """All trees and their classifiers; run: its identity and part, for checkpoints."""
        inputs = self.inputs_(X)
        self.trees_: list[LabelTree] = []
        self.classifiers_: list[Classifiers] = []
        for member in range(self.params_.ensemble):
            seed = (
                self.params_.seed + 1_000_003 * member
            )  # far apart: neighbouring seeds share no tree
            tree = build_tree(
                self._kind_of(member, Y.shape[1]),
                *(X, Y),
                fanout=self.params_.fanout,
                leaf_size=self.params_.leaf_size,
                seed=seed,
                taxonomy=taxonomy,
            )
            self.trees_.append(tree)
            tell = progress_reporter(
                callbacks, f"tree {member + 1} of {self.params_.ensemble}", len(tree) - 1
            )
            loss = self._loss_of(member)

            def blocks(number: int, member: int = member) -> Blocks | None:
                name = f"{run[1]}-tree-{member + 1}-{number + 1}"
                return kept_blocks(callbacks, name, run[0])

            self.classifiers_.append(self._classifiers(inputs, Y, tree, loss, seed, tell, blocks))

    def _classifiers(
        self,
        inputs: csr_matrix,
        Y: csr_matrix,
        tree: LabelTree,
        loss: Loss,
        seed: int,
        tell: Callable[[int], None],
        blocks: Callable[[int], Blocks | None],
    ) -> Classifiers:
        C, width = self.params_.C[loss != "logistic"], self.params_.node_hidden
        linear, networks = NO_EDGE_WEIGHTS, NO_NETWORKS
        if width:
            networks = train_networks(inputs, Y, tree, width=width, loss=loss, C=C, seed=seed)
        else:
            weights = train_edges(
                *(inputs, Y, tree),
                loss=loss, C=C, prune=self.params_.prune, seed=seed, progress=tell, blocks=blocks,
            )  # fmt: skip
            linear = lay_out(tree, weights)
        return Classifiers.of(tree, linear, networks)

    def _kind_of(self, member: int, n_labels: int) -> TreeKind:
        if self.params_.tree == "mixed":
            linked = 2 if n_labels > MANY_LABELS else 1
            return "average" if member < linked else "kmeans"
        kind: TreeKind = self.params_.tree
        return kind

    def _loss_of(self, member: int) -> Loss:
        logistic = self.params_.loss == "logistic" or (self.params_.loss == "both" and member == 0)
        return "logistic" if logistic else "squared_hinge"

    def _predict(self, X: Features, k: int) -> Ranking:
        labels, scores = self._rank(as_csr(X), k)
        return Ranking(labels, self.calibration_(labels, scores))

    def _rank(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels and their path probabilities, averaged over the trees."""
        inputs = X if self.params_.inputs == "raw" else self.inputs_(X)
        wanted = k if self.params_.ensemble == 1 else max(k, CANDIDATES)
        found = [self.find(inputs, member, wanted)[:2] for member in range(self.params_.ensemble)]
        return averaged(found, k)

    def find(
        self, inputs: csr_matrix, member: int, k: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The best labels in one of the trees, for inputs: see `find_labels`."""
        hinge = self._loss_of(member) == "squared_hinge"
        # Both parts of two are of length 1 already; raw features alone become so on the way.
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

    def state(self) -> dict[str, np.ndarray]:
        arrays = {"line": self.calibration_.state(), **self.inputs_.arrays()}
        for member, (tree, model) in enumerate(zip(self.trees_, self.classifiers_, strict=True)):
            can_rerank = model.networks if self.params_.node_hidden else model.linear
            parts = {**tree.arrays(), **can_rerank._asdict()}
            arrays |= prefixed(f"{member}.", parts)
        return arrays

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.calibration_ = Calibration.restore(arrays["line"], PATH_EPS)
        self.inputs_ = Inputs.restore(self.params_.inputs, arrays, self.n_features_in_)
        width = self.inputs_.width(self.n_features_in_)
        self.trees_, self.classifiers_ = [], []
        for member in range(self.params_.ensemble):
            parts = with_prefix(f"{member}.", arrays)
            tree = LabelTree.from_arrays(parts)
            expect(tree.n_labels == self.n_labels_, "a tree has another number of labels")
            linear, networks = NO_EDGE_WEIGHTS, NO_NETWORKS
            if self.params_.node_hidden:
                networks = Networks(*(parts[part] for part in Networks._fields))
                check_networks(networks, tree, width)
            else:
                linear = EdgeWeights(*(parts[part] for part in EdgeWeights._fields))
                check_edge_weights(linear, tree, width)
            self.trees_.append(tree)
            self.classifiers_.append(Classifiers.of(tree, linear, networks))

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        per_example = shape.feature_nnz / max(1, shape.points)
        depth = 2 + int(np.log(max(2, shape.labels)) / np.log(params["fanout"]))
        # A label weighs at most the features of its examples; few stay above the threshold.
        kept = int(shape.label_nnz * per_example)
        leaf_size = params["leaf_size"]
        needs = {
            "examples, cut in two and of length 1": 2 * shape.data_bytes + 16 * shape.feature_nnz,
            "label centroids": 8 * kept,
            "who reaches which node": 16 * shape.label_nnz * depth,
            "examples of classifiers": 5 * min(CELLS_AT_A_TIME, shape.label_nnz * leaf_size),
            "weights": 14 * kept * params["ensemble"],
        }
        if params["inputs"] == "raw":
            return needs
        code, width = params["layers"][-1], params["node_hidden"]
        needs["codes"] = 8 * shape.points * code
        # Encoder and decoder, each with two moments.
        needs["autoencoder"] = 24 * shape.features * params["layers"][0]
        if width:
            nodes = 1 + 2 * shape.labels // leaf_size
            needs["weights"] = 4 * params["ensemble"] * width * (nodes * code + shape.labels)
        return needs
