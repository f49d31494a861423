"""Parameters of each method that keep training short, for tests that hold for all parameters."""

from __future__ import annotations

SMALL: dict[str, dict[str, object]] = {
    "dual-encoder": {"dim": 16, "epochs": 3, "batch_size": 32},
    "dxml": {"dim": 16, "hidden": (24,), "epochs": 3, "batch_size": 32, "ensemble": 1},
    "fusion": {"members": "knn,linear", "validation": 0.3},
    "glas": {"dim": 16, "epochs": 3, "batch_size": 32, "n_negatives": 4},
    "hierarchicalxc": {"fanout": 2, "leaf_size": 3, "keep_examples": True},
    "hyperbolic": {"dim": 8, "epochs": 3, "batch_size": 32, "neighbours": 5, "ensemble": 2},
    "knn": {"neighbours": 5},
    "linear": {"keep_examples": True},
    "neuralxc": {"input_layers": (16,), "output_layers": (16,), "epochs": 3, "ensemble": 2},
    "seq2seq": {"width": 16, "layers": 1, "heads": 2, "epochs": 3, "batch_size": 32, "beams": 4},
    "treespace": {"dim": 16, "top_dim": 8, "width": 16, "epochs": 3, "batch_size": 32},
}
