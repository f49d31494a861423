"""The metadata of a model file: what the package reads again is checked, the rest is plain."""

from __future__ import annotations

import pytest

from labelspace.errors import ModelFormatError
from labelspace.model.metadata import METADATA, checked_metadata

RIGHT = {
    "data": {"points": 3, "labels": 2, "features": None, "labels_per_point": 1.5},
    "label_texts": {"named": 2, "languages": ["de", "en"], "names": 5},
    "seconds": 1.25,
    "index_base": None,
    "single_path": True,
    "updates": [{"points": 2, "new_labels": 0, "seconds": 0.5, "served": 1}],
    "text_features": {"name": "tfidf", "seconds": 0.1, "texts_per_second": 100},
    "threshold": {"value": 0.5, "goal": "micro-f1", "examples": 10},
    "learned": {"journal": "abc", "sequence": 4},
    "labelspace": "0.1.0",
    "created": "2026-11-19",
    "libraries": {"numpy": "2.4"},
    "tree": {"anything": [1, {"else": 2}]},
}


def test_what_a_tagger_keeps_is_returned():
    assert checked_metadata(RIGHT) == {name: RIGHT[name] for name in METADATA}
    assert checked_metadata({}) == {}


@pytest.mark.parametrize(
    "damage",
    [
        {"data": []}, {"data": {"points": -1, "labels": 2}}, {"data": {"labels": 2}},
        {"data": {"points": 3, "labels": 2, "x": [1]}}, {"data": {"points": True, "labels": 2}},
        {"label_texts": {"named": 2, "languages": "de", "names": 5}}, {"seconds": "1"},
        {"seconds": 10**40}, {"index_base": 2}, {"index_base": "0"}, {"single_path": 1},
        {"updates": {}}, {"updates": [{"points": 1}]}, {"text_features": 5},
        {"updates": [{"points": 1, "new_labels": 0, "seconds": "x"}]},
        {"threshold": {"value": 1.5}}, {"threshold": {"value": "0.5"}}, {"threshold": {}},
        {"learned": {"journal": 5, "sequence": 4}}, {"created": None}, {"created": "x" * 5000},
        {"libraries": {"numpy": 2}}, {"evaluation": {}},
    ],
)  # fmt: skip
def test_what_is_not_as_saved_is_refused(damage):
    with pytest.raises(ModelFormatError):
        checked_metadata({**RIGHT, **damage})
