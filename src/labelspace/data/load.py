"""Reads one file whole, by its format."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from labelspace.data.beside import Numbering
from labelspace.data.cache import cached
from labelspace.data.dataset import Dataset
from labelspace.data.formats import xc
from labelspace.data.formats.tables import TABLE_FORMATS, Table
from labelspace.data.options import ReadOptions
from labelspace.errors import DataError


def load(source: Any, kind: str, options: ReadOptions) -> Dataset:
    """Read one file or table, without a hierarchy and without the label names of its folder."""
    if kind in TABLE_FORMATS:
        return Table(source, kind, options).read()
    path: Path = source
    numbering, n_features = Numbering(path, options), options.n_features
    if kind == "matrix":
        pair = xc.read_pair(*pair_files(path, options.require_labels))
        return numbering.apply(checked(pair, n_features))
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


def pair_files(path: Path, require_labels: bool) -> tuple[Path | None, Path | None]:
    """Return the files of features and labels, given one of them; either may be absent."""
    if "X_Y" in path.name:
        return sibling(path, "X_Y", "X_Xf"), path
    if "X_Xf" not in path.name:
        message = "a matrix file; its name must contain X_Xf (features) or X_Y (labels)"
        raise DataError(message, path=path)
    labels = sibling(path, "X_Xf", "X_Y")
    if labels is None and require_labels:
        name = path.name.replace("X_Xf", "X_Y")
        raise DataError(f"the labels of these features, {name}, are not beside them", path=path)
    return path, labels


def sibling(path: Path, part: str, other: str) -> Path | None:
    """Return the file with another part in its name, compressed or not, if it exists."""
    name = path.name.replace(part, other).removesuffix(".gz")
    candidates = (path.with_name(name), path.with_name(name + ".gz"))
    return next((place for place in candidates if place.is_file()), None)


def checked(dataset: Dataset, n_features: int | None, n_labels: int | None = None) -> Dataset:
    """Raise if the data set has another number of features or labels than expected."""
    for what, found, wanted in (
        ("features", dataset.n_features, n_features),
        ("labels", dataset.n_labels, n_labels),
    ):
        if wanted is not None and found is not None and found != wanted:
            raise DataError(f"{found} {what} where {wanted} are expected", path=dataset.source)
    return dataset
