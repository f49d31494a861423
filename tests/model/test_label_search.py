"""Search for labels: by any name, whatever its case and accents, in a sensible order."""

from __future__ import annotations

import numpy as np
import pytest

import labelspace as ls
from labelspace.data.label_texts import LabelRecord, LabelTexts
from labelspace.errors import ParameterError
from labelspace.model.label_search import LabelSearch

TEXTS = LabelTexts.of(
    [
        LabelRecord("g1", {"de": "Mühle", "en": "mill"}, {"de": ("Mahlwerk",)}, "It grinds."),
        LabelRecord("g2", {"de": "Windmühle", "en": "windmill"}, broader=("g1",), notation="7.1"),
        LabelRecord("g3", {"de": "Mühlenbau", "en": "mill construction"}, broader=("top",)),
        LabelRecord("g4", {"de": "Bau einer Mühle"}, uri="http://x.org/g4"),
    ]
)
ROWS = [
    {"text": "old mill by the river", "labels": ["g1"]},
    {"text": "windmill and old mill", "labels": ["g2", "g1"]},
    {"text": "building a mill", "labels": ["g3"]},
    {"text": "sailing boat", "labels": ["boat"]},
] * 3


@pytest.fixture(scope="module")
def tagger():
    return ls.train(ROWS, method="linear", labels=TEXTS)


def found(tagger, query, **options):
    return [each.id for each in tagger.find_labels(query, **options)]


def test_the_order_of_matches(tagger):
    # Exact, then those that begin so, then those with the word, then those with it inside.
    assert found(tagger, "muhle") == ["g1", "g3", "g4", "g2"]
    assert found(tagger, "MÜHLE", k=2) == ["g1", "g3"]


@pytest.mark.parametrize(
    ("query", "label", "matched"),
    [
        ("mahlwerk", "g1", "Mahlwerk"),
        ("g4", "g4", "g4"),
        ("7.1", "g2", "7.1"),
        ("http://x.org/g4", "g4", "http://x.org/g4"),
        ("mill constr", "g3", "mill construction"),
        ("boat", "boat", "boat"),
        ("windmhüle", "g2", "Windmühle"),
    ],
)
def test_every_name_is_found(tagger, query, label, matched):
    first = tagger.find_labels(query)[0]
    assert (first.id, first.matched) == (label, matched)


def test_what_is_known_of_a_label(tagger):
    first = tagger.find_labels("windmill", language="en")[0]
    assert (first.name, first.count, first.notation) == ("windmill", 3, "7.1")
    assert first.path == ["mill", "windmill"]
    assert first.alternative == ["Windmühle"]
    assert [name for name, _ in first.similar] == ["mill"]
    assert tagger.find_labels("g1")[0].description == "It grinds."
    assert tagger.find_labels("g3")[0].path == ["top", "Mühlenbau"]


def test_a_label_without_examples_has_no_similar_ones(tagger):
    last = tagger.find_labels("g4")[0]
    assert (last.count, last.similar) == (0, [])


def test_without_a_query_frequent_labels_come_first(tagger):
    assert found(tagger, "")[0] == "g1"
    assert len(found(tagger, "", k=100)) == 5


def test_nothing_is_found(tagger):
    assert tagger.find_labels("zyzzyva") == []
    with pytest.raises(ParameterError, match="k=0"):
        tagger.find_labels("mill", k=0)


def test_the_index_is_made_once_and_anew_after_a_change(tagger):
    assert tagger.derived(LabelSearch) is tagger.derived(LabelSearch)
    changed = ls.Tagger(tagger.pipeline, tagger.method, tagger.label_names[:4])
    assert changed.find_labels("boat")
    changed.label_names = ["a", "b", "c", "ship"]
    assert [each.name for each in changed.find_labels("ship")] == ["ship"]
    assert changed.find_labels("ship")[0].count is None


def test_similar_labels_by_their_vectors():
    pytest.importorskip("torch")
    tagger = ls.train(ROWS, method="glas", dim=8, epochs=3, batch_size=4)
    first = tagger.find_labels("g1", similar=2)[0]
    vectors = tagger.method.label_vectors_
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    at = tagger.label_names.index("g1")
    cosines = vectors @ vectors[at]
    for name, cosine in first.similar:
        assert cosine == pytest.approx(cosines[tagger.label_names.index(name)], abs=1e-5)
