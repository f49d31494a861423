"""The nearest of many names."""

from __future__ import annotations

from labelspace._core import suggest
from labelspace._core.suggest import did_you_mean, nearest


def test_the_most_similar_name_comes_first():
    assert nearest("frut", ["nut", "fruits", "fruit"], n=2) == ["fruit", "fruits"]


def test_case_does_not_matter_and_the_name_comes_as_it_is_written():
    assert nearest("MANGO", ["Mangos", "tree"]) == ["Mangos"]


def test_far_names_are_left_out():
    assert nearest("fruit", ["xyz"]) == []
    assert did_you_mean("fruit", ["xyz"]) == ""


def test_the_end_of_a_sentence():
    assert did_you_mean("fruits", ["fruit"]) == "; did you mean 'fruit'?"


def test_among_few_names_a_much_longer_one_is_found():
    assert nearest("amazon", ["amazon-670k", "wiki"]) == ["amazon-670k"]


def test_the_last_of_many_names_is_found():
    known = [f"a much longer name {number}" for number in range(200_000)] + ["fruit"]
    assert nearest("frut", known) == ["fruit"]


def test_how_many_names_are_compared_is_bounded(monkeypatch):
    compared = []
    monkeypatch.setattr(
        suggest, "get_close_matches", lambda _, known, *__: compared.extend(known) or []
    )
    nearest("name 1", [f"name {number}" for number in range(300_000)])
    assert 0 < len(compared) <= 100_000


def test_a_very_long_name_is_not_compared():
    assert nearest("a" * 100_000, ["a" * 99_999]) == []


def test_a_name_that_is_hardly_similar_is_not_suggested():
    assert did_you_mean("rare", ["target", "keep"]) == ""
    assert did_you_mean("tail_bais", ["tail_bias", "beam"]) == "; did you mean 'tail_bias'?"
