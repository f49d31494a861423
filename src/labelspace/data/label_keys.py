"""Matches the labels of a file of label texts with those of the data.

Data may name a label by its id, but also by its URI, its notation or its name.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from labelspace.data.cells import shown
from labelspace.data.label_texts import LabelTexts
from labelspace.errors import DataError

logger = logging.getLogger(__name__)


class NoSuchLabelsError(DataError):
    """None of the labels of the data is in a file of label texts."""


_PREFIX = re.compile(r".*[/#:]")


@dataclass(frozen=True)
class _Key:
    """One way in which data may name labels: a value per label of the file, "" for none."""

    what: str
    values: Sequence[str]
    of_data: Callable[[str], str] = str

    def numbers(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, value in enumerate(self.values):
            if value:
                found.setdefault(value, []).append(number)
        return found


def identified(texts: LabelTexts, labels: Sequence[str]) -> LabelTexts:
    """Return the texts with the data's labels as ids.

    The data name their labels in the way by which most of them are found in the file: by id, URI,
    notation, by the part of an id after its prefix (`gnd:4113937-9` and
    `https://d-nb.info/gnd/4113937-9`), or by preferred name in one of the languages. If several
    find the same number, the first of them is used.

    Parameters
    ----------
    texts : LabelTexts
        The texts, with the ids of the file.
    labels : sequence of str
        The labels of the data.

    Returns
    -------
    LabelTexts
        A label of the file that the data have is named as in the data, any other one in the same
        way, as far as that is unambiguous. An id that is replaced becomes the notation of a label
        that has none.

    Raises
    ------
    NoSuchLabelsError
        If none of the labels is in the file.
    DataError
        If the data name a label by a name of several.

    Examples
    --------
    >>> from labelspace.data.label_texts import LabelRecord, LabelTexts
    >>> texts = LabelTexts.of([LabelRecord("c1", {"": "fruit"}), LabelRecord("c2", {"": "tool"})])
    >>> found = identified(texts, ["tool", "red"])
    >>> found.ids, found.notations
    (('fruit', 'tool'), ('c1', 'c2'))
    """
    known = set(texts.ids)
    if all(label in known for label in labels):
        return texts
    best, matches = _Key("id", texts.ids), -1
    for key in _keys(texts):
        numbers = key.numbers()
        wanted = [key.of_data(label) for label in labels]
        if key.what == "prefix" and not _is_one_to_one(wanted, numbers):
            continue
        pairs = zip(labels, wanted, strict=True)
        found = sum(value in numbers or label in known for label, value in pairs)
        if found > matches:
            best, matches = key, found
    if not matches:
        raise NoSuchLabelsError(
            f"none of the labels is in this file: it has ids such as {shown(texts.ids[0])}, and "
            f"the data have labels such as {shown(labels[0] if labels else '')}"
        )
    if best.what == "id":
        return texts
    logger.info("labels of the data are matched with label texts by %s", best.what)
    return _renamed(texts, _new_ids(texts, best, labels))


def _keys(texts: LabelTexts) -> list[_Key]:
    found = [_Key("id", texts.ids)]
    if texts.uris:
        found.append(_Key("URI", texts.uris))
    if texts.notations:
        found.append(_Key("notation", texts.notations))
    found.append(_Key("prefix", [_local(each) for each in texts.ids], _local))
    for language, names in texts.preferred.items():
        found.append(_Key(f"name{language and f' ({language})'}", names))
    return found


def _local(label: str) -> str:
    """Return a label without its prefix, as in `gnd:4113937-9`, or without a URI's path."""
    return _PREFIX.sub("", label)


def _is_one_to_one(wanted: Sequence[str], numbers: dict[str, list[int]]) -> bool:
    """Return whether no two labels of the data, and no two of the file, are the same here."""
    used = [value for value in wanted if value in numbers]
    return len(set(used)) == len(used) and all(len(numbers[value]) == 1 for value in used)


def _new_ids(texts: LabelTexts, key: _Key, labels: Sequence[str]) -> list[str]:
    numbers = key.numbers()
    ids: list[str | None] = [None] * len(texts)
    prefixes = set()
    for label in labels:
        found = numbers.get(key.of_data(label), [])
        if len(found) > 1:
            raise DataError(
                f"the data name labels by {key.what}, and {shown(label)} is that of "
                f"{shown(texts.ids[found[0]])} and {shown(texts.ids[found[1]])}; use their ids in "
                "the data, or make the names differ"
            )
        if found:
            ids[found[0]] = label
            prefixes.add(label.removesuffix(key.of_data(label)))
    # Names that are not unique stay ids, also in a model that is trained further.
    own_number = {own: number for number, own in enumerate(texts.ids)}
    for label in labels:
        number = own_number.get(label, -1)
        if number >= 0 and ids[number] is None and label not in numbers:
            ids[number] = label
    taken = set(labels)
    # Labels that the data lack are named alike, if all that they have share a prefix.
    prefix = prefixes.pop() if len(prefixes) == 1 else None
    for number, own in enumerate(texts.ids):
        if ids[number] is not None:
            continue
        value = key.values[number]
        new = own if prefix is None or not value else prefix + value
        if new in taken or len(numbers.get(value, ())) > 1:
            new = own
        if new in taken:
            raise DataError(
                f"the label {shown(own)} of the file has the id of another label of the data, "
                f"which name labels by {key.what}; change that id"
            )
        ids[number] = new
        taken.add(new)
    return [str(each) for each in ids]


def _renamed(texts: LabelTexts, ids: list[str]) -> LabelTexts:
    new = dict(zip(texts.ids, ids, strict=True))
    notations, uris = texts.notations or ("",) * len(ids), texts.uris or ("",) * len(ids)
    kept = tuple(
        notation or ("" if old in (label, uri) else old)
        for old, label, notation, uri in zip(texts.ids, ids, notations, uris, strict=True)
    )
    return replace(
        texts,
        ids=tuple(ids),
        notations=kept if any(kept) else (),
        broader=tuple((new[child], new.get(parent, parent)) for child, parent in texts.broader),
    )
