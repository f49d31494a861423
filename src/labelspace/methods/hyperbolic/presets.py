"""The settings of Gerald & Baskiotis 2019."""

from __future__ import annotations

from labelspace.methods.presets import Preset, chosen, stated

_CUTS = "the paper gives no value; best mean P@5 on cuts of training data of three sets"

PAPER = Preset(
    "The method of Gerald & Baskiotis 2019.",
    dim=stated(50, "section 3.1"),
    geometry=stated("hyperbolic", "section 2.2"),
    ball_map=stated("clip", "section 2.3, the projection p"),
    hidden=stated(None, "section 2.3: a linear map suffices"),
    loss=stated("labels", "section 2.4"),
    alpha=chosen(40.0, _CUTS),
    negatives=stated("per-example", "section 2.4: random labels outside V(j) for each example"),
    n_negatives=chosen(100, _CUTS),
    batch_negatives=stated(False, "section 2.4: negatives are sampled"),
    weighting=stated("pairs", "section 2.4: the loss is of an example and a label"),
    label_neighbours=chosen(10, "without effect on this loss"),
    examples_weight=stated(0.0, "section 2.4; the conclusion has such a term as future work"),
    partners=chosen(1, "without effect at examples_weight 0"),
    optimiser=stated("adam", "sections 2.5 and 3.1"),
    label_lr_ratio=stated(1.0, "section 2.5: one learning rate"),
    schedule=stated("constant", "section 2.5: no decay is mentioned"),
    label_spread=stated(0.001, "section 3.1, N(0, 1e-3) taken as the standard deviation"),
    map_spread=stated(0.0001, "section 3.1, N(0, 1e-4) taken as the standard deviation"),
    unit_inputs=stated(False, "section 2.3: r = theta' x"),
    keep=stated(1.0, "no dropout is mentioned"),
    feature_damping=stated(None, "section 2.5: one learning rate"),
    epochs=chosen(1000, "more than are ever run: patience ends training"),
    batch_size=chosen(128, "the paper gives no value"),
    lr=chosen(0.0006, _CUTS),
    patience=stated(25, "section 3.1"),
    validation=stated(0.05, "section 3.1"),
    metric=chosen("P@5", "section 3.1 has precision without k; at 5 it varies least"),
    predict_by=stated("examples", "section 2.6"),
    neighbours=chosen(30, _CUTS),
    sharpness=stated(0.0, "section 2.6: occurrences of labels are counted"),
    labels_share=chosen(0.0, "without effect where examples vote"),
    ensemble=stated(15, "section 3.2, Table 3; Table 5 has 1 to 15"),
    search=stated("cells", "section 2.6: N/3000 random clusters"),
    recall=chosen(0.99, "the paper does not give the number of clusters that are searched"),
)

PAPER_ANNEXML = PAPER.but(
    "The Euclidean rival in its Table 4, with AnnexML's loss.",
    geometry=stated("spherical", "section 2.4: the cosine of two embeddings"),
    loss=stated("annexml", "section 2.4, Table 4"),
    label_neighbours=chosen(10, "the paper gives no value; that of AnnexML's example"),
)
