"""The plan of a training run: parameters, memory and time, before it begins."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from labelspace._core.machine import available_bytes
from labelspace._core.sparse import as_csr
from labelspace.components.training_data import Shape
from labelspace.data import Columns
from labelspace.data.options import LabelSource
from labelspace.features.pipeline import TextFeatures
from labelspace.methods import DEFAULT_METHOD
from labelspace.methods.base import Method
from labelspace.methods.parameters import is_auto
from labelspace.methods.timing import TimingSample
from labelspace.model.memory import fitting_values, needed_bytes
from labelspace.model.reading import Source
from labelspace.model.training import (
    as_dataset,
    created_method,
    fit_features,
    further_arguments,
    label_texts_for,
    shape_of,
    trained_part,
    trained_width,
)


@dataclass(frozen=True)
class TrainingPlan:
    """The plan of a training run, made without training.

    Attributes
    ----------
    parameters : dict
        The method's parameters, every "auto" replaced by its value; "auto" is left where the value
        is chosen in training.
    chosen : dict
        Those of them that were "auto".
    memory : dict of str to int
        Bytes at the peak, by purpose.
    seconds : dict of str to float
        Seconds by phase: reading and features as they were for this plan, training as estimated
        from a sample. Without training where it is not estimated.
    fits : bool
        Whether training fits into the memory that is available beside the data.
    fitting : dict of str to value
        If it does not: values of parameters of which each by itself makes it fit.
    """

    parameters: dict[str, Any]
    chosen: dict[str, Any]
    memory: dict[str, int]
    seconds: dict[str, float]
    fits: bool
    fitting: dict[str, Any]


def plan_training(
    source: Source,
    *,
    method: str | Method = DEFAULT_METHOD,
    features: str | TextFeatures | None = None,
    labels: LabelSource = "auto",
    columns: Columns | None = None,
    measure: bool = False,
    **params: Any,
) -> TrainingPlan:
    """Return the parameters, the memory and the time that `train` would use, without training.

    Parameters
    ----------
    source, method, features, labels, columns, **params
        Those of `train`.
    measure : bool, default False
        Whether to estimate the seconds of training, by fits to 1,000 examples. They are not
        estimated where training does not fit into memory, nor with label texts.

    Returns
    -------
    TrainingPlan

    Examples
    --------
    >>> from labelspace.model.plan import plan_training
    >>> rows = [{"text": f"apple {n}", "labels": ["fruit", "food"]} for n in range(40)]
    >>> plan = plan_training(rows, method="knn", measure=True)
    >>> sorted(plan.seconds), plan.fitting
    (['features', 'reading', 'training knn'], {})
    """
    model = created_method(method, params)
    start = time.monotonic()
    dataset = as_dataset(source, columns, labels=labels)
    dataset = trained_part(dataset, trained_width(dataset, model))
    read = time.monotonic()
    pipeline, X, _ = fit_features(dataset, model, features)
    seconds = {"reading": read - start, "features": time.monotonic() - read}
    shape = shape_of(X, dataset, pipeline, model)
    given = model.get_params()
    resolved = model.resolve(given, shape)
    chosen = {name: value for name, value in resolved.items() if is_auto(given[name])}
    memory, free = needed_bytes(model, shape), available_bytes()
    fits, fitting = sum(memory.values()) - shape.data_bytes <= free, dict[str, Any]()
    texts = label_texts_for(pipeline, dataset, model)
    further = further_arguments(pipeline, dataset, model, texts)
    if not fits:
        fitting = fitting_values(model, shape, free)
    elif measure and all(each is None or each is False for each in further.values()):
        sample = TimingSample(as_csr(X), dataset.labels, 0)
        seconds |= _training_seconds(model, resolved, shape, sample)
    return TrainingPlan(resolved, chosen, memory, seconds, fits, fitting)


def _training_seconds(
    model: Method, resolved: dict[str, Any], shape: Shape, sample: TimingSample
) -> dict[str, float]:
    """Return the estimated seconds of each method that is fitted."""
    found: dict[str, float] = {}
    for name, parameters, times in model.fits(resolved, shape):
        fixed, per_epoch = sample.seconds_of(name, parameters, "epochs" in parameters)
        phase = f"training {name}"
        own = times * (fixed + per_epoch * parameters.get("epochs", 0))
        found[phase] = found.get(phase, 0.0) + own
    return found
