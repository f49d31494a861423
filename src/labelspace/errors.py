"""Errors that labelspace raises on purpose, as one tree: `except LabelspaceError` catches all.

The docstring of each says when it is raised, its notes what to do, its example what the message is
like: docs/troubleshooting.md is generated from them.

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
    """Base class of all errors of labelspace; raised itself where no other class fits.

    Notes
    -----
    The message names the cause and what to do. On the command line it is the line that
    begins with
    `error:`, and the exit code is 1, or 2 for a `ParameterError`.

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
    """The content of a file is not what was expected, or a file cannot be read or written.

    Parameters
    ----------
    message : str
        The problem and its fix.
    path : str or Path, optional
        The file.
    line, column : int, optional
        The place in the file, counted from 1.

    Notes
    -----
    Correct the file at the line and column that the message names. If it is of another kind
    than its
    name suggests, or its columns have other names, state them: `--text-columns`,
    columns`,
    `--delimiter`, `--encoding`. `labelspace data info FILE` shows how a file is read.

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
    """A parameter or an option is unknown or out of range.

    Notes
    -----
    Give one of the values that the message names. `labelspace methods NAME --all` lists the
    parameters of a method with their limits, `labelspace COMMAND --help` the options of a
    command.

    Examples
    --------
    >>> import labelspace as ls
    >>> try:
    ...     ls.KNN(neighbours=0).fit([[1.0]], [[1]])
    ... except ls.LabelspaceError as error:
    ...     print(error)
    knn.neighbours=0: expected an integer of at least 1
    """


class UnknownMethodError(ParameterError):
    """No method of this name is registered.

    Notes
    -----
    `labelspace methods` lists the names. A method outside of this package is registered by
    `labelspace.methods.registry.register` before it is used.

    Examples
    --------
    >>> import labelspace as ls
    >>> try:
    ...     ls.train([{"text": "apple", "labels": ["fruit"]}], method="liner")
    ... except ls.LabelspaceError as error:
    ...     print(error)
    no method 'liner'; did you mean 'linear'?
    """


class InputError(LabelspaceError, ValueError):
    """Arrays do not fit the method: a wrong shape, NaN, another number of features.

    Notes
    -----
    Pass X with a row per example and the columns that the method was fitted on, and Y with
    a row per
    example and a column per label. A model with a text pipeline takes texts: use `Tagger`.

    Examples
    --------
    >>> import labelspace as ls
    >>> try:
    ...     ls.KNN().fit([[1.0], [2.0]], [[1]])
    ... except ls.LabelspaceError as error:
    ...     print(error)
    X has 2 rows and Y has 1
    """


class UnsupportedError(LabelspaceError):
    """The method does not support the operation.

    Notes
    -----
    The message names methods that support it, or the parameter to train with.
    `labelspace methods` shows what each can do.

    Examples
    --------
    >>> import labelspace as ls
    >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
    >>> try:
    ...     ls.train(rows, method="most-common").neighbours("apple")
    ... except ls.LabelspaceError as error:
    ...     print(error)
    most-common keeps no training examples; methods that find near ones: dxml, fusion, knn
    """


class NotFittedError(LabelspaceError, ValueError, AttributeError):
    """A method or feature extractor is used before `fit`.

    What is raised is also a `sklearn.exceptions.NotFittedError`.

    Notes
    -----
    Call `fit` first, or load a saved model with `labelspace.load`. A `fit` that failed
    leaves the
    method unfitted.

    Examples
    --------
    >>> import labelspace as ls
    >>> try:
    ...     ls.KNN().predict([[1.0]], 1)
    ... except ls.LabelspaceError as error:
    ...     print(error)
    knn is not fitted yet: call fit first
    """


class TrainingError(LabelspaceError):
    """Training cannot continue: the loss became NaN or infinite. No model is returned.

    Notes
    -----
    Lower the learning rate (`--set lr=...`). Numeric columns with very large values are another
    cause: scale them, or take their logarithm.

    Examples
    --------
    >>> print(TrainingError("the loss became nan in epoch 2, batch 31; lower the learning rate"))
    the loss became nan in epoch 2, batch 31; lower the learning rate
    """


class CheckpointError(LabelspaceError):
    """A checkpoint belongs to another run, is in use by one, or cannot be read.

    Notes
    -----
    Repeat the command with the data and parameters of the interrupted run and `--resume`,
    or start
    anew with `--restart`, which deletes the checkpoint. What another running process holds
    becomes
    free when it ends.

    Examples
    --------
    >>> print(CheckpointError(
    ...     "model.checkpoint holds an unfinished run: --resume continues it, --restart deletes it"
    ... ))
    model.checkpoint holds an unfinished run: --resume continues it, --restart deletes it
    """


class MemoryBudgetError(LabelspaceError):
    """The work would not fit into the memory that is available; it was not begun.

    Notes
    -----
    Set the parameter that the message names, train on fewer examples, or use a machine or
    control
    group with more memory. `labelspace plan DATA` estimates memory and time beforehand.

    Examples
    --------
    >>> print(MemoryBudgetError(  # doctest: +NORMALIZE_WHITESPACE
    ...     "training knn needs about 40.0 GB more and 7.1 GB is available; most of it is for "
    ...     "inverted index (36.0 GB): set max_document_frequency=0.01; see `labelspace plan`"
    ... ))
    training knn needs about 40.0 GB more and 7.1 GB is available; most of it is for
    inverted index (36.0 GB): set max_document_frequency=0.01; see `labelspace plan`
    """


class MissingExtraError(LabelspaceError, ImportError):
    """An optional dependency is not installed.

    Notes
    -----
    Install the extra that the message names into the environment that runs labelspace. If it is
    installed there, its import failed: the message has the reason in brackets.

    Examples
    --------
    >>> print(MissingExtraError(
    ...     "tuning needs optuna, which is not installed: pip install 'labelspace[tune]'"
    ... ))
    tuning needs optuna, which is not installed: pip install 'labelspace[tune]'
    """


class DownloadError(LabelspaceError):
    """A data set could not be downloaded, or its archive is not the one that is expected.

    Notes
    -----
    Repeat the command: a download that broke off is continued. Without access to the network,
    download the archive elsewhere and pass it: `labelspace data get NAME --from ARCHIVE`.

    Examples
    --------
    >>> from labelspace.datasets.download import download
    >>> try:
    ...     download("ftp://example.org/set.zip", "set.zip")
    ... except LabelspaceError as error:
    ...     print(error)
    only http and https can be fetched, not ftp://example.org/set.zip
    """


class StoreError(LabelspaceError):
    """A model cannot be saved at this place, or a saved one cannot be read.

    Notes
    -----
    Choose another place, free space, or wait for the other process that the message names. The
    model that was there before is whole.

    Examples
    --------
    >>> from labelspace.model.store import check_target
    >>> try:  # doctest: +NORMALIZE_WHITESPACE
    ...     check_target(".")
    ... except LabelspaceError as error:
    ...     print(error)
    . is in use as the current directory and cannot be replaced: give the path of another
    directory
    """


class ModelFormatError(StoreError):
    """The directory holds no model, the model was written by a newer labelspace, or is damaged.

    Notes
    -----
    Check the path. Upgrade labelspace if the message says that the format is newer. A
    damaged model
    is restored from a copy or trained again; one from a source that you do not trust is
    deleted.

    Examples
    --------
    >>> from labelspace.model.store import load
    >>> try:
    ...     load("shop/model")
    ... except LabelspaceError as error:
    ...     print(error)
    shop/model holds no model: there is no such directory
    """


class ModelFileMissingError(StoreError):
    """A file that `model.json` lists is missing.

    Notes
    -----
    Copy the whole directory again: all files that `model.json` lists belong to the model.

    Examples
    --------
    >>> print(ModelFileMissingError(
    ...     "model/labels.json is missing: copy the whole model directory again"
    ... ))
    model/labels.json is missing: copy the whole model directory again
    """


class ModelChecksumError(StoreError):
    """A file of the model is not the one that was saved.

    Notes
    -----
    It was edited, or damaged on the disk or on the way. Restore the directory from a copy
    or train
    again. To read weights despite a wrong checksum, see the format of a model
    (docs/formats.md).

    Examples
    --------
    >>> print(ModelChecksumError(  # doctest: +NORMALIZE_WHITESPACE
    ...     "model/method.safetensors is not the file that was saved (wrong checksum): "
    ...     "it was changed or damaged; restore the model from a copy"
    ... ))
    model/method.safetensors is not the file that was saved (wrong checksum): it was changed
    or damaged; restore the model from a copy
    """


class ModelMethodError(StoreError):
    """The model was trained by a method, or a version of it, that this labelspace does not
    have.

    Notes
    -----
    Upgrade labelspace if the version of the method is newer than its own; train again if it is
    older than the oldest that is read. Import the package that registers a method of your own
    before you load its models.

    Examples
    --------
    >>> print(ModelMethodError(
    ...     "model: saved by glas version 9; this labelspace has version 3: upgrade it"
    ... ))
    model: saved by glas version 9; this labelspace has version 3: upgrade it
    """
