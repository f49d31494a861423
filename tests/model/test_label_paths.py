"""Places of labels in the taxonomy: paths with names, and the nodes below a node."""

from __future__ import annotations

import pytest

import labelspace as ls
from labelspace.data.label_texts import LabelRecord, LabelTexts
from labelspace.errors import ParameterError

TEXTS = LabelTexts.of(
    [
        LabelRecord("g1", {"de": "Mühle", "en": "mill"}, broader=("top",)),
        LabelRecord("g2", {"de": "Windmühle", "en": "windmill"}, broader=("g1",), notation="7.1"),
        LabelRecord("g3", {"de": "Mühlenbau", "en": "construction"}, broader=("top",)),
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
    return ls.train(ROWS, method="knn", labels=TEXTS)


def test_a_path_has_the_names_of_all_levels(tagger):
    windmill = tagger.label_names.index("g2")
    assert tagger.label_paths().path(windmill) == ["top", "Mühle", "Windmühle"]
    assert tagger.label_paths("en").path(windmill) == ["top", "mill", "windmill"]


def test_the_top_has_nodes_without_parents_and_labels_outside_of_the_taxonomy(tagger):
    top = tagger.label_children()
    assert [(node.id, node.is_label, node.count, node.children) for node in top] == [
        ("top", False, None, 2),
        ("boat", True, 3, 0),
    ]


def test_nodes_with_others_below_them_come_first(tagger):
    below = tagger.label_children("top", language="en")
    assert [(node.id, node.name, node.count) for node in below] == [
        ("g1", "mill", 6),
        ("g3", "construction", 3),
    ]
    assert [node.id for node in tagger.label_children("g1")] == ["g2"]
    assert tagger.label_children("g2") == []


def test_an_unknown_node_is_named(tagger):
    with pytest.raises(ParameterError, match="no node 'tpo'; did you mean 'top'"):
        tagger.label_children("tpo")


def test_a_label_is_described_by_any_of_its_names(tagger):
    for name in ("g2", "7.1", "windmill", "Windmühle"):
        assert tagger.describe_label(name, language="en").path == ["top", "mill", "windmill"]
    with pytest.raises(ParameterError, match="no label 'sawmill'"):
        tagger.describe_label("sawmill")


def test_without_a_taxonomy_all_labels_are_at_the_top():
    flat = ls.train(ROWS, method="knn")
    assert [node.id for node in flat.label_children()] == ["boat", "g1", "g2", "g3"]
    assert flat.label_paths().path(0) == []
