"""The language of a column of names, recognised by its function words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

# Words that are frequent in one language and rare or absent in the others.
_WORDS = {
    "de": "und der die das des dem den von für mit zur zum bei aus nach über eine eines durch",
    "en": "and of the for with by from to as its their other not under between",
    "es": "los las el del con por sobre según sus como",
    "fr": "et les des du aux dans sur pour avec par chez une",
    "it": "di della dei delle degli nel nella con gli dello alla",
    "nl": "en het een voor met van bij aan naar uit door",
    "pt": "dos das em com uma ao pelo pela não do da",
    "sv": "och för med av till från på ett samt",
}
_LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _words in _WORDS.items():
    for _word in _words.split():
        _LANGUAGES_OF.setdefault(_word, []).append(_language)
_WORD = re.compile(r"[^\W\d_]+")
_READ = 50_000  # texts
_LEAST, _LEAD = 5, 2  # texts with such words, and times as many as of any other language


def likely_language(texts: Iterable[str]) -> str:
    """Return the language of most texts, "" if it is not clear.

    The texts of each language with one of its function words are counted; one of them must have at
    least five, and twice as many as any other language.

    Examples
    --------
    >>> likely_language(["History of art", "Food and drink"] * 3), likely_language(["Memristor"])
    ('en', '')
    """
    counts = dict.fromkeys(_WORDS, 0)
    for text in islice(texts, _READ):
        words = set(_WORD.findall(text.lower()))
        for language in {of for word in words for of in _LANGUAGES_OF.get(word, ())}:
            counts[language] += 1
    best, second = sorted(counts, key=lambda language: -counts[language])[:2]
    clear = counts[best] >= _LEAST and counts[best] >= _LEAD * counts[second]
    return best if clear else ""
