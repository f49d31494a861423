"""DXML: every option trains, the vote is what the page defines, updates add examples and labels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack

from labelspace.components.training_data import Shape
from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import InputError, ParameterError
from labelspace.labels.deepwalk import deepwalk
from labelspace.labels.graph import cooccurrence_graph
from labelspace.methods.baselines import MostCommon
from labelspace.methods.dxml.method import DXML
from labelspace.methods.dxml.targets import targets
from labelspace.methods.dxml.update import with_new_labels
from labelspace.methods.dxml.voting import NEIGHBOURS, RAW_WEIGHTS
from labelspace.metrics.ranking import evaluate
from labelspace.search.neighbours import build as search
from support.fitted import restored
from support.planted import planted

SMALL = {
    "dim": 16, "hidden": (32,), "epochs": 12, "batch_size": 64, "lr": 0.01, "scale": 10.0,
    "walks": 50, "walk_length": 10, "ensemble": 1, "raw_neighbours": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def data():
    X, Y = planted(500, seed=3)
    return (X[:400], Y[:400]), (X[400:], Y[400:])


@pytest.fixture(scope="module")
def model(data):
    return DXML(**SMALL).fit(*data[0])


def precision(model, X, Y):
    return evaluate(model.predict(X, 5), Y, bands=False)["P@1"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"partners": False},
        {"loss": "contrastive"},
        {"loss": "triplet", "margin": 0.5},
        {"loss": "smooth-l1"},
        {"loss": "smooth-l1", "graph_weights": "jaccard"},
        {"loss": "smooth-l1", "optimiser": "sgd", "lr": 0.3},
        {"hidden": ()},
        {"hidden": (32, 24)},
        {"keep": 1.0, "dropout": 0.0},
        {"optimiser": "sgd", "lr": 0.3},
        {"ensemble": 3},
        {"reduced_dim": 6},
        {"reduced_dim": 6, "hidden": ()},
        {"search": "clusters", "clusters": 12, "probes": 6},
        {"validation": 0.0},
        {"neighbours": 7, "power": 0.0},
    ],
    ids=str,
)
def test_every_option_trains(data, options):
    train, test = data
    baseline = precision(MostCommon().fit(*train), *test)
    assert precision(DXML(**{**SMALL, **options}).fit(*train), *test) > baseline + 25


def test_points_have_length_1_and_scores_are_shares_of_the_votes(data):
    (X, Y), (X_test, _) = data
    model = DXML(**SMALL, validation=0.0, neighbours=8, power=0.0).fit(X, Y)
    z = model.embed(X_test)
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1.0, atol=1e-5)
    labelled = np.diff(Y.indptr) > 0
    near = np.argsort(-(z @ model.embed(X[labelled]).T), axis=1, kind="stable")[:, :8]
    shares = np.stack([Y[labelled].toarray()[rows].mean(0) for rows in near])
    ranking = model.predict(X_test, 3)
    given = ranking.labels >= 0
    found = np.take_along_axis(shares, np.maximum(ranking.labels, 0), axis=1)
    np.testing.assert_allclose(ranking.scores, np.clip(found, 0, 1 - 1e-4) * given, atol=1e-4)
    best = -np.sort(-shares, axis=1)[:, :3]
    np.testing.assert_allclose(ranking.scores, np.clip(best, 0, 1 - 1e-4), atol=1e-4)


def test_examples_with_shared_labels_are_nearer(data, model):
    _, (X, Y) = data
    z = model.embed(X)
    shared = (Y @ Y.T).toarray() > 0
    np.fill_diagonal(shared, False)
    similarity = z @ z.T
    negatives = ~shared & ~np.eye(len(z), dtype=bool)
    assert similarity[shared].mean() > similarity[negatives].mean() + 0.2


def test_targets_are_the_mean_of_label_vectors_on_the_graph(data):
    (X, Y), _ = data
    model = DXML(**{**SMALL, "epochs": 60}, loss="smooth-l1", validation=0.0).fit(X, Y)
    V = deepwalk(cooccurrence_graph(Y), 16, walks=50, length=10)
    np.testing.assert_array_equal(model.graph_vectors_, V)
    f = targets(Y, V)
    for row in range(20):
        mean = V[Y[row].indices].mean(0)
        np.testing.assert_allclose(f[row], mean / np.linalg.norm(mean), atol=1e-5)
    # Points are nearer to their own targets than to the others on average.
    closeness = model.embed(X) @ f.T
    assert (np.diag(closeness) > closeness.mean(1)).mean() > 0.9


def test_the_label_graph_may_be_a_taxonomy(data):
    (X, Y), _ = data
    names = [f"l{i}" for i in range(Y.shape[1])]
    pairs = [(name, f"group{i % 3}") for i, name in enumerate(names)]
    taxonomy = Taxonomy.from_names(pairs, names)
    model = DXML(**SMALL, loss="smooth-l1", graph="taxonomy").fit(X, Y, taxonomy=taxonomy)
    V = model.graph_vectors_
    assert V.shape == (Y.shape[1], 16)
    assert V[0] @ V[3] > V[0] @ V[1]  # children of one parent
    with pytest.raises(InputError, match="needs a taxonomy"):
        model.fit(X, Y)


def test_scores_are_calibrated():
    X, Y = planted(3000, seed=8)
    model = DXML(**{**SMALL, "epochs": 4, "validation": 0.3}).fit(X[:2000], Y[:2000])
    ranking = model.predict(X[2000:], 5)
    given = ranking.labels >= 0
    hits = np.asarray(Y[2000:][np.arange(1000)[:, None], np.maximum(ranking.labels, 0)].todense())
    assert abs(hits[given].mean() - ranking.scores[given].mean()) < 0.03


def test_neighbours_and_power_are_chosen_unless_given(data, model):
    assert model.vote_.params.neighbours in NEIGHBOURS
    fixed = DXML(**SMALL, neighbours=3, power=1.5).fit(*data[0])
    assert (fixed.vote_.params.neighbours, fixed.vote_.params.power) == (3, 1.5)
    assert fixed.metadata()["votes"] == {"neighbours": 3, "power": 1.5, "raw_weight": 0.0}


def test_the_hold_out_votes_but_validation_data_passed_to_fit_do_not(data, model):
    (X, Y), (X_test, Y_test) = data
    assert model.vote_.Y.shape[0] == np.count_nonzero(np.diff(Y.indptr))
    other = DXML(**SMALL).fit(X, Y, valid=(X_test, Y_test))
    assert other.vote_.Y.shape[0] == np.count_nonzero(np.diff(Y.indptr))


def test_learners_differ_and_points_are_concatenated(data):
    (X, Y), _ = data
    model = DXML(**SMALL | {"ensemble": 2}).fit(X, Y)
    one, other = (index.vectors for index in model.vote_.indexes)
    assert not np.allclose(one, other)
    assert model.embed(X).shape == (X.shape[0], 32)
    assert model.label_vectors_.shape == (Y.shape[1], 32)


def test_a_reduced_space_has_fewer_dimensions_and_can_be_updated(data):
    (X, Y), (X_test, Y_test) = data
    model = DXML(**SMALL, reduced_dim=8).fit(X[:300], Y[:300])
    assert model.embed(X).shape[1] == 8
    assert model.vote_.indexes[0].vectors.shape[1] == 8
    model.partial_fit(X[300:], Y[300:])
    assert precision(model, X_test, Y_test) > 50
    with pytest.raises(ParameterError, match="set dim instead"):
        DXML(reduced_dim=8, loss="smooth-l1").fit(X, Y)


def test_search_of_large_sets_reaches_the_recall(data, monkeypatch):
    (X, Y), (X_test, Y_test) = data
    monkeypatch.setattr(search, "is_large", lambda n, dim: n * dim > 1000)
    model = DXML(**SMALL, recall=0.9).fit(X, Y)
    metadata = model.metadata()["search"]
    assert metadata["kind"] in ("clusters", "quantised", "exact")
    assert metadata["recall"] >= 0.9
    assert precision(model, X_test, Y_test) > 50


@pytest.mark.parametrize("loss", ["votes", "smooth-l1", "triplet"])
@pytest.mark.parametrize("search", ["exact", "clusters"])
def test_partial_fit_improves_precision(loss, search):
    X, Y = planted(900, seed=5)
    few = DXML(**SMALL, loss=loss, search=search, probes=4).fit(X[:100], Y[:100])
    before = precision(few, X[600:], Y[600:])
    few.partial_fit(X[100:600], Y[100:600])
    assert few.vote_.Y.shape[0] == np.count_nonzero(np.diff(Y[:600].indptr))
    assert precision(few, X[600:], Y[600:]) > before


def test_new_labels_are_predicted_after_partial_fit(data):
    (X, Y), _ = data
    model = DXML(**SMALL, loss="smooth-l1", neighbours=3).fit(X, Y)
    known = model.state()["Y.shape"][1]
    wide = hstack([Y, csr_matrix((Y.shape[0], 2))], "csr")
    new_X, new_Y = X[:6], wide[:6].tolil()
    new_Y[:, known] = 1
    model.partial_fit(new_X, csr_matrix(new_Y))
    assert model.n_labels_ == known + 2
    assert model.graph_vectors_.shape == (known + 2, 16)
    assert (model.predict(new_X, 5).labels == known).any(axis=1).all()


def test_partial_fit_is_the_same_after_save_and_load(data):
    (X, Y), (X_more, Y_more) = data
    model = DXML(**SMALL).fit(X, Y)
    arrays = {name: np.array(array) for name, array in model.state().items()}
    for array in arrays.values():
        array.flags.writeable = False
    loaded = restored(model, arrays)
    one, other = (m.partial_fit(X_more, Y_more).state() for m in (model, loaded))
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_without_update_epochs_partial_fit_only_adds_examples(data):
    (X, Y), (X_more, Y_more) = data
    model = DXML(**SMALL, update_epochs=0).fit(X, Y)
    before = model.embed(X)
    model.partial_fit(X_more, Y_more)
    np.testing.assert_array_equal(model.embed(X), before)
    own = model.vote_.search([model.embed(X_more)], X_more, 1)[1][:, 0, 0]
    np.testing.assert_allclose(own, 1.0, atol=1e-4)


def test_partial_fit_leaves_out_examples_without_labels(data, model):
    X, Y = data[0]
    before = model.vote_.Y.shape[0]
    model.partial_fit(X[:3], csr_matrix((3, Y.shape[1])))
    assert model.vote_.Y.shape[0] == before


def test_a_new_label_is_the_mean_of_cooccurring_labels_or_else_of_its_examples():
    V = np.eye(3, dtype=np.float32)
    Y = csr_matrix(np.array([[1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0]], np.float32))
    points = np.array([[0, 0, 1], [0, 0.6, 0.8]], np.float32)
    vectors = with_new_labels(V, Y, points)
    np.testing.assert_array_equal(vectors[:3], V)
    np.testing.assert_allclose(vectors[3], [2**-0.5, 2**-0.5, 0], atol=1e-6)
    np.testing.assert_allclose(vectors[4], points[1], atol=1e-6)
    np.testing.assert_array_equal(vectors[5], 0.0)


def test_bibtex_is_better_than_with_raw_neighbours(shared_data):
    from labelspace.data import read_split
    from labelspace.methods.knn import KNN

    train, _ = read_split(shared_data("bibtex"))
    X, Y = train.features[:3600], train.labels[:3600]
    held = train.features[3600:], train.labels[3600:]
    learned, raw = (
        DXML(dim=100, hidden=(), epochs=20, batch_size=256, ensemble=1).fit(X, Y),
        KNN().fit(X, Y),
    )
    one, other = (evaluate(m.predict(held[0], 5), held[1], bands=False) for m in (learned, raw))
    assert one["nDCG@5"] > other["nDCG@5"] + 1


def test_defaults_depend_on_the_shape_and_given_values_are_kept():
    def of(points, features, **params):
        shape = Shape(points, features, 100, 10 * points, 3 * points)
        return SimpleNamespace(**DXML.resolve(DXML(**params).get_params(), shape))

    small, large = of(5000, 500), of(200_000, 5000)
    assert (small.hidden, small.ensemble, small.batch_size, small.epochs) == ((512,), 5, 1024, 30)
    assert (large.hidden, large.ensemble, large.batch_size, large.epochs) == ((), 1, 512, 6)
    assert of(200_000, 5000, batch_size=8192).epochs == 30
    given = of(5000, 5000, hidden=(64, 32), ensemble=2, epochs=3)
    assert (given.hidden, given.ensemble, given.epochs) == ((64, 32), 2, 3)
    assert of(5000, 500, hidden=None).hidden == ()
    assert (small.neighbours, small.power) == ("auto", "auto")  # chosen on held-out examples


def test_raw_neighbours_get_most_weight_where_the_space_is_untrained(data):
    (X, Y), (X_test, Y_test) = data
    untrained = {**SMALL, "epochs": 1, "lr": 0.0, "dim": 1}
    alone = DXML(**untrained).fit(X, Y)
    helped = DXML(**{**untrained, "raw_neighbours": True}).fit(X, Y)
    assert helped.metadata()["votes"]["raw_weight"] == max(RAW_WEIGHTS)
    assert precision(helped, X_test, Y_test) > precision(alone, X_test, Y_test) + 20
    more = helped.partial_fit(X_test, Y_test)
    assert more.vote_.raw.postings.shape[1] == more.vote_.Y.shape[0]


def test_label_vectors_are_computed_once_per_fitted_state(data):
    (X, Y), (X_more, Y_more) = data
    model = DXML(**SMALL).fit(X, Y)
    first = model.label_vectors_
    assert model.label_vectors_ is first
    model.partial_fit(X_more, Y_more)
    assert model.label_vectors_ is not first


def test_arrays_of_learners_have_a_prefix(data):
    names = DXML(**SMALL | {"ensemble": 2}).fit(*data[0]).state().keys()
    for learner in "01":
        assert {f"{learner}.encoder.first", f"{learner}.points"} <= names
