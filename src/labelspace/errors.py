"""Errors that labelspace raises on purpose, as one tree: `except LabelspaceError` catches all.

Examples
--------
>>> from labelspace.errors import LabelspaceError, ParameterError
>>> try:
...     raise ParameterError("k=0: expected an integer of at least 1")
... except LabelspaceError as error:
...     print(error)
k=0: expected an integer of at least 1
"""

from __future__ import annotations

from pathlib import Path


class LabelspaceError(Exception):
    """Base class of all errors of labelspace; the message names the cause and what to do.

    Examples
    --------
    >>> import labelspace as ls
    >>> try:
    ...     ls.load("no-such-model")
    ... except ls.LabelspaceError as error:
    ...     print(error)
    no-such-model holds no model: there is no such directory
    """


class DataError(LabelspaceError):
    """The content of a file is not what was expected.

    Parameters
    ----------
    message : str
        The problem and its fix.
    path : str or Path, optional
        The file.
    line, column : int, optional
        The place in the file, counted from 1.

    Examples
    --------
    >>> print(DataError("expected a number, found 'x'", path="train.txt", line=3, column=5))
    train.txt:3:5: expected a number, found 'x'
    """

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
    """A parameter is unknown or out of range; the message names it and the allowed values."""


class UnknownMethodError(ParameterError):
    """No method of this name is registered."""


class InputError(LabelspaceError, ValueError):
    """Arrays do not fit the method: a wrong shape, NaN, another number of features."""


class UnsupportedError(LabelspaceError):
    """The method does not support the operation; the message names an alternative."""


class NotFittedError(LabelspaceError, ValueError, AttributeError):
    """A method or feature extractor is used before `fit`.

    What is raised is also a `sklearn.exceptions.NotFittedError`.
    """


class TrainingError(LabelspaceError):
    """Training cannot continue: the loss became NaN or infinite. No model is returned."""


class CheckpointError(LabelspaceError):
    """A checkpoint belongs to another run (other data or parameters) or cannot be read."""


class MemoryBudgetError(LabelspaceError):
    """The work would not fit into memory; the message names what it needs and what is available."""


class MissingExtraError(LabelspaceError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""


class DownloadError(LabelspaceError):
    """A data set could not be downloaded."""


class StoreError(LabelspaceError):
    """A saved model cannot be read."""


class ModelFormatError(StoreError):
    """The model was written by a newer labelspace, or the directory holds no model."""


class ModelFileMissingError(StoreError):
    """A file that `model.json` lists is missing."""


class ModelChecksumError(StoreError):
    """The checksum of a file is not the one in `model.json`."""


class ModelMethodError(StoreError):
    """The model was trained by a method that this version of labelspace does not have."""
