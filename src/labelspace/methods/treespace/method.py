"""TreeSpace: labels as a tree of spaces that grow with depth (after Pathak, IIT Kharagpur 2024).

Every level of the label tree has a space of its own; a child's vector is its parent's, projected,
plus a part of its own; an encoder puts an example into all spaces in one pass. A label is as likely
as the product, along the likeliest way from the root, of

    sigmoid(s <z(x), e_c> + b_c)        or, in a ball,  sigmoid(s (r - d(z(x), e_c)) + b_c)

Search opens the likeliest nodes first and scores their children alone. The votes of near training
examples stand beside it (`components/neighbour_blend.py`), and linear classifiers along the tree
(`components/linear_companion.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.arrays import joined_parts, with_prefix
from labelspace._core.checks import all_within, are_numbers, expect
from labelspace._core.sparse import as_csr, pack_csr, unpack_csr
from labelspace.components.holdout import parts_of
from labelspace.components.linear_companion import LISTED, TREE, Wide, wide_bytes
from labelspace.components.training_counts import batch_of
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.data.taxonomy import label_ancestors
from labelspace.errors import ParameterError
from labelspace.labels.propensity import inverse_propensities
from labelspace.methods.base import Method
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
    flag,
    integer,
    number,
)
from labelspace.methods.registry import method_class
from labelspace.methods.treespace.geometry import GEOMETRIES
from labelspace.methods.treespace.initial import centroids, feature_pace, log_odds
from labelspace.methods.treespace.nodes import Nodes
from labelspace.methods.treespace.objective import TreeObjective
from labelspace.methods.treespace.search import TreeBlend, TreeIndex, with_ancestors
from labelspace.methods.treespace.vectors import (
    LOW_RANK_NUMBERS,
    Layout,
    LevelEncoder,
    TreeVectors,
)
from labelspace.metrics.ranking import measure
from labelspace.nn.row_tables import OptimiserGroup, RowOptimiser
from labelspace.nn.trainer import TorchOptimiser, Trainer, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import listeners
from labelspace.runs.history import watch
from labelspace.search.voters import Voters, voter_bytes


class TreeSpace(Method):
    """Labels in a tree whose levels have their own spaces, found by cluster search."""

    name: ClassVar[str] = "treespace"
    summary: ClassVar[str] = "a tree of label spaces that grow with depth, searched from the root"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "dim": integer("dimension of the deepest space", low=1, high=4096),
        "top_dim": integer("dimension of the topmost space; equal to dim: constant", low=1),
        "spaces": integer("levels with a space of their own; deeper ones share the last", low=1),
        "width": integer("of the encoder that serves all spaces", low=1),
        "geometry": choice(
            "of each space: unit vectors, or points of a Poincare ball",
            *("euclidean", "hyperbolic"),
        ),
        "projections": choice(
            "from a parent's space to its children's: a matrix a node, one a level and a low-rank "
            "one a node, or one a level; auto: the first that is small enough",
            *("auto", "node", "low-rank", "shared"),
        ),
        "prediction": number("weight of the predictions on all levels", low=0.0),
        "level_weight": number(
            "weight of a level's prediction, as a multiple of the one above", low=0.01
        ),
        "consistency": number(
            "weight of the angle, in a ball the distance, from child to parent's projection",
            low=0.0,
        ),
        "regularisation": number("weight of the projections' and own parts' regularisers", low=0.0),
        "keep": KEEP,
        "rare": RARE,
        "scale": number(
            "where the trained scale of inner products, or of distances, begins", low=0.1
        ),
        "n_negatives": integer("siblings beyond which an example's negatives are sampled", low=1),
        "epochs": integer("passes over the training data at most", low=1),
        "batch_size": BATCH_SIZE,
        "lr": number("learning rate of Adam", low=0.0),
        "patience": PATIENCE,
        "validation": VALIDATION,
        "metric": METRIC,
        "neighbours": integer("training examples that vote; 0: none", low=0),
        "wide": flag("linear classifiers along the same tree stand beside its spaces"),
        "lean": number(
            "how far rare labels go before others that are all but as likely; none: as far as it "
            "costs next to nothing on the validation cut",
            low=0.0,
            none=True,
        ),
        "beam": integer("most nodes that search opens; 0: as many as exact search needs", low=0),
        "consistent": flag("a label never comes without its ancestors in the taxonomy"),
        "seed": SEED,
    }

    def __init__(
        self,
        *,
        dim: int = 512,
        top_dim: int = 128,
        spaces: int = 8,
        width: int = 512,
        geometry: str = "euclidean",
        projections: str = "auto",
        prediction: float = 1.0,
        level_weight: float = 1.0,
        consistency: float = 0.1,
        regularisation: float = 0.001,
        keep: float = 0.8,
        rare: float | None = None,
        scale: float = 10.0,
        n_negatives: int = 1000,
        epochs: int = 8,
        batch_size: int | None = None,
        lr: float = 0.004,
        patience: int = 2,
        validation: float | None = None,
        metric: str = "nDCG@5",
        neighbours: int = 10,
        wide: bool = True,
        lean: float | None = None,
        beam: int = 0,
        consistent: bool = False,
        seed: int = 0,
    ) -> None:
        self.dim = dim
        self.top_dim = top_dim
        self.spaces = spaces
        self.width = width
        self.geometry = geometry
        self.projections = projections
        self.prediction = prediction
        self.level_weight = level_weight
        self.consistency = consistency
        self.regularisation = regularisation
        self.keep = keep
        self.rare = rare
        self.scale = scale
        self.n_negatives = n_negatives
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.patience = patience
        self.validation = validation
        self.metric = metric
        self.neighbours = neighbours
        self.wide = wide
        self.lean = lean
        self.beam = beam
        self.consistent = consistent
        self.seed = seed

    def _fit(self, data: TrainingData) -> None:
        if self.prediction + self.consistency + self.regularisation == 0:
            raise ParameterError(
                "prediction, consistency and regularisation are all 0: nothing is left to train for"
            )
        X, Y, valid, _ = parts_of(data, self.validation, self.seed)
        self.n_labels_ = Y.shape[1]
        rng = np.random.default_rng([self.seed, X.shape[1]])
        self.nodes_ = Nodes.build(X, Y, data.taxonomy, self.seed)
        self.layout_ = Layout.of(self.nodes_, self.dim, self.top_dim, self.spaces)
        above = self.nodes_.on_nodes(Y)
        counts = np.bincount(above.indices, minlength=len(self.nodes_))
        geometry = GEOMETRIES[self.geometry]
        self.encoder_ = LevelEncoder.fresh(
            *(X.shape[1], self.width, self.layout_.dims, geometry, rng),
            row_lr_scale=feature_pace(self.rare, X, Y),
        )
        if self.geometry == "hyperbolic":  # where lengths count
            self.encoder_.stretch(X)
        self.vectors_ = TreeVectors.fresh(
            self.nodes_, self.layout_, self.projections, geometry, rng
        )
        self.vectors_.place(centroids(self.encoder_, X, self.layout_, above, rng))
        self.bias_ = torch.from_numpy(log_odds(self.nodes_, counts)).requires_grad_()
        self.scale_ = torch.full((len(self.layout_.dims),), self.scale, requires_grad=True)
        self._train(X, above, Y, valid, data)
        self.ancestors_ = label_ancestors(data.taxonomy, Y.shape[1])
        self._finish(X, Y, valid, data)

    def _train(
        self,
        X: csr_matrix,
        above: csr_matrix,
        Y: csr_matrix,
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> None:
        trainer = Trainer(
            epochs=self.epochs,
            batch_size=batch_of(self.batch_size, X.shape[0]),
            seed=self.seed,
            schedule="linear",
            patience=self.patience,
            callbacks=data.callbacks,
            identity=data.identity,
        )
        tensors = {
            **self.encoder_.tensors(),
            **self.vectors_.tensors(),
            "bias": self.bias_,
            "scale": self.scale_,
        }
        score = None if valid is None else lambda: self._score(*valid, Y)
        watch(data.callbacks, self._rank_by_tree, (X, Y), valid)
        learner = TrainingTask(tensors, TreeObjective(self, X, above), self._optimiser(), score)
        self.history_ = trainer.run(learner, X.shape[0])

    def _optimiser(self) -> OptimiserGroup:
        tables = {"encoder": self.encoder_.trunk.first, **self.vectors_.tables()}
        dense = [
            {"params": [self.scale_], "lr": 0.01},
            {"params": [self.bias_], "lr": self.lr},
            {"params": self.encoder_.heads, "lr": self.lr / 5},
        ]
        if self.vectors_.shared:
            dense.append({"params": list(self.vectors_.shared.values()), "lr": self.lr / 5})
        return OptimiserGroup(
            {
                "rows": RowOptimiser({name: (table, self.lr) for name, table in tables.items()}),
                "dense": TorchOptimiser(torch.optim.Adam(dense)),
            }
        )

    def _index(self) -> TreeIndex:
        return TreeIndex.build(
            *(self.nodes_, self.layout_, self.vectors_.final()),
            *(self.scale_.detach().numpy(), self.bias_.detach().numpy()),
            *(self.n_labels_, self.beam),
            self.vectors_.geometry,
        )

    def _finish(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> None:
        """All that is built on the trained vectors: index, voters, calibration."""
        held = None if valid is None else self.encoder_.encode(valid[0])
        voters = None
        if self.neighbours:
            near = None if held is None else held[0]
            voters = Voters.build(self.embed, X, Y, self.seed, near)
        self.blend_ = TreeBlend(self._index(), voters, self.neighbours)
        self.wide_ = None
        if valid is None or held is None:
            return
        cut, again = (*held, valid[1]), data.valid is None
        self.blend_.fit(*cut, lambda *best: measure(self.metric, Ranking(*best), cut[2], Y))
        self._lean(cut, Y)
        if self.wide:
            deep = Ranking(*self.blend_.rank(*held, min(LISTED, self.n_labels_)))
            parts = listeners(data.callbacks, "wide")
            self.wide_ = Wide.fit(
                method_class(TREE), (X, Y), valid, deep, data.taxonomy, self.seed, again, parts
            )
        if voters is not None and again:  # in the end, nobody is left out of the vote
            self.blend_.voters = voters.extended(self.embed, *valid)

    def _lean(self, cut: tuple[np.ndarray, np.ndarray, csr_matrix], Y: csr_matrix) -> None:
        rarity = np.log(inverse_propensities(Y))
        if self.lean is None:
            score = lambda *best: measure(self.metric, Ranking(*best), cut[2], Y)  # noqa: E731
            self.blend_.fit_lean(*cut, score, rarity)
        elif self.lean > 0:
            self.blend_.lean = (self.lean * rarity).astype(np.float32)
            self.blend_.calibrate(*cut)

    def _score(self, X: csr_matrix, Y: csr_matrix, Y_train: csr_matrix) -> float:
        return measure(self.metric, self._rank_by_tree(X, min(5, Y.shape[1])), Y, Y_train)

    def _rank_by_tree(self, X: csr_matrix, k: int) -> Ranking:
        """Rank by the spaces of the moment alone; scores are not calibrated."""
        return Ranking(*self._index().search(self.encoder_.encode(X)[1], k))

    def embed(self, X: Any) -> np.ndarray:
        """The examples' points before they go into the spaces of the levels, (n, width)."""
        return self.encoder_.trunk_points(as_csr(X))

    def _predict(self, X: Features, k: int) -> Ranking:
        X, seen = as_csr(X), self.encoder_.encode(as_csr(X))
        if self.wide_ is None:
            best = Ranking(*self.blend_.rank(*seen, k))
        else:
            deep = Ranking(*self.blend_.rank(*seen, min(max(k, LISTED), self.n_labels_)))
            best = self.wide_.rank(X, deep, k)
        if not self.consistent:
            return best
        above = self.ancestors_.indptr, self.ancestors_.indices
        return Ranking(*with_ancestors(best.labels, best.scores, *above))

    def metadata(self) -> dict[str, Any]:
        tree = {
            "nodes": len(self.nodes_) - 1,
            "depth": int(self.nodes_.depth.max()),
            "dimensions": list(self.layout_.dims),
        }
        metadata: dict[str, Any] = {"tree": tree}
        if self.blend_.voters is not None:
            share = float(self.blend_.numbers[2])
            metadata["votes"] = {"share": share, "examples": len(self.blend_.voters)}
        return metadata

    def state(self) -> dict[str, np.ndarray]:
        index, layout = self.blend_.index, self.layout_
        parts = {"nodes": self.nodes_.arrays()}
        if self.blend_.voters is not None:
            parts["voters"] = self.blend_.voters.state()
        if self.wide_ is not None:
            parts["wide"] = self.wide_.state()
        return {
            **self.encoder_.arrays(),
            "dims": np.array(layout.dims, np.int64),
            "space": layout.space,
            "row": layout.row,
            "vectors": index.flat,
            "bias": index.bias,
            "blend": self.blend_.numbers,
            **({"slope": index.slope} if len(index.slope) else {}),
            **({} if self.blend_.lean is None else {"lean": self.blend_.lean}),
            **pack_csr("ancestors", self.ancestors_),
            **joined_parts(parts),
        }

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.nodes_ = Nodes.from_arrays(with_prefix("nodes.", arrays), self.n_labels_)
        _check_layout(arrays, len(self.nodes_), self.n_features_in_, self.n_labels_)
        dims = tuple(int(d) for d in arrays["dims"])
        self.layout_ = Layout(dims, arrays["space"], arrays["row"])
        self.encoder_ = LevelEncoder.restore(arrays, len(dims), GEOMETRIES[self.geometry])
        self.ancestors_ = unpack_csr("ancestors", arrays, (self.n_labels_, self.n_labels_))
        slope = arrays.get("slope", np.empty(0, np.float32))
        index = TreeIndex.over(
            *(self.nodes_, self.layout_, arrays["vectors"], arrays["bias"], slope),
            *(self.n_labels_, self.beam),
        )
        kept = with_prefix("voters.", arrays)
        voters = Voters.restore(kept, self.n_labels_, self.width) if kept else None
        self.blend_ = TreeBlend(index, voters, self.neighbours, arrays["blend"])
        self.blend_.lean = arrays.get("lean")
        wide = with_prefix("wide.", arrays)
        sizes = self.n_features_in_, self.n_labels_
        self.wide_ = Wide.restore(method_class(TREE), wide, *sizes) if wide else None

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        batch = batch_of(params["batch_size"], shape.points)
        inner = shape.labels // 4 + 1
        numbers = 4 if params["geometry"] == "euclidean" else 12  # for a score and its gradient
        needs = {
            "the data, cut in two": shape.data_bytes,
            "the encoder, moments and the best so far": 16 * shape.features * params["width"],
            "label vectors, moments and the best so far": 20 * shape.labels * params["dim"],
            "projections": 16 * min(inner * 8 * params["dim"], LOW_RANK_NUMBERS),
            "examples in all spaces": 4 * shape.points * params["spaces"] * params["dim"],
            "scores of a batch": numbers * 4 * batch * 8 * params["n_negatives"],
        }
        if params["neighbours"]:
            needs["training examples that vote"] = voter_bytes(shape.points)
        if params["wide"]:
            needs["linear classifiers along the tree"] = wide_bytes(method_class(TREE), shape)
        return needs


def _check_layout(
    arrays: Mapping[str, np.ndarray], n_nodes: int, n_features: int, n_labels: int
) -> None:
    """Raise ModelFormatError unless spaces, points and heads fit the nodes."""
    dims, space, row = arrays["dims"], arrays["space"], arrays["row"]
    holds = (
        dims.ndim == 1
        and len(dims) > 0
        and all_within(dims, 1, 2**31)
        and space.shape == row.shape == (n_nodes,)
        and all_within(space, -1, len(dims))
        and bool((space[1:] >= 0).all())
        and all_within(row, 0, n_nodes)
    )
    expect(holds, "the spaces do not fit the nodes")
    first, slope = arrays["encoder.first"], arrays.get("slope", np.empty(0, np.float32))
    holds = (
        are_numbers(first, n_features, None)
        and all(
            are_numbers(arrays[f"head.{s}"], first.shape[1], int(dim)) for s, dim in enumerate(dims)
        )
        and are_numbers(arrays["vectors"], int(dims[space[1:]].sum()))
        and are_numbers(arrays["bias"], n_nodes)
        and (are_numbers(slope, n_nodes) or are_numbers(slope, 0))
        and are_numbers(arrays["blend"], 5)
        and ("lean" not in arrays or are_numbers(arrays["lean"], n_labels))
    )
    expect(holds, "the points do not fit the spaces")
