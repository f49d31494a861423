"""TreeSpace: a label tree with an embedding space per level, after Pathak (2024).

Every level of the label tree has a space of its own. The vector of a node is the projection of its
parent's vector plus an offset of its own (`vectors.py`); an encoder maps an example into all spaces
in one pass (`encoder.py`). The probability of a label is the product, along the most probable path
from the root, of

    sigmoid(s <z(x), e_c> + b_c)        or, in a ball,  sigmoid(s (r - d(z(x), e_c)) + b_c)

Search expands the most probable nodes first and scores only their children (`search.py`). The score
is blended with the votes of near training examples (`components/neighbour_blend.py`), and stacked
with linear classifiers along the tree (`components/linear_companion.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.arrays import joined_parts, with_prefix
from labelspace._core.checks import expect
from labelspace._core.schema import (
    Elsewhere,
    Schema,
    Sizes,
    csr,
    floats,
    ints,
    scalars,
    sizes_of,
)
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
    number,
    numbers,
)
from labelspace.methods.presets import preset
from labelspace.methods.registry import method_class
from labelspace.methods.search_range import between
from labelspace.methods.treespace.defaults import resolve
from labelspace.methods.treespace.encoder import LevelEncoder
from labelspace.methods.treespace.geometry import GEOMETRIES
from labelspace.methods.treespace.nodes import Nodes
from labelspace.methods.treespace.objective import TreeObjective
from labelspace.methods.treespace.presets import HYPERBOLIC, PAPER
from labelspace.methods.treespace.search import TreeBlend, TreeIndex, with_ancestors
from labelspace.methods.treespace.vectors import MAX_LOW_RANK_SIZE, Layout, TreeVectors
from labelspace.metrics.ranking import measure
from labelspace.nn.optimisers import OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.trainer import Trainer, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import listeners
from labelspace.runs.history import watch
from labelspace.search.neighbours.compressed import CompressedExamples, compressed_bytes


class TreeSpace(Method):
    """A label tree with an embedding space per level, searched best-first from the root.

    For labels that form a tree, such as product categories or subject headings with broader terms;
    without a taxonomy, the tree is built by k-means of the labels' centroids. A node is trained
    against its siblings only, on the examples of its parent, and a label is at most as probable as
    its ancestors. The tree of spaces and the cluster search are those that [1]_ proposes; here they
    are blended with the votes of near training examples and stacked with linear classifiers, which
    neighbours=0 and linear_tree=False leave out.

    Attributes
    ----------
    params_ : SimpleNamespace
        The parameters as they were fitted: every "auto" is a value.
    n_features_in_, n_labels_ : int
    history_ : list of dict
        Loss and validation score per epoch.

    See Also
    --------
    HierarchicalXC : Linear classifiers along a label tree, without spaces.
    Seq2Seq : Generates the path of a label token by token.

    References
    ----------
    .. [1] Pathak. "Hierarchical Label Embedding for Xtreme Multi-Label Classification".
       Indian Institute of Technology Kharagpur, 2024.

    Examples
    --------
    Four leaves below two categories, with a word for each of the six labels:

    >>> import numpy as np
    >>> from labelspace import TreeSpace
    >>> from labelspace.data.taxonomy import Taxonomy
    >>> names = ["clothing", "home", "shirt", "shoe", "lamp", "chair"]
    >>> pairs = [("shirt", "clothing"), ("shoe", "clothing"), ("lamp", "home"), ("chair", "home")]
    >>> taxonomy = Taxonomy.from_names(pairs, names)
    >>> leaves = np.tile([2, 3, 4, 5], 3)
    >>> Y = np.eye(6)[leaves] + np.eye(6)[np.where(leaves < 4, 0, 1)]
    >>> model = TreeSpace(dim=8, top_dim=4, width=8, consistent=True).fit(Y, Y, taxonomy=taxonomy)
    >>> [names[label] for label in model.predict(Y[:1], k=2).labels[0]]
    ['clothing', 'shirt']
    """

    name: ClassVar[str] = "treespace"
    version: ClassVar[int] = 3
    can_train_in_workers: ClassVar[bool] = True
    summary: ClassVar[str] = "a label tree with an embedding space per level, best-first search"

    dim: int = integer(
        "Dimension of the deepest space.",
        default=512,
        group="usual",
        low=1,
        high=4096,
        search=between(128, 1024, log=True),
    )
    preset: str | None = preset(paper=PAPER, paper_hyperbolic=HYPERBOLIC)
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
    level_weights: tuple[float, ...] | None = numbers(
        "Weights of the levels' prediction losses from the top, of which the last counts for all "
        "further levels and for labels outside of the taxonomy.",
        default=None,
        group="paper",
        low=0.0,
        none="powers of level_weight",
    )
    consistency: float = number(
        "Weight of the angle, in a ball the distance, between a child and its parent's projection.",
        default=0.1,
        group="paper",
        low=0.0,
        search=between(0.001, 1.0, log=True),
    )
    regularisation: float = number(
        "Weight of the squares of the projections and of the nodes' offsets.",
        default=0.001,
        group="paper",
        low=0.0,
    )
    dimensionality: float = number(
        "Weight of the norms of the dimensions over the nodes of a level, which makes levels use "
        "fewer dimensions.",
        default=0.0,
        group="paper",
        low=0.0,
    )
    keep: float = KEEP
    feature_damping: float | Auto | None = FEATURE_DAMPING
    scale: float = number(
        "Initial value of the trained scale of inner products or distances.",
        default=10.0,
        low=0.1,
        search=between(4.0, 40.0, log=True),
    )
    n_negatives: int = integer(
        "Number of siblings above which the negatives of an example are sampled.",
        default=1000,
        low=1,
    )
    epochs: int = having(
        EPOCHS,
        default=8,
        search=between(4, 20),
    )
    batch_size: int | Auto = BATCH_SIZE
    lr: float = having(ADAM_LR, default=0.004)
    patience: int = PATIENCE
    validation: float | Auto = VALIDATION
    metric: str = METRIC
    neighbours: int = integer(
        "Number of nearest training examples that vote beside the spaces' scores; 0 for none.",
        default=10,
        group="usual",
        low=0,
        search=between(5, 50, log=True),
    )
    linear_tree: bool = flag(
        "Combine the spaces with linear classifiers along the same tree.",
        default=True,
        group="usual",
    )
    tail_bias: float | Auto = number(
        "Added to the log odds of a label, times the log of its inverse propensity, to rank rare "
        "labels higher.",
        default=AUTO,
        low=0.0,
        auto="the largest of 0, 0.25, 0.5, 1, 1.5 that costs at most 0.1 of the validation score",
        tuned=True,
    )
    beam: int | None = integer(
        "Maximum number of nodes that search expands per example.",
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
        losses = ("prediction", "consistency", "regularisation", "dimensionality")
        if not any(getattr(self.params_, name) for name in losses):
            raise ParameterError(
                f"{', '.join(losses)} are all 0: set at least one weight of the loss above 0"
            )
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed)
        X, Y, valid = hold_out.X, hold_out.Y, hold_out.valid
        self.n_labels_ = Y.shape[1]
        rng = np.random.default_rng([self.params_.seed, X.shape[1]])
        self.nodes_ = Nodes.build(X, Y, data.taxonomy, self.params_.seed)
        self.layout_ = Layout.of(
            self.nodes_, self.params_.dim, self.params_.top_dim, self.params_.spaces
        )
        node_indicator = self.nodes_.indicator(Y)
        counts = np.bincount(node_indicator.indices, minlength=len(self.nodes_))
        geometry = GEOMETRIES[self.params_.geometry]
        self.encoder_ = LevelEncoder.fresh(
            *(X.shape[1], self.params_.width, self.layout_.dims, geometry, rng),
            row_lr_scale=TrainingCounts.of(X, Y).row_lr_scale(self.params_.feature_damping),
        )
        if self.params_.geometry == "hyperbolic":  # unit vectors have no initial norm to set
            self.encoder_.scale_heads(X)
        self.vectors_ = TreeVectors.fresh(
            self.nodes_, self.layout_, self.params_.projections, geometry, rng
        )
        self.vectors_.set_vectors(self.encoder_.centroids(X, self.layout_, node_indicator, rng))
        self.bias_ = torch.from_numpy(self.nodes_.log_odds(counts)).requires_grad_()
        self.scale_ = torch.full((len(self.layout_.dims),), self.params_.scale, requires_grad=True)
        self._train(X, node_indicator, Y, valid, data)
        self.ancestors_ = label_ancestors(data.taxonomy, Y.shape[1])
        self._finish(X, Y, valid, data, from_training=len(hold_out.held_rows) > 0)

    def _train(
        self,
        X: csr_matrix,
        node_indicator: csr_matrix,
        Y: csr_matrix,
        valid: tuple[csr_matrix, csr_matrix] | None,
        data: TrainingData,
    ) -> None:
        """Train encoder, vectors, biases and scales; stop early by the hold-out."""
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
        objective = TreeObjective(self, X, node_indicator)
        task = TrainingTask(tensors, objective, self._optimiser(), score)
        self.history_ = trainer.run(task, X.shape[0])

    def _optimiser(self) -> OptimiserGroup:
        """Return row-wise Adam for the tables and Adam for the dense tensors."""
        tables = {"encoder": self.encoder_.trunk.input_layer, **self.vectors_.tables()}
        dense = [
            {"params": [self.scale_], "lr": 0.01},
            {"params": [self.bias_], "lr": self.params_.lr},
            {"params": self.encoder_.heads, "lr": self.params_.lr / 5},
        ]
        if self.vectors_.level_projections:
            matrices = list(self.vectors_.level_projections.values())
            dense.append({"params": matrices, "lr": self.params_.lr / 5})
        return OptimiserGroup(
            {
                "rows": RowOptimiser(
                    {name: (table, self.params_.lr) for name, table in tables.items()}
                ),
                "dense": TorchOptimiser(torch.optim.Adam(dense)),
            }
        )

    def _index(self) -> TreeIndex:
        """Return an index over the current vectors of the nodes."""
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
        from_training: bool,
    ) -> None:
        """Build index, voters, calibration and linear companion on the trained vectors.

        With `from_training` the hold-out was cut from the training data: its examples vote too, and
        the companion may be fitted again with them.
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
            self.blend_.fit_tail_bias(*cut, score, rarity)
        elif self.params_.tail_bias > 0:
            self.blend_.tail_bias = (self.params_.tail_bias * rarity).astype(np.float32)
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
                refit=from_training,
                callbacks=listeners(data.callbacks, "linear_tree"),
            )
        if from_training:
            self.blend_.add_examples(self.embed, *valid)

    def _score(self, X: csr_matrix, Y: csr_matrix, counts: LabelCounts) -> float:
        """Return the validation score of the current spaces."""
        return measure(self.params_.metric, self._rank_by_tree(X, min(5, Y.shape[1])), Y, counts)

    def _rank_by_tree(self, X: csr_matrix, k: int) -> Ranking:
        """Rank by the current spaces only; scores are not calibrated."""
        return Ranking(*self._index().search(self.encoder_.encode(X)[1], k))

    def embed(self, X: Any) -> np.ndarray:
        """Return the output of the encoder that all spaces share, scaled to length 1.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, features)

        Returns
        -------
        ndarray of shape (n, width)
        """
        return self.encoder_.encode_trunk(as_csr(X))

    def _predict(self, X: Features, k: int) -> Ranking:
        X = as_csr(X)
        encoded = self.encoder_.encode(X)
        if self.companion_ is None:
            best = Ranking(*self.blend_.rank(*encoded, k))
        else:
            neural = Ranking(*self.blend_.rank(*encoded, min(max(k, CANDIDATES), self.n_labels_)))
            best = self.companion_.rank(X, neural, k)
        if not self.params_.consistent:
            return best
        above = self.ancestors_.indptr, self.ancestors_.indices
        return Ranking(*with_ancestors(best.labels, best.scores, *above))

    def metadata(self) -> dict[str, Any]:
        """Return the size of the tree, its dimensions, and the share of the votes.

        Effective dimensions are (sum of norms)^2 / sum of squared norms over the columns of a
        level: those that `dimensionality` leaves.
        """
        tree = {
            "nodes": len(self.nodes_) - 1,
            "depth": int(self.nodes_.depth.max()),
            "dimensions": list(self.layout_.dims),
            "effective dimensions": [
                round(d, 1) for d in self.blend_.index.effective_dimensions(self.layout_)
            ],
        }
        metadata: dict[str, Any] = {"tree": tree}
        if self.blend_.voters is not None:
            share = self.blend_.parameters.neighbour_share
            metadata["votes"] = {"share": share, "examples": len(self.blend_.voters)}
        return metadata

    def state(self) -> dict[str, np.ndarray]:
        """Return all fitted arrays, which `load_state` takes."""
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
            **({} if self.blend_.tail_bias is None else {"tail_bias": self.blend_.tail_bias}),
            **pack_csr("ancestors", self.ancestors_),
            **joined_parts(parts),
        }

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:
        """Declare the arrays of `state`."""
        n_spaces = sum(name.startswith("head.") for name in arrays)
        dims = [f"dimension {space}" for space in range(n_spaces)]
        return [
            sizes_of("dims", *dims, least=1),
            *Nodes.schema("nodes."),
            ints("space", "nodes", low=-1, limit=n_spaces, types="i4", rules=(_below_the_root,)),
            ints("row", "nodes", limit="nodes", types="i4"),
            floats("encoder.first", "features", self.params_.width),
            *(floats(f"head.{s}", self.params_.width, dim) for s, dim in enumerate(dims)),
            floats("vectors", "numbers of vectors"),
            floats("bias", "nodes"),
            floats("slope", "nodes", required=False),
            floats("tail_bias", "labels", required=False),
            scalars("blend", 5),
            *csr("ancestors", "labels", "labels"),
            *CompressedExamples.schema(arrays, "voters.", self.params_.width),
            Elsewhere("linear_tree."),
        ]

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the fitted attributes from what `state` returned; the arrays may be read-only."""
        self.nodes_ = Nodes.from_arrays(with_prefix("nodes.", arrays))
        dims = tuple(int(d) for d in arrays["dims"])
        n_numbers = sum(np.asarray(dims)[arrays["space"][1:]].tolist())
        expect(arrays["vectors"].shape == (n_numbers,), "the vectors do not match the spaces")
        self.layout_ = Layout(dims, arrays["space"], arrays["row"])
        self.encoder_ = LevelEncoder.restore(arrays, len(dims), GEOMETRIES[self.params_.geometry])
        self.ancestors_ = unpack_csr("ancestors", arrays)
        slope = arrays.get("slope", np.empty(0, np.float32))
        index = TreeIndex.over(
            *(self.nodes_, self.layout_, arrays["vectors"], arrays["bias"], slope),
            *(self.n_labels_, self.params_.beam or 0),
        )
        kept = with_prefix("voters.", arrays)
        voters = CompressedExamples.restore(kept) if kept else None
        self.blend_ = TreeBlend(
            index, voters, self.params_.neighbours, BlendParameters.restore(arrays["blend"])
        )
        self.blend_.tail_bias = arrays.get("tail_bias")
        linear, sizes = with_prefix("linear_tree.", arrays), (self.n_features_in_, self.n_labels_)
        self.companion_ = None
        if linear:
            self.companion_ = LinearCompanion.restore(method_class(TREE_METHOD), linear, *sizes)

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        """Return the bytes of memory that `fit` takes at its peak, by purpose."""
        batch = params["batch_size"]
        inner = shape.labels // 4 + 1  # inner nodes of the tree, at most
        projections = min(inner * 8 * params["dim"], MAX_LOW_RANK_SIZE)
        if params["projections"] == "node":
            projections = inner * params["dim"] ** 2
        floats = 4 if params["geometry"] == "euclidean" else 12  # per score and its gradient
        needs = {
            "the data, split in two": shape.data_bytes,
            "encoder, moments and best epoch": 16 * shape.features * params["width"],
            "label vectors, moments and best epoch": 20 * shape.labels * params["dim"],
            "projections": 16 * projections,
            "examples in all spaces": 4 * shape.points * params["spaces"] * params["dim"],
            "scores of a batch": floats * 4 * batch * 8 * params["n_negatives"],
        }
        if params["neighbours"]:
            needs["training examples that vote"] = compressed_bytes(shape.points)
        if params["linear_tree"]:
            tree = method_class(TREE_METHOD)
            needs["linear classifiers along the tree"] = companion_bytes(tree, shape)
        return needs


def _below_the_root(space: np.ndarray, _: Sizes) -> bool:
    """Return whether all nodes but the root are in a space."""
    return len(space) > 0 and bool((space[1:] >= 0).all())
