"""Any data file in, a Dataset out: recognises what it is given and calls the right reader."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.streams import PathLike, at_rest, opened, replacing
from labelspace.data.beside import (
    NAMES_FILE,
    Numbering,
    companion,
    named,
    named_by_file,
    named_by_folder,
    own_file,
    with_taxonomy,
)
from labelspace.data.cache import cached
from labelspace.data.columns import Columns
from labelspace.data.dataset import Dataset
from labelspace.data.formats import delimited, frames, xc
from labelspace.data.formats.tables import IN_MEMORY, TABLE_FORMATS, Table
from labelspace.data.formats.text import beginning
from labelspace.data.formats.write_tables import write_jsonl, write_parquet
from labelspace.data.name_files import name_lines, read_names
from labelspace.data.options import DEFAULT_COLUMNS, ReadOptions
from labelspace.data.taxonomy import HIERARCHY_FILE, taxonomy_lines
from labelspace.errors import DataError, ParameterError

_TABLE_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
}
_SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
_PACKED = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # ZIP, and the older format of spreadsheets
_SVMLIGHT_SUFFIXES = (".svm", ".svmlight", ".libsvm")
_DATA_SUFFIXES = (*_TABLE_SUFFIXES, *_SVMLIGHT_SUFFIXES, ".txt")
_TRAIN, _TEST = r"(.*[_-])?train|trn_X_(Xf|Y)", r"(.*[_-])?test|tst_X_(Xf|Y)"
_TRAIN_ROWS, _TEST_ROWS = r"(.*[_-])?trSplit", r"(.*[_-])?tstSplit"


def read(
    source: frames.Source,
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

    A table in memory is read by the rules for files: a DataFrame (pandas, polars), another object
    with the Arrow interface, or a list of dictionaries.

    source          a file, or a pipe, which is read once; "-" is standard input
    columns         which columns of a table mean what
    label_names     the known labels, in order; without them a table's labels are sorted by name,
                    and numbered labels have the names in FILE.labels.txt or labels.txt beside
    unknown_labels  a named label that is not known: "error", "extend" the names, or "drop" it
    taxonomy        a hierarchy file; "auto": FILE.hierarchy.tsv or hierarchy.tsv beside the file,
                    if it fits; None: none
    cache           keep a parsed XC or svmlight file for the next time
    require_labels  False: the file may do without labels, as examples to predict for do; numbered
                    labels that do not fit are left out
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
    if not frames.is_path(source):
        return with_taxonomy(_load(source, IN_MEMORY, options), options.taxonomy, None)
    place = at_rest(cast(PathLike, source))
    if place.is_dir():
        message = "expected a file, not a directory: name one of its files"
        raise DataError(f"{message}, such as {place / 'train.txt'}", path=place)
    dataset = _load(place, recognise(place), options)
    if dataset.label_names is None:
        open_ended = dataset.index_base is not None and n_labels is None  # svmlight, no size given
        dataset = named_by_folder(dataset, place, may_widen=open_ended)
    return with_taxonomy(dataset, options.taxonomy, place)


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
    """The same file or table a batch at a time, in memory that does not grow; no taxonomy.

    Without `label_names` those of a table grow in order of appearance: ids stay what they are
    from batch to batch. svmlight does not say its sizes: it needs n_features, and n_labels where
    labels are to be read.
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
        batches = xc.iter_pair(*_pair_files(place, require_labels), batch_size)
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
    return (numbering.apply(_checked(batch, n_features)) for batch in batches)


def read_split(
    directory_or_train: frames.Source,
    test: frames.Source | None = None,
    *,
    split: int | None = None,
    **options: Any,
) -> tuple[Dataset, Dataset]:
    """Training and test set: of two files or tables, or of a directory that holds both.

    In a directory, or in the one folder in it that has them: train.* and test.*, or
    trn_X_Xf/trn_X_Y and tst_X_Xf/tst_X_Y, or one data file with trSplit and tstSplit, of which
    `split` chooses a column. labels.txt names numbered labels.
    Test labels that the training set does not have stand behind its own, so that the test label
    matrix may be wider; given `label_names`, `unknown_labels` decides for both sets.
    The further options are those of `read`.
    """
    asked = ReadOptions(**options)
    train = _place(directory_or_train)
    if test is not None:
        return _load_two(train, _place(test), asked)
    if isinstance(train, Path) and train.is_dir():
        return _load_directory(train, split, asked)
    path = train if isinstance(train, Path) else frames.NAME
    raise DataError("expected a directory, or the test set as a second file", path=path)


def write(dataset: Dataset, path: PathLike, format: str | None = None) -> list[Path]:
    """Write XC text (.txt), JSON lines or Parquet, as the suffix or `format` says; .gz zips.

    XC text has no place for label names, and no format has one for a taxonomy: they are written to
    FILE.labels.txt and FILE.hierarchy.tsv, where `read` finds them. Returns what was written.
    """
    writers = {"xc": xc.write_xc, "jsonl": write_jsonl, "parquet": write_parquet}
    place = Path(path)
    kind = format or {".txt": "xc", ".jsonl": "jsonl", ".parquet": "parquet"}.get(_suffix(place))
    if kind not in writers:
        message = f"format={format!r}" if format else f"{place.name}: the suffix says no format"
        raise ParameterError(f"{message}; labelspace writes .txt (xc), .jsonl and .parquet")
    if kind == "parquet" and place.suffix == ".gz":
        raise ParameterError(f"{place.name}: Parquet is compressed inside; leave out .gz")
    beside: dict[Path, Iterator[bytes] | None] = {}
    if kind == "xc":
        names = dataset.label_names
        beside[companion(place, NAMES_FILE)] = None if names is None else name_lines(names)
    edges = None if dataset.taxonomy is None else taxonomy_lines(dataset.taxonomy)
    beside[companion(place, HIERARCHY_FILE)] = edges
    with ExitStack() as drafts:  # what stands beside is whole before the data take their name
        for file, lines in beside.items():
            if lines is not None:
                drafts.enter_context(replacing(file)).writelines(lines)
        writers[kind](dataset, place)
    for file, lines in beside.items():
        if lines is None:
            file.unlink(missing_ok=True)  # it belonged to the data that were replaced
    return [place, *(file for file, lines in beside.items() if lines is not None)]


def recognise(path: Path) -> str:
    """The format of a file: by its content where that is plain, then by its suffix."""
    path = at_rest(path)
    with opened(path) as stream:
        head = stream.read(1 << 12)
    if head.startswith(b"PAR1"):
        return "parquet"
    suffix = _suffix(path)
    if head.startswith(_PACKED):
        what = "a spreadsheet; save it as CSV" if suffix in _SPREADSHEETS else "packed; unpack it"
        raise DataError(f"this is {what} first", path=path)
    start = beginning(head).lstrip()
    if not start:
        raise DataError("the file is empty", path=path)
    if start.startswith("{"):
        return "jsonl"
    if _TABLE_SUFFIXES.get(suffix) not in delimited.DELIMITERS and re.match(r"\[\s*\{", start):
        return "json"
    if suffix in _TABLE_SUFFIXES:
        return _TABLE_SUFFIXES[suffix]
    found = xc.sniff(path)
    if found is not None:
        return found
    if suffix in _SVMLIGHT_SUFFIXES:
        return "svmlight"  # its reader says what is wrong
    if delimited.looks_like_table(start):
        return "csv"
    message = "this is neither JSON lines, Parquet, XC text, a matrix nor svmlight"
    raise DataError(f"{message}; CSV and TSV need a first line that names the columns", path=path)


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _stem(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).stem


# One file -------------------------------------------------------------------------------------


def _place(source: frames.Source) -> Any:
    """A file's path; a table in memory stays what it is."""
    return at_rest(cast(PathLike, source)) if frames.is_path(source) else source


def _load(source: Any, kind: str, options: ReadOptions) -> Dataset:
    """The file or table without a hierarchy and without the names of a folder."""
    if kind in TABLE_FORMATS:
        return Table(source, kind, options).read()
    path: Path = source
    numbering, n_features = Numbering(path, options), options.n_features
    if kind == "matrix":
        pair = xc.read_pair(*_pair_files(path, options.require_labels))
        return numbering.apply(_checked(pair, n_features))
    loose = not options.require_labels
    if kind == "xc":
        expected = numbering.expected
        parse = partial(xc.read_xc, n_features=n_features, n_labels=expected, any_labels=loose)
    else:
        parse = partial(
            xc.read_svmlight,
            n_features=n_features,
            n_labels=numbering.n_labels,
            zero_based=options.zero_based,
            any_labels=loose,
        )
    return numbering.apply(cached(path, parse) if options.cache else parse(path))


def _pair_files(path: Path, require_labels: bool) -> tuple[Path | None, Path | None]:
    """The features and labels of which one was named; the features may be absent, or the labels."""
    if "X_Y" in path.name:
        return _beside(path, "X_Y", "X_Xf"), path
    if "X_Xf" not in path.name:
        message = "a matrix file; its name must hold X_Xf (features) or X_Y (labels)"
        raise DataError(f"{message} to say which it is", path=path)
    labels = _beside(path, "X_Xf", "X_Y")
    if labels is None and require_labels:
        name = path.name.replace("X_Xf", "X_Y")
        raise DataError(f"the labels of these features, {name}, are not beside them", path=path)
    return path, labels


def _beside(path: Path, part: str, other: str) -> Path | None:
    """The sibling with another part in its name, zipped or not."""
    name = path.name.replace(part, other).removesuffix(".gz")
    candidates = (path.with_name(name), path.with_name(name + ".gz"))
    return next((place for place in candidates if place.is_file()), None)


def _checked(dataset: Dataset, n_features: int | None, n_labels: int | None = None) -> Dataset:
    for what, found, wanted in (
        ("features", dataset.n_features, n_features),
        ("labels", dataset.n_labels, n_labels),
    ):
        if wanted is not None and found is not None and found != wanted:
            raise DataError(f"{found} {what} where {wanted} are expected", path=dataset.source)
    return dataset


# Two files ------------------------------------------------------------------------------------


def _load_two(
    train_source: Any, test_source: Any, options: ReadOptions, names_file: Path | None = None
) -> tuple[Dataset, Dataset]:
    paths = [each if isinstance(each, Path) else None for each in (train_source, test_source)]
    kinds = tuple(IN_MEMORY if path is None else recognise(path) for path in paths)
    are_names = [kind in TABLE_FORMATS for kind in kinds]
    if are_names[0] != are_names[1]:
        here, there = ("names", "numbers") if are_names[1] else ("numbers", "names")
        message = f"the labels here are {here}, but those in {paths[0] or frames.NAME} are {there}"
        raise DataError(f"{message}: use one format for both", path=paths[1] or frames.NAME)
    load = _load_tables if are_names[0] else _load_numbered
    train, test = load((train_source, test_source), kinds, options, names_file)
    return (
        with_taxonomy(train, options.taxonomy, paths[0]),
        with_taxonomy(test, options.taxonomy, paths[1]),
    )


def _load_tables(
    sources: tuple[Any, Any], kinds: tuple[str, ...], options: ReadOptions, _: Path | None
) -> tuple[Dataset, Dataset]:
    train = _load(sources[0], kinds[0], options)
    width = train.n_features if options.n_features is None else options.n_features
    further = replace(_known_from(train, options), n_features=width)
    return train, _load(sources[1], kinds[1], further)


def _known_from(train: Dataset, options: ReadOptions) -> ReadOptions:
    """Options for the test set, whose labels are numbered as those of the training set."""
    rule = "extend" if options.label_names is None else options.unknown_labels
    return replace(options, label_names=train.label_names, unknown_labels=rule)


def _load_numbered(
    paths: tuple[Path, Path],
    kinds: tuple[str, ...],
    options: ReadOptions,
    names_file: Path | None,
) -> tuple[Dataset, Dataset]:
    names = None
    if names_file is not None and options.label_names is None and names_file.is_file():
        names = read_names(names_file)
    if kinds == ("svmlight", "svmlight"):
        train, test = _load_svmlight(paths, options, len(names or ()))
    else:
        train = _load(paths[0], kinds[0], options)
        further = options if train.label_names is None else _known_from(train, options)
        test = _checked(_load(paths[1], kinds[1], further), train.n_features)
    if train.label_names is not None:
        return train, test
    test = _checked(replace(test, label_names=None), None, train.n_labels)
    if names is not None:
        return named_by_file(train, names, names_file), named_by_file(test, names, names_file)
    if names_file is None:
        train = named_by_folder(train, paths[0], may_widen=False)
    return train, named(test, train.label_names)


def _load_svmlight(
    paths: tuple[Path, Path], options: ReadOptions, n_names: int
) -> tuple[Dataset, Dataset]:
    """svmlight says neither its sizes nor where it begins to count: both files decide together."""
    parse = partial(xc.read_svmlight, zero_based=True)
    sets = [cached(path, parse) if options.cache else parse(path) for path in paths]
    features = [cast(csr_matrix, each.features) for each in sets]
    zero_based = options.zero_based
    if zero_based == "auto":
        zero_based = any((matrix.indices == 0).any() for matrix in features)
    width, height = options.n_features, options.label_count
    if width is None:
        width = max(0, max(matrix.shape[1] for matrix in features) - (not zero_based))
    if height is None:
        height = max(n_names, *(each.n_labels for each in sets))
    first = 0 if zero_based else 1
    decided = replace(options, n_features=width, n_labels=height, zero_based=zero_based)
    found: list[Dataset] = []
    for path, each, matrix in zip(paths, sets, features, strict=True):
        fits = each.n_labels <= height and matrix.shape[1] - first <= width
        fits &= bool((matrix.indices >= first).all())
        if not fits or own_file(path, NAMES_FILE) is not None:
            known = found[0] if found else None
            if known is not None and known.label_names is not None:
                decided = replace(_known_from(known, decided), n_labels=None)
            found.append(_load(path, "svmlight", decided))  # which says where it is wrong
            continue
        rows = (each.labels.data, each.labels.indices, each.labels.indptr)
        labels = csr_matrix(rows, shape=(len(each), height), copy=False)
        rows = (matrix.data, matrix.indices - np.int32(first), matrix.indptr)
        shifted = csr_matrix(rows, shape=(len(each), width), copy=False)
        plain = replace(each, labels=labels, features=shifted, index_base=first)
        found.append(named(plain, options.label_names))
    return found[0], found[1]


def train_file(directory: Path) -> Path | None:
    """The training set in a directory that `read_split` can read, where it has its own file."""
    return _find(_split_folder(directory), _TRAIN)


def _split_folder(directory: Path) -> Path:
    """The folder that holds the training and test set: this one, or the one in it that does."""
    if _holds_split(directory):
        return directory
    below = sorted(path for path in directory.iterdir() if path.is_dir())
    found = [folder for folder in below if _holds_split(folder)]
    if len(found) > 1:
        names = ", ".join(folder.name for folder in found)
        raise DataError(f"several folders hold data: {names}; name one of them", path=directory)
    return found[0] if found else directory


def _holds_split(directory: Path) -> bool:
    stems = [_stem(path) for path in _data_files(directory)]
    pairs = ((_TRAIN, _TEST), (_TRAIN_ROWS, _TEST_ROWS))
    return any(
        all(any(re.fullmatch(pattern, stem) for stem in stems) for pattern in pair)
        for pair in pairs
    )


def _load_directory(
    directory: Path, split: int | None, options: ReadOptions
) -> tuple[Dataset, Dataset]:
    directory = _split_folder(directory)
    train, test = _find(directory, _TRAIN), _find(directory, _TEST)
    names_file = directory / NAMES_FILE
    if split is None and train is not None and test is not None:
        return _load_two(train, test, options, names_file)
    train_rows, test_rows = _find(directory, _TRAIN_ROWS), _find(directory, _TEST_ROWS)
    if train_rows is None or test_rows is None:
        wanted = "train.* and test.*, trn_X_* and tst_X_*, or trSplit and tstSplit"
        raise DataError(f"expected two files {wanted}; name the two files", path=directory)
    data_file = _find_unsplit(directory)
    whole = _load(data_file, "xc", options)
    if whole.label_names is None and names_file.is_file():
        whole = named_by_file(whole, read_names(names_file), names_file)
    whole = with_taxonomy(whole, options.taxonomy, data_file)
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
    companions = (f".{NAMES_FILE}", f".{HIERARCHY_FILE}")
    return [
        path
        for path in files
        if _suffix(path) in _DATA_SUFFIXES and not path.name.endswith(companions)
    ]
