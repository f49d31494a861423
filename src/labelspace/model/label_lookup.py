"""Labels of a model by their id, URI, notation or name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from labelspace._core.streams import at_rest
from labelspace._core.suggest import did_you_mean
from labelspace.data.cells import shown
from labelspace.data.formats.text import text_lines
from labelspace.data.name_files import unquoted
from labelspace.errors import DataError, ParameterError

if TYPE_CHECKING:
    from labelspace.model.model_labels import ModelLabels

LabelList = Iterable[str] | Path  # labels, or a file with one per line


class LabelLookup:
    """Finds the number of a label by what it is called.

    An id is preferred to a URI, this to a notation, and this to a preferred name in any language.

    Parameters
    ----------
    tagger : ModelLabels
        The model.

    Examples
    --------
    >>> import labelspace as ls
    >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
    >>> LabelLookup(ls.train(rows * 4, method="knn")).number("tool")
    1
    """

    def __init__(self, tagger: ModelLabels) -> None:
        self._ids = tagger.label_names
        self._of: dict[str, list[int]] = {name: [place] for place, name in enumerate(self._ids)}
        texts = tagger.label_texts
        if texts is not None:
            self._add([texts.uris])
            self._add([texts.notations])
            self._add(texts.preferred.values())

    def _add(self, columns: Iterable[Sequence[str]]) -> None:
        """Add texts that mean nothing yet; one of several labels is ambiguous."""
        found: dict[str, list[int]] = {}
        for column in columns:
            for number, text in enumerate(column):
                if text and text not in self._of and number not in found.setdefault(text, []):
                    found[text].append(number)
        self._of |= found

    def __contains__(self, label: str) -> bool:
        return label in self._of

    def number(self, label: str) -> int:
        """Return the number of a label.

        Raises
        ------
        ParameterError
            If no label is called so, or several are.
        """
        found = self._of.get(label, [])
        if not found:
            raise ParameterError(f"the model has no label {label!r}{did_you_mean(label, self._of)}")
        if len(found) > 1:
            ids = ", ".join(shown(self._ids[each]) for each in found[:5])
            raise ParameterError(f"{label!r} is the name of several labels; give the id: {ids}")
        return found[0]

    def mask(self, labels: LabelList) -> np.ndarray:
        """Return True for each of these labels; a file holds one per line."""
        found = np.zeros(len(self._ids), dtype=bool)
        if isinstance(labels, str):
            raise ParameterError(f"{labels!r}: expected a list of labels, or the Path of a file")
        if not isinstance(labels, Path):
            found[[self.number(label) for label in labels]] = True
            return found
        place = at_rest(labels)
        for line, text in text_lines(place):
            label = unquoted(text.strip())
            if label:
                try:
                    found[self.number(label)] = True
                except ParameterError as error:
                    raise DataError(str(error), path=place, line=line) from None
        return found
