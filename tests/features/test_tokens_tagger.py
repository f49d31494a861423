"""A method that reads tokens gets them from `train`, from `compare` and after loading."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.comparison.compare import compare, entrants
from labelspace.data.dataset import Dataset
from labelspace.data.taxonomy import Taxonomy
from labelspace.features.tfidf import Tfidf
from labelspace.features.tokens import Tokens
from labelspace.methods.registry import method_class
from labelspace.model import tagger, training

TINY = {"width": 16, "layers": 1, "heads": 2, "epochs": 20, "lr": 0.02, "vocabulary": 120}
NAMES = ["home", "home > lamps", "home > chairs", "brand: acme", "brand: nova"]
PAIRS = [("home > lamps", "home"), ("home > chairs", "home")]


def products(n=80):
    rng = np.random.default_rng(0)
    things, brands = rng.integers(2, size=n), rng.integers(2, size=n)
    Y = np.zeros((n, 5), np.float32)
    Y[:, 0] = 1
    Y[np.arange(n), 1 + things] = 1
    Y[np.arange(n), 3 + brands] = 1
    texts = [
        f"{('acme', 'nova')[b]} {('lamp', 'chair')[t]} {rng.integers(9)}"
        for t, b in zip(things, brands, strict=True)
    ]
    taxonomy = Taxonomy.from_names(PAIRS, NAMES)
    return Dataset(csr_matrix(Y), texts=texts, label_names=NAMES, taxonomy=taxonomy)


def test_methods_have_their_own_text_features():
    assert isinstance(method_class("knn")().text_features(), Tfidf)
    assert isinstance(method_class("seq2seq")().text_features(), Tokens)


def test_texts_in_names_out_also_after_loading(tmp_path):
    model = training.train(products(), method="seq2seq", **TINY)
    assert isinstance(model.pipeline.text, Tokens)
    tags = model.tag("nova lamp 3", k=3)
    assert {tag.name for tag in tags} == {"home", "home > lamps", "brand: nova"}
    assert model.method.input_tokens_.in_order
    model.save(tmp_path / "m")
    assert tagger.load(tmp_path / "m").tag("nova lamp 3", k=3) == tags


def test_a_comparison_gives_each_its_own_features():
    data, chosen = products(), entrants(["knn", "seq2seq"], [], {})
    chosen = [type(e)(e.name, e.kind, TINY if e.name == "seq2seq" else {}) for e in chosen]
    knn, seq2seq = compare(data, data, chosen)["entrants"]
    assert knn["P@1"] > 95
    assert seq2seq["P@3"] > 90
