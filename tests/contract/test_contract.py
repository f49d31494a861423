"""The contract that every registered method keeps. A new method is tested without further lines."""

from __future__ import annotations

import inspect
import json
import signal
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack
from sklearn.base import clone

from labelspace._core.schema import Array, Elsewhere, check_arrays
from labelspace.components.training_data import Shape
from labelspace.errors import (
    InputError,
    ModelFormatError,
    NotFittedError,
    ParameterError,
    UnsupportedError,
)
from labelspace.features.pipeline import FeaturePipeline
from labelspace.methods.registry import method_class, method_names, register
from labelspace.model import store
from labelspace.model.tagger import Tagger
from labelspace.runs.callbacks import Callback, Checkpoint
from support.planted import planted
from support.small import SMALL
from support.toy import Toy

register(Toy)


@pytest.fixture(params=method_names())
def method(request):
    return method_class(request.param)(**SMALL.get(request.param, {}))


@pytest.fixture
def data():
    return planted()


def same(one, other):
    return np.array_equal(one.labels, other.labels) and np.array_equal(one.scores, other.scores)


def same_state(one, other):
    one, other = one.state(), other.state()
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def test_parameters_are_keyword_only_stored_and_described(method):
    signature = inspect.signature(type(method).__init__)
    own = [p for p in signature.parameters.values() if p.name != "self"]
    assert all(p.kind is p.KEYWORD_ONLY for p in own)
    assert {p.name for p in own} == set(method.parameters)
    assert all(method.parameters[p.name].help for p in own)
    assert "seed" in method.parameters
    method.check_parameters()


def test_a_clone_has_the_same_parameters_and_is_not_fitted(method, data):
    method.set_params(seed=3)
    copy = clone(method.fit(*data))
    assert copy.get_params() == method.get_params()
    with pytest.raises(NotFittedError, match="fit first"):
        copy.predict(data[0], 3)


def test_the_error_names_a_parameter_out_of_range(method, data):
    with pytest.raises(ParameterError, match=r"seed=-1"):
        method.set_params(seed=-1).fit(*data)


def test_the_error_names_an_unknown_parameter(method):
    with pytest.raises(ParameterError, match=r"sed.*seed"):
        method.create(sed=1)


def test_every_array_of_the_state_is_declared_and_checked(method, data):
    method.fit(*data)
    arrays = method.expanded(method.state())
    sizes = {"features": method.n_features_in_, "labels": method.n_labels_}
    schema = method.schema(arrays)
    check_arrays(schema, arrays, **sizes)
    elsewhere = tuple(each.prefix for each in schema if isinstance(each, Elsewhere))
    declared = {each.name: each for each in schema if isinstance(each, Array)}
    for name, array in arrays.items():
        if name not in declared:
            assert name.startswith(elsewhere), name
            continue
        others = [array[None], array.astype(np.float16 if array.dtype.kind == "i" else np.int16)]
        for damaged in others:
            with pytest.raises(ModelFormatError):
                check_arrays(schema, {**arrays, name: damaged}, **sizes)
        if declared[name].required:
            with pytest.raises(ModelFormatError):
                check_arrays(schema, {k: a for k, a in arrays.items() if k != name}, **sizes)


def test_scores_of_huge_features_are_probabilities(method, data):
    X, Y = data
    method.fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # overflow on the way is no error
        best = method.predict(np.float32(1e25) * X[:10], 3)
    assert np.isfinite(best.scores).all()
    assert ((best.scores >= 0) & (best.scores <= 1)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused(method, data, bad):
    X, Y = data
    broken = X.copy()
    broken.data[3] = bad
    with pytest.raises(InputError, match="NaN or infinite"):
        method.fit(broken, Y)
    with pytest.raises(InputError, match="NaN or infinite"):
        method.fit(X, Y).predict(broken, 3)


def test_further_arguments_are_taken_as_declared(method, data):
    X, Y = data
    given = {
        "label_names": (method.needs_label_names, csr_matrix(np.ones((Y.shape[1], 2)))),
        "label_texts": (method.takes_label_texts, X[: Y.shape[1]]),
        "name_matches": (method.takes_name_matches, True),
    }
    for name, (taken, value) in given.items():
        assert name in inspect.signature(type(method).fit).parameters
        if not taken:
            with pytest.raises(UnsupportedError, match=f"{method.name} does not take {name}"):
                method.fit(X, Y, **{name: value})
    method.fit(X, Y, label_names=None, label_texts=None, name_matches=False)
    if method.can_update and not method.takes_name_matches:
        with pytest.raises(UnsupportedError, match="does not take name_matches"):
            method.partial_fit(X, Y, name_matches=True)
        assert len(method.predict(X, 1)) == X.shape[0]


def test_mismatched_shapes_are_refused(method, data):
    X, Y = data
    with pytest.raises(InputError, match="rows"):
        method.fit(X, Y[:-1])
    with pytest.raises(InputError, match="two dimensions"):
        method.fit(np.zeros(5), Y)
    with pytest.raises(InputError, match="no rows"):
        method.fit(X[:0], Y[:0])
    with pytest.raises(InputError, match="fitted on"):
        method.fit(X, Y).predict(X[:, :-1], 3)
    with pytest.raises(ParameterError, match="k=0"):
        method.predict(X, 0)


def test_the_input_is_not_changed(method, data):
    X, Y = data
    before = X.copy(), Y.copy()
    method.fit(X, Y).predict(X, 3)
    assert (before[0] != X).nnz == 0
    assert (before[1] != Y).nnz == 0


def test_the_same_seed_gives_the_same_bits(method, data):
    assert same_state(clone(method).fit(*data), clone(method).fit(*data))


def test_scores_are_probabilities_in_falling_order_without_repeats(method, data):
    X, Y = data
    ranking = method.fit(X, Y).predict(X, 6)
    assert ranking.labels.shape == ranking.scores.shape == (X.shape[0], 6)
    assert (ranking.scores >= 0).all()
    assert (ranking.scores <= 1).all()
    assert (np.diff(ranking.scores, axis=1) <= 0).all()
    assert (ranking.labels >= -1).all()
    assert (ranking.labels < Y.shape[1]).all()
    for labels, scores in zip(ranking.labels, ranking.scores, strict=True):
        given = labels[labels >= 0]
        assert len(set(given.tolist())) == len(given)
        assert (labels[len(given) :] == -1).all()
        assert (scores[len(given) :] == 0).all()


def test_a_row_alone_ranks_as_in_a_batch(method, data):
    X, Y = data
    method.fit(X, Y)
    together = method.predict(X[:40], 4)
    for row in range(40):
        assert same(method.predict(X[row], 4), together.take(np.array([row])))


def test_a_loaded_model_has_the_same_state_and_rankings(method, data, tmp_path):
    X, Y = data
    names = [f"label {i}" for i in range(Y.shape[1])]
    Tagger(FeaturePipeline(None, n_numeric=X.shape[1]), method.fit(X, Y), names).save(
        tmp_path / "m"
    )
    loaded = Tagger.load(tmp_path / "m")
    assert loaded.method.get_params() == method.get_params()
    assert loaded.label_names == names
    assert same_state(loaded.method, method)
    assert same(loaded.method.predict(X, 4), method.predict(X, 4))
    assert store.size_in_bytes(tmp_path / "m") > 0


def test_more_labels_wanted_than_there_are(method, data):
    X, Y = data
    ranking = method.fit(X, Y).predict(X[:5], Y.shape[1] + 7)
    assert ranking.labels.shape == (5, Y.shape[1] + 7)
    assert (ranking.labels[:, Y.shape[1] :] == -1).all()


def test_a_label_without_examples_is_allowed(method, data):
    X, Y = data
    assert Y[:, -1].nnz == 0  # planted so
    ranking = method.fit(X, Y).predict(X, 3)
    assert (ranking.labels[:, 0] >= 0).all()


def test_rows_without_features_or_labels_are_allowed(method, data):
    X, Y = data
    X = vstack([X, csr_matrix((3, X.shape[1]), dtype=np.float32)]).tocsr()
    Y = vstack([Y, csr_matrix((3, Y.shape[1]), dtype=np.float32)]).tocsr()
    ranking = method.fit(X, Y).predict(X, 3)
    assert np.isfinite(ranking.scores).all()
    assert len(ranking) == X.shape[0]
    assert len(method.predict(X[:0], 3)) == 0


def has_finite_scores(method, X):
    """Return whether `predict` ranks all rows with finite scores."""
    ranking = method.predict(X, 3)
    return bool(np.isfinite(ranking.scores).all()) and len(ranking) == X.shape[0]


def test_one_to_six_rows_are_enough(method, data):
    X, Y = data
    for n in range(1, 7):
        assert has_finite_scores(clone(method).fit(X[:n], Y[:n]), X[:9])


def test_most_rows_may_be_without_labels(method, data):
    X, Y = data
    few = Y[:70].toarray()  # two whole batches, and some rows more
    few[3:] = 0
    assert has_finite_scores(clone(method).fit(X[:70], few), X[:9])
    for row in (0, 7):
        alone = np.zeros((8, Y.shape[1]), np.float32)
        alone[row, 2] = 1
        assert has_finite_scores(clone(method).fit(X[:8], alone), X[:9])


def test_data_without_any_label_are_refused(method, data):
    X, Y = data
    with pytest.raises(InputError, match="no example has a label"):
        method.fit(X, csr_matrix(Y.shape))


def test_held_out_examples_may_be_none_or_lack_the_last_labels(method, data):
    X, Y = data
    for valid in ((X[:0], Y[:0]), (X[80:], csr_matrix((40, Y.shape[1]))), (X[80:], Y[80:, :7])):
        assert has_finite_scores(clone(method).fit(X[:80], Y[:80], valid=valid), X[:9])
    padded = Y[80:].toarray()
    padded[:, 7:] = 0
    narrow = clone(method).fit(X[:80], Y[:80], valid=(X[80:], Y[80:, :7]))
    assert same_state(narrow, clone(method).fit(X[:80], Y[:80], valid=(X[80:], padded)))


def test_held_out_labels_that_training_does_not_have_are_refused(method, data):
    X, Y = data
    with pytest.raises(InputError, match="valid has 12 label columns and Y has 11"):
        method.fit(X[:80], Y[:80, :11], valid=(X[80:], Y[80:]))
    with pytest.raises(InputError, match="pair"):
        method.fit(X[:80], Y[:80], valid=(X[80:],))


@pytest.mark.parametrize("place", [40, 2**30, -1])
def test_columns_out_of_range_are_refused(method, data, place):
    X, Y = data
    broken = X.copy()
    broken.indices[5] = place
    with pytest.raises(InputError, match=r"X has non-zeros outside of its shape \(120, 40\)"):
        method.fit(broken, Y)
    labels = Y.copy()
    labels.indices[5] = place
    with pytest.raises(InputError, match="Y has non-zeros outside"):
        method.fit(X, labels)


def test_numpy_numbers_are_allowed_as_parameters(method, data):
    plain = {name: value for name, value in method.get_params().items() if value is not None}
    numbers = {
        name: np.array([value])[0]
        for name, value in plain.items()
        if isinstance(value, bool | int | float)
    }
    given = clone(method).set_params(**numbers).fit(*data)
    assert same_state(given, method.fit(*data))
    assert json.dumps(given.to_json()) == json.dumps(method.to_json())
    assert same(given.predict(data[0], np.int64(3)), method.predict(data[0], 3))


def test_k_must_be_a_positive_integer(method, data):
    method.fit(*data)
    for k in (2.5, "5", None, True, 0, -1):
        with pytest.raises(ParameterError, match=r"k=.*at least 1"):
            method.predict(data[0], k)


def test_a_failed_fit_leaves_the_method_unfitted(method, data, monkeypatch):
    X, Y = data
    method.fit(X, Y)

    def half_way(self, given):
        type(method)._fit(self, given)
        raise RuntimeError("no more")

    monkeypatch.setattr(method, "_fit", half_way.__get__(method))
    with pytest.raises(RuntimeError, match="no more"):
        method.fit(X[:, :20], Y[:, :6])
    with pytest.raises(NotFittedError):
        method.predict(X, 3)
    monkeypatch.undo()
    assert has_finite_scores(method.fit(X, Y), X)


def test_dense_input_ranks_like_sparse_input(method, data):
    X, Y = data
    sparse = clone(method).fit(X, Y).predict(X, 3)
    dense = clone(method).fit(X.toarray(), Y.toarray()).predict(X.toarray(), 3)
    assert np.array_equal(sparse.labels, dense.labels)
    np.testing.assert_allclose(sparse.scores, dense.scores, atol=1e-6)


def test_explicit_zeros_change_nothing(method, data):
    X, Y = data
    n, width = X.shape
    every_cell = np.tile(np.arange(width), n), np.arange(n + 1) * width
    padded = csr_matrix((X.toarray().ravel(), *every_cell), shape=X.shape)
    assert padded.nnz > X.nnz
    method.fit(X, Y)
    assert same(method.predict(X, 3), method.predict(padded, 3))


class StopAfter(Callback):
    """Interrupts after some batches, as Ctrl-C does."""

    def __init__(self, batches):
        self.left = batches

    def on_batch(self, run):  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)


def test_interrupt_and_resume_reach_the_same_bits(method, data, tmp_path):
    alone = clone(method).fit(*data)
    for batches in (1, 5):
        interrupted = clone(method)
        try:
            interrupted.fit(*data, callbacks=[Checkpoint(tmp_path), StopAfter(batches)])
        except KeyboardInterrupt:
            assert (tmp_path / "checkpoint.safetensors").exists()
        interrupted.fit(*data, callbacks=[Checkpoint(tmp_path, resume=True)])
        assert same_state(interrupted, alone)


class StopAtTheEnd(Callback):
    """Interrupts after the last epoch, or while classifiers are trained."""

    def on_end(self, run):  # noqa: ARG002
        raise KeyboardInterrupt

    def on_work(self, what, done, total):  # noqa: ARG002
        raise KeyboardInterrupt

    def within(self, part):  # noqa: ARG002
        return self


class Counted(Callback):
    batches = 0

    def on_batch(self, run):  # noqa: ARG002
        self.batches += 1


def test_finished_training_is_not_repeated_after_an_interrupt(method, data, tmp_path):
    alone = clone(method).fit(*data)
    checkpoint, counted = Checkpoint(tmp_path), Counted()
    try:
        clone(method).fit(*data, callbacks=[checkpoint, StopAtTheEnd()])
    except KeyboardInterrupt:
        checkpoint.keep()
        assert list(tmp_path.rglob("*.safetensors"))
    else:
        return  # the method reports no progress, as training takes no time
    resumed = clone(method).fit(*data, callbacks=[Checkpoint(tmp_path, resume=True), counted])
    assert same_state(resumed, alone)
    assert counted.batches == 0


def more_data():
    """Return examples with 11 labels, and others with 14 of which 3 are new."""
    X, Y = planted(400, n_labels=14, seed=2)
    new = np.asarray(Y[:, 11:].sum(axis=1)).ravel() > 0
    known = np.flatnonzero(~new)
    return (X[known], Y[known, :11]), (X[200:], Y[200:])


def test_partial_fit_adds_examples_and_labels(method):
    (X, Y), (X_more, Y_more) = more_data()
    if not method.can_update:
        with pytest.raises(UnsupportedError, match=method.name):
            method.fit(X, Y).partial_fit(X_more, Y_more)
        return
    with pytest.raises(NotFittedError):
        clone(method).partial_fit(X, Y)
    method.fit(X, Y)
    with pytest.raises(InputError, match="column for every label"):
        method.partial_fit(X_more, Y_more[:, :10])
    assert not np.isin(method.predict(X_more, 14).labels, np.arange(11, 14)).any()
    again = clone(method).fit(X, Y)
    method.partial_fit(X_more, Y_more)
    assert method.n_labels_ == 14
    ranked = method.predict(X_more, 5).labels
    wanted = Y_more[:, 11:].tocoo()
    found = [label + 11 in ranked[row] for row, label in zip(wanted.row, wanted.col, strict=True)]
    assert np.mean(found) > 0.6  # 5 of 14 by chance: 0.36
    assert same_state(again.partial_fit(X_more, Y_more), method)


def test_an_updated_model_is_saved_loaded_and_updated_again(method, tmp_path):
    if not method.can_update:
        pytest.skip(f"{method.name} cannot be updated")
    (X, Y), (X_more, Y_more) = more_data()
    names = [f"label {i}" for i in range(14)]
    half = X_more.shape[0] // 2
    pipeline = FeaturePipeline(None, n_numeric=X.shape[1])
    method.fit(X, Y).partial_fit(X_more[:half], Y_more[:half])
    Tagger(pipeline, method, names).save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m").method
    assert same_state(loaded, method)
    assert same(loaded.predict(X_more, 5), method.predict(X_more, 5))
    method.partial_fit(X_more[half:], Y_more[half:])
    loaded.partial_fit(X_more[half:], Y_more[half:])
    assert same_state(loaded, method)


def test_memory_is_estimated(method):
    def needed(shape):
        return sum(method.memory(shape, method.resolve(method.get_params(), shape)).values())

    small = needed(Shape(100, 50, 20, 500, 200))
    large = needed(Shape(10**6, 10**6, 10**6, 10**8, 10**7))
    assert 0 < small <= large
