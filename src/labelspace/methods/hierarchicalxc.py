"""HierarchicalXC: a tree of classifiers over the labels (Srinivasan et al., section 4).

Labels are the leaves of a tree. Each edge has a linear classifier for "some label below the child
is right", trained on the examples that have one below the parent; children of a node are judged
apart, so that none, one or all may be right. A label's score is the product along its path:

    p(l | x) = product over the edges of l's path of P(child | parent, x)

The paper follows every child with a yes, which ranks nothing and did worse than chance. Ranked by
path probability, found best first or by beam search, it is a probabilistic label tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Features
from labelspace.labels.clustering import TREE_KINDS, build_tree
from labelspace.labels.tree import LabelTree
from labelspace.methods.base import Method, Shape, TrainingData, as_csr
from labelspace.methods.hierarchicalxc_inputs import INPUTS, Inputs
from labelspace.methods.hierarchicalxc_search import (
    Classifiers,
    Search,
    averaged,
    find_labels,
    lay_out,
)
from labelspace.methods.hierarchicalxc_training import CELLS_AT_A_TIME, train_edges
from labelspace.methods.parameters import SEED, Parameter, choice, integer, number
from labelspace.methods.ranking import Ranking
from labelspace.nn.coordinate import Loss

LOSSES = ("logistic", "squared_hinge", "both")
SEARCHES = ("best-first", "beam", "hard")
DEFAULT_C: Mapping[Loss, float] = {"logistic": 10.0, "squared_hinge": 1.0}
LEAF_SIZE, FLAT = 100, 200  # so few labels gain nothing from a tree
CANDIDATES = 50  # labels that each tree of several names


class HierarchicalXC(Method):
    """A classifier at every edge of a label tree; labels are ranked by the probability of paths."""

    name: ClassVar[str] = "hierarchicalxc"
    summary: ClassVar[str] = "linear classifiers along a label tree, ranked by path probability"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "tree": choice("how labels are put into a tree", *TREE_KINDS),
        "fanout": integer("parts into which a balanced split divides", low=2),
        "leaf_size": integer(
            "labels that are not divided further; none: 100, and up to 200 labels form no tree",
            low=2,
            none=True,
        ),
        "inputs": choice("what classifiers see: features, a dense code of them, or both", *INPUTS),
        "dim": integer("width of the code", low=1),
        "loss": choice("of the classifiers; both: trees take turns", *LOSSES),
        "C": number(
            "weight of the losses against large weights; none: logistic 10, squared hinge 1",
            low=1e-6,
            none=True,
        ),
        "prune": number("weights below it are dropped", low=0.0),
        "search": choice("for the best labels; hard is the paper's way", *SEARCHES),
        "beam": integer("nodes of a level that beam search opens", low=1),
        "threshold": number("probability at which hard search goes on", low=1e-6, high=1.0),
        "ensemble": integer("trees, each by a seed of its own, whose answers are averaged", low=1),
        "seed": SEED,
    }

    def __init__(
        self,
        *,
        tree: str = "kmeans",
        fanout: int = 16,
        leaf_size: int | None = None,
        inputs: str = "raw",
        dim: int = 256,
        loss: str = "both",
        C: float | None = None,
        prune: float = 0.1,
        search: str = "beam",
        beam: int = 10,
        threshold: float = 0.5,
        ensemble: int = 2,
        seed: int = 0,
    ) -> None:
        self.tree = tree
        self.fanout = fanout
        self.leaf_size = leaf_size
        self.inputs = inputs
        self.dim = dim
        self.loss = loss
        self.C = C
        self.prune = prune
        self.search = search
        self.beam = beam
        self.threshold = threshold
        self.ensemble = ensemble
        self.seed = seed

    def _fit(self, data: TrainingData) -> None:
        X, Y = as_csr(data.X), data.Y
        self.inputs_ = Inputs.fit(self.inputs, X, self.dim, self.seed)
        seen = self.inputs_(X)
        leaf_size = self.leaf_size or (FLAT if Y.shape[1] <= FLAT else LEAF_SIZE)
        self.trees_: list[LabelTree] = []
        self.classifiers_: list[Classifiers] = []
        for member in range(self.ensemble):
            seed = self.seed + 1_000_003 * member  # far apart: neighbouring seeds share no tree
            tree = build_tree(
                self.tree,  # type: ignore[arg-type]  # checked against the same names
                *(X, Y),
                fanout=self.fanout,
                leaf_size=leaf_size,
                seed=seed,
                taxonomy=data.taxonomy,
            )
            loss = self._loss_of(member)
            C = self.C or DEFAULT_C[loss]
            weights = train_edges(seen, Y, tree, loss=loss, C=C, prune=self.prune, seed=seed)
            self.trees_.append(tree)
            self.classifiers_.append(lay_out(tree, weights))

    def _loss_of(self, member: int) -> Loss:
        logistic = self.loss == "logistic" or (self.loss == "both" and member % 2 == 0)
        return "logistic" if logistic else "squared_hinge"

    def _predict(self, X: Features, k: int) -> Ranking:
        seen = self.inputs_(as_csr(X))
        wanted = k if self.ensemble == 1 else max(k, CANDIDATES)
        found = [self.find(seen, member, wanted)[:2] for member in range(self.ensemble)]
        labels, scores = averaged(found, k)
        return Ranking(labels, np.minimum(scores, 1.0).astype(np.float32))

    def find(
        self, seen: csr_matrix, member: int, k: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The best labels in one of the trees, for inputs: see `find_labels`."""
        hinge = self._loss_of(member) == "squared_hinge"
        search = Search(SEARCHES.index(self.search), self.beam, self.threshold, hinge)
        return find_labels(seen, self.classifiers_[member], search, k)

    def facts(self) -> dict[str, Any]:
        return {
            "trees": [
                {"nodes": len(tree), "depth": int(tree.depth.max()), "leaves": len(tree.leaves)}
                for tree in self.trees_
            ]
        }

    def state(self) -> dict[str, np.ndarray]:
        arrays: dict[str, np.ndarray] = {}
        if self.inputs_.directions is not None:
            arrays["directions"] = self.inputs_.directions
        for member, (tree, model) in enumerate(zip(self.trees_, self.classifiers_, strict=True)):
            parts = {**tree.arrays(), **model._asdict()}
            del parts["first_child"]  # follows from the tree
            arrays |= {f"{member}.{part}": array for part, array in parts.items()}
        return arrays

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.inputs_ = Inputs(self.inputs, arrays.get("directions"))
        self.trees_, self.classifiers_ = [], []
        for member in range(self.ensemble):
            prefix = f"{member}."
            parts = {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
            tree = LabelTree.from_arrays(parts)
            rest = {part: parts[part] for part in Classifiers._fields[2:]}
            self.trees_.append(tree)
            self.classifiers_.append(Classifiers(tree.first_child, tree.label, **rest))

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        per_example = shape.feature_nnz / max(1, shape.points)
        depth = 2 + int(np.log(max(2, shape.labels)) / np.log(params["fanout"]))
        # A label weighs at most the features of its examples; few stay above the threshold.
        kept = int(shape.label_nnz * per_example)
        return {
            "label centroids": 8 * kept,
            "who reaches which node": 16 * shape.label_nnz * depth,
            "examples of classifiers": 5
            * min(CELLS_AT_A_TIME, shape.label_nnz * (params["leaf_size"] or LEAF_SIZE)),
            "weights": 14 * kept * params["ensemble"],
        }
