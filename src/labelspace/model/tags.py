"""Labels by name with their scores, as a Tagger gives them for one example."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Tag:
    """A label by name, and how sure the model is of it."""

    name: str
    score: float


class Tags(list[Tag]):
    """The labels of one example, best first; notebooks show them as a table."""

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(tag.name)}</td><td>{tag.score:.3f}</td></tr>"
            for tag in self
        )
        return f"<table><tr><th>label</th><th>score</th></tr>{rows}</table>"
