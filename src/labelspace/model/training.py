"""Training of a Tagger on a file, a table in memory or a Dataset."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.sparse import csr_matrix

from labelspace.components.training_data import Shape
from labelspace.data import Columns, read
from labelspace.data.beside import with_chosen_texts
from labelspace.data.dataset import Dataset, Features
from labelspace.data.options import LabelSource
from labelspace.data.stats import statistics
from labelspace.errors import ParameterError
from labelspace.features.name_matcher import NameMatcher
from labelspace.features.pipeline import FeaturePipeline, TextFeatures, pipeline_for
from labelspace.labels.levels import Levels
from labelspace.labels.propensity import LabelCounts
from labelspace.methods import DEFAULT_METHOD
from labelspace.methods.base import Method
from labelspace.methods.registry import method_class
from labelspace.metrics import thresholds
from labelspace.model.figures import FIGURES, hold_out_figures, name_of
from labelspace.model.memory import needed_bytes, refuse_if_too_large
from labelspace.model.reading import (
    Source,
    kept_ids,
    label_text_figures,
    uses_label_texts,
    with_labels_first,
    with_labels_to,
)
from labelspace.model.tagger import Tagger
from labelspace.runs.callbacks import Callback
from labelspace.runs.history import History, curves_of
from labelspace.runs.progress import ProgressBar, Stages, interactive, progress_bar

logger = logging.getLogger(__name__)

MOST_LETTERS = 1 << 26  # of texts in memory; those of larger files are read again where needed
_HELD_OUT = 0.1  # share of the training data for choosing a threshold, if no data are given


def train(
    source: Source,
    *,
    method: str | Method = DEFAULT_METHOD,
    features: str | TextFeatures | None = None,
    valid: Source | None = None,
    labels: LabelSource = "auto",
    threshold_for: str | None = None,
    columns: Columns | None = None,
    callbacks: Sequence[Callback] = (),
    on_stage: Callable[[str], None] | None = None,
    progress: bool | None = None,
    **params: Any,
) -> Tagger:
    """Train a Tagger.

    Parameters
    ----------
    source : path, DataFrame, list of dict or Dataset
        Training examples with labels.
    method : str or Method, default "fusion"
        Name of a method, or an instance, whose parameters are used.
    features : str or TextFeatures, optional
        Text features: "tfidf", "chars", "hashing", "tokens", "static", "word2vec",
        "sentences:DIR", a combination such as "tfidf+static", or "none". Default: chosen by the
        method.
    valid : path, DataFrame, list of dict or Dataset, optional
        Held-out data for early stopping. Default: methods hold out part of the training data.
    labels : path, LabelTexts, "auto" or None, default "auto"
        Names, alternative names and descriptions of the labels: a file that `read_label_texts`
        reads, or what it returned. "auto": those beside the data, if any. All labels in it are
        labels of the model; which of those without examples can be predicted depends on the
        method. Its broader labels are joined with the taxonomy.
    threshold_for : str, optional
        Also choose a threshold for this goal (see `Tagger.choose_threshold`) on the held-out data,
        which are a tenth of the training data if `valid` is not given.
    columns : Columns, optional
        The meaning of the columns of a table; the model keeps them.
    callbacks : sequence of Callback, optional
        Notified of progress; see `labelspace.runs.callbacks`.
    on_stage : callable, optional
        Called with a few words when a stage begins.
    progress : bool, optional
        Show stages and progress bars on standard error. Default: in terminals and notebooks,
        unless `on_stage` is given.
    **params
        Parameters of the method, if `method` is a name.

    Returns
    -------
    Tagger
        The trained model.

    Raises
    ------
    DataError
        If the data cannot be read.
    ParameterError
        If a parameter is unknown or out of range.
    MemoryBudgetError
        If training would need more memory than is available.

    Examples
    --------
    >>> import labelspace as ls
    >>> rows = [
    ...     {"text": "ripe apple", "labels": ["fruit"]},
    ...     {"text": "steel hammer", "labels": ["tool"]},
    ... ] * 4
    >>> ls.train(rows, method="knn", neighbours=3).tag("ripe apples and an apple", k=1)[0].name
    'fruit'
    >>> ls.train(rows, method=ls.KNN(neighbours=3)).method
    KNN(neighbours=3)
    """
    model = created_method(method, params)
    if threshold_for is not None:
        thresholds.check_goal(threshold_for)
    _warn_of_absent_members(model)
    if not (on_stage is None and interactive() if progress is None else progress):
        report = on_stage or (lambda _: None)
        run = _Run(model, features, threshold_for, columns, callbacks, report)
        return run.train(source, valid, labels)
    with progress_bar() as display:
        stages = Stages()
        callbacks = [*callbacks, ProgressBar(display)]
        run = _Run(model, features, threshold_for, columns, callbacks, stages)
        tagger = run.train(source, valid, labels)
        stages("")
    return tagger


@dataclass(frozen=True)
class _Run:
    """One training run; `train` explains what it consists of."""

    model: Method
    features: str | TextFeatures | None
    threshold_for: str | None
    columns: Columns | None
    callbacks: Sequence[Callback]
    on_stage: Callable[[str], None]

    def train(self, source: Source, valid: Source | None, labels: LabelSource) -> Tagger:
        model, threshold_for = self.model, self.threshold_for
        self.on_stage("reading")
        known = as_dataset(source, self.columns, labels=labels)
        held_out = None if valid is None else as_dataset(valid, self.columns, known.names())
        width = trained_width(known, model)
        if threshold_for is not None and held_out is None:
            known, held_out = known.split(_HELD_OUT, seed=model.get_params().get("seed", 0))
        dataset = trained_part(known, width)
        self.on_stage("computing features")
        pipeline, X, metadata = fit_features(dataset, model, self.features)
        self.on_stage("loading libraries, checking memory")  # loading takes longer than the check
        texts = label_texts_for(pipeline, dataset, model)
        matches = pipeline.matcher is not None
        refuse_if_too_large(model, Shape.of(X, dataset.labels, matches, texts))
        self.on_stage(f"training {model.name}")
        start = time.monotonic()
        model.fit(
            X,
            dataset.labels,
            # Labels without training examples would only add noise to early stopping.
            valid=None
            if held_out is None
            else (pipeline.transform(held_out), held_out.labels[:, : dataset.n_labels]),
            taxonomy=dataset.taxonomy,
            callbacks=self.callbacks,
            **further_arguments(pipeline, dataset, model, texts),
        )
        metadata["seconds"] = round(time.monotonic() - start, 3)
        tagger = _fitted_tagger(known, pipeline, model, metadata)
        tagger.columns = self.columns or Columns()
        if any(isinstance(callback, History) for callback in self.callbacks):
            tagger.history = curves_of(model)
        if figures := _measured_in_training(tagger, valid, held_out is None):
            tagger.metadata[FIGURES] = [figures]
        if threshold_for is not None and held_out is not None:
            self.on_stage("choosing a threshold")
            tagger.choose_threshold(held_out, threshold_for)
        return tagger


def _measured_in_training(tagger: Tagger, valid: Source | None, cut: bool) -> dict[str, Any] | None:
    """Return the figures of examples that the method held out, if it did.

    `cut` means that the method cut them from the training data itself.
    """
    method, counts = tagger.method, tagger.label_counts
    held, method.held_out_ = method.held_out_, None
    if held is None or counts is None:
        return None
    source = "" if valid is None else name_of(valid)
    return hold_out_figures(held, counts, source, grouped=cut and method.name == DEFAULT_METHOD)


def trained_width(dataset: Dataset, model: Method) -> int:
    """Return the number of labels that the method is trained on.

    Labels that only the label texts have come last. To a method that does not use the texts they
    would be columns that it can never predict, so it is trained without them.
    """
    if dataset.label_texts is None or uses_label_texts(dataset, model):
        return dataset.n_labels
    return int(dataset.labels.indices.max(initial=-1)) + 1


def trained_part(dataset: Dataset, width: int) -> Dataset:
    return dataset if width == dataset.n_labels else with_labels_to(dataset, width)


def needed_memory(
    source: Source,
    *,
    method: str | Method = DEFAULT_METHOD,
    features: str | TextFeatures | None = None,
    labels: LabelSource = "auto",
    columns: Columns | None = None,
    **params: Any,
) -> dict[str, int]:
    """Estimate the peak memory of `train`.

    Parameters are those of `train`.

    Returns
    -------
    dict of str to int
        Bytes by purpose.

    Examples
    --------
    >>> from labelspace.model.training import needed_memory
    >>> needed = needed_memory([{"text": "ripe apple", "labels": ["fruit"]}], method="knn")
    >>> needed["the data"] > 0
    True
    """
    model = created_method(method, params)
    dataset = as_dataset(source, columns, labels=labels)
    dataset = trained_part(dataset, trained_width(dataset, model))
    pipeline, X, _ = fit_features(dataset, model, features)
    return needed_bytes(model, shape_of(X, dataset, pipeline, model))


def created_method(method: str | Method, params: dict[str, Any]) -> Method:
    """Return a new model with checked parameters."""
    if isinstance(method, Method):
        if params:
            raise ParameterError(
                f"{', '.join(params)}: set parameters on the {method.name} instance instead"
            )
        cls, params = type(method), method.get_params()
    elif isinstance(method, str):
        cls = method_class(method)
    else:
        kind = type(method).__name__
        raise ParameterError(f"method: expected a name or an instance of a method, not {kind}")
    model = cls.create(**params)
    model.check_parameters()
    return model


def _warn_of_absent_members(model: Method) -> None:
    absent = model.absent_members()
    if absent:
        logger.warning(
            "%s trains without %s, as torch is not installed: pip install 'labelspace[neural]'",
            *(model.name, absent),
        )


def fit_features(
    dataset: Dataset, model: Method, features: str | TextFeatures | None
) -> tuple[FeaturePipeline, Features, dict[str, Any]]:
    """Return the pipeline, the rows of the training data, and metadata on the features' speed."""
    chosen = model.text_features() if features is None else features
    pipeline = pipeline_for(dataset, chosen)
    wanted = model.takes_name_matches and uses_label_texts(dataset, model)
    if wanted and dataset.label_texts is not None:
        pipeline.matcher = NameMatcher.of(dataset.label_texts)
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


def label_texts_for(
    pipeline: FeaturePipeline, dataset: Dataset, model: Method
) -> csr_matrix | None:
    """Return the features of the labels' texts, for a method that takes them."""
    wanted = model.takes_label_texts and uses_label_texts(dataset, model)
    return pipeline.label_texts(dataset) if wanted else None


def further_arguments(
    pipeline: FeaturePipeline, dataset: Dataset, model: Method, texts: csr_matrix | None
) -> dict[str, Any]:
    """Return the arguments of `fit` that only some methods take; `label_texts_for` has `texts`."""
    return {
        "label_names": pipeline.label_names(dataset) if model.needs_label_names else None,
        "label_texts": texts,
        "name_matches": pipeline.matcher is not None,
    }


def shape_of(X: Features, dataset: Dataset, pipeline: FeaturePipeline, model: Method) -> Shape:
    texts = label_texts_for(pipeline, dataset, model)
    return Shape.of(X, dataset.labels, pipeline.matcher is not None, texts)


def _fitted_tagger(
    dataset: Dataset, pipeline: FeaturePipeline, model: Method, metadata: dict[str, Any]
) -> Tagger:
    names, taxonomy = dataset.names(), dataset.taxonomy
    metadata = {"data": statistics(dataset), "index_base": dataset.index_base, **metadata}
    if taxonomy is not None:
        metadata["single_path"] = Levels.build(taxonomy, names).one_label_each(dataset.labels)
    if dataset.label_texts is not None:
        metadata["label_texts"] = label_text_figures(dataset.label_texts)
    return Tagger(
        pipeline,
        model,
        names,
        LabelCounts.of(dataset.labels),
        taxonomy=taxonomy,
        label_texts=dataset.label_texts,
        metadata=metadata,
        example_ids=kept_ids(model, dataset),
    )


def as_dataset(
    source: Source,
    columns: Columns | None,
    names: list[str] | None = None,
    labels: LabelSource = None,
) -> Dataset:
    if isinstance(source, Dataset):
        if names is not None:
            return with_labels_first(source, names)
        return source if labels == "auto" else with_chosen_texts(source, labels)
    return read(
        source,
        columns=columns or Columns(),
        label_names=names,
        unknown_labels="error" if names is None else "extend",
        label_texts=labels,
        most_letters=MOST_LETTERS,
    )
