"""HierarchicalXC as its paper and the authors' public code define it.

The paper gives the tree and the traversal (section 4); it names no classifier. The code that its
section 5.3 names (github.com/vishwakftw/extreme-classification) has support vector machines.
"""

from __future__ import annotations

from labelspace.methods.presets import Preset, Setting, chosen, stated

PAPER = Preset(
    "As in the paper: a binary tree by complete link on shared examples, codes of features, and "
    "every child that its classifier predicts.",
    tree=stated("complete", "section 4.1: complete link on numbers of shared examples"),
    join=stated("order", "the authors' code: equal distances are merged in the order of labels"),
    fanout=stated(2, "section 4: a binary tree"),
    leaf_size=stated(2, "section 4: leaves are single labels"),
    inputs=stated("code", "section 4: an autoencoder reduces the dimensionality"),
    layers=chosen((256,), "the authors' code leaves the width open; that of NeuralXC for Bibtex"),
    code_init=chosen("svd", "the authors' autoencoder is linear; its optimum, without training"),
    code_lr=chosen(2e-4, "without effect, as nothing is trained"),
    epochs=chosen(10, "without effect, as nothing is trained"),
    node_hidden=chosen(None, "the paper names no classifier; the authors' code has an SVM"),
    loss=chosen("squared_hinge", "as `node_hidden`; linear, where the authors' SVM has a kernel"),
    C=chosen(1.0, "the default of the authors' SVM"),
    prune=stated(0.0, "no pruning"),
    search=stated("hard", "section 4: none, one or both branches are traversed"),
    beam=chosen(10, "without effect"),
    threshold=stated(0.5, "section 4: the decision of the classifier"),
    ensemble=stated(1, "section 4: one tree"),
    validation=stated(0.0, "all training examples are trained on; no calibration"),
    keep_examples=chosen(False, "the paper has no updates"),
)

IOU = PAPER.but(
    "The paper's refinement: the number of shared examples divided by that of either label.",
    tree=stated("iou", "section 4.1: negative of IoU"),
)


def _trained(data_set: str, lr: Setting, *layers: int) -> Preset:
    """Return the paper's form with the trained autoencoder of a data set's set-up."""
    source = f"section 4: as in NeuralXC; the authors' code, setups/{data_set}"
    return PAPER.but(
        f"As in the paper, with the layers of NeuralXC's feature encoder for {data_set}, trained.",
        layers=stated(layers, source),
        code_init=stated("random", "the authors' code"),
        code_lr=lr,
        epochs=stated(10, "the authors' code, default of --epochs"),
    )


_OPEN = chosen(3e-4, "the authors' code has no rate for this set; that for Bibtex")
BIBTEX = _trained("Bibtex", stated(3e-4, "the authors' code, setups/Bibtex"), 1152, 600, 256)
DELICIOUS = _trained("Delicious", _OPEN, 250, 125)
MEDIAMILL = _trained("Mediamill", stated(0.001, "the authors' code, setups/Mediamill"), 100, 50)
EURLEX = _trained("Eurlex", _OPEN, 2500, 1250, 500)
