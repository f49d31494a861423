"""Search for labels of a model by name, id or alternative name."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from labelspace._core.suggest import nearest
from labelspace.errors import ParameterError
from labelspace.methods.explanation import nearest_vectors
from labelspace.model.label_lookup import LabelLookup

if TYPE_CHECKING:
    from labelspace.model.model_labels import ModelLabels

_COMPARED = 1000  # names that are compared with one that does not exist
_SHORT, _LONGEST = 6, 100  # letters of a query
_MARKS = re.compile(r"[\W_]+")
# How a query matches, best first.
_EXACT, _EXACT_OTHER, _PREFIX, _PREFIX_OTHER, _WORDS, _WORDS_OTHER, _INSIDE, _NEAR = range(8)


@dataclass(frozen=True)
class FoundLabel:
    """A label that a search has found.

    Attributes
    ----------
    id : str
        The label as the data have it.
    name : str
        Its preferred name.
    matched : str
        The name, alternative name, id or notation that matches the query.
    count : int or None
        Number of training examples; None if the model has no counts.
    path : list of str
        Names from the top of the taxonomy to the label; one of its paths, if there are several,
        and [] without a taxonomy.
    alternative : list of str
        Its alternative names and its names in other languages.
    description, notation, uri : str
        "" if there is none.
    similar : list of (str, float)
        Names of the most similar labels, and their cosine similarities; [] for a label without
        examples, and if the method cannot compare labels.
    """

    id: str
    name: str
    matched: str
    count: int | None
    path: list[str]
    alternative: list[str]
    description: str
    notation: str
    uri: str
    similar: list[tuple[str, float]]


class LabelSearch:
    """An index of all names of a model's labels.

    Case, accents and punctuation do not matter.

    Parameters
    ----------
    tagger : ModelLabels
        The model.
    """

    def __init__(self, tagger: ModelLabels) -> None:
        self.tagger = tagger
        self._forms = [(_plain(text), text, label, main) for label, text, main in _forms(tagger)]
        # All of them as one text, in which a word is found without a loop over the forms.
        self._joined = "\n".join(plain for plain, *_ in self._forms)
        lengths = (len(plain) + 1 for plain, *_ in self._forms)
        self._starts = list(accumulate(lengths, initial=0))

    def find(self, query: str, k: int, language: str | None, similar: int) -> list[FoundLabel]:
        """Return the best k labels; see `Tagger.find_labels`."""
        if k < 1:
            raise ParameterError(f"k={k}: expected an integer of at least 1")
        known = self.tagger.label_counts
        counts = [0] * len(self.tagger.label_names) if known is None else known.counts.tolist()
        best = self._matches(query) or self._near(query)
        order = sorted(best, key=lambda label: (best[label][0], -counts[label], best[label][1]))
        return [self._found(each, best[each][1], language, similar) for each in order[:k]]

    def describe(self, label: str, language: str | None, similar: int) -> FoundLabel:
        """Return what is known of one label; see `Tagger.describe_label`."""
        number = self.tagger.derived(LabelLookup).number(label)
        return self._found(number, label, language, similar)

    def _matches(self, query: str) -> dict[int, tuple[int, str]]:
        """Return how each label matches: its best class, and the text that does."""
        wanted = _plain(query)
        words = wanted.split()
        best: dict[int, tuple[int, str]] = {}
        for place in self._holding(max(words, key=len, default="")):
            plain, text, label, main = self._forms[place]
            if not all(word in plain for word in words):
                continue
            if plain == wanted:
                rank = _EXACT if main else _EXACT_OTHER
            elif plain.startswith(wanted):
                rank = _PREFIX if main else _PREFIX_OTHER
            elif all(f" {word}" in f" {plain}" for word in words):
                rank = _WORDS if main else _WORDS_OTHER
            else:
                rank = _INSIDE
            if label not in best or rank < best[label][0]:
                best[label] = (rank, text)
        return best

    def _holding(self, word: str) -> Iterator[int]:
        """Yield the places of the forms that hold a word."""
        if not word:
            yield from range(len(self._forms))
            return
        at = self._joined.find(word)
        while at >= 0:
            place = bisect_right(self._starts, at) - 1
            yield place
            at = self._joined.find(word, self._starts[place + 1])

    def _near(self, query: str) -> dict[int, tuple[int, str]]:
        """Return labels with a name that is like the query, which may be misspelt.

        Only the names that share most runs of letters with it are compared.
        """
        wanted = _plain(query)[:_LONGEST]
        size = 3 if len(wanted) > _SHORT else 2
        runs = dict.fromkeys(wanted[at : at + size] for at in range(len(wanted) - size + 1))
        shared = Counter(place for run in runs for place in self._holding(run))
        of: dict[str, list[tuple[int, str]]] = {}
        for place, _ in shared.most_common(_COMPARED):
            plain, text, label, _ = self._forms[place]
            of.setdefault(plain, []).append((label, text))
        near = nearest(wanted, of, n=5, cutoff=0.75)
        return {label: (_NEAR + place, text)
                for place, plain in reversed(list(enumerate(near)))
                for label, text in of[plain]}  # fmt: skip

    def _found(self, label: int, matched: str, language: str | None, similar: int) -> FoundLabel:
        tagger, texts = self.tagger, self.tagger.label_texts
        names = tagger.tag_maker(language).names
        others: dict[str, None] = {}
        if texts is not None:
            for preferred in texts.preferred.values():
                others[preferred[label]] = None
            for alternative in texts.alternative.values():
                others.update(dict.fromkeys(alternative[label]))
        for known in ("", names[label]):
            others.pop(known, None)
        return FoundLabel(
            tagger.label_names[label],
            names[label],
            matched,
            None if tagger.label_counts is None else int(tagger.label_counts.counts[label]),
            tagger.label_paths(language).path(label),
            list(others),
            texts.descriptions[label] if texts is not None and texts.descriptions else "",
            texts.notations[label] if texts is not None and texts.notations else "",
            texts.uris[label] if texts is not None and texts.uris else "",
            [(names[other], cosine) for other, cosine in similar_labels(tagger, label, similar)],
        )


def similar_labels(tagger: ModelLabels, label: int, k: int) -> list[tuple[int, float]]:
    """Return the k labels most similar to a label, by the method or its first member that can."""
    counts = tagger.label_counts
    without_examples = counts is not None and counts.counts[label] == 0
    if k < 1 or label >= tagger.method.n_labels_ or without_examples:
        return []
    for method in (tagger.method, *tagger.method.members_):
        if method.can_compare_labels:
            return method.similar_labels(label, k)
        if method.has_space:
            return nearest_vectors(method.label_vectors_, label, k)
    return []


def _forms(tagger: ModelLabels) -> Iterator[tuple[int, str, bool]]:
    """Yield (label, text, whether it is its id or a preferred name)."""
    texts = tagger.label_texts
    for label, name in enumerate(tagger.label_names):
        yield label, name, True
    if texts is not None:
        for label, text, _, preferred in texts.forms():
            yield label, text, preferred
        for column in (texts.notations, texts.uris):
            for label, text in enumerate(column):
                if text:
                    yield label, text, False


def _plain(text: str) -> str:
    """Return a text in lower case, without accents, and with blanks for punctuation."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(each for each in letters if not unicodedata.combining(each))
    return _MARKS.sub(" ", letters).strip()
