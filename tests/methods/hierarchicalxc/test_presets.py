"""The presets of HierarchicalXC against the paper, and the parameters they need."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labelspace._core.sparse import unit_rows
from labelspace.components.training_data import Shape
from labelspace.methods.hierarchicalxc.method import HierarchicalXC
from support.fitted import restored
from support.planted import planted

BIBTEX = Shape(points=4880, features=1836, labels=159, feature_nnz=335_000, label_nnz=11_700)


def test_paper_is_what_the_paper_states():
    values = HierarchicalXC.resolve(HierarchicalXC(preset="paper").get_params(), BIBTEX)
    # Section 4.1: complete link, distance -|examples that both classes have|
    assert values["tree"] == "complete"
    assert values["join"] == "order"  # AgglomerativeClustering of the authors' code
    # Section 4: "in the form of a binary tree"; "leaf nodes consist of individual labels"
    assert (values["fanout"], values["leaf_size"]) == (2, 2)
    assert values["inputs"] == "code"  # section 4, component 1: an autoencoder
    # Section 4, component 2: "none, one, or both branches might be traversed"
    assert (values["search"], values["threshold"]) == ("hard", 0.5)
    assert values["ensemble"] == 1  # section 4: a tree
    assert (values["validation"], values["prune"]) == (0.0, 0.0)
    assert values["C"] == (1.0, 1.0)  # svm.SVC() of the authors' code
    assert values["node_hidden"] is None


def test_the_refinement_changes_the_distance_alone():
    paper, refined = (HierarchicalXC(preset=name).get_params() for name in ("paper", "paper-iou"))
    changed = {name for name in paper if paper[name] != refined[name]}
    assert changed == {"tree", "preset"}
    assert refined["tree"] == "iou"  # section 4.1: "negative of IoU"


@pytest.mark.parametrize(
    ("preset", "layers"),
    [  # setups/*/input_encoder_cfg.yml of the authors' code
        ("bibtex", (1152, 600, 256)),
        ("delicious", (250, 125)),
        ("mediamill", (100, 50)),
        ("eurlex", (2500, 1250, 500)),
    ],
)
def test_presets_of_data_sets_train_the_autoencoder_of_the_authors_code(preset, layers):
    values = HierarchicalXC.resolve(HierarchicalXC(preset=preset).get_params(), BIBTEX)
    assert values["layers"] == layers
    assert values["code_init"] == "random"
    assert values["epochs"] == 10  # train_hierarchicalXC.py, default of --epochs


@pytest.mark.parametrize("preset", ["paper", "paper-iou", "bibtex"])
def test_presets_learn_and_are_loaded(preset):
    X, Y = planted(300, seed=1)
    small = {"layers": (16,)} if preset != "bibtex" else {"layers": (32, 16), "code_lr": 0.01}
    model = HierarchicalXC(preset=preset, **small).fit(X, Y)
    found = model.predict(X, 3)
    first = found.labels[:, 0]
    assert (Y[np.arange(300), np.maximum(first, 0)].A1 * (first >= 0)).mean() > 0.7
    copy = restored(model)
    assert np.array_equal(copy.predict(X, 3).labels, found.labels)
    assert np.array_equal(copy.inputs_(X).toarray(), model.inputs_(X).toarray())
    assert np.diff(model.trees_[0].first_child).max() == 2


def test_an_autoencoder_with_random_weights_is_trained_on_the_squared_error():
    X, Y = planted(300, seed=1)
    options = {"inputs": "code", "layers": (24, 12), "code_init": "random", "code_lr": 0.01,
               "leaf_size": 2, "ensemble": 1}  # fmt: skip
    model = HierarchicalXC(**options, epochs=15).fit(X, Y)
    encoder = model.inputs_.encoder
    losses = [entry["loss"] for entry in model.history_]
    assert losses[-1] < 0.7 * losses[0]
    rows = torch.from_numpy(unit_rows(X).toarray())
    h = rows @ torch.from_numpy(encoder.input_layer.weight) + encoder.bias
    layer = encoder.hidden[0]
    codes = (torch.relu(h) @ layer["weight"] + layer["bias"]).detach().numpy()
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    np.testing.assert_allclose(model.inputs_(X).toarray(), codes, atol=1e-4)
