"""NeuralXC as its paper and the authors' public code define it.

The paper gives the loss; the widths of the layers, activations and settings of the optimiser are in
the code that its section 5.3 names (github.com/vishwakftw/extreme-classification), with one set-up
per data set.
"""

from __future__ import annotations

from labelspace.methods.parameters import AUTO
from labelspace.methods.presets import Preset, chosen, stated

PAPER = Preset(
    "As in the paper and its authors' code, with layers by the size of the data.",
    input_layers=chosen(AUTO, "the authors' code has layers for four data sets; a rule near them"),
    output_layers=chosen(AUTO, "as `input_layers`"),
    regressor_layers=chosen(AUTO, "as `input_layers`"),
    activations=stated("mixed", "the authors' code"),
    feature_output=stated("sigmoid", "the authors' code, for features from 0 to 1"),
    weight_norm=stated(False, "the authors' code: linear layers with bias"),
    unit_features=stated(False, "equation (1): x as it is"),
    unit_labels=stated(False, "section 3: the multi-hot vector y as it is"),
    alpha=stated(0.01, "the authors' code; the paper gives no value"),
    beta=stated(0.01, "the authors' code; the paper gives no value"),
    pretrain=stated(0, "section 3.1: all parts are trained on one loss, as in the authors' code"),
    after_pretraining=stated("joint", "section 3.1"),
    reduction=stated(
        "sum",
        "equation (1), squared norms; the authors' code takes means, by which its weight decay "
        "outweighs the loss",
    ),
    exact=stated(1_000_000_000, "equation (1): over all features and labels"),
    samples=chosen(1000, "without effect"),
    keep=stated(1.0, "no dropout"),
    feature_damping=stated(None, "no damping"),
    ensemble=stated(1, "one network"),
    neighbours=stated(0, "section 3: labels are ranked by the network alone"),
    epochs=chosen(60, "not given; precision on held-out examples of bibtex is level from 45 on"),
    batch_size=stated(64, "the authors' code"),
    lr=stated(0.0003, "the authors' code, bibtex"),
    label_lr_scale=stated(1.0, "the authors' code: one learning rate for all layers"),
    dense_lr_scale=stated(1.0, "the authors' code: one learning rate for all layers"),
    schedule=stated("constant", "the authors' code"),
    weight_decay=stated(0.0001, "the authors' code"),
    lazy=stated(False, "the authors' code: Adam of all weights"),
    init=stated("xavier", "the authors' code"),
    initial_factor=stated(1.0, "the authors' code"),
    prior=stated(False, "the authors' code: random biases"),
    patience=stated(1000, "no early stopping: precision is level for many epochs before it rises"),
    validation=stated(0.0, "all training examples are trained on; no early stopping"),
    metric=chosen("nDCG@5", "without effect, as nothing is held out"),
    recall=chosen(1.0, "all labels are ranked"),
)

BIBTEX = PAPER.but(
    "As in the paper and its authors' code, with the layers for Bibtex.",
    input_layers=stated((1152, 600, 256), "the authors' code, setups/Bibtex"),
    output_layers=stated((96, 32), "the authors' code, setups/Bibtex"),
    regressor_layers=stated((112,), "the authors' code, setups/Bibtex"),
)

DELICIOUS = PAPER.but(
    "As in the paper and its authors' code, with the layers for Delicious.",
    input_layers=stated((250, 125), "the authors' code, setups/Delicious"),
    output_layers=stated((326, 163, 82), "the authors' code, setups/Delicious"),
    regressor_layers=stated((104,), "the authors' code, setups/Delicious"),
    lr=chosen(0.0003, "the authors' code has no rate for Delicious; that for Bibtex"),
    weight_decay=chosen(0.0001, "as `lr`"),
    epochs=chosen(25, "not given; precision on held-out examples is level from there on"),
)

MEDIAMILL = PAPER.but(
    "As in the paper and its authors' code, with the layers for Mediamill.",
    input_layers=stated((100, 50), "the authors' code, setups/Mediamill"),
    output_layers=stated((75, 50, 32), "the authors' code, setups/Mediamill"),
    regressor_layers=stated((41,), "the authors' code, setups/Mediamill"),
    lr=stated(0.001, "the authors' code, setups/Mediamill"),
    epochs=chosen(25, "not given; as for Delicious"),
)

EURLEX = PAPER.but(
    "As in the paper and its authors' code, with the layers for Eurlex, but no batch "
    "normalisation in the feature encoder.",
    input_layers=stated((2500, 1250, 500), "the authors' code, setups/Eurlex"),
    output_layers=stated((1331, 443, 141), "the authors' code, setups/Eurlex"),
    regressor_layers=stated((325,), "the authors' code, setups/Eurlex"),
    feature_output=stated("relu", "the authors' code, setups/Eurlex"),
    lr=chosen(0.0003, "the authors' code has no rate for Eurlex; that for Bibtex"),
    weight_decay=chosen(0.0001, "as `lr`"),
    epochs=chosen(25, "not given; as for Delicious"),
)

SEQUENTIAL = PAPER.but(
    "The steps of section 3 one after another: both autoencoders, then the regressor between "
    "their codes.",
    pretrain=chosen(20, "section 3 trains the autoencoders first and gives no number of epochs"),
    after_pretraining=stated("codes", "section 3: a regression between the representations"),
    alpha=chosen(1.0, "the autoencoders share no weight, so their factors hardly matter"),
    beta=chosen(1.0, "as `alpha`"),
)
