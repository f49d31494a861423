"""The preset "paper" of GLaS against the text of Guo et al. 2019."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.components.training_data import Shape
from labelspace.features.pipeline import FeaturePipeline
from labelspace.methods.glas.method import GLaS
from labelspace.methods.presets import presets_of
from labelspace.model.tagger import Tagger
from labelspace.runs.callbacks import Checkpoint
from support.planted import planted

STATED = {
    # Section 4: "we use GLaS regularizer ... with regularization weight lambda = 10, input dropout
    # with rho = 0.8, batch size B = 4096, and a non-linear embedding map with embedding dimension
    # d = 1024".
    "regulariser": "glas",
    "lam": 10.0,
    "keep": 0.8,
    "batch_size": 4096,
    "dim": 1024,
    # Equation 1, the margin loss.
    "loss": "margin",
    # Equation 3: 1/2 (A Z^-1 + Z^-1 A).
    "target": "arithmetic",
    # Section 2.1: h(x) = phi(x)^T V, without a factor or a bias.
    "scale": 1.0,
    "train_scale": False,
    "prior": False,
    # Section 3.1: weight normalisation "in each layer"; "all label embeddings are l2-normalized";
    # "all input embeddings are normalized as well".
    "weight_norm": True,
    "unit_labels": True,
    "unit_inputs": True,
    # Section 3.3: x' = x o Bernoulli(rho, D).
    "rescale_kept": False,
    # Algorithm 2: one label per example, both in the loss and in the B x B regulariser; gradient
    # descent with eta_w for all of w and eta_V for V, which do not change.
    "regularised": "sampled",
    "optimiser": "sgd",
    "schedule": "constant",
    "hidden_lr_divisor": 1.0,
    "feature_damping": None,
    # Section 4: "up to 10 epochs ... early stopping when evaluation accuracy ceases to improve";
    # the accuracies of Table 2 are P@1 in Table 3.
    "epochs": 10,
    "metric": "P@1",
    # Section 2: Top(phi(x)^T V, m).
    "neighbours": 0,
}
CHOSEN = {
    "hidden": (1024,),  # "multiple linear layers and ReLU activation", without widths
    "hidden_bias": False,
    "init": "random",
    "margin": 0.4,
    "negatives": "in-batch",
    "n_negatives": 0,
    "hardest": 10,
    "lr": 1.0,
    "label_lr": 0.3,
    "patience": 3,
    # Resolved for the shape below: 2 % held out, at most 4,000 examples.
    "validation": 4000 / 1_186_239,
    "precision": "float32",
    "recall": 0.998,
}


def test_the_preset_resolves_to_the_values_of_the_paper():
    amazoncat = Shape(1_186_239, 203_882, 13_330, 84_000_000, 5_980_000)  # Table 5
    found = GLaS.resolve(GLaS(preset="paper").get_params(), amazoncat)
    assert {name: found[name] for name in STATED} == STATED
    assert {name: found[name] for name in CHOSEN} == CHOSEN
    assert set(found) - {"seed", "preset"} == STATED.keys() | CHOSEN.keys()


def test_values_are_marked_as_stated_only_where_the_paper_states_them():
    settings = presets_of(GLaS.parameters)["paper"].settings
    assert {name for name, setting in settings.items() if setting.stated} == STATED.keys()


@pytest.fixture(scope="module")
def fitted():
    X, Y = planted(300, seed=4)
    small = {"dim": 16, "hidden": (24,), "batch_size": 16, "validation": 0.2}
    return GLaS(preset="paper", **small).fit(X[:250], Y[:250]), (X, Y)


def test_what_is_given_beside_the_preset_has_precedence(fitted):
    model, _ = fitted
    assert (model.params_.dim, model.params_.batch_size) == (16, 16)
    assert (model.params_.lam, model.params_.optimiser) == (10.0, "sgd")
    assert [entry["epoch"] for entry in model.history_] == list(range(1, len(model.history_) + 1))


def test_a_model_of_the_preset_is_saved_loaded_and_updated(fitted, tmp_path):
    model, (X, Y) = fitted
    names = [f"label {number}" for number in range(Y.shape[1])]
    Tagger(FeaturePipeline(None, n_numeric=X.shape[1]), model, names).save(tmp_path / "model")
    loaded = Tagger.load(tmp_path / "model").method
    assert loaded.get_params() == model.get_params()
    expected = model.predict(X[250:], 3)
    assert np.array_equal(loaded.predict(X[250:], 3).labels, expected.labels)
    loaded.partial_fit(X[250:], Y[250:])
    assert loaded.space_.scale.item() == 1.0  # held, in updates too
    assert not np.array_equal(loaded.label_vectors_, model.label_vectors_)


class _StopAfter(Checkpoint):
    def __init__(self, folder, batches):
        super().__init__(folder, minutes=0)
        self.left = batches

    def on_batch(self, run):
        super().on_batch(run)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_a_run_of_the_preset_resumes_to_the_same_bits(tmp_path):
    X, Y = planted(120, seed=4)
    made = {"preset": "paper", "dim": 8, "hidden": (8,), "batch_size": 32, "epochs": 3}
    alone = GLaS(**made).fit(X, Y).state()
    with pytest.raises(KeyboardInterrupt):
        GLaS(**made).fit(X, Y, callbacks=[_StopAfter(tmp_path, 6)])
    resumed = GLaS(**made).fit(X, Y, callbacks=[Checkpoint(tmp_path, resume=True)]).state()
    assert alone.keys() == resumed.keys()
    assert all(np.array_equal(alone[name], resumed[name]) for name in alone)
