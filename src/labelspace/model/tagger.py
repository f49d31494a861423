"""A Tagger is what users keep: a feature pipeline, a fitted method and the names of the labels."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import all_finite
from labelspace._core.checks import OFFSETS, all_within, expect
from labelspace._version import __version__
from labelspace.components.training_data import Shape
from labelspace.data import Columns, iter_batches, read
from labelspace.data.dataset import Dataset, Features
from labelspace.data.formats import frames
from labelspace.data.formats.documents import are_documents, iter_documents
from labelspace.data.stored_columns import fitting_columns
from labelspace.data.taxonomy import Taxonomy, joined
from labelspace.errors import (
    InputError,
    MissingExtraError,
    ModelFormatError,
    ModelMethodError,
    ParameterError,
    StoreError,
    UnknownMethodError,
    UnsupportedError,
)
from labelspace.features.pipeline import FeaturePipeline
from labelspace.labels.levels import Levels
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.registry import method_class, method_names
from labelspace.metrics import thresholds
from labelspace.model import store
from labelspace.model.evaluation import check_labels, evaluate_model
from labelspace.model.explain import Why, explain
from labelspace.model.memory import refuse_if_too_large
from labelspace.model.prediction import predict_file
from labelspace.model.tags import Tag, Tags
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import Callback

__all__ = ["Source", "Tag", "Tagger", "Tags", "load", "with_labels_first"]

logger = logging.getLogger(__name__)

_FACTS = (
    "data", "seconds", "index_base", "single_path", "updates", "text_features", "threshold"
)  # fmt: skip
_SHOWN = 3  # label names in a repr
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "faiss-cpu")

ThresholdLike = float | Literal["auto"]
Source = frames.Source | Dataset  # a file, a table in memory, or what was read before


class Tagger:
    """Text or features in, label names out.

    columns  the columns of the training data; methods that read data use them unless they are
             given others
    """

    def __init__(
        self,
        pipeline: FeaturePipeline,
        method: Method,
        label_names: Sequence[str],
        label_counts: LabelCounts | None = None,
        *,
        taxonomy: Taxonomy | None = None,
        metadata: dict[str, Any] | None = None,
        columns: Columns | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.method = method
        self.label_names = list(label_names)
        self.label_counts = label_counts
        self.taxonomy = taxonomy
        self.metadata = metadata or {}
        self.columns = columns or Columns()
        self.history: dict[str, Any] | None = None  # see `labelspace.runs.history.curves_of`

    def __repr__(self) -> str:
        text = self.pipeline.text
        features = "numeric features" if text is None else f"{text.kind} features"
        points = self.metadata.get("data", {}).get("points")
        trained = "" if points is None else f", trained on {points:,} examples"
        return (
            f"Tagger({self.method.name}, {features}, {len(self.label_names):,} labels such as "
            f"{', '.join(repr(name) for name in self.label_names[:_SHOWN])}{trained})"
        )

    def tag(self, text: str, k: int = 5, threshold: ThresholdLike = 0.0) -> Tags:
        """The k best labels of a text, of those scored at least the threshold."""
        if not isinstance(text, str):
            raise InputError(f"tag takes one text, not {type(text).__name__}; use tag_many")
        return self.tag_many([text], k, threshold)[0]

    def tag_many(
        self, texts: Iterable[str] | frames.Source, k: int = 5, threshold: ThresholdLike = 0.0
    ) -> list[Tags]:
        """The k best labels of each text; threshold "auto" is the one `choose_threshold` set.

        texts  strings; or a DataFrame or dictionaries, with the columns of the training data
        """
        if isinstance(texts, str):
            raise InputError("tag_many takes several texts; use tag for one")
        least = self.resolve_threshold(threshold)
        given, is_table = _texts_or_table(texts)
        if not is_table:
            ranking = self.method.predict(self.pipeline.transform_texts(given), k)
            return self.to_tags(ranking, least)
        batches = self.iter_batches(given)
        return [tags for each in batches for tags in self.to_tags(self.predict(each, k), least)]

    @property
    def zero_based(self) -> bool | Literal["auto"]:
        """How svmlight files for this model count features: as its training file did."""
        base = self.metadata.get("index_base")
        return "auto" if base is None else base == 0

    def columns_for(self, source: Source) -> Columns:
        """Return the model's columns for reading `source`; it may lack some of them.

        At least one text column must be there, and one label column if labels are read.
        """
        return fitting_columns(self.columns, source)

    def read(self, source: Source, columns: Columns | None = None) -> Dataset:
        """Read examples with labels; labels and features are numbered as this model knows them.

        columns  of a table; None: those of the training data
        """
        if isinstance(source, Dataset):
            return with_labels_first(source, self.label_names)
        return read(
            source,
            columns=columns or self.columns_for(source),
            label_names=self.label_names,
            unknown_labels="extend",
            n_features=self.pipeline.n_numeric or None,
            zero_based=self.zero_based,
        )

    def read_test(self, source: Source, columns: Columns | None = None) -> Dataset:
        """Read examples as `read` does; warn of labels that the model does not know.

        Data of which it knows no label at all are refused.
        """
        test = self.read(source, columns)
        asked = None if isinstance(source, Dataset) else columns or self.columns
        check_labels(self, test, asked)
        return test

    def iter_batches(
        self, source: Source, *, columns: Columns | None = None, batch_size: int = 1024
    ) -> Iterator[Dataset]:
        """Yield examples without labels, `batch_size` at a time, for `predict`.

        source  also a folder of .txt files or one of them: a document per file
        """
        if isinstance(source, Dataset):
            return source.batches(batch_size)
        columns = columns or self.columns_for(source)
        if frames.is_path(source) and are_documents(Path(source), columns):  # type: ignore[arg-type]
            return iter_documents(Path(source), batch_size, columns.encoding)  # type: ignore[arg-type]
        return iter_batches(
            source,
            batch_size=batch_size,
            columns=replace(columns, labels=(), path=()),
            require_labels=False,
            n_features=self.pipeline.n_numeric or None,
            zero_based=self.zero_based,
        )

    def evaluate(
        self,
        source: Source,
        *,
        ks: Sequence[int] = (1, 3, 5),
        levels: bool = False,
        threshold: ThresholdLike | None = None,
        propensity: tuple[float, float] = (0.55, 1.5),
        propensity_from: Literal["train", "test"] = "train",
        columns: Columns | None = None,
    ) -> dict[str, Any]:
        """Measure the model on labelled data: what `labelspace evaluate --json` prints.

        ks               cut-offs
        levels           also measure level by level of the taxonomy
        threshold        also give F1 of the labels scored at least this; "auto" is the model's own
        propensity       the constants (a, b) of PSP
        propensity_from  which labels are counted for PSP, those of "train" or "test"
        columns          of a table; None: those of the training data

        A warning says how many labels the model does not know; if it knows none of them, the data
        are refused.
        """
        least = None if threshold is None else self.resolve_threshold(threshold)
        test = self.read_test(source, columns)
        return evaluate_model(
            self,
            test,
            ks=ks,
            propensity=propensity,
            propensity_from=propensity_from,
            threshold=least,
            levels=levels,
        )

    def predict_file(
        self,
        source: Source,
        out: str | Path | None = None,
        *,
        k: int | None = None,
        threshold: ThresholdLike | None = None,
        format: str | None = None,
        likeliest_path: bool = False,
        columns: Columns | None = None,
        batch_size: int = 1024,
        on_batch: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Write the best labels of each example and return how many examples there were.

        out             a file, which is replaced whole or not at all; None: standard output
        k               most labels per example; None: 5, or 50 with a threshold
        threshold       leave out labels scored below this; "auto" is the model's own
        format          jsonl, csv or parquet; None: by the suffix of `out`, else jsonl
        likeliest_path  also write the likeliest path of each example, and the likeliest label of
                        every other kind
        columns         of a table; None: those of the training data
        on_batch        called with the number of examples done
        """
        if k is None:
            k = 5 if threshold is None else thresholds.RANKED
        return predict_file(
            self,
            self.iter_batches(source, columns=columns, batch_size=batch_size),
            out,
            k=k,
            least=0.0 if threshold is None else self.resolve_threshold(threshold),
            format=format,
            likeliest_path=likeliest_path,
            on_batch=on_batch,
        )

    def predict(self, dataset: Dataset, k: int = 5) -> Ranking:
        """Rank labels for the examples of a Dataset."""
        return self.method.predict(self.pipeline.transform(dataset), k)

    def to_tags(self, ranking: Ranking, threshold: float = 0.0) -> list[Tags]:
        """A ranking with names for ids; pads and scores below the threshold are left out."""
        return [
            Tags(
                Tag(self.label_names[label], score)
                for label, score in zip(labels, scores, strict=True)
                if label >= 0 and score >= threshold
            )
            for labels, scores in zip(ranking.labels.tolist(), ranking.scores.tolist(), strict=True)
        ]

    def choose_threshold(
        self,
        source: Source,
        goal: str = thresholds.MICRO_F1,
        *,
        columns: Columns | None = None,
    ) -> thresholds.Threshold:
        """Choose the score from which on labels are given, on data that training has not seen.

        goal  micro-f1, macro-f1, or precision=0.9: the largest sets that reach this share

        It is kept with the model; `tag(text, k=50, threshold="auto")` uses it.
        """
        thresholds.check_goal(goal)
        # Training may have cut off a Dataset whose labels are all rare.
        read_held_out = self.read if isinstance(source, Dataset) else self.read_test
        held_out = read_held_out(source, columns)
        ranking = self.predict(held_out, thresholds.RANKED)
        found = thresholds.choose_threshold(ranking, held_out.labels, goal)
        self.metadata["threshold"] = found.metadata()
        return found

    def resolve_threshold(self, threshold: ThresholdLike) -> float:
        """The threshold as a number: "auto" is the one that was chosen for this model."""
        if threshold != "auto":
            return threshold
        if "threshold" not in self.metadata:
            raise ParameterError(
                "threshold 'auto': the model has none; give held-out data to choose it on "
                "(predict --valid FILE, or train --threshold-for micro-f1)"
            )
        return float(self.metadata["threshold"]["value"])

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
            if not example.nnz:
                raise InputError("no known word in this text: there is nothing to explain")
        elif isinstance(example, Dataset):
            example = self.pipeline.transform(example)
        return explain(self, example, label, k)

    def update(
        self,
        source: Source,
        *,
        columns: Columns | None = None,
        callbacks: Sequence[Callback] = (),
        on_stage: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Learn from more examples, whose labels may be new; words never seen stay unknown.

        A Dataset's labels are matched by name, or by number where it has no names. New edges of its
        taxonomy are added to the model's. A threshold is dropped: it was chosen for other scores.
        If it fails on the way, load the model again: what is in memory may be half changed.
        """
        if not self.method.can_update:
            raise UnsupportedError(
                f"{self.method.name} cannot learn more: train anew on all data, or with one of "
                f"{_methods_that(lambda cls: cls.can_update)}"
            )
        on_stage("reading")
        dataset = self.read(source, columns)
        # Before training, as edges that contradict the model's are an error.
        taxonomy = joined([self.taxonomy, dataset.taxonomy], dataset.names())
        on_stage("computing features")
        X = self.pipeline.transform(dataset)
        on_stage("loading libraries, checking memory")
        refuse_if_too_large(self.method, Shape.of(X, dataset.labels))
        on_stage(f"training {self.method.name}")
        start = time.monotonic()
        self.method.partial_fit(X, dataset.labels, callbacks=callbacks)
        done = {
            "points": len(dataset),
            "new_labels": dataset.n_labels - len(self.label_names),
            "seconds": round(time.monotonic() - start, 3),
        }
        self.metadata["updates"] = [*self.metadata.get("updates", []), done]
        self.label_names = dataset.names()
        self.taxonomy = taxonomy
        if taxonomy is not None:
            one_path = Levels.build(taxonomy, self.label_names).one_label_each(dataset.labels)
            self.metadata["single_path"] = one_path and self.metadata.get("single_path", False)
        if self.metadata.pop("threshold", None) is not None:
            logger.warning(
                "the threshold was chosen before this update and is dropped; choose one again "
                "(predict --threshold auto --valid FILE)"
            )
        if self.label_counts is not None:
            self.label_counts = self.label_counts.plus(LabelCounts.of(dataset.labels))

    def save(self, directory: str | Path) -> None:
        """Keep the model as a directory; one that is there already is replaced whole."""
        pipeline, pipeline_arrays = self.pipeline.state()
        header = {
            "method": f"{self.method.name}@{self.method.version}",
            **self.method.to_json(),
            "features": self.method.n_features_in_,
            "labels": self.method.n_labels_,
            "labelspace": __version__,
            "libraries": _versions(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "columns": self.columns.to_json(),
            **self.metadata,
            **self.method.metadata(),
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
        if self.history is not None:
            documents["history"] = self.history
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
        metadata = {name: bundle.header[name] for name in _FACTS if name in bundle.header}
        pairs = bundle.documents.get("taxonomy")
        taxonomy = None if pairs is None else Taxonomy.from_names(_checked_pairs(pairs), names)
        columns = Columns.from_json(bundle.header.get("columns", {}))  # absent from older models
        tagger = cls(
            pipeline, method, names, counts, taxonomy=taxonomy, metadata=metadata, columns=columns
        )
        tagger.history = bundle.documents.get("history")
        return tagger


def load(directory: str | Path, *, verify: bool = True) -> Tagger:
    """Read a saved Tagger; `verify=False` skips the checksums."""
    return Tagger.load(directory, verify=verify)


def with_labels_first(dataset: Dataset, known: list[str]) -> Dataset:
    """The dataset with the known labels in front, in their order, and its other ones behind."""
    names = dataset.names()
    if names[: len(known)] == known and dataset.label_names is not None:
        return dataset
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
    names = list(numbers)
    taxonomy = joined([dataset.taxonomy], names)
    return replace(dataset, labels=labels, label_names=names, taxonomy=taxonomy)


def _texts_or_table(given: Any) -> tuple[Any, bool]:
    """Return what was given, and whether it is a table in memory instead of texts."""
    marks = ("columns", "column_names", "schema")  # of DataFrames and Arrow tables
    if not isinstance(given, Iterable) or any(hasattr(given, name) for name in marks):
        return given, True
    items = iter(given)
    first = list(islice(items, 1))
    return chain(first, items), bool(first) and isinstance(first[0], Mapping)


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
    if int(written) < cls.oldest_version:
        raise ModelMethodError(
            f"{directory} was saved by {name} version {written}, whose parameters had other names; "
            f"this labelspace reads version {cls.oldest_version} and later: train the model again"
        )
    sizes = bundle.header["features"], bundle.header["labels"]
    expect(all(type(size) is int and size > 0 for size in sizes), "a number of columns is not one")
    return cls.restored(
        bundle.header, bundle.arrays["method"], n_features=sizes[0], n_labels=sizes[1]
    )


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
    """The error's sentence, with the model's directory in front where it is not there yet."""
    return str(error) if str(error).startswith(str(directory)) else f"{directory}: {error}"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
