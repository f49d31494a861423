"""Names of labels found in texts: match columns beside the features of a text.

A name matches a text in which its words occur: in order, near each other or anywhere; as they are,
in another case or inflected; or as a part of a compound. A qualifier in brackets, as in
`Mercury (planet)`, may be missing. `name_codes.py` lists what a match consists of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import expect
from labelspace._core.schema import Schema, check_arrays, ints, offsets
from labelspace.data.label_texts import LabelTexts
from labelspace.features.name_codes import COLUMNS
from labelspace.features.ngrams import text_blocks
from labelspace.features.stems import Parts, Stemmer, find_words, fold, split_compound

_QUALIFIER = re.compile(r"\s*(?:\([^)]*\)|\[[^\]]*\]|<[^>]*>)\s*")
_TITLE_END = re.compile(r"[.!?](?=\s)|\n")
_CACHED = 1 << 18  # words of texts whose codes are remembered
_ARRAYS = (
    "word_stem", "word_folded", "folded_stem", "form_ptr", "form_words", "form_label",
    "key_ptr", "key_forms", "key_offset",
)  # fmt: skip
_SCHEMA: Schema = [
    ints("word_stem", "words", limit="stems", types="i8"),
    ints("word_folded", "words", limit="folded", types="i8"),
    ints("folded_stem", "folded", limit="stems", types="i8"),
    ints("form_words", "words of forms", limit="words", types="i8"),
    ints("form_label", "forms", limit="labels", types="i8"),
    offsets("form_ptr", "forms", "words of forms", filled=True),
    offsets("key_ptr", "stems", "forms"),
    ints("key_forms", "forms", limit="forms", types="i8"),
    ints("key_offset", "forms", types="i8"),
    ints("traits", "forms", 6, low=-(2**31), limit=2**31, types="i8"),
]
# Numbers of kinds of words; those of the compiled loop, which is imported when it is needed.
_SAME, _FOLDED, _STEM, _PART = range(4)


@dataclass(repr=False, eq=False)
class NameMatcher:
    """Finds the names of labels in texts.

    Attributes
    ----------
    n_labels : int
    languages : tuple of str
        The languages of the names, whose rules stem words.
    words, folded, stems : dict of str to int
        Words of names as they are written, in lower case without accents, and their stems.
    arrays : dict of str to ndarray
        `word_stem` and `word_folded` per word, `folded_stem` per folded word; the words of the
        names one after the other, `form_words`, from `form_ptr`, with the label of each,
        `form_label`; names by their rarest stem, `key_forms` from `key_ptr`, and which of its words
        that is, `key_offset`; `traits` per name: preferred, unqualified, split, shared, letters,
        language.

    Examples
    --------
    >>> from labelspace.data.label_texts import LabelRecord, LabelTexts
    >>> records = [LabelRecord("c1", {"en": "fruit"}), LabelRecord("c2", {"en": "tool"})]
    >>> matcher = NameMatcher.of(LabelTexts.of(records))
    >>> matcher.transform(["Sharp tools", "Nothing"]).nonzero()[1].tolist()
    [2, 3]
    """

    n_labels: int
    languages: tuple[str, ...]
    words: dict[str, int]
    folded: dict[str, int]
    stems: dict[str, int]
    arrays: dict[str, np.ndarray]
    _codes: dict[str, tuple[int, ...]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._stem = Stemmer(self.languages)
        single = np.diff(self.arrays["form_ptr"]) == 1
        first = self.arrays["form_words"][self.arrays["form_ptr"][:-1][single]]
        names = list(self.stems)
        stems = self.arrays["word_stem"][first].tolist() if self._stem.splits_compounds else []
        self._parts = Parts(names[stem] for stem in stems)
        self._names = tuple(self.arrays[name] for name in _ARRAYS)

    @classmethod
    def of(cls, texts: LabelTexts, languages: Sequence[str] = ()) -> Self:
        """Return a matcher of all names of these labels.

        Languages are numbered in the order of `languages`, of which some may have no names, then in
        that of the texts.
        """
        numbered = tuple(dict.fromkeys((*languages, *texts.languages)))
        vocabulary = _Vocabulary(Stemmer(numbered))
        forms = vocabulary.forms(texts, numbered)
        return cls(
            len(texts),
            numbered,
            vocabulary.words,
            vocabulary.folded,
            vocabulary.stems,
            vocabulary.arrays(forms),
        )

    @property
    def n_columns(self) -> int:
        """Return the number of match columns."""
        return COLUMNS * self.n_labels

    def transform(self, texts: Iterable[str]) -> csr_matrix:
        """Return (n, n_columns) float32, with sorted indices."""
        from labelspace.features.name_match_loops import match_text  # numba

        columns, numbers, ends = [], [], [0]
        for text in chain.from_iterable(text_blocks(texts)):
            end = _TITLE_END.search(text)
            cut = len(text) if end is None else end.end()
            title = self._coded(find_words(text[:cut]))
            codes = title + self._coded(find_words(text[cut:]))
            found = match_text(
                np.array(codes, np.int64), len(title), self._names, self.arrays["traits"]
            )
            columns.append(found[0])
            numbers.append(found[1])
            ends.append(ends[-1] + len(found[0]))
        wide = max(self.n_columns, ends[-1]) > np.iinfo(np.int32).max
        index = np.int64 if wide else np.int32
        indices = np.concatenate([np.empty(0, np.int64), *columns]).astype(index)
        data = np.concatenate([np.empty(0, np.float32), *numbers])
        shape = (len(columns), self.n_columns)
        return csr_matrix((data, indices, np.array(ends, index)), shape=shape, copy=False)

    def feature_names(self, label_names: Sequence[str]) -> list[str]:
        """Return the name of each column; `label_names` has one name per label."""
        kinds = ("name in the text", "how its name matches")
        return [f"{name} ({kind})" for name in label_names[: self.n_labels] for kind in kinds]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that `from_state` needs: values for JSON, and arrays."""
        words = {name: list(getattr(self, name)) for name in ("words", "folded", "stems")}
        return {"n_labels": self.n_labels, "languages": self.languages, **words}, self.arrays

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the matcher whose `state` this is; raise ModelFormatError if it is damaged."""
        n_labels, languages = params["n_labels"], params["languages"]
        expect(type(n_labels) is int and n_labels > 0, "the names have no labels")
        numbered = []
        for name in ("languages", "words", "folded", "stems"):
            listed = params[name]
            fits = isinstance(listed, list) and all(isinstance(each, str) for each in listed)
            expect(fits, f"the {name} of names are not texts")
            numbered.append({each: number for number, each in enumerate(listed)})
            expect(len(numbered[-1]) == len(listed), f"the {name} of names are not different")
        _, words, folded, stems = numbered
        counts = {"words": len(words), "folded": len(folded), "stems": len(stems)}
        check_arrays(_SCHEMA, arrays, labels=n_labels, **counts)
        own = {name: np.ascontiguousarray(arrays[name]) for name in (*_ARRAYS, "traits")}
        sizes = np.diff(own["form_ptr"])
        expect(
            bool((own["key_offset"] < sizes[own["key_forms"]]).all()),
            "a name has fewer words than it is looked up by",
        )
        return cls(n_labels, tuple(languages), words, folded, stems, own)

    def _coded(self, words: Sequence[str]) -> list[int]:
        """Return the codes of words, those of the parts of a compound after its own."""
        known = self._codes
        found = list(map(known.get, words))  # nearly all are known
        if None in found:
            for place, word in enumerate(words):
                if found[place] is None:
                    if len(known) >= _CACHED:
                        known.clear()
                    found[place] = known.get(word) or known.setdefault(word, self._code(word))
        return list(chain.from_iterable(filter(None, found)))

    def _code(self, word: str) -> tuple[int, ...]:
        number, kind, low = self.words.get(word), _SAME, fold(word)
        if number is None:
            number, kind = self.folded.get(low), _FOLDED
        if number is None:
            number, kind = self.stems.get(self._stem.of_folded(low)), _STEM
        own = -1 if number is None else 4 * number + kind
        parts = split_compound(low, self._parts, self._stem) if self._parts else ()
        return (own, *(4 * self.stems[part] + _PART for part in parts))


# A name: label, words; and what it is: preferred, unqualified, split, language.
_Forms = dict[tuple[int, tuple[int, ...]], tuple[int, int, int, int]]


class _Vocabulary:
    """The words of names, numbered in the order in which they are found."""

    def __init__(self, stem: Stemmer) -> None:
        self.stem = stem
        self.words: dict[str, int] = {}
        self.folded: dict[str, int] = {}
        self.stems: dict[str, int] = {}
        self.word_folded: list[int] = []
        self.folded_stem: list[int] = []

    def add(self, word: str) -> int:
        """Return the number of a word."""
        number = self.words.setdefault(word, len(self.words))
        if number == len(self.word_folded):
            low = fold(word)
            place = self.folded.setdefault(low, len(self.folded))
            if place == len(self.folded_stem):
                self.folded_stem.append(self.stems.setdefault(self.stem(word), len(self.stems)))
            self.word_folded.append(place)
        return number

    def stem_of(self, word: int) -> int:
        return self.folded_stem[self.word_folded[word]]

    def forms(self, texts: LabelTexts, languages: Sequence[str]) -> _Forms:
        """Return all names, also without their qualifiers and with their compounds split."""
        forms: _Forms = {}
        numbers = {language: number for number, language in enumerate(languages)}
        for label, text, language, preferred in texts.forms():
            bare = _QUALIFIER.sub(" ", text).strip()
            for written, unqualified in ((text, 0), (bare, 1)) if bare != text else ((text, 0),):
                words = tuple(self.add(word) for word in find_words(written))
                if words:
                    kind = (int(preferred), unqualified, 0, numbers[language])
                    forms.setdefault((label, words), kind)
        if self.stem.splits_compounds:
            self._add_split(forms)
        return forms

    def _add_split(self, forms: _Forms) -> None:
        stems, listed = list(self.stems), list(self.words)
        known = Parts(stems[self.stem_of(words[0])] for _, words in forms if len(words) == 1)
        parts_of = {
            word: split_compound(fold(text), known, self.stem) for word, text in enumerate(listed)
        }
        for (label, words), (preferred, unqualified, _, language) in list(forms.items()):
            if any(parts_of[word] for word in words):
                split = chain.from_iterable(parts_of[word] or (listed[word],) for word in words)
                again = tuple(self.add(part) for part in split)
                forms.setdefault((label, again), (preferred, unqualified, 1, language))

    def arrays(self, forms: _Forms) -> dict[str, np.ndarray]:
        """Return the arrays of a `NameMatcher`."""
        word_folded = np.array(self.word_folded, np.int64)
        folded_stem = np.array(self.folded_stem, np.int64)
        word_stem = folded_stem[word_folded]
        words = [words for _, words in forms]
        form_ptr = np.cumsum([0, *map(len, words)], dtype=np.int64)
        form_words = np.fromiter(chain.from_iterable(words), np.int64)
        label = np.array([label for label, _ in forms], np.int64)
        stems = [tuple(self.stem_of(word) for word in each) for each in words]
        sharing: dict[tuple[int, ...], set[int]] = {}
        for each, own in zip(stems, label.tolist(), strict=True):
            sharing.setdefault(each, set()).add(own)
        sizes = [len(word) for word in self.words]
        traits = [
            (
                preferred,
                unqualified,
                split,
                len(sharing[each]),
                sum(sizes[w] for w in own),
                language,
            )
            for each, own, (preferred, unqualified, split, language) in zip(
                stems, words, forms.values(), strict=True
            )
        ]
        often = np.bincount(word_stem[form_words], minlength=len(self.stems)).tolist()
        offset = [min(range(len(each)), key=lambda at: often[each[at]]) for each in stems]
        key = np.array([each[at] for each, at in zip(stems, offset, strict=True)], np.int64)
        order = np.argsort(key, kind="stable")
        return {
            "word_stem": word_stem,
            "word_folded": word_folded,
            "folded_stem": folded_stem,
            "form_ptr": form_ptr,
            "form_words": form_words,
            "form_label": label,
            "key_ptr": np.searchsorted(key[order], np.arange(len(self.stems) + 1)).astype(np.int64),
            "key_forms": order.astype(np.int64),
            "key_offset": np.array(offset, np.int64)[order],
            "traits": np.array(traits, np.int64).reshape(-1, 6),
        }
