"""Updates of a fusion, its near examples and its space."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace._core.sparse import unit_rows
from labelspace.errors import UnsupportedError
from labelspace.methods.fusion.float16 import as_float32, to_float16
from labelspace.methods.fusion.method import Fusion
from labelspace.methods.fusion.space import WeightSpace
from labelspace.methods.knn import KNN
from labelspace.metrics.ranking import measure
from support.fitted import restored
from support.planted import planted


def halves(n=600, n_labels=14):
    """Return examples of the first labels, others of all labels, and others still."""
    X, Y = planted(n, n_labels=n_labels, seed=2)
    third = n // 3
    old = np.flatnonzero(np.asarray(Y[:third, 11:].sum(axis=1)).ravel() == 0)
    return (
        (X[old], Y[old, :11]),
        (X[third : 2 * third], Y[third : 2 * third]),
        (
            X[2 * third :],
            Y[2 * third :],
        ),
    )


@pytest.mark.parametrize("members", ["knn,linear", "linear,hierarchicalxc", "hierarchicalxc,knn"])
def test_ten_portions_rank_as_well_as_one_training(members):
    (X, Y), (X_more, Y_more), (X_test, Y_test) = halves()
    model = Fusion(members=members).fit(X, Y)
    before = np.pad(model.combiner_.counts, (0, 3)), model.combiner_.n_points
    for rows in np.array_split(np.arange(X_more.shape[0]), 10):
        model.partial_fit(X_more[rows], Y_more[rows])
    everything = np.vstack([np.pad(Y.toarray(), ((0, 0), (0, 3))), Y_more.toarray()])
    whole = Fusion(members=members).fit(np.vstack([X.toarray(), X_more.toarray()]), everything)
    counted = before[0] + Y_more.toarray().sum(axis=0)
    np.testing.assert_array_equal(model.combiner_.counts, counted)
    assert model.combiner_.n_points == before[1] + X_more.shape[0]
    for metric in ("P@1", "P@3"):
        updated = measure(metric, model.predict(X_test, 3), Y_test)
        assert updated > measure(metric, whole.predict(X_test, 3), Y_test) - 4.0
    found = model.predict(X_test, 5).labels
    wanted = Y_test[:, 11:13].tocoo()
    hits = [label + 11 in found[row] for row, label in zip(wanted.row, wanted.col, strict=True)]
    assert np.mean(hits) > 0.9


def test_a_label_is_found_from_its_first_example_on():
    (X, Y), (X_more, Y_more), _ = halves()
    model = Fusion(members="knn,linear").fit(X, Y)
    row = np.flatnonzero(Y_more[:, 12].toarray().ravel())[0]
    model.partial_fit(X_more[row], Y_more[row, :13])
    assert model.n_labels_ == 13
    assert 12 in model.predict(X_more[row], 3).labels[0]
    before = measure("P@1", Fusion(members="knn,linear").fit(X, Y).predict(X, 1), Y)
    assert measure("P@1", model.predict(X, 1), np.pad(Y.toarray(), ((0, 0), (0, 2)))) > before - 2


def test_a_member_that_cannot_be_updated_keeps_its_labels():
    (X, Y), (X_more, Y_more), _ = halves()
    model = Fusion(members="linear,most-common").fit(X, Y).partial_fit(X_more, Y_more)
    assert [member.n_labels_ for member in model.members_] == [14, 11]
    again = restored(model, model.state())
    best = model.predict(X_more, 5)
    np.testing.assert_array_equal(again.predict(X_more, 5).labels, best.labels)
    np.testing.assert_array_equal(again.predict(X_more, 5).scores, best.scores)


@pytest.mark.parametrize("portions", [1, 3])
def test_scores_of_an_updated_model_are_calibrated(portions):
    (X, Y), (X_more, Y_more), (X_test, Y_test) = halves(3600)
    model = Fusion(members="knn,linear").fit(X, Y)
    before = model.combiner_.weights
    for rows in np.array_split(np.arange(X_more.shape[0]), portions):
        model.partial_fit(X_more[rows], Y_more[rows])
    # Few examples do not change the combination.
    assert np.array_equal(model.combiner_.weights, before) == (portions == 3)
    best = model.predict(X_test, 3)
    true = np.asarray(Y_test[np.repeat(np.arange(len(best)), 3), best.labels.ravel()]).ravel()
    assert abs(best.scores.mean() - true.mean()) < 0.06


def test_recalibration_keeps_the_order_and_moves_the_scores():
    (X, Y), (X_more, Y_more), _ = halves()
    model = Fusion(members="knn,linear").fit(X, Y)
    rankings, _ = model.rankings(X_more)
    before = model.combiner_.rank(rankings, 5)
    hits = Y_more[:, :11].toarray()
    hits[::2] = 0.0  # as if half of the labels were wrong: the scores were too high
    after = model.combiner_.recalibrated(rankings, csr_matrix(hits), 0.5).rank(rankings, 5)
    np.testing.assert_array_equal(after.labels, before.labels)
    assert after.scores.mean() < before.scores.mean()


def test_examples_that_were_held_out_of_an_update_are_learned_and_keep_their_numbers():
    (X, Y), (X_more, Y_more), _ = halves(3300)
    model = Fusion(members="knn,linear").fit(X, Y).partial_fit(X_more, Y_more)
    n_all = X.shape[0] + X_more.shape[0]
    np.testing.assert_array_equal(np.sort(model.row_order_), np.arange(n_all))
    held = model.row_order_[-110:] - X.shape[0]
    assert (np.diff(held) > 0).all()
    assert len(np.unique(np.diff(held))) > 1  # drawn at random
    again = restored(model, model.state())
    model.partial_fit(X[:3], np.pad(Y[:3].toarray(), ((0, 0), (0, 3))))
    assert len(model.row_order_) == n_all  # a small update is learned as it is
    for row in held[:20]:
        for each in (model, again):
            near = each.nearest_examples(X_more[row], 1)[0]
            assert near.similarity > 0.999
            twin = X_more if near.row >= X.shape[0] else X
            found = twin[near.row - (X.shape[0] if twin is X_more else 0)]
            cosine = (unit_rows(found) @ unit_rows(X_more[row]).T).toarray()
            assert cosine[0, 0] > 0.999


@pytest.mark.parametrize("members", ["knn,linear", "dxml,linear"])
def test_near_examples_are_rows_of_the_training_data(members):
    (X, Y), (X_more, Y_more), _ = halves(300)
    labelled = np.ones((Y.shape[0], 1), np.float32)
    labelled[5] = 0.0  # a row without labels, which does not vote in dxml
    Y = csr_matrix(Y.multiply(labelled))
    Y.eliminate_zeros()
    model = Fusion(members=members).fit(X, Y).partial_fit(X_more, Y_more)
    for rows, first in ((X, 0), (X_more, X.shape[0])):
        hits = 0
        for row in np.flatnonzero(np.diff(rows.indptr))[:40]:
            near = model.nearest_examples(rows[row], 3)
            assert [each.similarity for each in near] == sorted(
                (each.similarity for each in near), reverse=True
            )
            hits += near[0].row == first + row
            for each in near:
                place = each.row - X.shape[0]
                carried = Y[each.row] if place < 0 else Y_more[place]
                assert sorted(each.labels) == sorted(carried.indices.tolist())
        assert hits > 20  # the example itself; some have a twin
    again = restored(model, model.state())
    assert again.nearest_examples(X[3], 3) == model.nearest_examples(X[3], 3)


def test_an_explanation_has_features_labels_and_examples():
    X, Y = planted(300)
    model = Fusion(members="knn,linear").fit(X, Y)
    label = int(Y[0].indices[0])
    why = model.explain(X[0], label, 4)
    assert len(why.features) == len(why.labels) == len(why.examples) == 4
    assert why.examples[0][0] == 0
    assert why.labelled[0] == Y[0].indices.tolist()
    without = Fusion(members="linear,hierarchicalxc").fit(X, Y)
    assert without.explain(X[0], label, 4).examples == []
    with pytest.raises(UnsupportedError, match="keeps no training examples"):
        without.nearest_examples(X[0])


def test_every_fusion_has_a_space():
    X, Y = planted(300)
    model = Fusion(members="knn,linear").fit(X, Y)
    vectors, points = model.label_vectors_, model.embed(X)
    assert vectors.shape == (12, points.shape[1])
    nearest = np.argmax(points @ vectors.T, axis=1)
    assert np.mean(np.asarray(Y[np.arange(300), nearest])) > 0.7
    again = restored(model, model.state())
    np.testing.assert_array_equal(again.label_vectors_, vectors)
    np.testing.assert_array_equal(again.embed(X), points)
    of_dxml = Fusion(members="dxml,linear").fit(X, Y)
    np.testing.assert_array_equal(of_dxml.label_vectors_, of_dxml.members_[0].label_vectors_)
    assert Fusion(members="knn").fit(X, Y).label_vectors_.shape == (12, 12)
    with pytest.raises(UnsupportedError, match="most-common"):
        _ = Fusion(members="most-common").fit(X, Y).label_vectors_


def test_the_space_of_weights_keeps_their_products():
    X, Y = planted(200)
    weights = Fusion(members="linear").fit(X, Y).members_[0].label_features()
    space = WeightSpace.of(weights, 0)
    lengths = np.linalg.norm(weights.toarray(), axis=1)
    used = lengths > 0
    got = (X @ space.components) @ (space.label_vectors * lengths[:, None]).T
    np.testing.assert_allclose(got[:, used], (X @ weights.T).toarray()[:, used], atol=1e-3)


@pytest.mark.parametrize("max_postings", [None, 1000])
def test_what_an_update_rounds_is_what_is_stored(max_postings):
    X, Y = planted(400)
    model = Fusion(members="knn,linear,hierarchicalxc").fit(X[:300], Y[:300])
    knn = KNN(max_postings=max_postings).fit(X[:300], Y[:300])
    model.members_[0] = knn
    model.partial_fit(X[300:], Y[300:])
    for member in model.members_:
        own = member.state()
        stored = as_float32(to_float16(own, member.full_precision))
        for name, array in own.items():
            np.testing.assert_array_equal(array, stored[name])
    assert (knn.neighbours_.rows != knn.neighbours_.postings.T).nnz == 0
