"""The texts of labels: names and alternative names per language, descriptions, notations, URIs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from labelspace.errors import DataError

Form = tuple[int, str, str, bool]

_Entry = TypeVar("_Entry")
_STORED = ("preferred", "alternative", "descriptions", "notations", "uris")


@dataclass(frozen=True)
class LabelRecord:
    """What a file of label texts gives about one label.

    Parameters
    ----------
    id : str
        How the label is written in the file.
    preferred : dict of str to str
        The preferred name per language; "" is the language of names whose language is not given.
    alternative : dict of str to tuple of str
        Alternative names (synonyms) per language.
    description, notation, uri : str
        A longer text, the label's code and its address; "" if there is none.
    broader : tuple of str
        The ids of its parents.
    line : int, optional
        Where it is in the file, for messages.

    Examples
    --------
    >>> LabelRecord("c1", {"en": "fruit"}, {"en": ("fruits",)}).preferred["en"]
    'fruit'
    """

    id: str
    preferred: Mapping[str, str] = field(default_factory=dict)
    alternative: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    description: str = ""
    notation: str = ""
    uri: str = ""
    broader: tuple[str, ...] = ()
    line: int | None = None


@dataclass(frozen=True, repr=False)
class LabelTexts:
    """The texts of labels in a fixed order; every text may be missing.

    Parameters
    ----------
    ids : tuple of str
        The labels, as the data have them; they must differ.
    preferred : dict of str to tuple of str
        Per language one preferred name per label, "" where there is none. "" is the language of
        names whose language is not given. Languages are written as in BCP 47, in lower case.
    alternative : dict of str to tuple of tuple of str
        Per language the alternative names of each label.
    descriptions, notations, uris : tuple of str
        One per label, "" where there is none; () if no label has one.
    broader : tuple of (str, str)
        (child, parent) pairs of ids.
    source : str, default ""
        The file, for messages.

    Raises
    ------
    DataError
        If the sizes do not agree, or an id occurs twice.

    Examples
    --------
    >>> from labelspace.data.label_texts import LabelRecord, LabelTexts
    >>> texts = LabelTexts.of([
    ...     LabelRecord("c1", {"en": "fruit", "de": "Obst"}, {"de": ("Frucht",)}),
    ...     LabelRecord("c2", {"en": "tool"}),
    ... ])
    >>> texts
    LabelTexts(2 labels, 2 with a name, languages de, en)
    >>> list(texts.forms())
    [(0, 'fruit', 'en', True), (0, 'Obst', 'de', True), (0, 'Frucht', 'de', False), \
(1, 'tool', 'en', True)]
    """

    ids: tuple[str, ...]
    preferred: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alternative: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    descriptions: tuple[str, ...] = ()
    notations: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()
    broader: tuple[tuple[str, str], ...] = ()
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        n = len(self.ids)
        if len(set(self.ids)) != n:
            raise DataError("label texts: an id occurs twice")
        by_language = (*self.preferred.values(), *self.alternative.values())
        single = (self.descriptions, self.notations, self.uris)
        if any(len(part) != n for part in by_language) or any(
            len(part) not in (0, n) for part in single
        ):
            raise DataError(f"label texts: expected one entry for each of {n} labels")

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        languages = ", ".join(sorted(filter(None, self.languages)))
        end = f", languages {languages}" if languages else ""
        return f"LabelTexts({len(self):,} labels, {self.n_named:,} with a name{end})"

    @property
    def n_named(self) -> int:
        """Return the number of labels that have a preferred name."""
        return sum(any(names) for names in zip(*self.preferred.values(), strict=True))

    @classmethod
    def of(cls, records: Iterable[LabelRecord]) -> LabelTexts:
        """Return the texts of these labels, in their order."""
        given = list(records)
        used = dict.fromkeys(language for each in given for language in each.preferred)
        others = dict.fromkeys(language for each in given for language in each.alternative)
        return cls(
            tuple(each.id for each in given),
            {of: tuple(each.preferred.get(of, "") for each in given) for of in used},
            {of: tuple(each.alternative.get(of, ()) for each in given) for of in others},
            _unless_empty(each.description for each in given),
            _unless_empty(each.notation for each in given),
            _unless_empty(each.uri for each in given),
            tuple((each.id, parent) for each in given for parent in each.broader),
        )

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the languages of the names, those of preferred names first."""
        return tuple(dict.fromkeys((*self.preferred, *self.alternative)))

    def has_language(self, language: str) -> bool:
        """Return whether there are preferred names in a language or a form of it, as en-gb is."""
        return any(_distance(of, language) < 2 for of in self.preferred)

    def forms(self) -> Iterator[Form]:
        """Yield every name: (label number, text, language or "", whether it is preferred).

        The order is that of the labels, within a label that of the languages, and within a
        language the preferred name comes first.
        """
        none: tuple[tuple[str, ...], ...] = ((),) * len(self)
        blank = ("",) * len(self)
        columns = [
            (of, self.preferred.get(of, blank), self.alternative.get(of, none))
            for of in self.languages
        ]
        for label in range(len(self)):
            for language, preferred, alternative in columns:
                if preferred[label]:
                    yield label, preferred[label], language, True
                for text in alternative[label]:
                    yield label, text, language, False

    def documents(self) -> list[str]:
        """Return one text per label: its names in all languages, then its description.

        Examples
        --------
        >>> from labelspace.data.label_texts import LabelRecord, LabelTexts
        >>> LabelTexts.of([LabelRecord("c1", {"": "fruit"}, description="It grows.")]).documents()
        ['fruit\\nIt grows.']
        """
        parts: list[list[str]] = [[] for _ in self.ids]
        for label, text, _, _ in self.forms():
            parts[label].append(text)
        for label, text in enumerate(self.descriptions):
            if text:
                parts[label].append(text)
        return ["\n".join(dict.fromkeys(each)) for each in parts]

    def aligned(self, ids: Sequence[str]) -> LabelTexts:
        """Return the texts of exactly these labels, in this order.

        Labels without texts have none in the result, and texts of other labels are left out;
        `broader` keeps all pairs.

        Examples
        --------
        >>> from labelspace.data.label_texts import LabelRecord, LabelTexts
        >>> texts = LabelTexts.of([LabelRecord("c1", {"": "fruit"}), LabelRecord("c2")])
        >>> texts.aligned(["c0", "c1"]).preferred
        {'': ('', 'fruit')}
        """
        if tuple(ids) == self.ids:
            return self
        place = {each: number for number, each in enumerate(self.ids)}
        rows = [place.get(each, -1) for each in ids]

        def chosen(part: tuple[str, ...]) -> tuple[str, ...]:
            return _unless_empty(part[row] if row >= 0 else "" for row in rows) if part else ()

        return replace(
            self,
            ids=tuple(ids),
            preferred={
                of: tuple(names[row] if row >= 0 else "" for row in rows)
                for of, names in self.preferred.items()
            },
            alternative={
                of: tuple(names[row] if row >= 0 else () for row in rows)
                for of, names in self.alternative.items()
            },
            descriptions=chosen(self.descriptions),
            notations=chosen(self.notations),
            uris=chosen(self.uris),
        )

    def with_labels_of(self, ids: Iterable[str]) -> LabelTexts:
        """Return the texts of these labels, in this order, followed by the other labels'.

        Examples
        --------
        >>> from labelspace.data.label_texts import LabelRecord, LabelTexts
        >>> LabelTexts.of([LabelRecord("c1"), LabelRecord("c2")]).with_labels_of(["c2"]).ids
        ('c2', 'c1')
        """
        return self.aligned(list(dict.fromkeys((*ids, *self.ids))))

    def updated(self, newer: LabelTexts) -> LabelTexts:
        """Return these texts with those of `newer` in their place, for labels that have any there.

        Examples
        --------
        >>> from labelspace.data.label_texts import LabelRecord, LabelTexts
        >>> old = LabelTexts.of([LabelRecord("c1", {"": "fruit"}), LabelRecord("c2", {"": "tool"})])
        >>> old.updated(LabelTexts.of([LabelRecord("c2", {"": "tools"})])).names()
        ['fruit', 'tools']
        """
        described = newer._described()
        both = [self.with_labels_of([*described, *newer.ids]), newer]
        both[1] = newer.aligned(both[0].ids)
        ids, n = both[0].ids, len(described)  # these are the first

        def column(parts: Sequence[Sequence[_Entry] | None], none: _Entry) -> tuple[_Entry, ...]:
            old, new = (part or (none,) * len(ids) for part in parts)
            return (*new[:n], *old[n:])

        def by_language(name: str, none: _Entry) -> dict[str, tuple[_Entry, ...]]:
            of = [getattr(texts, name) for texts in both]
            languages = dict.fromkeys((*of[0], *of[1]))
            return {key: column([part.get(key) for part in of], none) for key in languages}

        result = LabelTexts(
            ids,
            by_language("preferred", ""),
            by_language("alternative", ()),
            _unless_empty(column([texts.descriptions for texts in both], "")),
            _unless_empty(column([texts.notations for texts in both], "")),
            _unless_empty(column([texts.uris for texts in both], "")),
            tuple(dict.fromkeys((*self.broader, *newer.broader))),
        )
        return result.with_labels_of(self.ids)

    def _described(self) -> list[str]:
        """Return the ids of labels with any text."""
        found = {label for label, *_ in self.forms()}
        for column in (self.descriptions, self.notations, self.uris):
            found.update(label for label, text in enumerate(column) if text)
        return [self.ids[label] for label in sorted(found)]

    def to_json(self) -> dict[str, Any]:
        """Return all but the ids, for a file of a model; `broader` is in the taxonomy."""
        return {name: getattr(self, name) for name in _STORED if getattr(self, name)}

    @classmethod
    def from_json(cls, stored: Any, ids: Sequence[str]) -> LabelTexts:
        """Return the texts that `to_json` described; raise a DataError for anything else."""
        if not isinstance(stored, dict) or not set(_STORED).issuperset(stored):
            raise DataError("not the texts of labels: expected an object with known keys")
        parts: dict[str, Any] = {}
        for name, part in stored.items():
            if name in ("preferred", "alternative"):
                nested = name == "alternative"
                if not isinstance(part, dict):
                    raise DataError(f"{name}: expected an object with a list per language")
                parts[name] = {of: _stored_list(name, texts, nested) for of, texts in part.items()}
            else:
                parts[name] = _stored_list(name, part, False)
        return cls(tuple(ids), **parts)

    def names(self, language: str | None = None) -> list[str]:
        """Return one name per label: in this language where there is one, else in another.

        Other languages are taken in this order: a more general or special form of the given one
        (en-gb for en), no language, then those of the file in their order. A label without any
        preferred name has its id.
        """
        order = sorted(self.preferred, key=lambda of: _distance(of, language))
        columns = [self.preferred[of] for of in order]
        return [
            next((names[label] for names in columns if names[label]), each)
            for label, each in enumerate(self.ids)
        ]


def _stored_list(name: str, part: Any, nested: bool) -> tuple[Any, ...]:
    """Return a list of texts, or of lists of texts, as tuples; a DataError for anything else."""
    if not isinstance(part, list):
        raise DataError(f"{name}: expected a list")
    if nested:
        return tuple(_stored_list(name, each, False) for each in part)
    if not all(isinstance(each, str) for each in part):
        raise DataError(f"{name}: expected texts")
    "".join(part).encode()  # half a surrogate pair is not text
    return tuple(part)


def _unless_empty(texts: Iterable[str]) -> tuple[str, ...]:
    found = tuple(texts)
    return found if any(found) else ()


def _distance(language: str, wanted: str | None) -> int:
    """Return how far a language is from the wanted one, for sorting."""
    wanted = (wanted or "").lower()
    if language == wanted:
        return 0
    if wanted and language.split("-")[0] == wanted.split("-")[0]:
        return 1
    return 2 if not language else 3
