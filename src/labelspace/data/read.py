"""Reads any data file or table in memory, whole or in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from labelspace._core.streams import PathLike, at_rest
from labelspace.data.beside import (
    Numbering,
    named_by_folder,
    with_broader,
    with_label_texts,
    with_taxonomy,
)
from labelspace.data.columns import Columns
from labelspace.data.dataset import Dataset
from labelspace.data.formats import frames, xc
from labelspace.data.formats.tables import IN_MEMORY, TABLE_FORMATS, Table
from labelspace.data.load import checked, load, pair_files
from labelspace.data.options import DEFAULT_COLUMNS, LabelSource, ReadOptions
from labelspace.data.recognise import recognise
from labelspace.errors import DataError, ParameterError


def read(
    source: frames.Source,
    *,
    columns: Columns = DEFAULT_COLUMNS,
    label_names: Sequence[str] | None = None,
    unknown_labels: str = "error",
    taxonomy: PathLike | None = "auto",
    label_texts: LabelSource = None,
    cache: bool = False,
    require_labels: bool = True,
    n_features: int | None = None,
    n_labels: int | None = None,
    zero_based: xc.ZeroBased = "auto",
    most_letters: int | None = None,
) -> Dataset:
    """Read a whole file: JSON lines, CSV, TSV, Parquet, XC text, a matrix pair or svmlight.

    The format is recognised from the content, else from the suffix. A table in memory is read by
    the same rules as a file.

    Parameters
    ----------
    source : path, DataFrame or list of dict
        A file, a pipe (read once; "-" is standard input), a pandas or polars DataFrame, another
        object with the Arrow interface, or dictionaries.
    columns : Columns
        Which columns of a table hold what.
    label_names : sequence of str, optional
        The known labels, in the order of their ids. Without them, the labels of a table are
        sorted by name, and numbered labels take their names from FILE.labels.txt or labels.txt
        beside the file.
    unknown_labels : {"error", "extend", "drop"}, default "error"
        For a label that is not among `label_names`: raise, add it to the names, or leave it out.
    taxonomy : path, "auto" or None, default "auto"
        A hierarchy file. "auto" takes FILE.hierarchy.tsv or hierarchy.tsv beside the file, if one
        of its names is a label; None takes none.
    label_texts : path, "auto", LabelTexts or None, default None
        Names, alternative names and descriptions of the labels; see `read_label_texts`. "auto"
        takes label_texts.tsv, .csv or .jsonl, or labels.ttl, .rdf or .nt beside the file. Labels
        that only they have become labels without examples, and their broader labels are joined
        with the taxonomy.
    cache : bool, default False
        Keep the parsed arrays of an XC or svmlight file for the next call.
    require_labels : bool, default True
        If False, the examples may lack labels, as those to predict for do; numbered labels that
        do not fit are left out.
    n_features, n_labels : int, optional
        Sizes, for files that do not contain them; checked for those that do. `n_labels` is for
        formats with numbered labels.
    zero_based : bool or "auto", default "auto"
        Whether svmlight counts features from 0. "auto": if there is a feature 0.
    most_letters : int, optional
        If the texts of JSON lines, CSV, TSV or Parquet are longer than this in all, they are left
        in the file, which is read again whenever `texts` is iterated. Default: texts are in memory.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If something is wrong with the file; the message names file, line and fix.
    ParameterError
        If an option has a value that is not allowed.
    MemoryBudgetError
        If the file does not fit into memory.

    Examples
    --------
    >>> from labelspace.data import read
    >>> data = read([{"text": "Wireless earbuds", "labels": ["Audio", "Earbuds"]}])
    >>> data.label_names, data.labels.toarray().tolist()
    (('Audio', 'Earbuds'), [[1.0, 1.0]])
    """
    options = ReadOptions(
        columns=columns,
        label_names=label_names,
        unknown_labels=unknown_labels,
        taxonomy=taxonomy,
        label_texts=label_texts,
        cache=cache,
        require_labels=require_labels,
        n_features=n_features,
        n_labels=n_labels,
        zero_based=zero_based,
        most_letters=most_letters,
    )
    if not frames.is_path(source):
        return _described(load(source, IN_MEMORY, options), options, None, may_widen=True)
    place = at_rest(cast(PathLike, source))
    if place.is_dir():
        message = "expected a file, not a directory: name one of its files"
        raise DataError(f"{message}, such as {place / 'train.txt'}", path=place)
    kind = recognise(place)
    dataset = load(place, kind, options)
    if dataset.label_names is None:
        open_ended = dataset.index_base is not None and n_labels is None  # svmlight, no size given
        dataset = named_by_folder(dataset, place, may_widen=open_ended)
    return _described(dataset, options, place, may_widen=kind in TABLE_FORMATS)


def _described(
    dataset: Dataset, options: ReadOptions, path: Path | None, *, may_widen: bool
) -> Dataset:
    """Return the data set with its label texts and its taxonomy."""
    dataset = with_label_texts(dataset, options.label_texts, path, may_widen=may_widen)
    dataset = with_taxonomy(dataset, options.taxonomy, path)
    return dataset if options.taxonomy is None else with_broader(dataset)


def iter_batches(
    source: frames.Source,
    *,
    batch_size: int = 1024,
    columns: Columns = DEFAULT_COLUMNS,
    label_names: Sequence[str] | None = None,
    unknown_labels: str = "error",
    require_labels: bool = False,
    n_features: int | None = None,
    n_labels: int | None = None,
    zero_based: xc.ZeroBased = "auto",
) -> Iterator[Dataset]:
    """Read a file or table in batches, in memory that does not grow with the file.

    The options are those of `read`; there is no taxonomy, and labels are not required by default.
    Without `label_names`, those of a table grow in order of appearance: the id of a label is the
    same in all batches.

    Parameters
    ----------
    source : path, DataFrame or list of dict
        As for `read`.
    batch_size : int, default 1024
        Number of examples per batch; the last one may have fewer.
    columns, label_names, unknown_labels, require_labels, zero_based
        As for `read`.
    n_features, n_labels : int, optional
        As for `read`. svmlight needs `n_features`, and `n_labels` if its labels are to be read.

    Yields
    ------
    Dataset

    Raises
    ------
    DataError, ParameterError
        As for `read`.

    Examples
    --------
    >>> from labelspace.data import iter_batches
    >>> rows = [{"text": word} for word in ("one", "two", "three")]
    >>> [batch.texts for batch in iter_batches(rows, batch_size=2)]
    [['one', 'two'], ['three']]
    """
    if batch_size < 1:
        raise ParameterError(f"batch_size: expected at least 1, found {batch_size}")
    options = ReadOptions(
        columns=columns,
        label_names=label_names,
        unknown_labels=unknown_labels,
        require_labels=require_labels,
        n_features=n_features,
        n_labels=n_labels,
    )
    if not frames.is_path(source):
        return Table(source, IN_MEMORY, options).batches(batch_size)
    place = at_rest(cast(PathLike, source))
    kind = recognise(place)
    if kind in TABLE_FORMATS:
        return Table(place, kind, options).batches(batch_size)
    numbering = Numbering(place, options)
    loose = not require_labels
    if kind == "matrix":
        batches = xc.iter_pair(*pair_files(place, require_labels), batch_size)
    elif kind == "xc":
        batches = xc.iter_xc(place, batch_size, any_labels=loose)
    elif n_features is None or (require_labels and numbering.n_labels is None):
        raise ParameterError("n_features and n_labels are needed to read svmlight in batches")
    else:
        batches = xc.iter_svmlight(
            place,
            batch_size,
            n_features,
            numbering.n_labels or 0,
            zero_based=zero_based,
            any_labels=loose,
        )
    return (numbering.apply(checked(batch, n_features)) for batch in batches)
