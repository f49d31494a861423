"""Members of a fusion as arrays: for storage, for checkpoints and from other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.methods.base import Method
from labelspace.methods.fitted_arrays import arrays_of
from labelspace.methods.fusion.columns import MemberColumns
from labelspace.methods.fusion.float16 import to_float16
from labelspace.methods.fusion.plan import Member
from labelspace.methods.registry import method_class
from labelspace.runs.history import History

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy


def stored_arrays(member: Method) -> dict[str, np.ndarray]:
    """Return the state of a member as it is stored, in 16 bits where these suffice."""
    return to_float16(member.state(), member.full_precision)


def fitted_arrays(
    member: Member,
    X: csr_matrix,
    Y: csr_matrix,
    taxonomy: Taxonomy | None,
    columns: MemberColumns,
    valid_X: csr_matrix | None = None,
    valid_Y: csr_matrix | None = None,
    history: bool = False,
) -> dict[str, np.ndarray]:
    """Fit a member and return its arrays: a task of an engine."""
    name = member.method
    model = method_class(name)(**member.parameters)
    model.fit(
        columns.of(name, X),
        columns.labels_of(name, Y),
        valid=None if valid_X is None else (columns.of(name, valid_X), valid_Y),
        taxonomy=taxonomy,
        callbacks=[History()] if history else [],
        **columns.arguments(name),
    )
    return arrays_of(model)
