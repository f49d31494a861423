"""Label vectors in fewer bits: precision, what is stored, updates, and models of before."""

from __future__ import annotations

import numpy as np
import pytest

import labelspace as ls
from labelspace._core.arrays import read_arrays, write_arrays
from labelspace._core.schema import check_arrays
from labelspace.errors import ModelFormatError
from labelspace.methods.glas.method import GLaS
from labelspace.metrics.ranking import evaluate
from support.fitted import resolved
from support.planted import planted

SMALL = {"dim": 16, "epochs": 8, "batch_size": 32, "n_negatives": 6, "lr": 0.02, "seed": 1}
CODED = ("float16", "int8")


@pytest.fixture(scope="module")
def data():
    X, Y = planted(600, n_features=60, n_labels=20, seed=3)
    return (X[:450], Y[:450]), (X[450:], Y[450:])


@pytest.fixture(scope="module")
def models(data):
    return {name: GLaS(**SMALL, precision=name).fit(*data[0]) for name in ("float32", *CODED)}


def loaded(arrays, data, **options):
    model = GLaS(**{**SMALL, **options})
    model.n_features_in_, model.n_labels_ = 60, 20
    resolved(model, *data[0])
    check_arrays(model.schema(arrays), arrays, features=60, labels=20)
    model.load_state(arrays)
    return model


def test_fewer_bits_rank_nearly_the_same(models, data):
    X, Y = data[1]
    points = {name: evaluate(model.predict(X, 5), Y)["P@1"] for name, model in models.items()}
    for name in CODED:
        assert abs(points[name] - points["float32"]) < 2.0
    whole = models["float32"].label_vectors_
    np.testing.assert_allclose(models["float16"].label_vectors_, whole, atol=1e-3)
    np.testing.assert_allclose(models["int8"].label_vectors_, whole, atol=0.01)


@pytest.mark.parametrize("name", CODED)
def test_a_loaded_model_searches_the_numbers_of_the_file(models, data, tmp_path, name):
    X = data[1][0]
    write_arrays(tmp_path / "model", models[name].state())
    arrays, _ = read_arrays(tmp_path / "model")
    back = loaded(arrays, data, precision=name)
    for part in back.blend_.index.vectors.arrays.values():
        assert any(np.shares_memory(part, array) for array in arrays.values())
    np.testing.assert_array_equal(back.predict(X, 5).labels, models[name].predict(X, 5).labels)


def test_vectors_and_examples_of_32_bits_are_not_copied_either(models, data, tmp_path):
    write_arrays(tmp_path / "model", models["float32"].state())
    arrays, _ = read_arrays(tmp_path / "model")
    back = loaded(arrays, data)
    assert np.shares_memory(back.blend_.index.vectors, arrays["vectors.full"])
    assert np.shares_memory(back.blend_.voters.codes, arrays["voters.grouped"])


@pytest.mark.parametrize("name", ["float32", *CODED])
def test_an_update_does_the_same_before_and_after_a_load(data, name):
    (X, Y), (more, labels) = data
    model = GLaS(**{**SMALL, "epochs": 2}, precision=name).fit(X, Y)
    back = loaded(model.state(), data, precision=name, epochs=2)
    for each in (model, back):
        each.partial_fit(more[:40], labels[:40])
    for key, array in model.state().items():
        np.testing.assert_array_equal(back.state()[key], array)


def test_models_that_hold_the_trained_vectors_can_be_loaded(models, data):
    """Version 2 stored them, and codes of examples in their own order."""
    model, X = models["float32"], data[1][0]
    arrays = {k: a for k, a in model.state().items() if not k.startswith(("vectors.", "voters."))}
    arrays["labels"] = model.space_.trained_vectors()
    voters = model.blend_.voters
    own = {k: a for k, a in voters.state().items() if k not in ("grouped", "members", "indptr")}
    own |= {"cluster_of": voters.cluster_of.astype(np.int32), "codes": voters.codes[voters.places]}
    arrays |= {f"voters.{key}": array for key, array in own.items()}
    back = loaded(arrays, data)
    np.testing.assert_array_equal(back.predict(X, 5).labels, model.predict(X, 5).labels)
    np.testing.assert_allclose(back.predict(X, 5).scores, model.predict(X, 5).scores, atol=1e-6)


@pytest.mark.parametrize("name", ["float32", *CODED])
def test_vectors_are_read_at_load_only_to_verify_them(models, name):
    document, arrays = models[name].to_json(), models[name].state()
    part = "vectors.lengths"
    sizes = {"n_features": 60, "n_labels": 20}
    broken = {**arrays, part: np.full_like(arrays[part], np.nan)}
    GLaS.restored(document, broken, **sizes, verify=False)
    with pytest.raises(ModelFormatError, match="out of range"):
        GLaS.restored(document, broken, **sizes)
    members = arrays["voters.members"] + 1
    with pytest.raises(ModelFormatError, match="out of range"):
        GLaS.restored(document, {**arrays, "voters.members": members}, **sizes, verify=False)


def test_a_saved_model_that_is_not_verified_answers_the_same(tmp_path):
    rows = [{"text": f"a{i % 3} b{i % 5}", "labels": [f"l{i % 3}"]} for i in range(60)]
    tagger = ls.train(rows, method="glas", dim=8, epochs=1)
    tagger.save(tmp_path / "model")
    one, other = (ls.load(tmp_path / "model", verify=verify) for verify in (True, False))
    assert one.tag("a1 b2") == other.tag("a1 b2") == tagger.tag("a1 b2")
    assert (one.header["method"], one.method.version) == ("glas@3", 3)
