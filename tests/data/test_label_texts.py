"""Label texts: order, forms, languages, merging, and the form in which models keep them."""

from __future__ import annotations

import json

import pytest

from labelspace.data.label_texts import LabelRecord, LabelTexts
from labelspace.errors import DataError

TEXTS = LabelTexts.of(
    [
        LabelRecord("c1", {"en": "fruit", "de": "Obst"}, {"de": ("Frucht", "Früchte")}, "Eaten."),
        LabelRecord("c2", {"de-at": "Paradeiser"}, notation="7", uri="http://x.org/2"),
        LabelRecord("c3", {}, {"": ("thing",)}, broader=("c1",)),
    ]
)


def test_forms_name_label_language_and_kind():
    assert list(TEXTS.forms()) == [
        (0, "fruit", "en", True),
        (0, "Obst", "de", True),
        (0, "Frucht", "de", False),
        (0, "Früchte", "de", False),
        (1, "Paradeiser", "de-at", True),
        (2, "thing", "", False),
    ]


def test_texts_in_another_order_and_with_gaps():
    found = TEXTS.aligned(["new", "c2", "c1"])
    assert [form[:2] for form in found.forms()] == [
        (1, "Paradeiser"),
        (2, "fruit"),
        (2, "Obst"),
        (2, "Frucht"),
        (2, "Früchte"),
    ]
    assert found.notations == ("", "7", "")
    assert found.descriptions == ("", "", "Eaten.")
    assert TEXTS.aligned(["new"]).uris == ()
    assert TEXTS.aligned(TEXTS.ids) is TEXTS


def test_labels_of_the_file_follow_those_of_the_data():
    assert TEXTS.with_labels_of(["x", "c3"]).ids == ("x", "c3", "c1", "c2")


@pytest.mark.parametrize(
    ("language", "names"),
    [
        (None, ["fruit", "Paradeiser", "c3"]),
        ("de", ["Obst", "Paradeiser", "c3"]),
        ("DE-AT", ["Obst", "Paradeiser", "c3"]),
        ("fr", ["fruit", "Paradeiser", "c3"]),
    ],
)
def test_names_in_a_language_or_the_next_best(language, names):
    assert TEXTS.names(language) == names


def test_newer_texts_replace_those_of_their_labels_alone():
    newer = LabelTexts.of(
        [
            LabelRecord("c9", {"fr": "outil"}),
            LabelRecord("c2"),  # without texts, it keeps those it has
            LabelRecord("c1", {"en": "fruits"}, notation="1"),
        ]
    )
    both = TEXTS.updated(newer)
    assert both.ids == ("c1", "c2", "c3", "c9")
    assert both.preferred["en"] == ("fruits", "", "", "")
    assert both.preferred["de"] == ("", "", "", "")
    assert both.preferred["fr"] == ("", "", "", "outil")
    assert both.alternative[""] == ((), (), ("thing",), ())
    assert both.notations == ("1", "7", "", "")
    assert both.descriptions == ()
    assert both.broader == (("c3", "c1"),)


def test_sizes_and_ids_are_checked():
    with pytest.raises(DataError, match="occurs twice"):
        LabelTexts(("a", "a"))
    with pytest.raises(DataError, match="each of 2 labels"):
        LabelTexts(("a", "b"), {"en": ("one",)})
    with pytest.raises(DataError, match="each of 2 labels"):
        LabelTexts(("a", "b"), uris=("one",))


def test_stored_texts_are_the_same_without_broader():
    stored = json.loads(json.dumps(TEXTS.to_json()))
    again = LabelTexts.from_json(stored, TEXTS.ids)
    assert list(again.forms()) == list(TEXTS.forms())
    assert (again.descriptions, again.uris) == (TEXTS.descriptions, TEXTS.uris)
    assert again.broader == ()


@pytest.mark.parametrize(
    "stored",
    [
        [],
        {"code": []},
        {"preferred": ["a", "b", "c"]},
        {"preferred": {"en": "abc"}},
        {"preferred": {"en": [1, 2, 3]}},
        {"preferred": {"en": ["a", "b"]}},
        {"alternative": {"en": ["a", "b", "c"]}},
        {"alternative": {"en": [[1], [], []]}},
        {"uris": ["a", "b"]},
        {"uris": "abc"},
    ],
)
def test_stored_texts_of_another_kind_are_refused(stored):
    with pytest.raises(DataError):
        LabelTexts.from_json(stored, TEXTS.ids)
