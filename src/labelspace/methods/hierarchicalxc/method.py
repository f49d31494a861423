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

from labelspace._core.arrays import with_prefix
from labelspace._core.checks import are_numbers, expect
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
from labelspace.classifiers.tree_weights import NO_LINEAR, Linear, check_linear, lay_out
from labelspace.components.calibration import AS_IT_IS, fit_line, log_odds, probabilities_of_shares
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import ParameterError
from labelspace.labels.clustering import TREE_KINDS, TreeKind, build_tree
from labelspace.labels.tree import LabelTree
from labelspace.methods.base import Method
from labelspace.methods.hierarchicalxc.calibration import LOOKED_AT, SURE, cut
from labelspace.methods.hierarchicalxc.inputs import INPUTS, Inputs, fit_encoder
from labelspace.methods.parameters import SEED, Parameter, choice, integer, layers, number
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import Callback, kept_blocks, teller

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.runs.checkpoint_files import Blocks

LOSSES = ("logistic", "squared_hinge", "both")
SEARCHES = ("best-first", "beam", "hard")
USUAL_C: Mapping[Loss, float] = {"logistic": 6.0, "squared_hinge": 0.5}
MANY_LABELS = 10_000  # above, a label has few examples, and losses weigh twice that
LEAF_SIZE, FLAT = 100, 200  # so few labels gain nothing from a tree
CANDIDATES = 50  # labels that each tree of several names
FEW_EXAMPLES = 20_000  # up to here it is trained again on all, those held out included


class HierarchicalXC(Method):
    """A classifier at every edge of a label tree; labels are ranked by the probability of paths."""

    name: ClassVar[str] = "hierarchicalxc"
    has_label_trees: ClassVar[bool] = True
    summary: ClassVar[str] = "classifiers along a label tree, ranked by path probability"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "tree": choice(
            "how labels are put into a tree; mixed: the first by average link, the second too for "
            "more than 10,000 labels, others by kmeans",
            *("mixed", *TREE_KINDS),
        ),
        "fanout": integer("parts into which a balanced split divides", low=2),
        "leaf_size": integer(
            "labels that are not divided further; none: 100, and up to 200 labels form no tree",
            low=2,
            none=True,
        ),
        "inputs": choice("what classifiers see: features, a dense code of them, or both", *INPUTS),
        "layers": layers("widths of the encoder that makes the code, the code last"),
        "epochs": integer("passes that train an autoencoder of several layers", low=1),
        "node_hidden": integer(
            "width of the hidden layer of networks that judge the code, one a node; 0: linear",
            low=0,
        ),
        "loss": choice(
            "of the classifiers; both: logistic in the first tree, squared hinge in others", *LOSSES
        ),
        "C": number(
            "weight of the losses against large weights; none: logistic 6, squared hinge 0.5, and "
            "twice that for more than 10,000 labels",
            low=1e-6,
            none=True,
        ),
        "prune": number("weights of linear classifiers below it are dropped", low=0.0),
        "search": choice("for the best labels; hard is the paper's way", *SEARCHES),
        "beam": integer("nodes of a level that beam search opens", low=1),
        "threshold": number("probability at which hard search goes on", low=1e-6, high=1.0),
        "ensemble": integer("trees, each by a seed of its own, whose answers are averaged", low=1),
        "validation": number(
            "share held out to calibrate scores, 2,000 examples at most; 0: scores are path "
            "probabilities, none: 500 examples, a tenth of few",
            low=0.0,
            high=0.5,
            none=True,
        ),
        "seed": SEED,
    }

    def __init__(
        self,
        *,
        tree: str = "mixed",
        fanout: int = 16,
        leaf_size: int | None = None,
        inputs: str = "raw",
        layers: tuple[int, ...] = (256,),
        epochs: int = 10,
        node_hidden: int = 0,
        loss: str = "both",
        C: float | None = None,
        prune: float = 0.1,
        search: str = "beam",
        beam: int = 10,
        threshold: float = 0.5,
        ensemble: int = 3,
        validation: float | None = None,
        seed: int = 0,
    ) -> None:
        self.tree = tree
        self.fanout = fanout
        self.leaf_size = leaf_size
        self.inputs = inputs
        self.layers = layers
        self.epochs = epochs
        self.node_hidden = node_hidden
        self.loss = loss
        self.C = C
        self.prune = prune
        self.search = search
        self.beam = beam
        self.threshold = threshold
        self.ensemble = ensemble
        self.validation = validation
        self.seed = seed

    def check_parameters(self) -> None:
        super().check_parameters()
        if not self.layers or min(self.layers[:-1], default=2) < 2:
            raise ParameterError(
                f"{self.name}.layers={self.layers}: expected the width of a code, and before it "
                "hidden layers of at least 2"
            )
        if self.node_hidden and self.inputs != "code":
            raise ParameterError(
                f"{self.name}.node_hidden={self.node_hidden}: networks judge the code alone; "
                f"set inputs=code, not {self.inputs}"
            )

    def _fit(self, data: TrainingData) -> None:
        X, Y = as_csr(data.X), data.Y
        rows, held = cut(X.shape[0], 0.0 if data.valid else self.validation, self.seed)
        valid_X, valid_Y = data.valid or (X[held], Y[held])
        self.inputs_ = self._inputs(X[rows], data)
        self._learn(X[rows], Y[rows], data.taxonomy, data.callbacks, (data.identity, "part"))
        self.line_ = AS_IT_IS
        if valid_Y.nnz:
            labels, scores = self._rank(as_csr(valid_X), min(LOOKED_AT, Y.shape[1]))
            self.line_ = fit_line(labels, log_odds(scores, SURE), valid_Y)
        if len(held) and X.shape[0] <= FEW_EXAMPLES:
            self._learn(X, Y, data.taxonomy, data.callbacks, (data.identity, "all"))

    def refit(self, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None) -> bool:
        self._learn(X, Y, taxonomy)
        return True

    def _inputs(self, X: csr_matrix, data: TrainingData) -> Inputs:
        if self.inputs == "raw":
            return Inputs(self.inputs, None)
        encoder, history = fit_encoder(X, self.layers, self.epochs, self.seed, data)
        if history:
            self.history_ = history
        return Inputs(self.inputs, encoder)

    def _learn(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        taxonomy: Taxonomy | None,
        callbacks: Sequence[Callback] = (),
        run: tuple[str, str] = ("", ""),
    ) -> None:
        """All trees and their classifiers; run: its identity and part, for checkpoints."""
        seen = self.inputs_(X)
        leaf_size = self.leaf_size or (FLAT if Y.shape[1] <= FLAT else LEAF_SIZE)
        self.trees_: list[LabelTree] = []
        self.classifiers_: list[Classifiers] = []
        for member in range(self.ensemble):
            seed = self.seed + 1_000_003 * member  # far apart: neighbouring seeds share no tree
            tree = build_tree(
                self._kind_of(member, Y.shape[1]),
                *(X, Y),
                fanout=self.fanout,
                leaf_size=leaf_size,
                seed=seed,
                taxonomy=taxonomy,
            )
            self.trees_.append(tree)
            tell = teller(callbacks, f"tree {member + 1} of {self.ensemble}", len(tree) - 1)
            loss = self._loss_of(member)

            def blocks(number: int, member: int = member) -> Blocks | None:
                name = f"{run[1]}-tree-{member + 1}-{number + 1}"
                return kept_blocks(callbacks, name, run[0])

            self.classifiers_.append(self._classifiers(seen, Y, tree, loss, seed, tell, blocks))

    def _classifiers(
        self,
        seen: csr_matrix,
        Y: csr_matrix,
        tree: LabelTree,
        loss: Loss,
        seed: int,
        tell: Callable[[int], None],
        blocks: Callable[[int], Blocks | None],
    ) -> Classifiers:
        C, width = self.C or usual_C(loss, Y.shape[1]), self.node_hidden
        linear, networks = NO_LINEAR, NO_NETWORKS
        if width:
            networks = train_networks(seen, Y, tree, width=width, loss=loss, C=C, seed=seed)
        else:
            weights = train_edges(
                *(seen, Y, tree),
                loss=loss, C=C, prune=self.prune, seed=seed, progress=tell, blocks=blocks,
            )  # fmt: skip
            linear = lay_out(tree, weights)
        return Classifiers.of(tree, linear, networks)

    def _kind_of(self, member: int, n_labels: int) -> TreeKind:
        if self.tree == "mixed":
            linked = 2 if n_labels > MANY_LABELS else 1
            return "average" if member < linked else "kmeans"
        return self.tree  # type: ignore[return-value]  # checked against the same names

    def _loss_of(self, member: int) -> Loss:
        logistic = self.loss == "logistic" or (self.loss == "both" and member == 0)
        return "logistic" if logistic else "squared_hinge"

    def _predict(self, X: Features, k: int) -> Ranking:
        labels, scores = self._rank(as_csr(X), k)
        return Ranking(labels, probabilities_of_shares(labels, scores, self.line_, SURE))

    def _rank(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels and their path probabilities, averaged over the trees."""
        seen = X if self.inputs == "raw" else self.inputs_(X)
        wanted = k if self.ensemble == 1 else max(k, CANDIDATES)
        found = [self.find(seen, member, wanted)[:2] for member in range(self.ensemble)]
        return averaged(found, k)

    def find(
        self, seen: csr_matrix, member: int, k: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The best labels in one of the trees, for inputs: see `find_labels`."""
        hinge = self._loss_of(member) == "squared_hinge"
        # Both parts of two are of length 1 already; raw features alone become so on the way.
        unit = self.inputs == "raw"
        search = Search(SEARCHES.index(self.search), self.beam, self.threshold, hinge, unit)
        return find_labels(seen, self.classifiers_[member], search, k)

    def metadata(self) -> dict[str, Any]:
        return {
            "trees": [
                {"nodes": len(tree), "depth": int(tree.depth.max()), "leaves": len(tree.leaves)}
                for tree in self.trees_
            ]
        }

    def state(self) -> dict[str, np.ndarray]:
        arrays = {"line": self.line_, **self.inputs_.arrays()}
        for member, (tree, model) in enumerate(zip(self.trees_, self.classifiers_, strict=True)):
            can_rerank = model.networks if self.node_hidden else model.linear
            parts = {**tree.arrays(), **can_rerank._asdict()}
            arrays |= {f"{member}.{part}": array for part, array in parts.items()}
        return arrays

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.line_ = arrays["line"]
        expect(are_numbers(self.line_, 2), "the calibration is not two numbers")
        self.inputs_ = Inputs.restore(self.inputs, arrays, self.n_features_in_)
        width = self.inputs_.width(self.n_features_in_)
        self.trees_, self.classifiers_ = [], []
        for member in range(self.ensemble):
            parts = with_prefix(f"{member}.", arrays)
            tree = LabelTree.from_arrays(parts)
            expect(tree.n_labels == self.n_labels_, "a tree has another number of labels")
            linear, networks = NO_LINEAR, NO_NETWORKS
            if self.node_hidden:
                networks = Networks(*(parts[part] for part in Networks._fields))
                check_networks(networks, tree, width)
            else:
                linear = Linear(*(parts[part] for part in Linear._fields))
                check_linear(linear, tree, width)
            self.trees_.append(tree)
            self.classifiers_.append(Classifiers.of(tree, linear, networks))

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        per_example = shape.feature_nnz / max(1, shape.points)
        depth = 2 + int(np.log(max(2, shape.labels)) / np.log(params["fanout"]))
        # A label weighs at most the features of its examples; few stay above the threshold.
        kept = int(shape.label_nnz * per_example)
        leaf_size = params["leaf_size"] or LEAF_SIZE
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


def usual_C(loss: Loss, n_labels: int) -> float:
    """From validation cuts: docs/methods/hierarchicalxc.md."""
    return USUAL_C[loss] * (2.0 if n_labels > MANY_LABELS else 1.0)
