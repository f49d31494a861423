"""Training a model on more examples, whose labels may be new."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from labelspace.components.training_data import Shape
from labelspace.data.taxonomy import joined
from labelspace.errors import UnsupportedError
from labelspace.features.name_matcher import NameMatcher
from labelspace.features.pipeline import FeaturePipeline
from labelspace.labels.levels import Levels
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.descriptions import methods_with
from labelspace.model.figures import FIGURES, with_added
from labelspace.model.memory import refuse_if_too_large
from labelspace.model.reading import kept_ids, label_text_figures, read_labelled, with_labels_first

if TYPE_CHECKING:
    from labelspace.data.columns import Columns
    from labelspace.data.dataset import Dataset
    from labelspace.data.options import LabelSource
    from labelspace.model.reading import Source
    from labelspace.model.tagger import Tagger
    from labelspace.runs.callbacks import Callback

logger = logging.getLogger(__name__)


def update_tagger(
    tagger: Tagger,
    source: Source,
    columns: Columns | None,
    labels: LabelSource,
    keep_threshold: bool,
    callbacks: Sequence[Callback],
    on_stage: Callable[[str], None],
) -> None:
    """Continue training and bring the names, counts, taxonomy and metadata up to date."""
    if not tagger.method.can_update:
        raise UnsupportedError(
            f"update is not supported by {tagger.method.name}: train again on all data, or train "
            f"with one of {methods_with('update')}"
        )
    on_stage("reading")
    dataset, width = _read(tagger, source, columns, labels)
    # Before training, as edges that contradict the model's are an error.
    taxonomy = joined([tagger.taxonomy, dataset.taxonomy], dataset.names())
    Y = dataset.labels[:, :width]
    on_stage("computing features")
    pipeline = _with_names(tagger, dataset)
    X = pipeline.transform(dataset)
    on_stage("loading libraries, checking memory")
    refuse_if_too_large(tagger.method, Shape.of(X, Y))
    on_stage(f"training {tagger.method.name}")
    start, known = time.monotonic(), tagger.method.n_labels_
    renamed = pipeline is not tagger.pipeline
    tagger.method.partial_fit(X, Y, name_matches=renamed, callbacks=callbacks)
    tagger.pipeline = pipeline
    done = {
        "points": len(dataset),
        "new_labels": dataset.n_labels - len(tagger.label_names),
        "seconds": round(time.monotonic() - start, 3),
    }
    tagger.metadata["updates"] = [*tagger.metadata.get("updates", []), done]
    if FIGURES in tagger.metadata:
        tagger.metadata[FIGURES] = with_added(tagger.metadata[FIGURES], len(dataset))
    if tagger.example_ids is not None:
        # Rows of an update without ids have their numbers.
        first = len(tagger.example_ids) + 1
        more = kept_ids(tagger.method, dataset) or map(str, range(first, first + len(dataset)))
        tagger.example_ids = [*tagger.example_ids, *more]
    tagger.label_names = dataset.names()
    tagger.label_texts = dataset.label_texts
    if tagger.label_texts is not None:
        tagger.metadata["label_texts"] = label_text_figures(tagger.label_texts)
    tagger.taxonomy = taxonomy
    if taxonomy is not None:
        one_path = Levels.build(taxonomy, tagger.label_names).one_label_each(dataset.labels)
        tagger.metadata["single_path"] = one_path and tagger.metadata.get("single_path", False)
    if not keep_threshold and tagger.metadata.pop("threshold", None) is not None:
        logger.warning(
            "the threshold was chosen before this update and is dropped; choose one again "
            "(predict --threshold auto --valid FILE)"
        )
    if tagger.label_counts is not None:
        # Labels after those of the method had no examples, and may have another place now.
        before = LabelCounts(tagger.label_counts.counts[:known], tagger.label_counts.n_points)
        tagger.label_counts = before.plus(LabelCounts.of(dataset.labels))


def _with_names(tagger: Tagger, dataset: Dataset) -> FeaturePipeline:
    """Return the features of the model, of other names of labels if the update brings such."""
    pipeline, texts = tagger.pipeline, dataset.label_texts
    if pipeline.matcher is None or texts is None or tagger.label_texts is None:
        return pipeline
    if list(texts.forms()) == list(tagger.label_texts.forms()):
        return pipeline  # labels without a name need no columns
    # Languages keep their numbers, which the model has learned.
    matcher = NameMatcher.of(texts, pipeline.matcher.languages)
    return FeaturePipeline(pipeline.text, pipeline.n_numeric, pipeline.numbers, matcher)


def _read(
    tagger: Tagger, source: Source, columns: Columns | None, labels: LabelSource
) -> tuple[Dataset, int]:
    """Return the examples, and the number of labels that the method is to have.

    Labels of the method come first, then others with examples, then those of which only texts are
    known. A method that does not use texts is trained without the latter.
    """
    method, texts = tagger.method, tagger.label_texts
    if isinstance(labels, str) and labels == "auto" and texts is None:
        labels = None  # the model was trained without
    dataset = read_labelled(tagger, source, columns, labels)
    if texts is not None:
        newer = dataset.label_texts
        texts = texts if newer is None else texts.updated(newer)
        dataset = replace(dataset, label_texts=texts.aligned(dataset.names()))
    if dataset.label_texts is None or tagger.pipeline.matcher is not None:
        return dataset, dataset.n_labels
    names = dataset.names()
    used = np.unique(dataset.labels.indices)
    used = used[used >= method.n_labels_].tolist()
    order = [*names[: method.n_labels_], *(names[label] for label in used)]
    return with_labels_first(dataset, order), len(order)
