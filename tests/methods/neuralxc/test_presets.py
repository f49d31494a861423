"""The presets of NeuralXC against the paper, its authors' code, and plain torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labelspace.components.training_data import Shape
from labelspace.methods.neuralxc.method import NeuralXC
from labelspace.methods.neuralxc.network import Network
from labelspace.methods.neuralxc.objective import BatchObjective
from labelspace.methods.neuralxc.optimiser import optimiser
from labelspace.nn.trainer import Batch, Trainer
from labelspace.runs.callbacks import Callback
from support.fitted import resolved, restored
from support.planted import planted

BIBTEX = Shape(points=4880, features=1836, labels=159, feature_nnz=335_000, label_nnz=11_700)


@pytest.fixture(scope="module")
def data():
    X, Y = planted(120, seed=3)
    X.data = np.random.default_rng(0).random(X.nnz, np.float32)  # from 0 to 1
    return X, Y


def test_paper_is_what_the_paper_and_its_authors_code_state():
    values = NeuralXC.resolve(NeuralXC(preset="paper").get_params(), BIBTEX)
    assert (values["alpha"], values["beta"]) == (0.01, 0.01)  # train_neuralxc_with_args.sh
    assert values["batch_size"] == 64  # the same
    assert values["init"] == "xavier"  # the same: xavier_uniform
    assert (values["lr"], values["weight_decay"]) == (0.0003, 0.0001)  # setups/Bibtex/opt.yml
    assert (values["dense_lr_scale"], values["label_lr_scale"]) == (1.0, 1.0)  # one Adam for all
    assert (values["schedule"], values["lazy"]) == ("constant", False)  # torch.optim.Adam
    assert values["reduction"] == "sum"  # equation (1): squared norms
    assert (values["unit_features"], values["unit_labels"]) == (False, False)  # equation (1): x, y
    assert values["activations"] == "mixed"  # setups/*/output_encoder_cfg.yml: leaky ReLU, tanh
    assert values["feature_output"] == "sigmoid"  # setups/Bibtex/input_decoder_cfg.yml
    assert values["weight_norm"] is False  # setups/*: linear layers
    assert values["pretrain"] == 0  # section 3.1: one loss for all parts
    # Section 3 has one network without dropout, whose output is the ranking.
    assert (values["ensemble"], values["keep"], values["neighbours"]) == (1, 1.0, 0)
    assert (values["feature_damping"], values["initial_factor"]) == (None, 1.0)
    assert (values["prior"], values["validation"]) == (False, 0.0)
    assert values["patience"] > values["epochs"]  # the authors' code has no early stopping
    assert values["exact"] >= 10**6  # equation (1) is over all features and labels
    assert values["recall"] == 1.0


@pytest.mark.parametrize(
    ("preset", "inputs", "outputs", "regressor", "lr", "output"),
    [  # setups/*/*_cfg.yml of the authors' code
        ("bibtex", (1152, 600, 256), (96, 32), (112,), 0.0003, "sigmoid"),
        ("delicious", (250, 125), (326, 163, 82), (104,), 0.0003, "sigmoid"),
        ("mediamill", (100, 50), (75, 50, 32), (41,), 0.001, "sigmoid"),
        ("eurlex", (2500, 1250, 500), (1331, 443, 141), (325,), 0.0003, "relu"),
    ],
)
def test_presets_of_data_sets_have_the_layers_of_the_authors_code(
    preset, inputs, outputs, regressor, lr, output
):
    values = NeuralXC.resolve(NeuralXC(preset=preset).get_params(), BIBTEX)
    assert (values["input_layers"], values["output_layers"]) == (inputs, outputs)
    assert values["regressor_layers"] == regressor
    assert (values["lr"], values["feature_output"]) == (lr, output)


@pytest.mark.parametrize(
    ("features", "labels", "inputs", "outputs", "regressor"),
    [
        (1836, 159, (918, 257), (79, 33), (145,)),  # near the authors' 1152, 600, 256 and 96, 32
        (500, 983, (250, 134), (491, 82), (108,)),  # near 250, 125 and 326, 163, 82
        (200_000, 30_000, (2500, 500), (1331, 141), (320,)),
        (2, 1, (2, 2), (1, 1), (1,)),
    ],
)
def test_without_a_data_set_layers_follow_the_size_of_the_data(
    features, labels, inputs, outputs, regressor
):
    shape = Shape(1000, features, labels, 10 * 1000, 1000)
    values = NeuralXC.resolve(NeuralXC(preset="paper").get_params(), shape)
    assert (values["input_layers"], values["output_layers"]) == (inputs, outputs)
    assert values["regressor_layers"] == regressor


def twin(network):
    """The network as torch's modules, by the authors' set-up of Bibtex, with the same weights."""

    def sequential(weights, between, last=None):
        layers = []
        for number, (weight, bias) in enumerate(weights):
            linear = nn.Linear(*weight.shape)
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(np.array(weight)).T)
                linear.bias.copy_(torch.from_numpy(np.array(bias)))
            layers += [linear, between] if number < len(weights) - 1 else [linear]
        return nn.Sequential(*layers, *([last] if last else []))

    def of_encoder(one):
        first = (one.input_layer.weight, one.bias.detach().numpy())
        return [first, *of_dense(one.hidden)]

    def of_dense(layers):
        pairs = [(layer["weight"], layer["bias"]) for layer in layers]
        return [(weight.detach().numpy(), bias.detach().numpy()) for weight, bias in pairs]

    def of_decoder(one):
        table = one.table.weight
        return [*of_dense(one.hidden.layers), (table[:, :-1].T, table[:, -1])]

    inputs, outputs = network.inputs, network.outputs
    return nn.ModuleDict(
        {
            "phi_i": sequential(of_encoder(inputs.encoder), nn.ReLU()),
            "psi_i": sequential(of_decoder(inputs.decoder), nn.LeakyReLU(0.2), nn.Sigmoid()),
            "phi_o": sequential(of_encoder(outputs.encoder), nn.LeakyReLU(0.1), nn.Tanh()),
            "psi_o": sequential(of_decoder(outputs.decoder), nn.ReLU(), nn.Sigmoid()),
            "f": sequential(of_dense(network.regressor.layers), nn.ReLU(), nn.Tanh()),
        }
    )


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_steps_of_the_preset_are_those_of_plain_torch(data, reduction):
    X, Y = data
    layers = {"input_layers": (9, 7, 5), "output_layers": (8, 6), "regressor_layers": (4,)}
    model = NeuralXC(preset="paper", lr=0.01, weight_decay=0.01, alpha=0.3, beta=0.7,
                     reduction=reduction, **layers)  # fmt: skip
    params = resolved(model, X, Y).params_
    odds = np.full(Y.shape[1], np.nan, np.float32)  # without a prior they are not used
    network = Network.fresh(params, X.shape[1], odds, None, np.random.default_rng(0))
    plain = twin(network)
    objective = BatchObjective([network], params, X, Y)
    objective.on_start(Trainer())
    ours = optimiser([network], params, objective.frozen)
    theirs = torch.optim.Adam(plain.parameters(), lr=0.01, weight_decay=0.01)
    for step in range(4):
        rows = np.arange(10 * step, 10 * step + 10)  # features that no row has are updated, too
        ours.zero_grad()
        loss = objective(Batch(rows, np.random.default_rng(step)))
        loss.backward()
        ours.step(1.0)
        x, y = (torch.from_numpy(part[rows].toarray()) for part in (X, Y))
        theirs.zero_grad()
        code = plain["phi_i"](x)
        terms = [
            F.mse_loss(plain["psi_i"](code), x, reduction="none"),
            F.mse_loss(plain["psi_o"](plain["phi_o"](y)), y, reduction="none"),
            F.binary_cross_entropy(plain["psi_o"](plain["f"](code)), y, reduction="none"),
        ]
        sums = [term.sum(1).mean() if reduction == "sum" else term.mean() for term in terms]
        expected = 0.3 * sums[0] + 0.7 * sums[1] + sums[2]  # equation (1)
        expected.backward()
        theirs.step()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    changed = twin(network).state_dict()
    for name, weight in plain.state_dict().items():
        torch.testing.assert_close(changed[name], weight, rtol=1e-3, atol=1e-4, msg=name)


def test_initial_weights_are_glorots_and_biases_torchs(data):
    X, Y = data
    params = resolved(NeuralXC(preset="bibtex"), X, Y).params_
    odds = np.zeros(Y.shape[1], np.float32)
    network = Network.fresh(params, X.shape[1], odds, None, np.random.default_rng(0))
    seen = 0
    for weight, bias in network._weights_and_biases():
        inputs, outputs = weight.shape
        for values, limit in ((weight, (6 / (inputs + outputs)) ** 0.5), (bias, inputs**-0.5)):
            assert np.abs(values).max() <= limit * 1.0001
            if values.size > 500:
                assert values.std() == pytest.approx(limit / 3**0.5, rel=0.1)
                assert abs(values.mean()) < 0.1 * limit
            seen += values.size
    tensors = network.tensors()
    assert seen == sum(tensor.numel() for tensor in tensors.values())


def test_a_preset_can_be_saved_and_gives_finite_scores_for_any_features(data):
    X, Y = data
    model = NeuralXC(preset="bibtex", epochs=1, input_layers=(9, 5), output_layers=(6, 3)).fit(X, Y)
    copy = restored(model)
    assert np.array_equal(copy.predict(X, 3).labels, model.predict(X, 3).labels)
    assert np.isfinite(model.predict(np.float32(1e30) * X, 3).scores).all()


def test_lengths_of_rows_matter_to_the_preset(data):
    X, Y = data
    model = NeuralXC(preset="bibtex", epochs=1, input_layers=(9, 5), output_layers=(6, 3)).fit(X, Y)
    assert not np.allclose(model.embed(X), model.embed(4 * X), atol=1e-4)


@pytest.mark.parametrize("kind", ["regressor", "codes"])
def test_after_pretraining_the_autoencoders_stay_and_the_regressor_learns(data, kind):
    X, Y = data
    seen = []

    class Watch(Callback):
        def on_epoch(self, run):
            seen.append({k: v.detach().clone() for k, v in run.task.parameters.items()})

    model = NeuralXC(preset="paper-sequential", pretrain=2, epochs=2, after_pretraining=kind,
                     input_layers=(9, 5), output_layers=(6, 3), lr=0.01)  # fmt: skip
    model.fit(X, Y, callbacks=[Watch()])

    def moved(before, after):
        return {name for name in before if not torch.equal(before[name], after[name])}

    regressor = {name for name in seen[0] if ".regressor." in name}
    assert moved(seen[0], seen[1]) == set(seen[0]) - regressor
    assert moved(seen[1], seen[2]) == moved(seen[2], seen[3]) == regressor


def test_the_regression_of_codes_is_their_squared_distance(data):
    X, Y = data[0][:9], data[1][:9]
    model = NeuralXC(preset="paper-sequential", input_layers=(9, 5), output_layers=(6, 3),
                     pretrain=1)  # fmt: skip
    params = resolved(model, X, Y).params_
    odds = np.zeros(Y.shape[1], np.float32)
    network = Network.fresh(params, X.shape[1], odds, None, np.random.default_rng(0))
    objective = BatchObjective([network], params, X, Y)
    run = Trainer()
    run.progress.epoch = 1
    objective.on_start(run)
    found = objective(Batch(np.arange(9), np.random.default_rng(0))).item()
    codes = np.tanh(network.outputs.encoder.encode(Y))
    expected = np.square(network.path.codes(X) - codes).sum(axis=1).mean()
    assert found == pytest.approx(expected, rel=1e-4)
