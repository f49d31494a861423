"""The language of names is recognised where it is clear, and left open where it is not."""

from __future__ import annotations

import pytest

from labelspace.data.language import likely_language


@pytest.mark.parametrize(
    ("names", "language"),
    [
        (["History of art", "Food and drink", "Law"], "en"),
        (["Geschichte der Kunst", "Essen und Trinken", "Recht"], "de"),
        (["Histoire des arts", "Droit et justice", "Vie dans les villes"], "fr"),
        (["Memristor", "Hadoop"], ""),
        (["History of art", "Geschichte der Kunst"], ""),
    ],
)
def test_function_words_decide(names, language):
    assert likely_language(names * 5) == language


def test_few_texts_are_not_enough():
    assert likely_language(["History of art"] * 4) == ""
    assert likely_language(["History of art"] * 5) == "en"
