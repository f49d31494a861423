"""The preset of Seq2Seq against the slides with the T5 baseline (Pathak 2024)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.components.training_data import Shape
from labelspace.data.dataset import Dataset
from labelspace.data.taxonomy import Taxonomy
from labelspace.methods.seq2seq.method import Seq2Seq
from labelspace.metrics.levels import MOST_TAIL_SAMPLES
from labelspace.model import tagger, training

SHAPE = Shape(points=17_811, features=512, labels=9_232, feature_nnz=110_000, label_nnz=87_000)


def test_resolved_values_are_those_of_the_slides():
    found = Seq2Seq.resolve(Seq2Seq(preset="paper").get_params(), SHAPE)
    # Slide "Prompt".
    assert found["prompt"].startswith(
        "Your task is to extract specific product details from the given information. "
        "You need to identify and extract the following categories from the text: - Brand of the "
        "product - Primary category (L0_category)"
    )
    assert found["prompt"].endswith("- Quinary category (L4_category) Input: {text} Output:")
    # "details_Brand: <brand> L0_category: <category_0> L1_category: ...", one string.
    assert (found["format"], found["max_outputs"]) == ("record", 1)
    # Nothing restricts what is generated, and there is nothing beside the T5.
    assert (found["decoding"], found["beams"], found["linear_tree"]) == ("free", 1, False)
    assert found["max_tokens"] == 512
    assert found["lr"] == 0.002
    # "T5 is pre-trained on massive datasets and fine-tuned": a lower learning rate.
    given = Seq2Seq(preset="paper", model="path/to/t5").get_params()
    assert Seq2Seq.resolve(given, SHAPE)["lr"] == 0.0003
    # "Tail Labels are labels which have less than or equal to 25 training samples"
    assert MOST_TAIL_SAMPLES == 25


def test_products_are_trained_and_loaded_with_the_preset_and_the_prompt_stays_whole(tmp_path):
    names = ["toys", "toys > cars", "home", "brand: acme"]
    taxonomy = Taxonomy.from_names([("toys > cars", "toys")], names)
    Y = csr_matrix(np.tile([[1, 1, 0, 1], [0, 0, 1, 0]], (12, 1)).astype(np.float32))
    data = Dataset(Y, texts=["acme car", "chair"] * 12, label_names=names, taxonomy=taxonomy)
    small = {"width": 16, "layers": 1, "heads": 2, "epochs": 2, "vocabulary": 120}
    model = training.train(data, method="seq2seq", preset="paper", **small)
    rows = model.pipeline.transform_texts(["car", "chair"])
    lengths = np.diff(rows.indptr)
    assert lengths.min() > 100  # tokens of the prompt
    assert (rows[0] != rows[1]).nnz > 0  # and those of the text
    assert 0.0 <= model.method.metadata()["decoding"]["invalid_share"] <= 1.0
    model.save(tmp_path / "m")
    loaded = tagger.load(tmp_path / "m")
    assert loaded.method.params_.preset == "paper"
    assert loaded.tag("acme car", k=3) == model.tag("acme car", k=3)


@pytest.mark.parametrize("model", ["small", "path/to/t5"])
def test_a_learning_rate_that_is_given_has_precedence(model):
    given = Seq2Seq(preset="paper", model=model, lr=0.01).get_params()
    assert Seq2Seq.resolve(given, SHAPE)["lr"] == 0.01
