"""A Tagger is what users keep: a feature pipeline, a fitted method and the names of the labels."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from labelspace import store
from labelspace._version import __version__
from labelspace.data import Columns, read
from labelspace.data.dataset import Dataset
from labelspace.data.stats import statistics
from labelspace.errors import ModelFormatError, ModelMethodError, UnknownMethodError
from labelspace.features.pipeline import FeaturePipeline, pipeline_for
from labelspace.labels.propensity import LabelCounts
from labelspace.memory import refuse_if_too_large
from labelspace.methods.base import Method, Shape
from labelspace.methods.ranking import Ranking
from labelspace.methods.registry import DEFAULT_METHOD, method_class
from labelspace.nn.callbacks import Callback

_FACTS = ("data", "seconds", "index_base")
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "faiss-cpu")


@dataclass(frozen=True)
class Tag:
    """A label by name, and how sure the model is of it."""

    name: str
    score: float


class Tagger:
    """Text or features in, label names out."""

    def __init__(
        self,
        pipeline: FeaturePipeline,
        method: Method,
        label_names: Sequence[str],
        label_counts: LabelCounts | None = None,
        *,
        facts: dict[str, Any] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.method = method
        self.label_names = list(label_names)
        self.label_counts = label_counts
        self.facts = facts or {}

    def tag(self, text: str, k: int = 5) -> list[Tag]:
        """The k best labels of a text."""
        return self.tag_many([text], k)[0]

    def tag_many(self, texts: Iterable[str], k: int = 5) -> list[list[Tag]]:
        """The k best labels of each text."""
        return self.name_ranking(self.method.predict(self.pipeline.transform_texts(texts), k))

    @property
    def zero_based(self) -> bool | Literal["auto"]:
        """How svmlight files for this model count features: as its training file did."""
        base = self.facts.get("index_base")
        return "auto" if base is None else base == 0

    def predict(self, dataset: Dataset, k: int = 5) -> Ranking:
        """Rank labels for the examples of a Dataset."""
        return self.method.predict(self.pipeline.transform(dataset), k)

    def name_ranking(self, ranking: Ranking) -> list[list[Tag]]:
        """A ranking with names for ids; pads are left out."""
        return [
            [
                Tag(self.label_names[label], score)
                for label, score in zip(labels, scores, strict=True)
                if label >= 0
            ]
            for labels, scores in zip(ranking.labels.tolist(), ranking.scores.tolist(), strict=True)
        ]

    def save(self, directory: str | Path) -> None:
        """Keep the model as a directory; one that is there already is replaced whole."""
        pipeline, pipeline_arrays = self.pipeline.state()
        header = {
            "method": f"{self.method.name}@{self.method.version}",
            "parameters": self.method.get_params(),
            "features": self.method.n_features_in_,
            "labels": self.method.n_labels_,
            "labelspace": __version__,
            "libraries": _versions(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            **self.facts,
            **self.method.facts(),
        }
        arrays: dict[str, Mapping[str, np.ndarray]] = {"method": self.method.state()}
        if self.label_counts is not None:
            arrays["labels"] = {
                "counts": self.label_counts.counts,
                "n_points": np.array(self.label_counts.n_points),
            }
        if pipeline_arrays:
            arrays["features"] = pipeline_arrays
        documents = {"features": pipeline, "labels": self.label_names}
        store.save(store.Bundle(header, arrays, documents), directory)

    @classmethod
    def load(cls, directory: str | Path, *, verify: bool = True) -> Tagger:
        """Read a saved model; arrays stay on disk until they are used."""
        bundle = store.load(directory, verify=verify)
        method = _restore_method(bundle, directory)
        pipeline = FeaturePipeline.from_state(
            bundle.documents["features"], bundle.arrays.get("features", {})
        )
        counts = None
        if "labels" in bundle.arrays:
            kept = bundle.arrays["labels"]
            counts = LabelCounts(kept["counts"], int(kept["n_points"]))
        facts = {name: bundle.header[name] for name in _FACTS if name in bundle.header}
        return cls(pipeline, method, bundle.documents["labels"], counts, facts=facts)


def train(
    source: str | Path | Dataset,
    *,
    method: str = DEFAULT_METHOD,
    features: str = "tfidf",
    valid: str | Path | Dataset | None = None,
    columns: Columns | None = None,
    callbacks: Sequence[Callback] = (),
    on_stage: Callable[[str], None] = lambda _: None,
    **params: Any,
) -> Tagger:
    """Train a Tagger on a file or Dataset; further keywords are parameters of the method.

    valid     held-out data for early stopping; methods cut their own from the training data if None
    columns   which columns of a table mean what
    on_stage  told in a few words what happens next
    """
    model = method_class(method).create(**params)
    model.check_parameters()
    on_stage("reading")
    dataset = _as_dataset(source, columns)
    held_out = None if valid is None else _as_dataset(valid, columns, dataset.names())
    on_stage("computing features")
    pipeline = pipeline_for(dataset, features)
    X = pipeline.fit_transform(dataset)
    refuse_if_too_large(model, Shape.of(X, dataset.labels))
    on_stage(f"training {method}")
    start = time.monotonic()
    model.fit(
        X,
        dataset.labels,
        # Labels that training never saw cannot be learned and would only blur the stopping rule.
        valid=None
        if held_out is None
        else (pipeline.transform(held_out), held_out.labels[:, : dataset.n_labels]),
        taxonomy=dataset.taxonomy,
        callbacks=callbacks,
    )
    facts = {
        "data": statistics(dataset),
        "seconds": round(time.monotonic() - start, 3),
        "index_base": dataset.index_base,
    }
    return Tagger(pipeline, model, dataset.names(), LabelCounts.of(dataset.labels), facts=facts)


def load(directory: str | Path, *, verify: bool = True) -> Tagger:
    """Read a saved Tagger; `verify=False` skips the checksums."""
    return Tagger.load(directory, verify=verify)


def _as_dataset(
    source: str | Path | Dataset, columns: Columns | None, names: list[str] | None = None
) -> Dataset:
    if isinstance(source, Dataset):
        return source
    return read(
        source,
        columns=columns or Columns(),
        label_names=names,
        unknown_labels="error" if names is None else "extend",
    )


def _restore_method(bundle: store.Bundle, directory: str | Path) -> Method:
    name, _, written = str(bundle.header.get("method", "")).partition("@")
    try:
        cls = method_class(name)
    except UnknownMethodError as error:
        raise ModelMethodError(f"{directory}: {error}") from None
    try:
        if int(written) > cls.version:
            raise ModelMethodError(
                f"{directory} was saved by {name} version {written}; this labelspace has version "
                f"{cls.version}: upgrade it"
            )
        method = cls.from_json(bundle.header["parameters"])
        method.n_features_in_ = int(bundle.header["features"])
        method.n_labels_ = int(bundle.header["labels"])
        method.load_state(bundle.arrays["method"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFormatError(f"{directory} is not a whole model: {error!r}") from None
    return method


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
