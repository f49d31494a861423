"""The presets of TreeSpace against the slides that propose it (Pathak 2024)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.components.training_data import Shape
from labelspace.data.taxonomy import Taxonomy
from labelspace.methods.treespace.method import TreeSpace
from support.fitted import restored

FLIPKART = Shape(points=17_811, features=9_000, labels=9_232, feature_nnz=110_000, label_nnz=87_000)


@pytest.mark.parametrize(
    ("preset", "geometry"), [("paper", "euclidean"), ("paper-hyperbolic", "hyperbolic")]
)
def test_resolved_values_are_those_of_the_slides(preset, geometry):
    found = TreeSpace.resolve(TreeSpace(preset=preset).get_params(), FLIPKART)
    # "Each parent node has a matrix that projects its embeddings into the space of its child
    # nodes."
    assert found["projections"] == "node"
    # "Root-level embeddings (L0) have the smallest dimension. ... As we move deeper into the tree
    # (L1, L2, ...), embedding dimensions increase"
    assert found["top_dim"] < found["dim"]
    # Prediction, consistency and regularisation loss, the last of "embedding dimensionality and
    # projection matrices": all act.
    weights = ("prediction", "consistency", "regularisation", "dimensionality")
    assert [found[name] for name in weights] == [1.0, 1.0, 1.0, 0.03]
    # "computed as the sum of classification losses ... weighted by the importance of each level":
    # no weights are given.
    assert (found["level_weight"], found["level_weights"]) == (1.0, None)
    # "(can also be embedded in hyperbolic space)"
    assert found["geometry"] == geometry
    # Nothing beyond the slides: no votes, no linear classifiers, no correction of rare labels.
    assert (found["neighbours"], found["linear_tree"], found["tail_bias"]) == (0, False, 0.0)
    assert (found["keep"], found["feature_damping"], found["beam"]) == (1.0, None, None)


def test_a_model_with_the_preset_has_a_matrix_per_parent_and_growing_dimensions_and_loads():
    names = ["a", "a>b", "a>b>c", "a>b>d", "e", "e>f"]
    pairs = [(name, name.rpartition(">")[0]) for name in names if ">" in name]
    taxonomy = Taxonomy.from_names(pairs, names)
    paths = [[0, 1, 2], [0, 1, 3], [4, 5]]
    Y = csr_matrix([[float(i in path) for i in range(6)] for path in paths * 8])
    model = TreeSpace(preset="paper", width=16, dim=12, top_dim=4, epochs=2)
    model.fit(Y, Y, taxonomy=taxonomy)
    assert model.vectors_.kind == "node"
    assert not model.vectors_.level_projections
    assert model.layout_.dims == (4, 7, 12)
    # The parents a and e in the first space, a>b in the second.
    assert {pair: len(table.weight) for pair, table in model.vectors_.node_projections.items()} == {
        (0, 1): 2,
        (1, 2): 1,
    }
    assert model.companion_ is None
    assert model.blend_.voters is None
    again = restored(model)
    assert again.params_.preset == "paper"
    assert np.array_equal(again.predict(Y, 3).labels, model.predict(Y, 3).labels)


def test_memory_counts_a_matrix_per_node():
    params = TreeSpace.resolve(TreeSpace(preset="paper").get_params(), FLIPKART)
    needs = TreeSpace.memory(FLIPKART, params)
    assert needs["projections"] >= 16 * (9_232 // 4) * 128**2
    shared = TreeSpace.memory(FLIPKART, {**params, "projections": "shared"})
    assert shared["projections"] < needs["projections"] / 10
