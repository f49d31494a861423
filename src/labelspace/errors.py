"""Everything labelspace raises on purpose, as one tree: `except LabelspaceError` catches it all."""

from __future__ import annotations

from pathlib import Path


class LabelspaceError(Exception):
    """Root of all errors that are ours: the message says what is wrong and what to do."""


class DataError(LabelspaceError):
    """A file does not hold what it should: says where, and what was expected."""

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.message, self.path, self.line, self.column = message, path, line, column
        places = [str(path) if path is not None else "", line, column]
        where = ":".join(str(place) for place in places if place not in ("", None))
        super().__init__(f"{where}: {message}" if where else message)


class ParameterError(LabelspaceError, ValueError):
    """A parameter is unknown or out of range; the message names it and what is allowed."""


class UnknownMethodError(ParameterError):
    """No method of this name is registered."""


class InputError(LabelspaceError, ValueError):
    """Arrays given to a method do not fit: wrong shape, NaN, another number of features."""


class UnsupportedError(LabelspaceError):
    """This method cannot do what was asked; the message says what can be done instead."""


class NotFittedError(LabelspaceError):
    """`predict` before `fit`."""


class TrainingError(LabelspaceError):
    """Training cannot go on: the loss became NaN or infinite. No model is returned."""


class CheckpointError(LabelspaceError):
    """A checkpoint belongs to another run (other data or parameters) or cannot be read."""


class MemoryBudgetError(LabelspaceError):
    """The work would not fit into memory; the message says what it needs and what there is."""


class MissingExtraError(LabelspaceError, ImportError):
    """An optional dependency is absent; the message says which extra to install."""


class DownloadError(LabelspaceError):
    """A data set could not be fetched."""


class StoreError(LabelspaceError):
    """A saved model cannot be read."""


class ModelFormatError(StoreError):
    """The model was written by a newer labelspace, or the directory holds no model."""


class ModelFileMissingError(StoreError):
    """A file that `model.json` names is not there."""


class ModelChecksumError(StoreError):
    """A file is not the one that was saved."""


class ModelMethodError(StoreError):
    """The model was made by a method that this labelspace does not have."""
