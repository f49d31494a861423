"""From a file of examples to a Tagger."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from labelspace.data import Columns, read
from labelspace.data.dataset import Dataset, Features
from labelspace.data.levels import Levels
from labelspace.data.stats import statistics
from labelspace.evaluation import thresholds
from labelspace.features.pipeline import FeaturePipeline, pipeline_for
from labelspace.labels.propensity import LabelCounts
from labelspace.memory import refuse_if_too_large
from labelspace.methods import DEFAULT_METHOD
from labelspace.methods.base import Method, Shape
from labelspace.methods.registry import method_class
from labelspace.nn.callbacks import Callback
from labelspace.nn.history import History, curves_of
from labelspace.tagger import Tagger

_HELD_OUT = 0.1  # of the training data, where a threshold is wanted and no data are given for it


def train(
    source: str | Path | Dataset,
    *,
    method: str = DEFAULT_METHOD,
    features: str | None = None,
    valid: str | Path | Dataset | None = None,
    threshold_for: str | None = None,
    columns: Columns | None = None,
    callbacks: Sequence[Callback] = (),
    on_stage: Callable[[str], None] = lambda _: None,
    **params: Any,
) -> Tagger:
    """Train a Tagger on a file or Dataset; further keywords are parameters of the method.

    features       how texts become rows: tfidf, chars, hashing, tokens, static, word2vec,
                   sentences:DIR, a sum such as tfidf+static, or none; None is the method's own way
    valid          held-out data for early stopping; methods cut their own from the training data
                   if None
    threshold_for  also choose a threshold for this goal (see `Tagger.choose_threshold`) on the
                   held-out data, which are a tenth of the training data if `valid` is None
    columns        which columns of a table mean what
    on_stage       told in a few words what happens next
    """
    model = method_class(method).create(**params)
    model.check_parameters()
    if threshold_for is not None:
        thresholds.check_goal(threshold_for)
    on_stage("reading")
    dataset = _as_dataset(source, columns)
    held_out = None if valid is None else _as_dataset(valid, columns, dataset.names())
    if threshold_for is not None and held_out is None:
        dataset, held_out = dataset.split(_HELD_OUT, seed=params.get("seed", 0))
    on_stage("computing features")
    pipeline, X, facts = _fit_features(dataset, model, features)
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
        **({"label_names": pipeline.label_names(dataset)} if model.writes_labels else {}),
    )
    facts["seconds"] = round(time.monotonic() - start, 3)
    tagger = _fitted_tagger(dataset, pipeline, model, facts)
    if any(isinstance(callback, History) for callback in callbacks):
        tagger.history = curves_of(model)
    if threshold_for is not None and held_out is not None:
        on_stage("choosing a threshold")
        tagger.choose_threshold(held_out, threshold_for)
    return tagger


def _fit_features(
    dataset: Dataset, model: Method, features: str | None
) -> tuple[FeaturePipeline, Features, dict[str, Any]]:
    """The pipeline, the rows it makes of the training data, and how fast it made them."""
    chosen = model.text_features() if features is None else features
    pipeline = pipeline_for(dataset, chosen)
    start = time.monotonic()
    X = pipeline.fit_transform(dataset)
    seconds = time.monotonic() - start
    if pipeline.text is None:
        return pipeline, X, {}
    speed = {
        "name": chosen if isinstance(chosen, str) else chosen.kind,
        "seconds": round(seconds, 3),
        "texts_per_second": round(len(dataset) / max(seconds, 1e-9)),
    }
    return pipeline, X, {"text_features": speed}


def _fitted_tagger(
    dataset: Dataset, pipeline: FeaturePipeline, model: Method, facts: dict[str, Any]
) -> Tagger:
    names, taxonomy = dataset.names(), dataset.taxonomy
    facts = {"data": statistics(dataset), "index_base": dataset.index_base, **facts}
    if taxonomy is not None:
        facts["single_path"] = Levels.build(taxonomy, names).one_label_each(dataset.labels)
    counts = LabelCounts.of(dataset.labels)
    return Tagger(pipeline, model, names, counts, taxonomy=taxonomy, facts=facts)


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
