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
from labelspace.components.holdout import HoldOut
from labelspace.components.linear_companion import (
    CANDIDATES,
    TREE_METHOD,
    LinearCompanion,
    companion_bytes,
)
from labelspace.components.neighbour_blend import BlendParameters
from labelspace.components.training_counts import TrainingCounts
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.data.taxonomy import label_ancestors
from labelspace.errors import ParameterError
from labelspace.labels.propensity import LabelCounts, inverse_propensities
from labelspace.methods.base import Method
from labelspace.methods.parameters import (
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
    integer,
    number,
)
from labelspace.methods.registry import method_class
from labelspace.methods.treespace.defaults import resolve
from labelspace.methods.treespace.geometry import GEOMETRIES
from labelspace.methods.treespace.initial import centroids, log_odds
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
from labelspace.nn.optimisers import OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.trainer import Trainer, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import listeners
from labelspace.runs.history import watch
from labelspace.search.neighbours.compressed import CompressedExamples, compressed_bytes


class TreeSpace(Method):
    """Labels in a tree whose levels have their own spaces, found by cluster search."""

    name: ClassVar[str] = "treespace"
    summary: ClassVar[str] = "a tree of label spaces that grow with depth, searched from the root"

    dim: int = integer(
        "Dimension of the deepest space.", default=512, group="usual", low=1, high=4096
    )
    top_dim: int = integer(
        "Dimension of the topmost space; equal to `dim`, all spaces are of one dimension.",
        default=128,
        group="paper",
        low=1,
    )
    spaces: int = integer(
        "Number of levels with a space of their own; deeper levels share the last.",
        default=8,
        group="paper",
        low=1,
    )
    width: int = integer(
        "Width of the encoder that all spaces share.", default=512, group="usual", low=1
    )
    geometry: str = choice(
        "Geometry of each space: unit vectors, or points of a Poincare ball.",
        "euclidean",
        "hyperbolic",
        default="euclidean",
        group="paper",
    )
    projections: str = choice(
        "Projection from a parent's space to its children's: a matrix per node, one per level and "
        "a low-rank one per node, or one per level.",
        "node",
        "low-rank",
        "shared",
        default=AUTO,
        group="paper",
        auto="the first of these that is small enough for the tree",
        tuned=True,
    )
    prediction: float = number(
        "Weight of the prediction loss of all levels.", default=1.0, group="paper", low=0.0
    )
    level_weight: float = number(
        "Weight of a level's prediction loss, as a multiple of the level above.",
        default=1.0,
        group="paper",
        low=0.01,
    )
    consistency: float = number(
        "Weight of the angle, in a ball the distance, between a child and its parent's projection.",
        default=0.1,
        group="paper",
        low=0.0,
    )
    regularisation: float = number(
        "Weight of the regularisers of projections and of the nodes' own parts.",
        default=0.001,
        group="paper",
        low=0.0,
    )
    keep: float = KEEP
    feature_damping: float | Auto | None = FEATURE_DAMPING
    scale: float = number(
        "Initial value of the trained scale of inner products or distances.", default=10.0, low=0.1
    )
    n_negatives: int = integer(
        "Number of siblings above which the negatives of an example are sampled.",
        default=1000,
        low=1,
    )
    epochs: int = integer(
        "Maximum number of passes over the training data.", default=8, group="usual", low=1
    )
    batch_size: int | Auto = BATCH_SIZE
    lr: float = number("Learning rate of Adam.", default=0.004, group="usual", low=0.0)
    patience: int = PATIENCE
    validation: float | Auto = VALIDATION
    metric: str = METRIC
    neighbours: int = integer(
        "Number of nearest training examples that vote beside the spaces' scores; 0 for none.",
        default=10,
        group="usual",
        low=0,
    )
    linear_tree: bool = flag(
        "Combine the spaces with linear classifiers along the same tree.",
        default=True,
        group="usual",
    )
    tail_bias: float | Auto = number(
        "How far rare labels are ranked above others that are nearly as likely.",
        default=AUTO,
        low=0.0,
        auto="as far as it costs next to nothing on held-out examples",
        tuned=True,
    )
    beam: int | None = integer(
        "Maximum number of nodes that search opens.",
        default=None,
        low=1,
        none="as many as exact search needs",
    )
    consistent: bool = flag(
        "Rank a label only together with its ancestors in the taxonomy.",
        default=False,
        group="usual",
    )
    seed: int = SEED

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        return resolve(params, shape)

    def _fit(self, data: TrainingData) -> None:
        if self.params_.prediction + self.params_.consistency + self.params_.regularisation == 0:
            raise ParameterError(
                "prediction, consistency and regularisation are all 0: nothing is left to train for"
            )
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed)
        X, Y, valid = hold_out.X, hold_out.Y, hold_out.valid
        self.n_labels_ = Y.shape[1]
        rng = np.random.default_rng([self.params_.seed, X.shape[1]])
        self.nodes_ = Nodes.build(X, Y, data.taxonomy, self.params_.seed)
        self.layout_ = Layout.of(
            self.nodes_, self.params_.dim, self.params_.top_dim, self.params_.spaces
        )
        above = self.nodes_.on_nodes(Y)
        counts = np.bincount(above.indices, minlength=len(self.nodes_))
        geometry = GEOMETRIES[self.params_.geometry]
        self.encoder_ = LevelEncoder.fresh(
            *(X.shape[1], self.params_.width, self.layout_.dims, geometry, rng),
            row_lr_scale=TrainingCounts.of(X, Y).row_lr_scale(self.params_.feature_damping),
        )
        if self.params_.geometry == "hyperbolic":  # where lengths count
            self.encoder_.stretch(X)
        self.vectors_ = TreeVectors.fresh(
            self.nodes_, self.layout_, self.params_.projections, geometry, rng
        )
        self.vectors_.place(centroids(self.encoder_, X, self.layout_, above, rng))
        self.bias_ = torch.from_numpy(log_odds(self.nodes_, counts)).requires_grad_()
        self.scale_ = torch.full((len(self.layout_.dims),), self.params_.scale, requires_grad=True)
        self._train(X, above, Y, valid, data)
        self.ancestors_ = label_ancestors(data.taxonomy, Y.shape[1])
        self._finish(X, Y, valid, data, returns=len(hold_out.held_rows) > 0)

    def _train(
        self,
        X: csr_matrix,
        above: csr_matrix,
        Y: csr_matrix,
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> None:
        trainer = Trainer(
            epochs=self.params_.epochs,
            batch_size=self.params_.batch_size,
            seed=self.params_.seed,
            schedule="linear",
            patience=self.params_.patience,
            callbacks=data.callbacks,
            identity=data.identity,
        )
        tensors = {
            **self.encoder_.tensors(),
            **self.vectors_.tensors(),
            "bias": self.bias_,
            "scale": self.scale_,
        }
        counts = LabelCounts.of(Y)
        score = None if valid is None else lambda: self._score(*valid, counts)
        watch(data.callbacks, self._rank_by_tree, (X, Y), valid)
        learner = TrainingTask(tensors, TreeObjective(self, X, above), self._optimiser(), score)
        self.history_ = trainer.run(learner, X.shape[0])

    def _optimiser(self) -> OptimiserGroup:
        tables = {"encoder": self.encoder_.trunk.input_layer, **self.vectors_.tables()}
        dense = [
            {"params": [self.scale_], "lr": 0.01},
            {"params": [self.bias_], "lr": self.params_.lr},
            {"params": self.encoder_.heads, "lr": self.params_.lr / 5},
        ]
        if self.vectors_.shared:
            dense.append({"params": list(self.vectors_.shared.values()), "lr": self.params_.lr / 5})
        return OptimiserGroup(
            {
                "rows": RowOptimiser(
                    {name: (table, self.params_.lr) for name, table in tables.items()}
                ),
                "dense": TorchOptimiser(torch.optim.Adam(dense)),
            }
        )

    def _index(self) -> TreeIndex:
        return TreeIndex.build(
            *(self.nodes_, self.layout_, self.vectors_.final()),
            *(self.scale_.detach().numpy(), self.bias_.detach().numpy()),
            *(self.n_labels_, self.params_.beam or 0),
            self.vectors_.geometry,
        )

    def _finish(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
        returns: bool,
    ) -> None:
        """Build index, voters, calibration and companion on the trained vectors.

        With `returns` the hold-out is part of the training data, and votes in the end.
        """
        held = None if valid is None else self.encoder_.encode(valid[0])
        voters = None
        if self.params_.neighbours:
            near = None if held is None else held[0]
            voters = CompressedExamples.build(self.embed, X, Y, self.params_.seed, near)
        self.blend_ = TreeBlend(self._index(), voters, self.params_.neighbours)
        self.companion_: LinearCompanion | None = None
        if valid is None or held is None:
            return
        cut, counts = (*held, valid[1]), LabelCounts.of(Y)

        def score(*best: np.ndarray) -> float:
            return measure(self.params_.metric, Ranking(*best), cut[2], counts)

        self.blend_.fit(*cut, score)
        rarity = np.log(inverse_propensities(counts.counts, counts.n_points))
        if self.params_.tail_bias == AUTO:
            self.blend_.fit_lean(*cut, score, rarity)
        elif self.params_.tail_bias > 0:
            self.blend_.lean = (self.params_.tail_bias * rarity).astype(np.float32)
            self.blend_.recalibrate(*cut)
        if self.params_.linear_tree:
            neural = Ranking(*self.blend_.rank(*held, min(CANDIDATES, self.n_labels_)))
            self.companion_ = LinearCompanion.fit(
                method_class(TREE_METHOD),
                (X, Y),
                valid,
                neural,
                data.taxonomy,
                self.params_.seed,
                refit=returns,
                callbacks=listeners(data.callbacks, "linear_tree"),
            )
        if returns:
            self.blend_.add_examples(self.embed, *valid)

    def _score(self, X: csr_matrix, Y: csr_matrix, counts: LabelCounts) -> float:
        return measure(self.params_.metric, self._rank_by_tree(X, min(5, Y.shape[1])), Y, counts)

    def _rank_by_tree(self, X: csr_matrix, k: int) -> Ranking:
        """Rank by the current spaces alone; scores are not calibrated."""
        return Ranking(*self._index().search(self.encoder_.encode(X)[1], k))

    def embed(self, X: Any) -> np.ndarray:
        """The examples' points before they go into the spaces of the levels, (n, width)."""
        return self.encoder_.trunk_points(as_csr(X))

    def _predict(self, X: Features, k: int) -> Ranking:
        X, seen = as_csr(X), self.encoder_.encode(as_csr(X))
        if self.companion_ is None:
            best = Ranking(*self.blend_.rank(*seen, k))
        else:
            neural = Ranking(*self.blend_.rank(*seen, min(max(k, CANDIDATES), self.n_labels_)))
            best = self.companion_.rank(X, neural, k)
        if not self.params_.consistent:
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
            share = self.blend_.parameters.neighbour_share
            metadata["votes"] = {"share": share, "examples": len(self.blend_.voters)}
        return metadata

    def state(self) -> dict[str, np.ndarray]:
        index, layout = self.blend_.index, self.layout_
        parts = {"nodes": self.nodes_.arrays()}
        if self.blend_.voters is not None:
            parts["voters"] = self.blend_.voters.state()
        if self.companion_ is not None:
            parts["linear_tree"] = self.companion_.state()
        return {
            **self.encoder_.arrays(),
            "dims": np.array(layout.dims, np.int64),
            "space": layout.space,
            "row": layout.row,
            "vectors": index.flat,
            "bias": index.bias,
            "blend": np.array(self.blend_.parameters),
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
        self.encoder_ = LevelEncoder.restore(arrays, len(dims), GEOMETRIES[self.params_.geometry])
        self.ancestors_ = unpack_csr("ancestors", arrays, (self.n_labels_, self.n_labels_))
        slope = arrays.get("slope", np.empty(0, np.float32))
        index = TreeIndex.over(
            *(self.nodes_, self.layout_, arrays["vectors"], arrays["bias"], slope),
            *(self.n_labels_, self.params_.beam or 0),
        )
        kept = with_prefix("voters.", arrays)
        voters = (
            CompressedExamples.restore(kept, self.n_labels_, self.params_.width) if kept else None
        )
        self.blend_ = TreeBlend(
            index, voters, self.params_.neighbours, BlendParameters.restore(arrays["blend"])
        )
        self.blend_.lean = arrays.get("lean")
        linear, sizes = with_prefix("linear_tree.", arrays), (self.n_features_in_, self.n_labels_)
        self.companion_ = None
        if linear:
            self.companion_ = LinearCompanion.restore(method_class(TREE_METHOD), linear, *sizes)

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        batch = params["batch_size"]
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
            needs["training examples that vote"] = compressed_bytes(shape.points)
        if params["linear_tree"]:
            tree = method_class(TREE_METHOD)
            needs["linear classifiers along the tree"] = companion_bytes(tree, shape)
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
        and ("lean" not in arrays or are_numbers(arrays["lean"], n_labels))
    )
    expect(holds, "the points do not fit the spaces")
