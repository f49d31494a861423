"""A Tagger is what users keep: a feature pipeline, a fitted method and the names of the labels."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, overload


from labelspace import store
from labelspace._version import __version__
from labelspace.data.dataset import Dataset
from labelspace.errors import ModelFormatError, UnknownMethodError
from labelspace.features.pipeline import FeaturePipeline, make_features
from labelspace.methods.base import Method
from labelspace.methods.ranking import Ranking
from labelspace.methods.registry import method_class
from labelspace.nn.callbacks import Callback

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
        *,
        facts: dict[str, Any] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.method = method
        self.label_names = list(label_names)
        self.facts = facts or {}

    @overload
    def tag(self, texts: str, k: int = 5) -> list[Tag]: ...
    @overload
    def tag(self, texts: Iterable[str], k: int = 5) -> list[list[Tag]]: ...
    def tag(self, texts: str | Iterable[str], k: int = 5) -> list[Tag] | list[list[Tag]]:
        """The k best labels of a text, or of each of several."""
        if isinstance(texts, str):
            return self.name_ranking(self.rank_texts([texts], k))[0]
        return self.name_ranking(self.rank_texts(list(texts), k))

    def rank_texts(self, texts: Sequence[str], k: int = 5) -> Ranking:
        return self.method.predict(self.pipeline.transform_texts(texts), k)

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
            for labels, scores in zip(
                ranking.labels.tolist(), ranking.scores.tolist(), strict=True
            )
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
        }
        arrays = {"method": self.method.state()}
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
        facts = {k: bundle.header[k] for k in ("data", "metrics", "seconds") if k in bundle.header}
        return cls(pipeline, method, bundle.documents["labels"], facts=facts)


def train(
    source: str | Path | Dataset,
    *,
    method: str = "knn",
    features: str = "tfidf",
    valid: str | Path | Dataset | None = None,
    callbacks: Sequence[Callback] = (),
    columns: Any = None,
    **params: Any,
) -> Tagger:
    """Train a Tagger on a file or Dataset; further keywords are parameters of the method."""
    dataset = _as_dataset(source, columns, None)
    model = method_class(method).create(**params)
    model.check_parameters()
    pipeline = FeaturePipeline(make_features(features) if dataset.texts is not None else None)
    X = pipeline.fit_transform(dataset)
    held_out = None
    if valid is not None:
        valid_data = _as_dataset(valid, columns, dataset.names())
        known = valid_data.labels[:, : dataset.n_labels]
        held_out = (pipeline.transform(valid_data), known)
    model.fit(X, dataset.labels, valid=held_out, taxonomy=dataset.taxonomy, callbacks=callbacks)
    return Tagger(pipeline, model, dataset.names())


def _as_dataset(source: str | Path | Dataset, columns: Any, names: list[str] | None) -> Dataset:
    if isinstance(source, Dataset):
        return source
    from labelspace.data import Columns, read

    return read(
        source, columns=columns or Columns(), label_names=names, unknown_labels="extend"
    )


def _restore_method(bundle: store.Bundle, directory: str | Path) -> Method:
    try:
        name, _, written = str(bundle.header["method"]).partition("@")
        cls = method_class(name)
        if int(written) > cls.version:
            raise ModelFormatError(
                f"{directory} was saved by {name} version {written}; this labelspace has version "
                f"{cls.version}: upgrade it"
            )
        method = cls(**bundle.header["parameters"])
        method.n_features_in_ = int(bundle.header["features"])
        method.n_labels_ = int(bundle.header["labels"])
        method.load_state(bundle.arrays["method"])
    except UnknownMethodError as error:
        raise UnknownMethodError(f"{directory}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ModelFormatError):
            raise
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
