"""The presets of `treespace`: Pathak (2024), whose slides propose the method and give no sizes."""

from __future__ import annotations

from labelspace.methods.parameters import AUTO
from labelspace.methods.presets import Preset, chosen, stated

PAPER = Preset(
    "As Pathak (2024) proposes it: a matrix per parent, three losses, search in the tree alone.",
    dim=chosen(128, "the slides give no size; a matrix per node of 512 would be 1 MB each"),
    top_dim=chosen(32, "slide on parameters: smallest at the root, growing with depth; no values"),
    spaces=chosen(8, "slide on parameters: a space per level; deeper levels share the last"),
    width=chosen(512, "the slides do not describe the encoder"),
    geometry=chosen("euclidean", "summary: hyperbolic space is named as an option"),
    projections=stated("node", "slide on parameters: each parent node has a matrix"),
    prediction=chosen(1.0, "slide on the loss: a sum over all levels; no weight"),
    level_weight=chosen(1.0, "slide on the loss: by the importance of each level; no values"),
    level_weights=chosen(None, "slide on the loss: by the importance of each level; no values"),
    consistency=chosen(
        1.0, "no value; at 1 the mean of 1 - cos falls from 0.87 to 0.55 (flipkart)"
    ),
    regularisation=chosen(1.0, "no value; at 1 offsets shrink from 1.44 to 1.04 (flipkart)"),
    dimensionality=chosen(
        0.03, "no value; at 0.03 deep levels use a third fewer dimensions (flipkart)"
    ),
    keep=chosen(1.0, "the slides name no dropout"),
    feature_damping=chosen(None, "the slides name no other learning rate of rare features"),
    scale=chosen(10.0, "only its initial value; the default"),
    n_negatives=chosen(1000, "the default: the sum over more siblings is estimated"),
    epochs=chosen(8, "not given; the default"),
    batch_size=chosen(AUTO, "not given; the default"),
    lr=chosen(0.004, "not given; the default"),
    patience=chosen(2, "not given; the default"),
    validation=chosen(AUTO, "not given; the default"),
    metric=chosen("nDCG@5", "not given; the default"),
    neighbours=chosen(0, "the slides name no votes of neighbours"),
    linear_tree=chosen(False, "the slides name no further classifier"),
    tail_bias=chosen(0.0, "the slides name no correction for rare labels"),
    beam=chosen(
        None, "schematic: search level by level, no width; exact search finds what no limit would"
    ),
    consistent=chosen(False, "the slides rank labels by their scores"),
)
HYPERBOLIC = PAPER.but(
    "The same with a Poincare ball per level.",
    geometry=stated("hyperbolic", "summary: can also be embedded in hyperbolic space"),
)
