"""The data of a run: a set from a folder, or generated data in its place."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace._core.sparse import as_csr
from labelspace.data import read_split
from labelspace.data.dataset import Dataset
from labelspace.datasets.catalogue import PUBLIC_SETS
from labelspace.datasets.products import write_catalogue
from labelspace.datasets.sparse import SparseShape, make_sparse
from labelspace.errors import DataError
from labelspace.features.pipeline import pipeline_for
from labelspace.methods.base import Method
from labelspace.reproductions.experiment import Sample, Split

GENERATED = (2000, 500)  # training and test examples at most, where a set is not at hand
MAX_LABELS = 2000


def is_at_hand(name: str, folder: Path) -> bool:
    """Return whether the folder has a data set of this name."""
    return (folder / name).is_dir()


def check_at_hand(names: list[str], folder: Path) -> None:
    """Raise DataError if one of the data sets is missing."""
    missing = sorted({name for name in names if not is_at_hand(name, folder)})
    if missing:
        public = [name for name in missing if name in PUBLIC_SETS]
        hint = f"; labelspace data get {public[0]} --out {folder}" if public else ""
        raise DataError(
            f"no data set {', '.join(missing)} in {folder}: give the folder that holds the data "
            f"sets as --data{hint}; with --quick, generated data take their place"
        )


def read_sample(sample: Sample, folder: Path, method: Method) -> Split:
    """Return the examples of a sample with features for the method.

    Where the folder does not have the set, generated data take its place.
    """
    features = method.text_features() if sample.features is None else sample.features
    return _read(sample, folder, repr(features), _Features(features))


class _Features:
    """Features of texts, all alike to the cache below, which compares their description."""

    def __init__(self, features: object) -> None:
        self.features = features

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Features)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=2)
def _read(sample: Sample, folder: Path, described: str, spec: _Features) -> Split:
    del described  # part of the cache's key
    train, test = _datasets(sample, folder)
    pipeline = pipeline_for(train, spec.features)  # type: ignore[arg-type]  # checked there
    X = as_csr(pipeline.fit_transform(train))
    return Split(
        X=X,
        Y=train.labels,
        X_test=as_csr(pipeline.transform(test)),
        Y_test=test.labels,
        train=train,
        test=test,
        taxonomy=train.taxonomy,
        label_names=pipeline.label_names(train),
    )


def _datasets(sample: Sample, folder: Path) -> tuple[Dataset, Dataset]:
    if is_at_hand(sample.name, folder):
        train, test = read_split(folder / sample.name, split=sample.split)
    else:
        train, test = _generated(sample)
    if sample.redrawn is not None:
        train, test = _redrawn(train, test, sample.redrawn)
    return _drawn(train, sample.rows, 0), _drawn(test, sample.tested, 1)


def _redrawn(train: Dataset, test: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """Return as many training and test examples, drawn at random from both."""
    known = csr_matrix((train.labels.data, train.labels.indices, train.labels.indptr),
                       shape=(len(train), test.n_labels))  # fmt: skip
    features = None if train.features is None else vstack([train.features, test.features], "csr")
    texts = None if train.texts is None else [*train.texts, *(test.texts or ())]
    ids = None if train.ids is None else [*train.ids, *(test.ids or ())]
    both = replace(
        test, labels=vstack([known, test.labels], "csr"), features=features, texts=texts, ids=ids
    )
    order = np.random.default_rng(seed).permutation(len(both))
    return both.take(np.sort(order[: len(train)])), both.take(np.sort(order[len(train) :]))


def _drawn(data: Dataset, rows: int | None, seed: int) -> Dataset:
    """Return examples drawn at random, in their order; all if there are not more."""
    if rows is None or rows >= len(data):
        return data
    return data.take(np.sort(np.random.default_rng(seed).permutation(len(data))[:rows]))


def _generated(sample: Sample) -> tuple[Dataset, Dataset]:
    """Return generated data: sparse of a public set's shape, or products where it has texts."""
    n_train = min(sample.rows or GENERATED[0], GENERATED[0])
    n_test = min(sample.tested or GENERATED[1], GENERATED[1])
    public = PUBLIC_SETS.get(sample.name)
    if public is None:
        with tempfile.TemporaryDirectory() as place:
            write_catalogue(place, train=n_train, test=n_test)
            return read_split(place, cache=False)
    shape = SparseShape(
        n_train + n_test,
        min(public.features, 10 * MAX_LABELS),
        min(public.labels, MAX_LABELS),
        labels_per_point=min(public.labels_per_point, 10),
    )
    data = make_sparse(shape)
    rows = np.arange(len(data))
    return data.take(rows[:n_train]), data.take(rows[n_train:])
