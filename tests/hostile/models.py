"""Small saved models, one per method and per form of its arrays, for the mutations to damage."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import labelspace as ls
from labelspace.data.label_texts import LabelRecord, LabelTexts

_WORDS = [
    "apple",
    "bread",
    "candle",
    "desert",
    "engine",
    "forest",
    "garden",
    "harbour",
    "island",
    "jacket",
    "kettle",
]
_FILLER = ["small", "bright", "old", "quiet", "green", "heavy", "common", "early"]
_UNSEEN = 2  # labels at the end that no example has
_SMALL = {"batch_size": 32}


class Recipe(NamedTuple):
    """How a model is trained.

    Attributes
    ----------
    method : str
    settings : dict
        Parameters of the method.
    features : str or None
    texts : bool
        Whether labels have texts.
    numbers : bool
        Whether there are numeric columns beside the texts.
    paths : bool
        Whether examples have a category path, which gives a taxonomy.
    large : bool
        Whether search indexes are built as for many labels and examples.
    """

    method: str
    settings: Mapping[str, Any] = {}
    features: str | None = None
    texts: bool = False
    numbers: bool = False
    paths: bool = False
    large: bool = False


RECIPES = {
    "most-common": Recipe("most-common"),
    "random": Recipe("random"),
    "knn": Recipe("knn", {"max_document_frequency": 0.4}),
    "knn-bounded": Recipe("knn", {"max_postings": 1000}),
    "labeltext": Recipe("labeltext", texts=True),
    "dual-encoder": Recipe("dual-encoder", {"dim": 16, "epochs": 2}, texts=True),
    "dual-encoder-large": Recipe("dual-encoder", {"dim": 16, "epochs": 2}, texts=True, large=True),
    "lexical": Recipe("lexical", {"trees": 10, "leaves": 4}, texts=True),
    "linear": Recipe("linear", {"negatives": "hard", "shortlist": 4, "keep_examples": True}),
    "linear-all": Recipe("linear", {"negatives": "all"}),
    "hierarchicalxc": Recipe(
        "hierarchicalxc", {"fanout": 2, "leaf_size": 3, "ensemble": 2, "keep_examples": True}
    ),
    "hierarchicalxc-code": Recipe(
        "hierarchicalxc",
        {"inputs": "code", "layers": (8,), "node_hidden": 4, "ensemble": 1, "tree": "taxonomy"},
        paths=True,
    ),
    "hierarchicalxc-both": Recipe(
        "hierarchicalxc", {"inputs": "both", "layers": (8,), "ensemble": 1}
    ),
    "dxml": Recipe("dxml", {"epochs": 2, "dim": 8, "hidden": (8,), "ensemble": 2, **_SMALL}),
    "dxml-clusters": Recipe(
        "dxml",
        {"epochs": 1, "dim": 8, "search": "clusters", "input_bias": True, **_SMALL},
        large=True,
    ),
    "dxml-quantised": Recipe(
        "dxml", {"epochs": 1, "dim": 8, "search": "quantised", **_SMALL}, large=True
    ),
    "hyperbolic": Recipe("hyperbolic", {"epochs": 1, "dim": 8, "predict_by": "both", **_SMALL}),
    "hyperbolic-cells": Recipe(
        "hyperbolic",
        {"epochs": 1, "dim": 8, "geometry": "spherical", "search": "cells", "hidden": (8,)},
        large=True,
    ),
    "hyperbolic-codes": Recipe(
        "hyperbolic", {"epochs": 1, "dim": 8, "search": "codes", **_SMALL}, large=True
    ),
    "glas": Recipe("glas", {"epochs": 2, "dim": 8, "n_negatives": 4, **_SMALL}),
    "glas-large": Recipe(
        "glas", {"epochs": 1, "dim": 8, "hidden": (8,), "n_negatives": 4, **_SMALL}, large=True
    ),
    "glas-float16": Recipe("glas", {"epochs": 1, "dim": 8, "precision": "float16", **_SMALL}),
    "glas-int8": Recipe(
        "glas", {"epochs": 1, "dim": 8, "precision": "int8", **_SMALL}, large=True
    ),
    "neuralxc": Recipe(
        "neuralxc",
        {"epochs": 1, "input_layers": (8,), "output_layers": (8,), "regressor_layers": (8,),
         "ensemble": 2, **_SMALL},
    ),
    "treespace": Recipe(
        "treespace", {"epochs": 2, "dim": 8, "top_dim": 4, "width": 8, **_SMALL}, paths=True
    ),
    "treespace-ball": Recipe(
        "treespace",
        {"epochs": 2, "dim": 8, "top_dim": 4, "width": 8, "geometry": "hyperbolic",
         "linear_tree": False, "consistent": True, **_SMALL},
        paths=True,
    ),
    "seq2seq": Recipe(
        "seq2seq",
        {"width": 8, "layers": 1, "heads": 2, "epochs": 1, "beams": 2, **_SMALL},
    ),
    "fusion": Recipe("fusion", {"members": "knn,linear,hierarchicalxc", "validation": 0.3}),
    "fusion-texts": Recipe(
        "fusion",
        {"members": "lexical,knn,linear,labeltext", "validation": 0.3,
         "member_settings": "lexical.trees=10"},
        texts=True,
    ),
    "features": Recipe(
        "knn", features="tfidf+0.5*chars+hashing+word2vec:4", texts=True, numbers=True
    ),
    "static": Recipe("most-common", features="static:4"),
    "numbers": Recipe("most-common", features="none", numbers=True),
}  # fmt: skip


def train(name: str, place: Path) -> None:
    """Train a model by its recipe and save it."""
    recipe = RECIPES[name]
    numbers = ("price", "stock") if recipe.numbers else ()
    columns = ls.Columns(numbers=numbers, path=("path",) if recipe.paths else ())
    rows = examples(120)
    if not recipe.paths:
        rows = [{k: v for k, v in row.items() if k != "path"} for row in rows]
    labels = _label_texts() if recipe.texts else None
    with ExitStack() as patched:
        if recipe.large:
            for module in ("build", "neighbours.build", "geometry.build"):
                patched.enter_context(
                    patch(f"labelspace.search.{module}.is_large", lambda *_: True)
                )
        tagger = ls.train(
            rows, method=recipe.method, features=recipe.features, labels=labels,
            columns=columns, progress=False, **recipe.settings,
        )  # fmt: skip
    tagger.save(place)


def examples(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return rows with a text, labels that it names, a category path and two numbers."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        own = rng.choice(len(_WORDS) - _UNSEEN, size=int(rng.integers(1, 4)), replace=False)
        words = [*(f"{_WORDS[label]}s" for label in own), *rng.choice(_FILLER, 4)]
        text = " ".join(rng.permutation(words).tolist())
        rows.append(
            {
                "text": text,
                "labels": [f"c{label}" for label in sorted(own.tolist())],
                "path": [f"part {own[0] % 2}", f"shelf {own[0] % 4}"],
                "price": float(len(text)),
                "stock": int(own[0]),
            }
        )
    return rows


def _label_texts() -> LabelTexts:
    records = [
        LabelRecord(f"c{number}", {"en": word}, description=f"A {word}.")
        for number, word in enumerate(_WORDS)
    ]
    return LabelTexts.of(records)
