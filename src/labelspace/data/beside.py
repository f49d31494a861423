"""Files beside a data file: names for its label numbers, label texts, and a hierarchy.

FILE.labels.txt and FILE.hierarchy.tsv belong to one file; labels.txt and hierarchy.tsv serve all
files of their directory. A pipe has no such files. Label texts are in label_texts.tsv, .csv or
.jsonl, or in labels.ttl, .rdf or .nt.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import rows_of
from labelspace._core.streams import PathLike, Spooled, at_rest
from labelspace.data.dataset import Dataset
from labelspace.data.formats import xc
from labelspace.data.label_files import SKOS_FILES, TABLE_FILES, read_label_texts
from labelspace.data.label_keys import NoSuchLabelsError, identified
from labelspace.data.label_texts import LabelTexts
from labelspace.data.name_files import read_names
from labelspace.data.options import LabelSource, ReadOptions
from labelspace.data.taxonomy import HIERARCHY_FILE, Taxonomy, read_taxonomy
from labelspace.data.vocabulary import Vocabulary
from labelspace.errors import DataError, MissingExtraError

logger = logging.getLogger(__name__)

NAMES_FILE = "labels.txt"


def companion(path: Path, name: str) -> Path:
    """Return the path of a file that belongs to this one alone, such as train.txt.labels.txt."""
    return path.with_name(f"{path.name}.{name}")


def own_file(path: Path, name: str) -> Path | None:
    """Return the companion that exists; it may have been written before its file was gzipped."""
    if isinstance(path, Spooled):
        return None
    unzipped = path.with_name(path.name.removesuffix(".gz"))
    candidates = (companion(path, name), companion(unzipped, name))
    return next((place for place in candidates if place.is_file()), None)


class Numbering:
    """The names of the label numbers of a file: its own, or those of the caller.

    A file with its own names is matched with the caller's by name, other files by number.
    """

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._options = options
        self._file = own_file(path, NAMES_FILE)
        self._own = None if self._file is None else read_names(self._file)
        self._vocabulary: Vocabulary | None = None
        known = options.label_names
        if self._own is not None and known is not None and list(known) != self._own:
            self._vocabulary = Vocabulary(known, options.unknown_labels, path)

    @property
    def expected(self) -> int | None:
        """Return the number of labels that a header must give, None if any."""
        ignored = self._vocabulary is not None or not self._options.require_labels
        return None if ignored else self._options.label_count

    @property
    def n_labels(self) -> int | None:
        """Return the number of labels of a file without a header, None if it is not known."""
        return self._options.label_count if self._own is None else len(self._own)

    def apply(self, dataset: Dataset) -> Dataset:
        """Return the data set with label names, and with the label numbers of the caller."""
        options, own = self._options, self._own
        if own is not None and len(own) != dataset.n_labels:
            if options.require_labels:
                raise _misfit(own, dataset, self._file)
            own = None
        if own is not None and self._vocabulary is not None:
            dataset = _renumbered(dataset, own, self._vocabulary)
            if self._vocabulary.dropped and options.require_labels:
                dropped = self._vocabulary.dropped
                logger.warning("%s: %d unknown labels were dropped", dataset.source, dropped)
            return dataset
        wanted = options.label_count
        if wanted is not None and wanted != dataset.n_labels:
            if options.require_labels:
                message = f"{dataset.n_labels} labels where {wanted} are expected"
                raise DataError(message, path=dataset.source)
            dataset = replace(dataset, labels=xc.no_labels(len(dataset), wanted))
        return named(dataset, own if options.label_names is None else options.label_names)


def named(dataset: Dataset, names: Sequence[str] | None) -> Dataset:
    """Return the data set with these label names; None changes nothing."""
    return dataset if names is None else replace(dataset, label_names=tuple(names))


def named_by_file(
    dataset: Dataset, names: Sequence[str], path: Path | None, *, may_widen: bool = False
) -> Dataset:
    """Return the data set with the names of a file; there must be one per label.

    With `may_widen`, further names are further labels, for data that do not give their number.
    """
    if may_widen and len(names) > dataset.n_labels:
        dataset = replace(dataset, labels=_widened(dataset.labels, len(names)))
    if len(names) != dataset.n_labels:
        raise _misfit(names, dataset, path)
    return named(dataset, names)


def named_by_folder(dataset: Dataset, path: Path, *, may_widen: bool) -> Dataset:
    """Return the data set with the names in labels.txt of its directory, if there is one per label.

    Otherwise they may be those of another file, and a warning is logged.
    """
    file = path.with_name(NAMES_FILE)
    if isinstance(path, Spooled) or file == path or not file.is_file():
        return dataset
    try:
        return named_by_file(dataset, read_names(file), file, may_widen=may_widen)
    except DataError as error:
        logger.warning("%s: labels have no names: %s", dataset.source, error)
        return dataset


def with_taxonomy(dataset: Dataset, choice: PathLike | None, path: Path | None) -> Dataset:
    """Return the data set with the chosen hierarchy; "auto" is one beside the file.

    A hierarchy from category paths is replaced only by one that is named. A table in memory has
    no file beside it.
    """
    if choice is None:
        return replace(dataset, taxonomy=None)
    if choice != "auto":
        files = [at_rest(choice)]
    elif dataset.taxonomy is not None or path is None or isinstance(path, Spooled):
        return dataset
    else:
        candidates = (own_file(path, HIERARCHY_FILE), path.with_name(HIERARCHY_FILE))
        files = [file for file in candidates if file is not None and file.is_file()]
    for file in files:  # names are made only now: a file may claim any number of labels
        taxonomy = read_taxonomy(file, dataset.names())
        if (taxonomy.edges < taxonomy.n_labels).any():
            return replace(dataset, taxonomy=taxonomy)
        if choice != "auto":
            raise DataError("none of the names in it is a label of the data", path=file)
    return dataset


def with_label_texts(
    dataset: Dataset, choice: LabelSource, path: Path | None, *, may_widen: bool
) -> Dataset:
    """Return the data set with the chosen label texts; "auto" are those beside the file.

    With `may_widen`, labels that only the texts have are further labels, without examples. Without
    it, as for data whose labels are columns of a matrix, their texts are left out.
    """
    if choice is None:
        return dataset
    if choice != "auto":
        texts = choice if isinstance(choice, LabelTexts) else read_label_texts(choice)
        return _with_texts(dataset, texts, may_widen=may_widen)
    found = None if path is None or isinstance(path, Spooled) else _label_file(path)
    if found is None:
        return dataset
    try:
        return _with_texts(dataset, read_label_texts(found), may_widen=may_widen)
    except (MissingExtraError, NoSuchLabelsError) as error:
        logger.warning("label texts beside the data are not used: %s", error)
        return dataset


def with_chosen_texts(dataset: Dataset, choice: LabelSource) -> Dataset:
    """Return a data set in memory with these label texts instead of its own; None removes them."""
    if choice is None:
        return replace(dataset, label_texts=None)
    is_named = dataset.label_names is not None
    plain = replace(dataset, label_texts=None)
    return with_broader(with_label_texts(plain, choice, None, may_widen=is_named))


def with_broader(dataset: Dataset) -> Dataset:
    """Return the data set with the broader labels of its label texts in its taxonomy."""
    texts = dataset.label_texts
    if texts is None or not texts.broader:
        return dataset
    known = () if dataset.taxonomy is None else dataset.taxonomy.pairs()
    try:
        taxonomy = Taxonomy.from_names([*known, *texts.broader], dataset.names())
    except DataError as error:
        message = f"{error.message}; its broader labels contradict the hierarchy of the data"
        raise DataError(message, path=texts.source or None) from None
    return replace(dataset, taxonomy=taxonomy, label_texts=replace(texts, broader=()))


def _label_file(path: Path) -> Path | None:
    """Return the file of label texts that belongs to a data file, if there is one."""
    names = [f"{name}{ending}" for name in (*TABLE_FILES, *SKOS_FILES) for ending in ("", ".gz")]
    own = (own_file(path, name) for name in names)
    shared = (path.with_name(name) for name in names)
    files = (file for file in (*own, *shared) if file is not None and file != path)
    return next((file for file in files if file.is_file()), None)


def _with_texts(dataset: Dataset, texts: LabelTexts, *, may_widen: bool) -> Dataset:
    names = dataset.names()
    try:
        texts = identified(texts, names)
    except DataError as error:
        raise type(error)(error.message, path=texts.source or None) from None
    if may_widen:
        texts = texts.with_labels_of(names)
    else:
        left = len(set(texts.ids).difference(names))
        texts = texts.aligned(names)
        if left:
            logger.warning(
                "%s: %d labels are left out, as the data have a fixed number of labels",
                *(texts.source or "label texts", left),
            )
    return replace(
        dataset,
        labels=_widened(dataset.labels, len(texts)),
        label_names=texts.ids,
        label_texts=texts,
    )


def _widened(labels: csr_matrix, n_labels: int) -> csr_matrix:
    """Return the labels with further columns, without examples."""
    parts = (labels.data, labels.indices, labels.indptr)
    return csr_matrix(parts, shape=(labels.shape[0], n_labels), copy=False)


def _misfit(names: Sequence[str], dataset: Dataset, path: Path | None) -> DataError:
    message = f"{len(names)} names for the {dataset.n_labels} labels of {dataset.source}"
    return DataError(message, path=path)


def _renumbered(dataset: Dataset, own: list[str], vocabulary: Vocabulary) -> Dataset:
    """Return the data set with the label ids that the vocabulary gives its names."""
    labels = dataset.labels
    new_id = np.full(len(own), -1, np.int32)
    for label in np.unique(labels.indices).tolist():
        new_id[label] = next(iter(vocabulary.ids([own[label]])), -1)
    rows = rows_of(labels)
    columns = new_id[labels.indices]
    known = columns >= 0
    vocabulary.dropped = int(np.count_nonzero(~known))
    ones = np.ones(np.count_nonzero(known), np.float32)
    shape = (len(dataset), len(vocabulary.index))
    matrix = csr_matrix((ones, (rows[known], columns[known])), shape=shape)
    matrix.sort_indices()
    return replace(dataset, labels=matrix, label_names=vocabulary.names())
