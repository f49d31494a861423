"""The options of `read` and `read_split` as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from labelspace._core.streams import PathLike
from labelspace.data.columns import Columns
from labelspace.data.label_texts import LabelTexts
from labelspace.data.vocabulary import UNKNOWN_LABELS
from labelspace.errors import ParameterError

DEFAULT_COLUMNS = Columns()

LabelSource: TypeAlias = PathLike | LabelTexts | None  # a file, "auto", texts, or none


@dataclass(frozen=True)
class ReadOptions:
    """The options of `read` and `read_split`; `read` explains them."""

    columns: Columns = DEFAULT_COLUMNS
    label_names: Sequence[str] | None = None
    unknown_labels: str = "error"
    taxonomy: PathLike | None = "auto"
    label_texts: LabelSource = None
    cache: bool = False
    require_labels: bool = True
    n_features: int | None = None
    n_labels: int | None = None
    zero_based: bool | Literal["auto"] = "auto"
    most_letters: int | None = None

    def __post_init__(self) -> None:
        if self.unknown_labels not in UNKNOWN_LABELS:
            allowed = ", ".join(UNKNOWN_LABELS)
            raise ParameterError(
                f"unknown_labels={self.unknown_labels!r}: must be one of {allowed}"
            )
        if len(set(self.label_names or ())) != len(self.label_names or ()):
            raise ParameterError("label_names: a name occurs twice, so its id is ambiguous")

    @property
    def label_count(self) -> int | None:
        """Return the number of labels that there must be, None if the caller did not give one."""
        if self.n_labels is None and self.label_names is not None:
            return len(self.label_names)
        return self.n_labels
