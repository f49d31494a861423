"""Presets of `dxml`: the method as Zhang et al. 2018 define it."""

from __future__ import annotations

from labelspace.methods.parameters import AUTO
from labelspace.methods.presets import Preset, chosen, stated

UNUSED = "not used by this loss"
CUTS = "on cuts of the training data of bibtex and delicious"

PAPER = Preset(
    "DXML as in Zhang et al. 2018.",
    dim=stated(AUTO, "section 4.1: 100 for its small sets, 300 for its large ones"),
    hidden=stated(AUTO, "section 4.1: 256 for its small sets, 512 for its large ones"),
    activation=stated("relu", "section 4.1, figure 1"),
    weight_norm=stated(False, "section 4.1: fully connected layers"),
    input_bias=stated(True, "section 4.1: fully connected layers"),
    input_spread=chosen(0.02, f"the paper gives no initial weights; these are good {CUTS}"),
    hidden_spread=chosen(1.0, "see input_spread"),
    loss=stated("smooth-l1", "equations 1 to 3"),
    reduction=stated("sum", "equation 3"),
    unit_targets=stated(False, "algorithm 1, step 3: f_y = V y / nnz(y)"),
    scale=chosen(20.0, UNUSED),
    partners=chosen(False, UNUSED),
    margin=chosen(1.0, UNUSED),
    graph=stated("cooccurrence", "section 3.2"),
    graph_weights=stated(None, "section 3.2: an edge where two labels ever co-occur"),
    walks=chosen(80, "that of DeepWalk (Perozzi et al. 2014)"),
    walk_length=chosen(40, "that of DeepWalk"),
    window=chosen(10, "that of DeepWalk"),
    negatives=chosen(0, "DeepWalk trains by hierarchical softmax"),
    keep=stated(1.0, "section 4.1: no dropout but after the last layer"),
    dropout=chosen(0.1, "the paper gives no rate; 0 to 0.5 are alike on these cuts"),
    optimiser=stated("sgd", "section 4.1: momentum 0.9, weight decay 0.0005, fixed learning rate"),
    lazy=stated(False, "section 4.1: plain SGD"),
    lr=stated(0.015, "section 4.1"),
    epochs=chosen(30, "the paper gives no T; scores on validation examples stay flat after ten"),
    batch_size=chosen(64, "the paper gives none; 16 to 256 are alike on these cuts"),
    patience=stated(None, "algorithm 1, step 4: T epochs; the best of them is kept"),
    validation=chosen(0.1, "the paper does not say how large its validation set is"),
    validate_from=chosen(0.0, "algorithm 1, step 4: the best of all epochs is kept"),
    metric=chosen("nDCG@5", "the paper does not say by what k is validated"),
    neighbours=stated(AUTO, "section 4.1: k by cross-validation on a validation set"),
    power=stated(0.0, "section 3.5: the average of the neighbours' labels"),
    raw_neighbours=stated(False, "algorithm 2: neighbours in the embedding space"),
    reduced_dim=stated(None, "algorithm 1"),
    ensemble=stated(1, "section 3.4: a single learner"),
    search=stated("clusters", "sections 3.4 and 3.5: k-means"),
    clusters=chosen(
        AUTO,
        "several, in the paper's word; one per 6,000 examples and at least 2, since precision "
        "falls with their number on these cuts",
    ),
    probes=stated(1, "algorithm 2, step 2: the closest cluster"),
    recall=chosen(0.99, "not used: the number of clusters to search is given"),
    update_epochs=chosen(2, "the paper says that updates are possible, not how"),
)
