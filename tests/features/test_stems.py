from __future__ import annotations

import pytest

from labelspace.features.stems import Parts, Stemmer, fold, split_compound


@pytest.mark.parametrize(
    ("languages", "one", "other"),
    [
        (["en"], "libraries", "Library"),
        (["en"], "systems", "system"),
        (["de"], "Häuser", "Haus"),
        (["de"], "Häuser", "Häusern"),
        (["de", "en"], "Kreise", "Kreis"),
        (["de"], "Schäden", "Schaden"),
        (["de", "en"], "Systeme", "systems"),
        (["fr"], "bibliothèques", "Bibliothèque"),
        ([], "tools", "tool"),
    ],
)
def test_inflected_words_have_one_stem(languages, one, other):
    stem = Stemmer(languages)
    assert stem(one) == stem(other)


@pytest.mark.parametrize("word", ["class", "status", "basis", "C3PO", "42", "as"])
def test_words_that_are_not_inflected_stay(word):
    assert Stemmer(["en"])(word) == fold(word)


def test_a_language_without_rules_is_ignored():
    assert Stemmer(["xx", "de-at"]).languages == {"de"}


def test_compounds_are_split_into_known_stems():
    stem = Stemmer(["de"])
    known = Parts(["wasserstoff", "speicherung", "markt", "arbeit"])
    assert split_compound("wasserstoffspeicherung", known, stem) == ("wasserstoff", "speicherung")
    assert split_compound("arbeitsmarkt", known, stem) == ("arbeit", "markt")
    assert split_compound("wasserstoffauto", known, stem) == ()
    assert split_compound("markt", known, stem) == ()


def test_a_part_that_ends_in_ies_is_found_by_its_stem():
    stem, known = Stemmer(["en", "de"]), Parts(["market", "copy", "battery", "x1yz"])
    assert split_compound("marketcopies", known, stem) == ("market", "copy")
    assert split_compound("batteriesmarket", known, stem) == ("battery", "market")
    assert "x1yz" not in known
