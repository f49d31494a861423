"""Labels of the data are found in label texts by id, URI, notation, prefix or name."""

from __future__ import annotations

import pytest

from labelspace.data.label_keys import NoSuchLabelsError, identified
from labelspace.data.label_texts import LabelRecord, LabelTexts
from labelspace.errors import DataError

GND = LabelTexts.of(
    LabelRecord(
        f"https://d-nb.info/gnd/{number}",
        {"de": german, "en": english},
        notation=f"N{number}",
        uri=f"https://d-nb.info/gnd/{number}",
        broader=("https://d-nb.info/gnd/40",) if number == "41" else (),
    )
    for number, german, english in (
        ("40", "Obst", "fruit"),
        ("41", "Apfel", "apple"),
        ("42", "Planet", "Mercury"),
        ("43", "Metall", "Mercury"),
    )
)


def test_ids_need_no_change():
    assert identified(GND, GND.ids[1:3]) is GND


def test_labels_by_prefix_name_further_labels_alike():
    found = identified(GND, ["gnd:41", "gnd:40"])
    assert found.ids == ("gnd:40", "gnd:41", "gnd:42", "gnd:43")
    assert found.uris == GND.uris
    assert found.broader == (("gnd:41", "gnd:40"),)


def test_labels_by_notation():
    assert identified(GND, ["N42"]).ids == ("N40", "N41", "N42", "N43")


def test_labels_by_name_in_one_of_the_languages():
    assert identified(GND, ["Obst", "Apfel", "else"]).ids == ("Obst", "Apfel", "Planet", "Metall")
    found = identified(GND, ["apple", "fruit"])
    assert found.ids == ("fruit", "apple", GND.ids[2], GND.ids[3])  # Mercury is two labels


def test_labels_that_kept_their_id_are_found_again():
    first = identified(GND, ["apple", "fruit"])
    assert identified(GND, first.ids).ids == first.ids


def test_an_id_that_is_replaced_becomes_a_notation():
    texts = LabelTexts.of([LabelRecord("c1", {"": "fruit"}), LabelRecord("c2", notation="7")])
    assert identified(texts, ["fruit"]).notations == ("c1", "7")


def test_a_name_of_two_labels_is_refused():
    with pytest.raises(DataError, match=r"'Mercury' is that of '.*gnd/42' and '.*gnd/43'"):
        identified(GND, ["apple", "fruit", "Mercury"])


def test_texts_of_other_labels_are_refused():
    with pytest.raises(NoSuchLabelsError, match=r"ids such as 'https.*labels such as 'pear'"):
        identified(GND, ["pear"])


def test_a_prefix_that_is_not_unique_is_not_used():
    texts = LabelTexts.of([LabelRecord("a::x"), LabelRecord("b::x")])
    with pytest.raises(NoSuchLabelsError):
        identified(texts, ["c::x"])
