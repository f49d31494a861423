"""Reads a training and a test set: two files, or a directory that holds them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.streams import PathLike, at_rest
from labelspace.data.beside import (
    NAMES_FILE,
    named,
    named_by_file,
    named_by_folder,
    own_file,
    with_broader,
    with_label_texts,
    with_taxonomy,
)
from labelspace.data.cache import cached
from labelspace.data.dataset import Dataset
from labelspace.data.formats import frames, xc
from labelspace.data.formats.tables import IN_MEMORY, TABLE_FORMATS
from labelspace.data.load import checked, load, sibling
from labelspace.data.name_files import read_names
from labelspace.data.options import ReadOptions
from labelspace.data.recognise import DATA_SUFFIXES, recognise, stem, suffix
from labelspace.data.taxonomy import HIERARCHY_FILE
from labelspace.errors import DataError

_TRAIN, _TEST = r"(.*[_-])?train|trn_X_(Xf|Y)", r"(.*[_-])?test|tst_X_(Xf|Y)"
_TRAIN_ROWS, _TEST_ROWS = r"(.*[_-])?trSplit", r"(.*[_-])?tstSplit"


def read_split(
    directory_or_train: frames.Source,
    test: frames.Source | None = None,
    *,
    split: int | None = None,
    **options: Any,
) -> tuple[Dataset, Dataset]:
    """Read a training and a test set with the same label ids.

    Labels that only the test set has are numbered after those of the training set, so its label
    matrix may be wider; with `label_names`, `unknown_labels` decides for both sets.

    Parameters
    ----------
    directory_or_train : path or table
        A directory with train.* and test.*, with trn_X_* and tst_X_*, or with one XC text file and
        its trSplit and tstSplit; or the training set, if `test` is given.
    test : path or table, optional
        The test set.
    split : int, optional
        Which column of trSplit and tstSplit to take, from 0.
    **options
        As for `read`.

    Returns
    -------
    train, test : Dataset

    Raises
    ------
    DataError
        If a set is not found, cannot be read, or does not fit the other one.

    Examples
    --------
    >>> from labelspace.data import read_split
    >>> train, test = read_split(
    ...     [{"text": "Earbuds", "labels": ["Audio"]}], [{"text": "Lens", "labels": ["Camera"]}]
    ... )
    >>> train.label_names, test.label_names
    (('Audio',), ('Audio', 'Camera'))
    """
    chosen = ReadOptions(**options)
    train = _place(directory_or_train)
    if test is not None:
        return _load_two(train, _place(test), chosen)
    if isinstance(train, Path) and train.is_dir():
        return _load_directory(train, split, chosen)
    path = train if isinstance(train, Path) else frames.NAME
    raise DataError("expected a directory, or the test set as a second file", path=path)


def _place(source: frames.Source) -> Any:
    """Return the path of a file; return a table in memory as it is."""
    return at_rest(cast(PathLike, source)) if frames.is_path(source) else source


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
    load_both = _load_tables if are_names[0] else _load_numbered
    train, test = load_both((train_source, test_source), kinds, options, names_file)
    if not are_names[0]:
        train = with_label_texts(train, options.label_texts, paths[0], may_widen=False)
    train = with_taxonomy(train, options.taxonomy, paths[0])
    return (
        train if options.taxonomy is None else with_broader(train),
        with_taxonomy(test, options.taxonomy, paths[1]),
    )


def _load_tables(
    sources: tuple[Any, Any], kinds: tuple[str, ...], options: ReadOptions, _: Path | None
) -> tuple[Dataset, Dataset]:
    train = load(sources[0], kinds[0], options)
    path = sources[0] if isinstance(sources[0], Path) else None
    # First, as labels that only the test set has are numbered after those of the label texts.
    train = with_label_texts(train, options.label_texts, path, may_widen=True)
    width = train.n_features if options.n_features is None else options.n_features
    further = replace(_known_from(train, options), n_features=width)
    return train, load(sources[1], kinds[1], further)


def _known_from(train: Dataset, options: ReadOptions) -> ReadOptions:
    """Return the options for the test set, whose labels are numbered as in the training set."""
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
        train = load(paths[0], kinds[0], options)
        further = options if train.label_names is None else _known_from(train, options)
        test = checked(load(paths[1], kinds[1], further), train.n_features)
    if train.label_names is not None:
        return train, test
    test = checked(replace(test, label_names=None), None, train.n_labels)
    if names is not None:
        return named_by_file(train, names, names_file), named_by_file(test, names, names_file)
    if names_file is None:
        train = named_by_folder(train, paths[0], may_widen=False)
    return train, named(test, train.label_names)


def _load_svmlight(
    paths: tuple[Path, Path], options: ReadOptions, n_names: int
) -> tuple[Dataset, Dataset]:
    """Read two svmlight files, which together decide the sizes and the first feature's number."""
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
            found.append(load(path, "svmlight", decided))  # its errors name the line
            continue
        rows = (each.labels.data, each.labels.indices, each.labels.indptr)
        labels = csr_matrix(rows, shape=(len(each), height), copy=False)
        rows = (matrix.data, matrix.indices - np.int32(first), matrix.indptr)
        shifted = csr_matrix(rows, shape=(len(each), width), copy=False)
        plain = replace(each, labels=labels, features=shifted, index_base=first)
        found.append(named(plain, options.label_names))
    return found[0], found[1]


def train_file(directory: Path) -> Path | None:
    """Return the training file in a directory that `read_split` can read, None if it has none."""
    return _find(_split_folder(directory), _TRAIN)


def _split_folder(directory: Path) -> Path:
    """Return the directory with both sets: this one, or the one inside it that has them."""
    if _holds_split(directory):
        return directory
    below = sorted(path for path in directory.iterdir() if path.is_dir())
    found = [folder for folder in below if _holds_split(folder)]
    if len(found) > 1:
        names = ", ".join(folder.name for folder in found)
        raise DataError(f"several folders hold data: {names}; name one of them", path=directory)
    return found[0] if found else directory


def _holds_split(directory: Path) -> bool:
    stems = [stem(path) for path in _data_files(directory)]
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
    whole = load(data_file, "xc", options)
    if whole.label_names is None and names_file.is_file():
        whole = named_by_file(whole, read_names(names_file), names_file)
    whole = with_label_texts(whole, options.label_texts, data_file, may_widen=False)
    whole = with_taxonomy(whole, options.taxonomy, data_file)
    whole = whole if options.taxonomy is None else with_broader(whole)
    return (
        xc.take_split(whole, xc.read_splits(train_rows), split or 0),
        xc.take_split(whole, xc.read_splits(test_rows), split or 0),
    )


def _find(directory: Path, pattern: str) -> Path | None:
    """Return the data file of this name; of a matrix pair, that of the features."""
    found = [path for path in _data_files(directory) if re.fullmatch(pattern, stem(path))]
    if len(found) > 1:
        found = [
            path for path in found if not ("X_Y" in path.name and sibling(path, "X_Y", "X_Xf"))
        ]
    return _only(found, directory) if found else None


def _find_unsplit(directory: Path) -> Path:
    """Return the one XC text file that is not itself a training or test set."""
    taken = f"{_TRAIN}|{_TEST}|{_TRAIN_ROWS}|{_TEST_ROWS}"
    files = [path for path in _data_files(directory) if not re.fullmatch(taken, stem(path))]
    found = [path for path in files if suffix(path) == ".txt" and xc.sniff(path) == "xc"]
    if not found:
        raise DataError("no XC text file to which the split files belong", path=directory)
    return _only(found, directory)


def _only(found: list[Path], directory: Path) -> Path:
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise DataError(f"several files are possible: {names}; name one of them", path=directory)
    return found[0]


def _data_files(directory: Path) -> list[Path]:
    files = sorted(path for path in directory.iterdir() if path.is_file())
    companions = (f".{NAMES_FILE}", f".{HIERARCHY_FILE}")
    return [
        path
        for path in files
        if suffix(path) in DATA_SUFFIXES and not path.name.endswith(companions)
    ]
