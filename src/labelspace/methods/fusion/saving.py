"""The arrays of a fusion: those of its members and of their combination."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import all_within, expect
from labelspace.components.boosted_stacking import BoostedCombiner
from labelspace.components.examples import Examples
from labelspace.components.stacking import Combiner
from labelspace.features.name_codes import COLUMNS as MATCH_COLUMNS
from labelspace.methods.fusion.columns import MemberColumns
from labelspace.methods.fusion.float16 import as_float32, to_float16
from labelspace.methods.fusion.members import stored_arrays
from labelspace.methods.fusion.plan import Member
from labelspace.methods.registry import method_class

if TYPE_CHECKING:
    from labelspace.methods.fusion.method import Fusion


def state_of(model: Fusion) -> dict[str, np.ndarray]:
    documents = [
        {
            "method": member.method,
            "reranks": member.reranks,
            "labels": fitted.n_labels_,
            **fitted.to_json(),
        }
        for fitted, member in zip(model.members_, model.plan_, strict=True)
    ]
    written = json.dumps(documents).encode()
    arrays = {**model.combiner_.state(), "members": np.frombuffer(written, np.uint8)}
    if model.examples_ is not None:
        arrays |= to_float16(model.examples_.state())
    if len(model.row_order_):
        arrays |= to_float16({"row_order": model.row_order_})
    if model.columns_.n_text is not None:
        arrays["n_text"] = np.array([model.columns_.n_text], np.int64)
    for place, fitted in enumerate(model.members_):
        arrays |= prefixed(f"member.{place}.", stored_arrays(fitted))
    return arrays


def load_state(model: Fusion, arrays: Mapping[str, np.ndarray]) -> None:
    documents = json.loads(bytes(arrays["members"]))
    combiner = BoostedCombiner if "combiner.trees.start" in arrays else Combiner
    model.combiner_ = combiner.restore(arrays, len(documents), model.n_labels_)
    model.members_, model.plan_ = [], []
    model.columns_ = _restored_columns(model, arrays)
    shared = {name: array for name, array in arrays.items() if not name.startswith("member.")}
    shared = as_float32(shared)
    n_text = model.columns_.sizes("linear", model.n_features_in_, model.n_labels_)
    model.examples_ = Examples.restore(shared, *n_text.values())
    model.row_order_ = shared.get("row_order", np.zeros(0, np.int64))
    expect(all_within(model.row_order_, 0, 2**62), "the order of the examples does not fit")
    model._weight_space = None
    for place, document in enumerate(documents):
        n_labels = document.get("labels", model.n_labels_)
        expect(n_labels in range(1, model.n_labels_ + 1), "a member has too many labels")
        name, reranks = document["method"], document["reranks"]
        expect(name != model.name, "a member of the fusion is a fusion")
        cls = method_class(name)
        expect(not reranks or (place > 0 and cls.can_rerank), f"{name} cannot rerank")
        own = as_float32(with_prefix(f"member.{place}.", arrays))
        sizes = model.columns_.sizes(name, model.n_features_in_, n_labels)
        model.members_.append(cls.restored(document, own, **sizes))
        model.plan_.append(Member(name, document["parameters"], bool(reranks)))
    if isinstance(model.combiner_, BoostedCombiner) and model.combiner_.uses_matches:
        found = [member.n_labels_ for member in model.members_ if member.takes_name_matches]
        expect(found[:1] == [model.n_labels_], "the matches do not fit the labels")


def _restored_columns(model: Fusion, arrays: Mapping[str, np.ndarray]) -> MemberColumns:
    if "n_text" not in arrays:
        return MemberColumns()
    given = arrays["n_text"]
    expect(given.shape == (1,) and given.dtype == np.int64, "the columns do not fit")
    # Labels that an update added have no match columns.
    n_text = int(given[0])
    matched, rest = divmod(model.n_features_in_ - n_text, MATCH_COLUMNS)
    expect(n_text >= 0 and rest == 0 and 0 <= matched <= model.n_labels_, "the columns do not fit")
    return MemberColumns(n_text)
