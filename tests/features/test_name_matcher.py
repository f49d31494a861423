"""The matcher is compared with a plain one on random names and texts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from labelspace.data.label_texts import LabelRecord, LabelTexts
from labelspace.errors import ModelFormatError
from labelspace.features.name_codes import N_PROPERTIES, PROPERTIES, pack, unpack
from labelspace.features.name_matcher import NameMatcher
from labelspace.features.stems import Stemmer, find_words


def properties(matcher, text):
    """Return the properties of each matched label."""
    row = matcher.transform([text])
    found, values = {}, np.empty(N_PROPERTIES, np.int64)
    assert (row.indices[1::2] == row.indices[::2] + 1).all()
    for column, *codes in zip(row.indices[::2], row.data[::2], row.data[1::2], strict=True):
        unpack(*codes, values)
        found[int(column) // 2] = dict(zip(PROPERTIES, values.tolist(), strict=True))
    return found


def matcher_of(*names, language="en", alternative=()):
    records = [LabelRecord(f"c{at}", {language: name}) for at, name in enumerate(names)]
    for at, name in alternative:
        records[at] = replace(records[at], alternative={language: (name,)})
    return NameMatcher.of(LabelTexts.of(records))


def test_properties_survive_packing():
    rng, values = np.random.default_rng(0), np.empty(N_PROPERTIES, np.int64)
    for _ in range(50):
        given = rng.integers(0, 2, N_PROPERTIES)
        codes = np.array(pack(given), np.float32)
        unpack(*codes, values)
        assert np.array_equal(values, given)
    large = pack(np.full(N_PROPERTIES, 10**9))
    assert max(large) <= 2**24
    assert np.array_equal(np.array(large, np.float32).astype(np.int64), large)


def test_a_name_is_found_however_it_is_inflected_and_written():
    matcher = matcher_of("Public Library")
    same = properties(matcher, "The Public Library of Graz")[0]
    assert (same["order"], same["likeness"], same["words"], same["title"]) == (2, 3, 2, 1)
    assert properties(matcher, "A public library")[0]["likeness"] == 2
    assert properties(matcher, "Public libraries")[0]["likeness"] == 1
    assert properties(matcher, "libraries that are public")[0]["order"] == 1
    far = "public " + "word " * 30 + "library"
    assert properties(matcher, far)[0]["order"] == 0
    assert properties(matcher, "a library") == {}


def test_occurrences_are_counted_and_located():
    matcher = matcher_of("tool", "sharp tool")
    found = properties(matcher, "Old things. A sharp tool, a blunt tool, more tools.")
    assert found[0]["count"] == 3
    assert found[0]["title"] == 0
    assert found[0]["nested"] == 0
    assert found[1]["count"] == 1
    assert properties(matcher, "a sharp tool")[0]["nested"] == 1


def test_qualifiers_may_be_missing():
    matcher = matcher_of("Mercury (planet)", "Mercury (metal)", "Venus")
    found = properties(matcher, "Mercury and Venus")
    assert found.keys() == {0, 1, 2}
    assert found[0]["unqualified"] == 1
    assert found[0]["shared"] == 2
    assert found[2]["unqualified"] == 0
    assert found[2]["shared"] == 1


def test_alternative_names_are_marked():
    matcher = matcher_of("car", "dog", alternative=[(0, "automobile")])
    assert properties(matcher, "an automobile")[0]["preferred"] == 0
    assert properties(matcher, "a car")[0]["preferred"] == 1


def test_german_compounds_are_split_in_texts_and_names():
    matcher = matcher_of(
        "Wasserstoff", "Speicherung", "Arbeitsmarkt", "Arbeit", "Markt", language="de"
    )
    found = properties(matcher, "Wasserstoffspeicherung im Labor")
    assert found.keys() == {0, 1}
    assert found[0]["parts"] == 1
    assert found[0]["likeness"] == 0
    apart = properties(matcher, "Der Markt der Arbeit")
    assert apart[2]["split"] == 1
    assert apart[2]["order"] == 1


def reference(names, text, stem):
    """Return the places where each name stands in order, for names whose words all occur."""
    words = [stem(word) for word in find_words(text)]
    found = {}
    for label, name in enumerate(names):
        wanted = [stem(word) for word in find_words(name)]
        if not set(wanted) <= set(words):
            continue
        places = [at for at in range(len(words)) if words[at : at + len(wanted)] == wanted]
        found[label] = places
    return found


@pytest.mark.parametrize("seed", range(5))
def test_matches_are_those_of_a_plain_matcher(seed):
    rng = np.random.default_rng(seed)
    vocabulary = [f"w{letter}" for letter in "abcdefgh"]
    names = sorted({" ".join(rng.choice(vocabulary, rng.integers(1, 4))) for _ in range(30)})
    matcher, stem = matcher_of(*names), Stemmer(["en"])
    for _ in range(40):
        text = " ".join(rng.choice([*vocabulary, "x", "y"], rng.integers(0, 25)))
        found, expected = properties(matcher, text), reference(names, text, stem)
        assert found.keys() == expected.keys()
        for label, places in expected.items():
            assert (found[label]["order"] == 2) == bool(places)
            if places and len(names[label].split()) == 1:
                assert found[label]["count"] == min(len(places), 15)
                assert found[label]["first"] == int(2 * np.log2(1 + places[0]))


def test_rows_do_not_depend_on_each_other_and_survive_saving():
    matcher = matcher_of("Haus", "Garten", "Hausgarten", "öffentlicher Garten", language="de")
    texts = ["Im Hausgarten", "", "Gärten sind öffentlich. Häuser auch", "nichts", "HAUS\nGarten"]
    together = matcher.transform(texts)
    params, arrays = matcher.state()
    loaded = NameMatcher.from_state(json.loads(json.dumps(params)), arrays)
    for row, text in enumerate(texts):
        for one in (matcher, loaded):
            assert (one.transform([text]) != together[row]).nnz == 0
    assert together.has_sorted_indices


@pytest.mark.parametrize(
    "name",
    [
        "word_stem",
        "word_folded",
        "folded_stem",
        "form_words",
        "form_label",
        "key_forms",
        "key_offset",
    ],
)
def test_damaged_arrays_are_refused(name):
    params, arrays = matcher_of("one tool", "two tools").state()
    params = json.loads(json.dumps(params))
    for value in (-1, 10**6):
        broken = arrays[name].copy()
        broken[0] = value
        with pytest.raises(ModelFormatError):
            NameMatcher.from_state(params, {**arrays, name: broken})
    with pytest.raises(ModelFormatError):
        NameMatcher.from_state({**params, "words": params["words"][:-1]}, arrays)


def test_a_name_without_words_matches_nothing():
    assert properties(matcher_of("???", "tool"), "??? tools").keys() == {1}
