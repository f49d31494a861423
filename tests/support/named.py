"""Small texts whose labels are named in them, some of them without examples."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Dataset
from labelspace.data.label_texts import LabelRecord, LabelTexts

WORDS = (
    "apple", "bread", "candle", "desert", "engine", "forest", "garden", "harbour", "island",
    "jacket", "kettle", "ladder", "mirror", "needle", "orchid", "pencil",
)  # fmt: skip
FILLER = ("small", "bright", "old", "quiet", "green", "heavy", "common", "early")
N_LABELS, N_SEEN = 16, 12  # the last labels have no training examples


def named(n=160, seed=0, n_labels=N_SEEN, total=N_LABELS):
    """Draw texts that name their labels in the plural, and a word that is no label of theirs."""
    rng = np.random.default_rng(seed)
    texts, Y = [], np.zeros((n, total), np.float32)
    for row in range(n):
        own = rng.choice(n_labels, size=rng.integers(1, 4), replace=False)
        Y[row, own] = 1
        said = [f"{WORDS[label]}s" for label in own if rng.random() < 0.9]
        words = [*said, *rng.choice(FILLER, 4), f"hidden{own[0]}"]
        texts.append(" ".join(rng.permutation(words)) + ". And more of it.")
    names = [f"c{label}" for label in range(total)]
    records = [LabelRecord(name, {"en": WORDS[at]}) for at, name in enumerate(names)]
    return Dataset(
        csr_matrix(Y), texts=texts, label_names=tuple(names), label_texts=LabelTexts.of(records)
    )
