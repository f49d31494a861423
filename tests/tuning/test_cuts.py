"""Validation cuts: disjoint, with features of the other examples alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Dataset
from labelspace.errors import DataError, ParameterError
from labelspace.methods.knn import KNN
from labelspace.tuning.cuts import Cut, make_cuts, number_of_cuts
from support.planted import planted


def numbered(n):
    """Return examples that are known by the value of their last feature."""
    X, Y = planted(n)
    X = X.toarray()
    X[:, -1] = 1 + np.arange(n)
    return Dataset(labels=Y, features=X)


def rows(X):
    return set((X.toarray()[:, -1] - 1).astype(int))


def test_cuts_are_disjoint_and_the_rest_is_trained_on():
    cuts = make_cuts(numbered(100), KNN(), None, 3, seed=0)
    held = [rows(cut.held_X) for cut in cuts]
    assert [len(one) for one in held] == [20, 20, 20]
    assert len(set.union(*held)) == 60
    for cut, one in zip(cuts, held, strict=True):
        assert rows(cut.X) == set(range(100)) - one
        assert cut.X.shape[0] == cut.Y.shape[0] == 80


def test_cuts_depend_on_the_seed_alone():
    first, same, other = (
        rows(make_cuts(numbered(100), KNN(), None, 1, seed)[0].held_X) for seed in (0, 0, 1)
    )
    assert first == same != other


def test_words_of_held_out_texts_are_not_features():
    texts = [f"common word{i}" for i in range(40)]
    Y = csr_matrix(np.eye(2, dtype=np.float32)[np.arange(40) % 2])
    cut = make_cuts(Dataset(labels=Y, texts=texts), KNN(), "tfidf", 1, seed=0)[0]
    assert (cut.held_X.getnnz(axis=1) <= 1).all()  # "common" alone
    assert cut.X.shape[1] == cut.held_X.shape[1]


def test_a_cut_is_the_same_through_an_engine():
    cut = make_cuts(numbered(50), KNN(), None, 1, seed=0)[0]
    shared = {**cut.shared(0), **cut.shared(11)}
    again = Cut.of_shared(11, shared)
    assert (again.X != cut.X).nnz == 0
    assert again.arguments == cut.arguments


def test_small_data_have_more_cuts():
    assert [number_of_cuts(n) for n in (50, 5000, 7000, 100_000)] == [3, 3, 2, 1]


def test_too_few_examples_are_refused():
    with pytest.raises(ParameterError, match="expected 1 to 4 for 10 examples"):
        make_cuts(numbered(10), KNN(), None, 5, seed=0)
    empty = Dataset(labels=csr_matrix((10, 2)), features=np.ones((10, 2)))
    with pytest.raises(DataError, match="too few examples have labels"):
        make_cuts(empty, KNN(), None, 1, seed=0)
