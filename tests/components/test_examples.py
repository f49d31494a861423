"""Kept examples, and what of a model is fitted again once it has more of them."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace._core.schema import check_arrays
from labelspace._core.sparse import unit_rows
from labelspace.components.examples import (
    Examples,
    due_for_fit,
    examples_schema,
)
from labelspace.errors import ModelFormatError
from support.planted import planted


def test_examples_are_restored_as_they_were_kept():
    X, Y = planted(50)
    kept = Examples.of(X[:30], Y[:30, :9]).plus(X[30:], Y[30:])
    assert np.abs((kept.X - unit_rows(X)).data).max(initial=0.0) < 1e-3
    np.testing.assert_array_equal(kept.Y[30:].toarray(), Y[30:].toarray())
    np.testing.assert_array_equal(kept.Y[:30, :9].toarray(), Y[:30, :9].toarray())
    again = Examples.restore(kept.state())
    assert (again.X != kept.X).nnz == 0
    assert (again.Y != kept.Y).nnz == 0
    assert kept.state()["examples.X.data"].dtype == np.float16
    assert Examples.restore({}) is None


def test_examples_of_an_index_are_those_by_row():
    X, Y = planted(50)
    for kept in (Examples(X, Y), Examples(X, Y, X.T.tocsr())):
        np.testing.assert_array_equal(kept.by_feature().toarray(), X.toarray().T)
        np.testing.assert_array_equal(kept.rows().toarray(), X.toarray())
        for chosen in ([], [3], [0, 7, 20, 49], range(50)):
            got = kept.rows(np.array(chosen, np.int64))
            np.testing.assert_array_equal(got.toarray(), X[list(chosen)].toarray())
            assert got.has_canonical_format


def test_damaged_examples_are_refused():
    X, Y = planted(20)
    arrays = Examples.of(X, Y).state()
    arrays["examples.X.indices"] = arrays["examples.X.indices"] + X.shape[1]
    sizes = {"features": X.shape[1], "labels": Y.shape[1]}
    with pytest.raises(ModelFormatError, match=r"examples\.X\.indices"):
        check_arrays(examples_schema(arrays), arrays, **sizes)


def test_a_label_is_due_when_it_has_grown_by_a_quarter():
    fitted = np.arange(1000)
    assert len(due_for_fit(fitted, fitted)) == 0
    np.testing.assert_array_equal(due_for_fit(fitted + 1, fitted)[:3], [0, 1, 2])
    many = np.full(1000, 1000)
    assert len(due_for_fit(many * 11 // 10, many)) == 0
    assert len(due_for_fit(many * 14 // 10, many)) == 1000
    # Labels that grow alike are due one after the other.
    assert 400 < len(due_for_fit(many * 5 // 4, many)) < 600
