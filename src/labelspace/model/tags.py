"""Predicted labels with their names, as a Tagger returns them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labelspace.model.model_labels import ModelLabels
    from labelspace.ranking import Ranking


@dataclass(frozen=True, repr=False)
class Tag:
    """A predicted label.

    Attributes
    ----------
    name : str
        The label's name; the preferred name in the chosen language, if the model has label texts.
    score : float
        The model's score of the label, from 0 to 1.
    id : str
        The label as the data have it; the same as `name` if the model has no label texts.
    uri, notation : str
        The label's address and its code; "" if the model knows none.

    Examples
    --------
    >>> Tag("fruit", 0.75)
    Tag(name='fruit', score=0.75)
    >>> Tag("fruit", 0.75, id="c1").id
    'c1'
    """

    name: str
    score: float
    id: str = ""
    uri: str = ""
    notation: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", self.name)

    def __repr__(self) -> str:
        shown = {"name": self.name, "score": self.score}
        if self.id != self.name:
            shown["id"] = self.id
        shown |= {key: text for key in ("uri", "notation") if (text := getattr(self, key))}
        return f"Tag({', '.join(f'{key}={value!r}' for key, value in shown.items())})"


class Tags(list[Tag]):
    """The predicted labels of one example, best first; notebooks show them as a table.

    Examples
    --------
    >>> tags = Tags([Tag("fruit", 0.75), Tag("red", 0.5)])
    >>> [tag.name for tag in tags]
    ['fruit', 'red']
    """

    def _repr_html_(self) -> str:
        has_ids = any(tag.id != tag.name for tag in self)
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(tag.name)}</td>"
            + (f"<td style='text-align:left'>{escape(tag.id)}</td>" if has_ids else "")
            + f"<td>{tag.score:.3f}</td></tr>"
            for tag in self
        )
        head = "<th>label</th>" + ("<th>id</th>" if has_ids else "") + "<th>score</th>"
        return f"<table><tr>{head}</tr>{rows}</table>"


class TagMaker:
    """Makes tags of label numbers, with names in one language.

    Parameters
    ----------
    tagger : ModelLabels
        The model.
    language : str, optional
        The language of the names. Default: see `LabelTexts.names`.
    """

    def __init__(self, tagger: ModelLabels, language: str | None = None) -> None:
        texts = tagger.label_texts
        self.ids: Sequence[str] = tagger.label_names
        self.names = tagger.names(language)
        self.notations = texts.notations if texts is not None else ()
        # A URI that is the id already is not repeated.
        self.uris = texts.uris if texts is not None and texts.uris != texts.ids else ()
        self.has_ids = texts is not None

    def tags(self, ranking: Ranking, threshold: float = 0.0) -> list[Tags]:
        """Return the tags of each example with at least this score."""
        return [
            Tags(
                self.tag(label, score)
                for label, score in zip(labels, scores, strict=True)
                if label >= 0 and score >= threshold
            )
            for labels, scores in zip(ranking.labels.tolist(), ranking.scores.tolist(), strict=True)
        ]

    def tag(self, label: int, score: float) -> Tag:
        """Return the tag of a label."""
        return Tag(
            self.names[label],
            score,
            self.ids[label],
            self.uris[label] if self.uris else "",
            self.notations[label] if self.notations else "",
        )

    def record(self, tag: Tag, digits: int) -> dict[str, Any]:
        """Return a tag for JSON; it has an id if the model has label texts."""
        found: dict[str, Any] = {"id": tag.id} if self.has_ids else {}
        found["name"] = tag.name
        found |= {key: text for key in ("uri", "notation") if (text := getattr(tag, key))}
        return {**found, "score": round(tag.score, digits)}
