"""The arrays of a fusion: those of its members and of their combination."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import expect
from labelspace._core.json_text import checked_json
from labelspace._core.schema import Elsewhere, Schema, ints, letters, optional, sizes_of
from labelspace.components.boosted_stacking import BoostedCombiner, with_all_weights
from labelspace.components.examples import Examples, examples_schema
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


def expanded(arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Return the arrays in the types that they are used in."""
    plain = as_float32(arrays)
    expect("members" in plain, "the members are missing")
    return with_all_weights(plain, len(_documents(plain)))


def schema_of(arrays: Mapping[str, np.ndarray]) -> Schema:
    """Declare the arrays of a fusion; its members check theirs."""
    documents = _documents(arrays)
    combiner = BoostedCombiner if "combiner.trees.start" in arrays else Combiner
    return [
        letters("members"),
        *combiner.schema(arrays, len(documents)),
        *optional([sizes_of("n_text", "columns of texts")], arrays),
        *examples_schema(arrays, "columns of texts" if "n_text" in arrays else "features"),
        ints("row_order", "ordered examples", required=False),
        *(Elsewhere(f"member.{place}.") for place in range(len(documents))),
    ]


def _documents(arrays: Mapping[str, np.ndarray]) -> list[Any]:
    documents = checked_json(arrays["members"])
    expect(isinstance(documents, list) and len(documents) > 0, "the members are not a list")
    return list(documents)


def load_state(model: Fusion, arrays: Mapping[str, np.ndarray]) -> None:
    documents = _documents(arrays)
    combiner = BoostedCombiner if "combiner.trees.start" in arrays else Combiner
    model.combiner_ = combiner.restore(arrays)
    model.members_, model.plan_ = [], []
    model.columns_ = _restored_columns(model, arrays)
    model.examples_ = Examples.restore(arrays)
    model.row_order_ = arrays.get("row_order", np.zeros(0, np.int64))
    model._weight_space = None
    for place, document in enumerate(documents):
        n_labels = document.get("labels", model.n_labels_)
        expect(n_labels in range(1, model.n_labels_ + 1), "a member has too many labels")
        name, reranks = document["method"], document["reranks"]
        expect(name != model.name, "a member of the fusion is a fusion")
        cls = method_class(name)
        expect(not reranks or (place > 0 and cls.can_rerank), f"{name} cannot rerank")
        own = with_prefix(f"member.{place}.", arrays)
        sizes = model.columns_.sizes(name, model.n_features_in_, n_labels)
        model.members_.append(
            cls.restored(document, own, n_features=sizes["n_features"], n_labels=sizes["n_labels"])
        )
        model.plan_.append(Member(name, document["parameters"], bool(reranks)))
    if isinstance(model.combiner_, BoostedCombiner) and model.combiner_.uses_matches:
        found = [member.n_labels_ for member in model.members_ if member.takes_name_matches]
        expect(found[:1] == [model.n_labels_], "the matches do not fit the labels")


def _restored_columns(model: Fusion, arrays: Mapping[str, np.ndarray]) -> MemberColumns:
    if "n_text" not in arrays:
        return MemberColumns()
    # Labels that an update added have no match columns.
    n_text = int(arrays["n_text"][0])
    matched, rest = divmod(model.n_features_in_ - n_text, MATCH_COLUMNS)
    expect(n_text >= 0 and rest == 0 and 0 <= matched <= model.n_labels_, "the columns do not fit")
    return MemberColumns(n_text)
