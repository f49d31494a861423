"""Evaluation of a model on labelled data, as `labelspace evaluate` prints it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from labelspace.data.dataset import Dataset
from labelspace.data.taxonomy import joined
from labelspace.engine import current
from labelspace.errors import DataError, ParameterError
from labelspace.labels.levels import Levels
from labelspace.metrics import levels as by_level
from labelspace.metrics import ranking as metrics
from labelspace.metrics import thresholds
from labelspace.metrics.reliability import reliability
from labelspace.model.sending import SentModel, received_model, sent_model
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.data.columns import Columns
    from labelspace.model.tagger import Tagger

logger = logging.getLogger(__name__)

_SAMPLES = 3  # names shown of each side
_ROWS_PER_TASK = 1024  # of a cluster


def evaluate_model(
    tagger: Tagger,
    test: Dataset,
    *,
    ks: Sequence[int],
    propensity: tuple[float, float],
    propensity_from: Literal["train", "test"],
    threshold: float | None,
    levels: bool,
) -> dict[str, Any]:
    """Return metrics, calibration and the share of unknown labels of a set that `read` returned."""
    ks = _checked_ks(ks)
    taxonomy = _taxonomy(tagger, test) if levels else None
    # With a threshold there may be more labels than the cut-offs: rank as many as `predict` does.
    ranked = max(ks) if threshold is None else max(*ks, thresholds.RANKED)
    ranking = ranked_by_engine(tagger, test, ranked)
    found = metrics.evaluate(
        ranking,
        test.labels,
        tagger.label_counts,
        ks=ks,
        propensity=propensity,
        propensity_from=propensity_from,
        threshold=threshold,
    )
    calibration = reliability(ranking, test.labels, k=max(ks))
    found["calibration"] = {"k": max(ks), **calibration.metadata()}
    found["unknown_labels"] = unknown_labels(tagger, test)
    found["examples"] = len(test)
    if taxonomy is not None and tagger.label_counts is not None:
        found["by_level"] = by_level.evaluate_levels(
            ranked_by_engine(tagger, test, by_level.RANKED),
            test.labels,
            tagger.label_counts.counts,
            taxonomy,
            # A threshold, if given, selects the labels; otherwise paths, if examples have one each.
            single_path=threshold is None and bool(tagger.metadata.get("single_path")),
            threshold=by_level.THRESHOLD if threshold is None else threshold,
        )
    return found


def ranked_by_engine(tagger: Tagger, test: Dataset, k: int) -> Ranking:
    """Rank labels for a data set, on a cluster if one is in use; the ranking is the same."""
    engine = current()
    if engine.shards == 1 or len(test) <= _ROWS_PER_TASK:
        return tagger.predict(test, k)
    batches = [
        replace(batch, label_names=None, label_texts=None, taxonomy=None)
        for batch in test.batches(_ROWS_PER_TASK)
    ]
    found = engine.map(_ranked, batches, shared={"model": sent_model(tagger), "k": k})
    return Ranking(
        np.concatenate([labels for labels, _ in found]),
        np.concatenate([scores for _, scores in found]),
    )


def _ranked(batch: Dataset, *, model: SentModel, k: int) -> tuple[np.ndarray, np.ndarray]:
    ranking = received_model(model).predict(batch, k)
    return ranking.labels, ranking.scores


def unknown_labels(tagger: Tagger, test: Dataset) -> dict[str, Any]:
    """Count the labels that are not in the model.

    The result has the number of "labels", their "count" of assignments to examples, and the "share"
    of these in all assignments, in percent.
    """
    unknown = test.labels.indices[test.labels.indices >= len(tagger.label_names)]
    return {
        "labels": len(np.unique(unknown)),
        "count": len(unknown),
        "share": 100.0 * len(unknown) / max(test.labels.nnz, 1),
    }


def check_labels(tagger: Tagger, test: Dataset, columns: Columns | None) -> None:
    """Log a warning of labels that are not in the model; raise DataError if none is."""
    found = unknown_labels(tagger, test)
    if not found["count"]:
        return
    names = test.names()
    unknown = np.unique(test.labels.indices[test.labels.indices >= len(tagger.label_names)])
    samples = _quoted([names[label] for label in unknown[:_SAMPLES].tolist()])
    if found["count"] < test.labels.nnz:
        logger.warning(
            "%s: %d of %d label assignments (%.1f percent) have labels that are not in the model, "
            "such as %s",
            *(test.source or "the data", found["count"], test.labels.nnz, found["share"], samples),
        )
        return
    read = () if columns is None else (*columns.labels, *columns.path)
    known = tagger.columns
    raise DataError(
        f"the model has none of the labels{_of_columns(read)}, such as {samples}; its own labels"
        f"{_of_columns((*known.labels, *known.path))} are such as "
        f"{_quoted(tagger.label_names[:_SAMPLES])}: give the label columns of the training data "
        "(--label-columns, --path-columns)",
        path=test.source or None,
    )


def _of_columns(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f" of column{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _taxonomy(tagger: Tagger, test: Dataset) -> Levels:
    names = test.names()
    taxonomy = joined([tagger.taxonomy, test.taxonomy], names)
    if taxonomy is None or tagger.label_counts is None:
        raise ParameterError(
            "--levels needs a taxonomy: --path-columns, or hierarchy.tsv beside the data"
        )
    return Levels.build(taxonomy, names)


def _checked_ks(ks: Sequence[int]) -> list[int]:
    if not ks or not all(isinstance(k, int | np.integer) and k >= 1 for k in ks):
        raise ParameterError(f"k={list(ks)}: expected integers of at least 1, such as 1,3,5")
    return [int(k) for k in ks]
