"""A Tagger as a directory and back: what is written, and how it is checked when it is read."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labelspace._core.checks import expect
from labelspace._core.json_text import shortened
from labelspace._core.schema import Schema, check_arrays, ints
from labelspace._version import __version__
from labelspace.data.columns import Columns
from labelspace.data.label_texts import LabelTexts
from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import (
    MissingExtraError,
    ModelFormatError,
    ModelMethodError,
    StoreError,
    UnknownMethodError,
)
from labelspace.features.pipeline import FeaturePipeline
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.registry import method_class
from labelspace.model import store
from labelspace.model.metadata import checked_metadata

if TYPE_CHECKING:
    from labelspace.model.tagger import Tagger

_LABEL_SCHEMA: Schema = [ints("counts", "labels"), ints("n_points", limit=2**53)]
_LONGEST_MESSAGE = 500  # letters
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "faiss-cpu")


def save_tagger(tagger: Tagger, directory: str | Path) -> None:
    """Write a Tagger as a directory; one that is there already is replaced as a whole."""
    store.save(bundle_of(tagger), directory)


def bundle_of(tagger: Tagger) -> store.Bundle:
    """Return the content of a Tagger's directory: plain values and arrays, not copied."""
    method = tagger.method
    pipeline, pipeline_arrays = tagger.pipeline.state()
    header = {
        "method": f"{method.name}@{method.version}",
        **method.to_json(),
        "features": method.n_features_in_,
        "labels": method.n_labels_,
        "labelspace": __version__,
        "libraries": _versions(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "columns": tagger.columns.to_json(),
        **tagger.metadata,
        **method.metadata(),
    }
    arrays: dict[str, Mapping[str, np.ndarray]] = {"method": method.state()}
    if tagger.label_counts is not None:
        arrays["labels"] = {
            "counts": tagger.label_counts.counts,
            "n_points": np.array(tagger.label_counts.n_points),
        }
    if pipeline_arrays:
        arrays["features"] = pipeline_arrays
    documents: dict[str, Any] = {"features": pipeline, "labels": tagger.label_names}
    if tagger.taxonomy is not None:
        documents["taxonomy"] = list(tagger.taxonomy.pairs())
    if tagger.label_texts is not None:
        documents["label_texts"] = tagger.label_texts.to_json()
    if tagger.example_ids is not None:
        documents["examples"] = tagger.example_ids
    if tagger.history is not None:
        documents["history"] = tagger.history
    return store.Bundle(header, arrays, documents)


def load_tagger(cls: type[Tagger], directory: str | Path, verify: bool) -> Tagger:
    """Read a directory that `save_tagger` wrote; every error names it."""
    bundle = store.load(directory, verify=verify)
    try:
        return restored(cls, bundle, directory)
    except (StoreError, MissingExtraError) as error:
        raise type(error)(_naming(directory, error)) from error.__cause__
    except Exception as error:  # whatever unforeseen content leads to
        reason = shortened(error) or type(error).__name__
        raise ModelFormatError(f"{directory}: not a complete model: {reason}") from error


def restored(cls: type[Tagger], bundle: store.Bundle, directory: str | Path) -> Tagger:
    """Return the Tagger of a directory's content, with its arrays; `directory` is for errors."""
    method = _restore_method(bundle, directory)
    names = bundle.documents["labels"]
    _check_names(names, method.n_labels_, "label_texts" in bundle.documents)
    pipeline = FeaturePipeline.from_state(
        bundle.documents["features"], bundle.arrays.get("features", {})
    )
    expect(type(pipeline.n_numeric) is int, "the number of numeric features is not one")
    fits = pipeline.n_features == method.n_features_in_
    expect(fits, "the features do not fit the method")
    counts = None
    if "labels" in bundle.arrays:
        kept = bundle.arrays["labels"]
        check_arrays(_LABEL_SCHEMA, kept, labels=len(names))
        counts = LabelCounts(kept["counts"], int(kept["n_points"]))
    metadata = checked_metadata(bundle.header)
    pairs = bundle.documents.get("taxonomy")
    taxonomy = None if pairs is None else Taxonomy.from_names(_checked_pairs(pairs), names)
    texts = bundle.documents.get("label_texts")
    texts = None if texts is None else LabelTexts.from_json(texts, names)
    columns = Columns.from_json(bundle.header.get("columns", {}))  # absent from older models
    ids = bundle.documents.get("examples")
    listed = ids is None or (isinstance(ids, list) and all(isinstance(each, str) for each in ids))
    expect(listed, "examples.json is not a list of ids")
    tagger = cls(
        pipeline,
        method,
        names,
        counts,
        taxonomy=taxonomy,
        label_texts=texts,
        metadata=metadata,
        columns=columns,
        example_ids=ids,
    )
    tagger.history = bundle.documents.get("history")
    tagger.header, tagger.digest = bundle.header, bundle.digest
    return tagger


def _restore_method(bundle: store.Bundle, directory: str | Path) -> Method:
    name, _, written = str(bundle.header.get("method", "")).partition("@")
    try:
        cls = method_class(name)
    except UnknownMethodError as error:
        raise ModelMethodError(f"{directory}: {error}") from None
    if int(written) > cls.version:
        raise ModelMethodError(
            f"{directory}: saved by {name} version {written}; this labelspace has version "
            f"{cls.version}: upgrade it"
        )
    if int(written) < cls.oldest_version:
        raise ModelMethodError(
            f"{directory} was saved by {name} version {written}, whose parameters had other names; "
            f"this labelspace reads version {cls.oldest_version} and later: train the model again"
        )
    sizes = bundle.header["features"], bundle.header["labels"]
    expect(all(type(size) is int and size > 0 for size in sizes), "a number of columns is not one")
    return cls.restored(
        bundle.header,
        bundle.arrays["method"],
        n_features=sizes[0],
        n_labels=sizes[1],
        verify=bundle.verified,
    )


def _check_names(names: Any, n_labels: int, has_texts: bool) -> None:
    """Check that the names are different texts that can be printed; raise if they are not."""
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    # More than the method has: labels of which only texts are known.
    enough = listed and (len(names) >= n_labels if has_texts else len(names) == n_labels)
    expect(enough, f"labels.json is not a list of {n_labels} names")
    expect(len(set(names)) == len(names), "labels.json names a label twice")
    "\n".join(names).encode()


def _checked_pairs(pairs: Any) -> list[tuple[str, str]]:
    holds = isinstance(pairs, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) for name in pair)
        for pair in pairs
    )
    expect(holds, "taxonomy.json is not a list of pairs of names")
    return [(child, parent) for child, parent in pairs]


def _naming(directory: str | Path, error: Exception) -> str:
    """Return the error's sentence with the model's directory in front, if it is not there yet."""
    message, place = " ".join(str(error).split()), str(directory)
    if len(message) > _LONGEST_MESSAGE:  # it has a part of the file in it
        message = f"{message[:_LONGEST_MESSAGE]}...: the model is damaged, restore it from a copy"
    named = message.startswith((f"{place}: ", f"{place} ", f"{place}/"))
    return message if named else f"{place}: {message}"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
