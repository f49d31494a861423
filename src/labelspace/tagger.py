"""A Tagger is what users keep: a feature pipeline, a fitted method and the names of the labels."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_matrix

from labelspace import store
from labelspace._version import __version__
from labelspace.arrays import all_finite
from labelspace.checks import OFFSETS, all_within, expect
from labelspace.data import Columns, read
from labelspace.data.dataset import Dataset, Features
from labelspace.data.taxonomy import Taxonomy, joined
from labelspace.errors import (
    MissingExtraError,
    ModelFormatError,
    ModelMethodError,
    ParameterError,
    StoreError,
    UnknownMethodError,
    UnsupportedError,
)
from labelspace.evaluation import thresholds
from labelspace.explain import Why, explain
from labelspace.features.pipeline import FeaturePipeline
from labelspace.labels.propensity import LabelCounts
from labelspace.memory import refuse_if_too_large
from labelspace.methods.base import Method, Shape
from labelspace.methods.ranking import Ranking
from labelspace.methods.registry import method_class, method_names
from labelspace.nn.callbacks import Callback

_FACTS = (
    "data", "seconds", "index_base", "single_path", "updates", "text_features", "threshold"
)  # fmt: skip
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "faiss-cpu")

AtLeast = float | Literal["auto"]


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
        taxonomy: Taxonomy | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.method = method
        self.label_names = list(label_names)
        self.label_counts = label_counts
        self.taxonomy = taxonomy
        self.facts = facts or {}

    def tag(self, text: str, k: int = 5, threshold: AtLeast = 0.0) -> list[Tag]:
        """The k best labels of a text, of those scored at least the threshold."""
        return self.tag_many([text], k, threshold)[0]

    def tag_many(
        self, texts: Iterable[str], k: int = 5, threshold: AtLeast = 0.0
    ) -> list[list[Tag]]:
        """The k best labels of each text; threshold "auto" is the one `choose_threshold` set."""
        least = self.least_score(threshold)
        ranking = self.method.predict(self.pipeline.transform_texts(texts), k)
        return self.name_ranking(ranking, least)

    @property
    def zero_based(self) -> bool | Literal["auto"]:
        """How svmlight files for this model count features: as its training file did."""
        base = self.facts.get("index_base")
        return "auto" if base is None else base == 0

    def read(self, path: str | Path, columns: Columns | None = None) -> Dataset:
        """A file of examples with labels, its columns numbered as this model knows them."""
        return read(
            path,
            columns=columns or Columns(),
            label_names=self.label_names,
            unknown_labels="extend",
            n_features=self.pipeline.n_numeric or None,
            zero_based=self.zero_based,
        )

    def predict(self, dataset: Dataset, k: int = 5) -> Ranking:
        """Rank labels for the examples of a Dataset."""
        return self.method.predict(self.pipeline.transform(dataset), k)

    def name_ranking(self, ranking: Ranking, threshold: float = 0.0) -> list[list[Tag]]:
        """A ranking with names for ids; pads and scores below the threshold are left out."""
        return [
            [
                Tag(self.label_names[label], score)
                for label, score in zip(labels, scores, strict=True)
                if label >= 0 and score >= threshold
            ]
            for labels, scores in zip(ranking.labels.tolist(), ranking.scores.tolist(), strict=True)
        ]

    def choose_threshold(
        self,
        source: str | Path | Dataset,
        goal: str = thresholds.MICRO_F1,
        *,
        columns: Columns | None = None,
    ) -> thresholds.Threshold:
        """Choose the score from which on labels are given, on data that training has not seen.

        goal  micro-f1, macro-f1, or precision=0.9: the largest sets that reach this share

        It is kept with the model; `tag(text, k=50, threshold="auto")` uses it.
        """
        thresholds.check_goal(goal)
        if not isinstance(source, Dataset):
            source = self.read(source, columns)
        ranking = self.predict(source, thresholds.RANKED)
        found = thresholds.choose_threshold(ranking, source.labels, goal)
        self.facts["threshold"] = found.facts()
        return found

    def least_score(self, threshold: AtLeast) -> float:
        """The threshold as a number: "auto" is the one that was chosen for this model."""
        if threshold != "auto":
            return threshold
        if "threshold" not in self.facts:
            raise ParameterError(
                "threshold 'auto': the model has none; give held-out data to choose it on "
                "(predict --valid FILE, or train --threshold-for micro-f1)"
            )
        return float(self.facts["threshold"]["value"])

    def explain(
        self, example: str | Dataset | Features, label: str | None = None, k: int = 5
    ) -> Why:
        """Why an example gets a label, its best one if None: k of all that speaks for it.

        example  a text; a Dataset of one example; or its row of features
        """
        if not hasattr(self.method, "explain"):
            raise UnsupportedError(
                f"{self.method.name} cannot say why; methods that can: "
                f"{_methods_that(lambda cls: hasattr(cls, 'explain'))}"
            )
        if isinstance(example, str):
            example = self.pipeline.transform_texts([example])
        elif isinstance(example, Dataset):
            example = self.pipeline.transform(example)
        return explain(self, example, label, k)

    def update(
        self,
        source: str | Path | Dataset,
        *,
        columns: Columns | None = None,
        callbacks: Sequence[Callback] = (),
        on_stage: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Learn from more examples, whose labels may be new; words never seen stay unknown.

        A Dataset's labels are matched by name, or by number where it has no names. If it fails on
        the way, load the model again: what is in memory may be half changed.
        """
        if not self.method.learns_more:
            raise UnsupportedError(
                f"{self.method.name} cannot learn more: train anew on all data, or with one of "
                f"{_methods_that(lambda cls: cls.learns_more)}"
            )
        on_stage("reading")
        if not isinstance(source, Dataset):
            source = self.read(source, columns)
        dataset = _with_labels_first(source, self.label_names)
        on_stage("computing features")
        X = self.pipeline.transform(dataset)
        refuse_if_too_large(self.method, Shape.of(X, dataset.labels))
        on_stage(f"training {self.method.name}")
        start = time.monotonic()
        self.method.partial_fit(X, dataset.labels, callbacks=callbacks)
        done = {
            "points": len(dataset),
            "new_labels": dataset.n_labels - len(self.label_names),
            "seconds": round(time.monotonic() - start, 3),
        }
        self.facts["updates"] = [*self.facts.get("updates", []), done]
        self.label_names = dataset.names()
        self.taxonomy = joined([self.taxonomy], self.label_names)
        if self.label_counts is not None:
            self.label_counts = self.label_counts.plus(LabelCounts.of(dataset.labels))

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
        documents: dict[str, Any] = {"features": pipeline, "labels": self.label_names}
        if self.taxonomy is not None:
            documents["taxonomy"] = list(self.taxonomy.pairs())
        store.save(store.Bundle(header, arrays, documents), directory)

    @classmethod
    def load(cls, directory: str | Path, *, verify: bool = True) -> Tagger:
        """Read a saved model; arrays stay on disk until they are used.

        Nothing in it is trusted: what does not fit is a ModelFormatError. `verify=False` skips the
        checks that read every byte.
        """
        bundle = store.load(directory, verify=verify)
        try:
            return cls._restored(bundle, directory, verify)
        except (StoreError, MissingExtraError) as error:
            raise type(error)(_naming(directory, error)) from error.__cause__
        except Exception as error:  # whatever unforeseen content leads to
            raise ModelFormatError(
                f"{directory} is not a whole model: {error or type(error).__name__}"
            ) from error

    @classmethod
    def _restored(cls, bundle: store.Bundle, directory: str | Path, verify: bool) -> Tagger:
        if verify:
            _check_finite(bundle)
        method = _restore_method(bundle, directory)
        names = bundle.documents["labels"]
        _check_names(names, method.n_labels_)
        pipeline = FeaturePipeline.from_state(
            bundle.documents["features"], bundle.arrays.get("features", {})
        )
        expect(type(pipeline.n_numeric) is int, "the number of numeric features is not one")
        fits = pipeline.n_features == method.n_features_in_
        expect(fits, "the features do not fit the method")
        counts = None
        if "labels" in bundle.arrays:
            kept = bundle.arrays["labels"]
            counts = LabelCounts(kept["counts"], int(kept["n_points"]))
            fits = counts.counts.shape == (len(names),) and all_within(counts.counts, 0, 2**62)
            expect(fits, "the counts do not fit the labels")
        facts = {name: bundle.header[name] for name in _FACTS if name in bundle.header}
        pairs = bundle.documents.get("taxonomy")
        taxonomy = None if pairs is None else Taxonomy.from_names(_checked_pairs(pairs), names)
        return cls(pipeline, method, names, counts, taxonomy=taxonomy, facts=facts)


def load(directory: str | Path, *, verify: bool = True) -> Tagger:
    """Read a saved Tagger; `verify=False` skips the checksums."""
    return Tagger.load(directory, verify=verify)


def _with_labels_first(dataset: Dataset, known: list[str]) -> Dataset:
    """The dataset with the known labels in front, in their order, and its other ones behind."""
    names = dataset.names()
    if dataset.label_names is None:  # numbers are the model's own
        names[: len(known)] = known[: len(names)]
    numbers = {name: number for number, name in enumerate(known)}
    for name in names:
        numbers.setdefault(name, len(numbers))
    new_id = np.array([numbers[name] for name in names], np.int32)
    old = dataset.labels
    labels = csr_matrix(
        (old.data, new_id[old.indices], old.indptr), shape=(len(dataset), len(numbers))
    )
    labels.sort_indices()
    return replace(dataset, labels=labels, label_names=list(numbers), taxonomy=None)


def _methods_that(can: Callable[[type[Method]], bool]) -> str:
    """The names of methods that can do something, of those that are installed."""
    found = []
    for name in method_names():
        try:
            if can(method_class(name)):
                found.append(name)
        except MissingExtraError:
            continue
    return ", ".join(found)


def _restore_method(bundle: store.Bundle, directory: str | Path) -> Method:
    name, _, written = str(bundle.header.get("method", "")).partition("@")
    try:
        cls = method_class(name)
    except UnknownMethodError as error:
        raise ModelMethodError(f"{directory}: {error}") from None
    if int(written) > cls.version:
        raise ModelMethodError(
            f"{directory} was saved by {name} version {written}; this labelspace has version "
            f"{cls.version}: upgrade it"
        )
    sizes = bundle.header["features"], bundle.header["labels"]
    expect(all(type(size) is int and size > 0 for size in sizes), "a number of columns is not one")
    method = cls.from_json(bundle.header["parameters"])
    method.check_parameters()
    method.n_features_in_, method.n_labels_ = sizes
    method.load_state(bundle.arrays["method"])
    return method


def _check_finite(bundle: store.Bundle) -> None:
    for stem, arrays in bundle.arrays.items():
        for name, array in arrays.items():
            if not name.endswith(OFFSETS):
                expect(all_finite(array), f"{stem}.safetensors: {name} holds numbers not finite")


def _check_names(names: Any, n_labels: int) -> None:
    """Labels have different names, which are texts that can be printed."""
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    expect(listed and len(names) == n_labels, f"labels.json is no list of {n_labels} names")
    expect(len(set(names)) == n_labels, "labels.json names a label twice")
    "\n".join(names).encode()


def _checked_pairs(pairs: Any) -> list[tuple[str, str]]:
    holds = isinstance(pairs, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) for name in pair)
        for pair in pairs
    )
    expect(holds, "taxonomy.json is no list of pairs of names")
    return [(child, parent) for child, parent in pairs]


def _naming(directory: str | Path, error: Exception) -> str:
    return str(error) if str(directory) in str(error) else f"{directory}: {error}"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
