"""How a fusion fits its members: on what, in which order, within which time."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import as_csr, digest
from labelspace.components.holdout import HoldOut
from labelspace.components.training_data import Shape, TrainingData
from labelspace.engine import current
from labelspace.methods.base import Method
from labelspace.methods.fitted_arrays import arrays_of, method_of
from labelspace.methods.fusion.budget import TrainingBudget
from labelspace.methods.fusion.member_settings import with_settings
from labelspace.methods.fusion.members import fitted_arrays
from labelspace.methods.fusion.plan import (
    DXML_SECONDS,
    FEW_EXAMPLES,
    Member,
    candidate_plans,
    single_member,
)
from labelspace.methods.parameters import AUTO
from labelspace.methods.registry import method_class
from labelspace.runs.callbacks import listeners
from labelspace.runs.history import History

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.methods.fusion.method import Fusion

SEED_STEP = 7919  # between the seeds of two copies of a member
# Members that use the held-out examples however many examples there are, as this takes no time.
QUICK_TO_REFIT, QUICK_TO_UPDATE = ("knn", "labeltext", "lexical"), ("dxml",)
MORE_HELD_OUT = 8000  # examples at most, with label texts: trees gain by more than weights do


def import_in_background(model: Fusion) -> threading.Thread:
    """Import what will be needed in a thread, while compiled loops find near duplicates.

    An import that fails is repeated where it is needed, and raises its error there.
    """

    def load(names: list[str]) -> None:
        with suppress(Exception):
            import_module("sklearn.linear_model")
            for name in names:
                method_class(name)

    limit = model.params_.budget
    in_time = limit is None or limit > 2 * DXML_SECONDS
    names = [member["method"] for member in model.params_.members] if in_time else []
    thread = threading.Thread(target=load, args=(names,), daemon=True)
    thread.start()
    return thread


def held_out_of(
    model: Fusion, X: csr_matrix, data: TrainingData, budget: TrainingBudget
) -> HoldOut:
    """Return the hold-out; near duplicates are found by the features without matches."""
    share, seed = model.params_.validation, model.params_.seed
    work = budget.duplicates_work
    if budget.is_short and model.members == AUTO and data.valid is None:
        return HoldOut.without(data)
    if not data.name_matches:
        return HoldOut.of(data, share, seed, groups=True, max_work=work)
    valid = data.valid and (model.columns_.texts(as_csr(data.valid[0])), data.valid[1])
    text = replace(data, X=model.columns_.texts(X), valid=valid)
    found = HoldOut.of(text, share, seed, groups=True, cap=MORE_HELD_OUT, max_work=work)
    if not len(found.held_rows):
        given = found.valid and data.valid
        return replace(found, X=X, valid=given and (as_csr(given[0]), given[1]))
    held = X[found.held_rows], data.Y[found.held_rows]
    return replace(found, X=X[found.train_rows], valid=held)


def fit_members(
    model: Fusion,
    train: tuple[csr_matrix, csr_matrix],
    valid: tuple[csr_matrix, csr_matrix] | None,
    data: TrainingData,
    shape: Shape,
    budget: TrainingBudget,
) -> None:
    """Fit all members, or with a time limit those that fit into it, but at least one.

    Copies of the same members, and on a cluster all members, are fitted in parallel.
    """
    budget.calibrate(*train, model.columns_, model.params_.seed)
    plan = [Member.from_json(member) for member in model.params_.members]
    if model.params_.budget is not None:
        plan = plan_within(model, budget, shape)
    copies = [
        (member, model.params_.seed + member.parameters.get("seed", 0) + SEED_STEP * copy)
        for copy in range(model.params_.ensemble)
        for member in plan
    ]
    in_parallel = model.params_.budget is None and (
        model.params_.ensemble > 1 or (len(copies) > 1 and current().shards > 1)
    )
    model.plan_ = []
    model.members_ = []
    for place, (member, seed) in enumerate(copies):
        refits = refits_in_time(member, train[0].shape[0])
        if model.plan_ and not budget.reserve(member, refits):
            continue
        seeded = member._replace(parameters={**member.parameters, "seed": seed})
        model.plan_.append(seeded)
        if not in_parallel:
            model.members_.append(_fit_member(model, seeded, place, train, valid, data))
    if in_parallel:
        model.members_ = _fit_in_parallel(model, train, valid, data)
    # Members that rerank come after all that find candidates, whatever the order of training.
    order = sorted(range(len(model.plan_)), key=lambda place: model.plan_[place].reranks)
    model.members_ = [model.members_[place] for place in order]
    model.plan_ = [model.plan_[place] for place in order]


def plan_within(model: Fusion, budget: TrainingBudget, shape: Shape) -> list[Member]:
    """Return the longest plan that fits into the time, or the quickest if none does."""
    if budget.is_short and model.members == AUTO:
        return [single_member(shape)]
    # `params_.members` is the longest plan alone, so plans are made from the parameter again.
    plans = candidate_plans(model.members, shape, model.budget)
    best, *longer = with_settings(plans, model.member_settings)
    for plan in longer:
        if not budget.fits([(one, refits_in_time(one, shape.points)) for one in plan]):
            break
        best = plan
    return best


def refits_in_time(member: Member, n_examples: int) -> bool:
    """Return whether the member is fitted from scratch a second time, and not updated."""
    cls = method_class(member.method)
    return _refits_on_all(member.method, n_examples) and cls.refit is not Method.refit


def _fit_in_parallel(
    model: Fusion,
    train: tuple[csr_matrix, csr_matrix],
    valid: tuple[csr_matrix, csr_matrix] | None,
    data: TrainingData,
) -> list[Method]:
    """Return the members of `plan_`, fitted in processes of their own."""
    X, Y = train
    shared = {"X": X, "Y": Y, "taxonomy": data.taxonomy, "columns": model.columns_}
    if valid is not None:
        shared |= {"valid_X": valid[0], "valid_Y": valid[1]}
    if any(isinstance(callback, History) for callback in data.callbacks):
        shared["history"] = True

    def report(done: int, total: int) -> None:
        for callback in data.callbacks:
            callback.on_work("members", done, total)

    states = current().map(fitted_arrays, model.plan_, shared=shared, progress=report)
    return [
        method_of(
            method_class(member.method),
            arrays,
            **model.columns_.sizes(member.method, X.shape[1], Y.shape[1]),
        )
        for member, arrays in zip(model.plan_, states, strict=True)
    ]


def _fit_member(
    model: Fusion,
    member: Member,
    place: int,
    train: tuple[csr_matrix, csr_matrix],
    valid: tuple[csr_matrix, csr_matrix] | None,
    data: TrainingData,
) -> Method:
    """Return a fitted member: that of an interrupted run, if it was finished there."""
    fitted = method_class(member.method)(**member.parameters)
    settings = digest(fitted.name, sorted(fitted.get_params().items()))
    identity = f"{data.identity}-{place}-{settings}"
    # With a time limit, a resumed run may choose other parameters: this is then fitted again.
    suffix = "" if model.params_.budget is None else f"-{settings[:6]}"
    callbacks = listeners(data.callbacks, f"{place + 1}-{fitted.name}{suffix}")
    for callback in callbacks:
        arrays = callback.finished(identity)
        if arrays is not None:
            sizes = model.columns_.sizes(fitted.name, train[0].shape[1], train[1].shape[1])
            return method_of(type(fitted), arrays, **sizes)
    if valid is not None:
        valid = model.columns_.of(fitted.name, valid[0]), valid[1]
    fitted.fit(
        model.columns_.of(fitted.name, train[0]),
        model.columns_.labels_of(fitted.name, train[1]),
        valid=valid,
        taxonomy=data.taxonomy,
        callbacks=callbacks,
        **model.columns_.arguments(fitted.name),
    )
    fitted.held_out_ = None  # only figures of the combination are of use
    for callback in callbacks:
        callback.finish(identity, arrays_of(fitted))
    return fitted


def add_held_out(
    model: Fusion, X: csr_matrix, Y: csr_matrix, held_rows: np.ndarray, taxonomy: Taxonomy | None
) -> None:
    """Fit members to the held-out examples too, now that the combination is fitted."""
    for member in model.members_:
        refits = _refits_on_all(member.name, X.shape[0])
        own = model.columns_.of(member.name, X)
        if refits and member.refit(own, Y, taxonomy):
            continue
        in_time = refits or member.name in QUICK_TO_UPDATE
        if in_time and member.can_update and not member.can_refit_grown:
            member.partial_fit(own[held_rows], Y[held_rows])


def _refits_on_all(method: str, n_examples: int) -> bool:
    """Return whether a member is fitted again, on all examples, after the combination is."""
    return method in QUICK_TO_REFIT or n_examples <= FEW_EXAMPLES
