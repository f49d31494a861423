"""Training a model on more examples, whose labels may be new."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from labelspace.components.training_data import Shape
from labelspace.data.taxonomy import joined
from labelspace.errors import UnsupportedError
from labelspace.labels.levels import Levels
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.descriptions import methods_with
from labelspace.model.memory import refuse_if_too_large

if TYPE_CHECKING:
    from labelspace.data.columns import Columns
    from labelspace.model.reading import Source
    from labelspace.model.tagger import Tagger
    from labelspace.runs.callbacks import Callback

logger = logging.getLogger(__name__)


def update_tagger(
    tagger: Tagger,
    source: Source,
    columns: Columns | None,
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
    dataset = tagger.read(source, columns)
    # Before training, as edges that contradict the model's are an error.
    taxonomy = joined([tagger.taxonomy, dataset.taxonomy], dataset.names())
    on_stage("computing features")
    X = tagger.pipeline.transform(dataset)
    on_stage("loading libraries, checking memory")
    refuse_if_too_large(tagger.method, Shape.of(X, dataset.labels))
    on_stage(f"training {tagger.method.name}")
    start = time.monotonic()
    tagger.method.partial_fit(X, dataset.labels, callbacks=callbacks)
    done = {
        "points": len(dataset),
        "new_labels": dataset.n_labels - len(tagger.label_names),
        "seconds": round(time.monotonic() - start, 3),
    }
    tagger.metadata["updates"] = [*tagger.metadata.get("updates", []), done]
    tagger.label_names = dataset.names()
    tagger.taxonomy = taxonomy
    if taxonomy is not None:
        one_path = Levels.build(taxonomy, tagger.label_names).one_label_each(dataset.labels)
        tagger.metadata["single_path"] = one_path and tagger.metadata.get("single_path", False)
    if tagger.metadata.pop("threshold", None) is not None:
        logger.warning(
            "the threshold was chosen before this update and is dropped; choose one again "
            "(predict --threshold auto --valid FILE)"
        )
    if tagger.label_counts is not None:
        tagger.label_counts = tagger.label_counts.plus(LabelCounts.of(dataset.labels))
