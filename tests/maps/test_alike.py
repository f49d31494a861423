"""Labels without a vector find a label by their name."""

from __future__ import annotations

import numpy as np

from labelspace.maps import alike
from labelspace.maps.alike import most_alike


def found(names, n_wanted):
    n = len(names)
    return most_alike(names, np.arange(n - n_wanted, n), np.arange(n - n_wanted)).tolist()


def test_the_most_similar_name_is_found_by_parts_of_words():
    names = ["Elektromotor", "Baum", "Steuerrecht", "Elektromotoren", "Laubbaum", "Recht"]
    assert found(names, 3) == [0, 1, 2]


def test_names_without_anything_in_common_find_none():
    assert found(["tree", "motor", "quilt"], 1) == [-1]
    assert found(["2017", "17", "2018"], 1) == [-1]  # numbers are no names
    assert found(["tree", "?"], 1) == [-1]


def test_no_labels_to_find_or_to_choose_from():
    nothing = np.empty(0, np.int64)
    assert most_alike(["a"], nothing, np.array([0])).tolist() == []
    assert most_alike(["tree"], np.array([0]), nothing).tolist() == [-1]


def test_names_are_compared_in_blocks(monkeypatch):
    words = [f"{a}{b}{c}" for a in "kmpt" for b in "aeiou" for c in ("lor", "nix", "sud")]
    names = [f"{word}a" for word in words] + words
    whole = found(names, len(words))
    monkeypatch.setattr(alike, "_ROWS", 7)
    assert found(names, len(words)) == whole == list(range(len(words)))


def test_parts_that_many_names_share_are_not_compared(monkeypatch):
    monkeypatch.setattr(alike, "_COMMON", 3)
    names = ["history", "history", "history", "history brazil", "history", "brazil"]
    assert found(names, 2) == [-1, 3]
    assert found(["same"] * 6, 2) == [-1, -1]
