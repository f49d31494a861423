"""Any data file in, a Dataset out: recognises what it is given and calls the right reader."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data import xc
from labelspace.data._files import PathLike, opened
from labelspace.data.cache import cached
from labelspace.data.columns import Columns
from labelspace.data.dataset import Dataset
from labelspace.data.tables import (
    DEFAULT_COLUMNS,
    TABLE_FORMATS,
    ReadOptions,
    Table,
    read_names,
    write_jsonl,
    write_parquet,
)
from labelspace.data.taxonomy import find_taxonomy
from labelspace.errors import DataError, ParameterError
from labelspace.files import checked_path

NAMES_FILE = "labels.txt"

_TABLE_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
_SVMLIGHT_SUFFIXES = (".svm", ".svmlight", ".libsvm")
_DATA_SUFFIXES = (*_TABLE_SUFFIXES, *_SVMLIGHT_SUFFIXES, ".txt")
_TRAIN, _TEST = r"(.*[_-])?train|trn_X_(Xf|Y)", r"(.*[_-])?test|tst_X_(Xf|Y)"
_TRAIN_ROWS, _TEST_ROWS = r"(.*[_-])?trSplit", r"(.*[_-])?tstSplit"


def read(
    path: PathLike,
    *,
    columns: Columns = DEFAULT_COLUMNS,
    label_names: Sequence[str] | None = None,
    unknown_labels: str = "error",
    taxonomy: PathLike | None = "auto",
    cache: bool = False,
    require_labels: bool = True,
    n_features: int | None = None,
    n_labels: int | None = None,
    zero_based: xc.ZeroBased = "auto",
) -> Dataset:
    """A whole file: JSON lines, CSV, TSV, Parquet, XC text, a matrix pair or svmlight.

    columns         which columns of a table mean what
    label_names     the known labels, in order; without them a table's labels are sorted by name
    unknown_labels  a table's label that is not known: "error", "extend" the names, or "drop" it
    taxonomy        a hierarchy file; "auto": hierarchy.tsv beside the file, if it fits; None: none
    cache           keep a parsed XC or svmlight file for the next time
    require_labels  False: the file may do without labels, as examples to predict for do
    n_features      how many there are, for files that do not say, and checked for those that do
    n_labels        the same for formats that number their labels
    zero_based      whether svmlight counts features from 0; "auto": if there is a feature 0
    """
    options = ReadOptions(
        columns=columns,
        label_names=label_names,
        unknown_labels=unknown_labels,
        taxonomy=taxonomy,
        cache=cache,
        require_labels=require_labels,
        n_features=n_features,
        n_labels=n_labels,
        zero_based=zero_based,
    )
    place = checked_path(path)
    if place.is_dir():
        raise DataError("this is a directory; read_split reads its train and test set", path=place)
    dataset = _load(place, recognise(place), options)
    return _with_taxonomy(dataset, options.taxonomy, place.parent)


def iter_batches(
    path: PathLike,
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
    """The same file a batch at a time, in memory that does not grow with it; no taxonomy.

    Without `label_names` those of a table grow in order of appearance: ids stay what they are
    from batch to batch. svmlight, which does not say its sizes, needs both.
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
    place = checked_path(path)
    kind = recognise(place)
    if kind in TABLE_FORMATS:
        return Table(place, kind, options).batches(batch_size)
    if kind == "matrix":
        raise DataError("a matrix pair cannot be read in batches; use read", path=place)
    if kind == "xc":
        batches = xc.iter_xc(place, batch_size)
    elif n_features is None or options.label_count is None:
        raise ParameterError("n_features and n_labels are needed to read svmlight in batches")
    else:
        batches = xc.iter_svmlight(
            place, batch_size, n_features, options.label_count, zero_based=zero_based
        )
    sizes = (n_features, options.label_count)
    return (_named(_checked(batch, *sizes), label_names) for batch in batches)


def read_split(
    directory_or_train: PathLike,
    test: PathLike | None = None,
    *,
    split: int | None = None,
    **options: Any,
) -> tuple[Dataset, Dataset]:
    """Training and test set: of two files, or of a directory that holds both.

    In a directory: train.* and test.*, or trn_X_Xf/trn_X_Y and tst_X_Xf/tst_X_Y, or one data file
    with trSplit and tstSplit, of which `split` chooses a column. labels.txt names numbered labels.
    Test labels that the training set does not have stand behind its own, so that the test label
    matrix may be wider; given `label_names`, `unknown_labels` decides for both sets.
    The further options are those of `read`.
    """
    asked = ReadOptions(**options)
    place = checked_path(directory_or_train)
    if test is not None:
        sets = _load_two(place, Path(test), asked)
        folders = (place.parent, Path(test).parent)
    elif place.is_dir():
        sets = _load_directory(place, split, asked)
        folders = (place, place)
    else:
        raise DataError("expected a directory, or the test set as a second file", path=place)
    return (
        _with_taxonomy(sets[0], asked.taxonomy, folders[0]),
        _with_taxonomy(sets[1], asked.taxonomy, folders[1]),
    )


def write(dataset: Dataset, path: PathLike, format: str | None = None) -> None:
    """Write XC text (.txt), JSON lines or Parquet, as the suffix or `format` says; .gz zips."""
    writers = {"xc": xc.write_xc, "jsonl": write_jsonl, "parquet": write_parquet}
    place = checked_path(path)
    kind = format or {".txt": "xc", ".jsonl": "jsonl", ".parquet": "parquet"}.get(_suffix(place))
    if kind not in writers:
        message = f"format={format!r}" if format else f"{place.name}: the suffix says no format"
        raise ParameterError(f"{message}; labelspace writes .txt (xc), .jsonl and .parquet")
    if kind == "parquet" and place.suffix == ".gz":
        raise ParameterError(f"{place.name}: Parquet is compressed inside; leave out .gz")
    writers[kind](dataset, place)


def recognise(path: Path) -> str:
    """The format of a file: by its content where that is plain, then by its suffix."""
    with opened(path) as stream:
        head = stream.read(1 << 12)
    if head.startswith(b"PAR1"):
        return "parquet"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        raise DataError("the file is empty", path=path)
    if start.startswith(b"{"):
        return "jsonl"
    suffix = _suffix(path)
    if suffix in _TABLE_SUFFIXES:
        return _TABLE_SUFFIXES[suffix]
    found = xc.sniff(path)
    if found is not None:
        return found
    if suffix in _SVMLIGHT_SUFFIXES:
        return "svmlight"  # its reader says what is wrong
    message = "this is neither JSON lines, Parquet, XC text, a matrix nor svmlight"
    raise DataError(f"{message}; CSV and TSV are told by their suffix", path=path)


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _stem(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).stem


# One file -------------------------------------------------------------------------------------


def _load(path: Path, kind: str, options: ReadOptions) -> Dataset:
    """The file without a hierarchy from elsewhere."""
    if kind in TABLE_FORMATS:
        return Table(path, kind, options).read()
    n_features, n_labels = options.n_features, options.label_count
    if kind == "matrix":
        pair = _load_pair(path, n_labels, options.require_labels)
        return _named(_checked(pair, n_features, n_labels), options.label_names)
    if kind == "xc":
        parse = partial(xc.read_xc, n_features=n_features, n_labels=n_labels)
    else:
        parse = partial(
            xc.read_svmlight,
            n_features=n_features,
            n_labels=n_labels,
            zero_based=options.zero_based,
        )
    dataset = cached(path, parse) if options.cache else parse(path)
    return _named(dataset, options.label_names)


def _load_pair(path: Path, n_labels: int | None, require_labels: bool) -> Dataset:
    """The two matrices of which one was named; the features may be absent, or the labels."""
    if "X_Y" in path.name:
        return xc.read_pair(_beside(path, "X_Y", "X_Xf"), path)
    if "X_Xf" not in path.name:
        message = "a matrix file; its name must hold X_Xf (features) or X_Y (labels)"
        raise DataError(f"{message} to say which it is", path=path)
    labels = _beside(path, "X_Xf", "X_Y")
    if labels is not None:
        return xc.read_pair(path, labels)
    if require_labels:
        name = path.name.replace("X_Xf", "X_Y")
        raise DataError(f"the labels of these features, {name}, are not beside them", path=path)
    features = xc.read_matrix(path)
    values, indices = np.empty(0, np.float32), np.empty(0, np.int32)
    ends = np.zeros(features.shape[0] + 1, np.int32)
    no_labels = csr_matrix((values, indices, ends), shape=(features.shape[0], n_labels or 0))
    return Dataset(no_labels, features, source=str(path))


def _beside(path: Path, part: str, other: str) -> Path | None:
    """The sibling with another part in its name, zipped or not."""
    name = path.name.replace(part, other).removesuffix(".gz")
    candidates = (path.with_name(name), path.with_name(name + ".gz"))
    return next((place for place in candidates if place.is_file()), None)


def _checked(dataset: Dataset, n_features: int | None, n_labels: int | None) -> Dataset:
    for what, found, wanted in (
        ("features", dataset.n_features, n_features),
        ("labels", dataset.n_labels, n_labels),
    ):
        if wanted is not None and found is not None and found != wanted:
            raise DataError(f"{found} {what} where {wanted} are expected", path=dataset.source)
    return dataset


def _named(dataset: Dataset, names: Sequence[str] | None) -> Dataset:
    return dataset if names is None else replace(dataset, label_names=tuple(names))


def _with_taxonomy(dataset: Dataset, choice: PathLike | None, folder: Path) -> Dataset:
    """The hierarchy that was asked for; one from category paths is replaced only by name."""
    if choice is None:
        return replace(dataset, taxonomy=None)
    if choice == "auto" and dataset.taxonomy is not None:
        return dataset
    return replace(dataset, taxonomy=find_taxonomy(choice, folder, dataset.names()))


# Two files ------------------------------------------------------------------------------------


def _load_two(
    train_path: Path, test_path: Path, options: ReadOptions, names_file: Path | None = None
) -> tuple[Dataset, Dataset]:
    kinds = recognise(train_path), recognise(test_path)
    named = [kind in TABLE_FORMATS for kind in kinds]
    if named[0] != named[1]:
        what = "named" if named[1] else "numbered"
        raise DataError(f"its labels are {what}, those of {train_path} not", path=test_path)
    if named[0]:
        train = _load(train_path, kinds[0], options)
        rule = "extend" if options.label_names is None else options.unknown_labels
        width = train.n_features if options.n_features is None else options.n_features
        options = replace(
            options, label_names=train.label_names, unknown_labels=rule, n_features=width
        )
        return train, _load(test_path, kinds[1], options)
    names = _names_from(names_file, options)
    if kinds == ("svmlight", "svmlight"):
        options = _with_common_sizes(train_path, test_path, options, len(names or ()))
    train = _load(train_path, kinds[0], options)
    test = _checked(_load(test_path, kinds[1], options), train.n_features, train.n_labels)
    return _named_by_file(train, names, names_file), _named_by_file(test, names, names_file)


def _with_common_sizes(
    train_path: Path, test_path: Path, options: ReadOptions, n_names: int
) -> ReadOptions:
    """svmlight says neither its sizes nor where it begins to count: both files decide together."""
    sets = [xc.read_svmlight(path, zero_based=True) for path in (train_path, test_path)]
    features = [cast(csr_matrix, s.features) for s in sets]
    zero_based = options.zero_based
    if zero_based == "auto":
        zero_based = any((matrix.indices == 0).any() for matrix in features)
    width, height = options.n_features, options.n_labels
    if width is None:
        width = max(0, max(matrix.shape[1] for matrix in features) - (not zero_based))
    if height is None and options.label_names is None:
        height = max(n_names, *(s.n_labels for s in sets))
    return replace(options, n_features=width, n_labels=height, zero_based=zero_based)


def _load_directory(
    directory: Path, split: int | None, options: ReadOptions
) -> tuple[Dataset, Dataset]:
    train, test = _find(directory, _TRAIN), _find(directory, _TEST)
    names_file = directory / NAMES_FILE
    if split is None and train is not None and test is not None:
        return _load_two(train, test, options, names_file)
    train_rows, test_rows = _find(directory, _TRAIN_ROWS), _find(directory, _TEST_ROWS)
    if train_rows is None or test_rows is None:
        wanted = "train.* and test.*, trn_X_* and tst_X_*, or trSplit and tstSplit"
        raise DataError(f"expected two files {wanted}; name the two files", path=directory)
    data_file = _find_unsplit(directory)
    names = _names_from(names_file, options)
    whole = _named_by_file(_load(data_file, "xc", options), names, names_file)
    return (
        xc.take_split(whole, xc.read_splits(train_rows), split or 0),
        xc.take_split(whole, xc.read_splits(test_rows), split or 0),
    )


def _find(directory: Path, pattern: str) -> Path | None:
    """The data file of this name; of a matrix pair, that of the features."""
    found = [path for path in _data_files(directory) if re.fullmatch(pattern, _stem(path))]
    if len(found) > 1:
        found = [
            path for path in found if not ("X_Y" in path.name and _beside(path, "X_Y", "X_Xf"))
        ]
    return _only(found, directory) if found else None


def _find_unsplit(directory: Path) -> Path:
    """The one XC text file that is not already a training or test set."""
    taken = f"{_TRAIN}|{_TEST}|{_TRAIN_ROWS}|{_TEST_ROWS}"
    files = [path for path in _data_files(directory) if not re.fullmatch(taken, _stem(path))]
    found = [path for path in files if _suffix(path) == ".txt" and xc.sniff(path) == "xc"]
    if not found:
        raise DataError("no XC text file to which the split files belong", path=directory)
    return _only(found, directory)


def _only(found: list[Path], directory: Path) -> Path:
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise DataError(f"several files could be meant: {names}; name one of them", path=directory)
    return found[0]


def _data_files(directory: Path) -> list[Path]:
    files = sorted(path for path in directory.iterdir() if path.is_file())
    return [path for path in files if _suffix(path) in _DATA_SUFFIXES]


def _names_from(path: Path | None, options: ReadOptions) -> list[str] | None:
    """The names in a directory's labels.txt, unless the caller gave others."""
    if path is None or options.label_names is not None or not path.is_file():
        return None
    return read_names(path)


def _named_by_file(dataset: Dataset, names: list[str] | None, path: Path | None) -> Dataset:
    if names is not None and len(names) != dataset.n_labels:
        message = f"{len(names)} names for the {dataset.n_labels} labels of {dataset.source}"
        raise DataError(message, path=path)
    return _named(dataset, names)
