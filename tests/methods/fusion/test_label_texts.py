"""Fusion with label texts: a lexical member, boosted trees, labels without examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import labelspace as ls
from labelspace.components.boosted_stacking import BoostedCombiner
from labelspace.components.stacking import Combiner
from labelspace.components.training_data import Shape
from labelspace.errors import InputError, ModelFormatError
from labelspace.methods.fusion.plan import LONG_TEXTS, plan_members
from labelspace.model.plan import plan_training
from support.named import N_LABELS, N_SEEN, named

MEMBERS = "knn,linear,lexical"


@pytest.fixture(scope="module")
def tagger():
    return ls.train(named(400), method="fusion", members=MEMBERS)


@pytest.fixture(scope="module")
def test_set():
    return named(80, seed=3, n_labels=N_LABELS)


def test_labels_without_examples_are_found(tagger, test_set):
    ranked = tagger.predict(test_set, 5).labels
    pairs = [(row, label) for row, label in zip(*test_set.labels.nonzero(), strict=True)]
    unseen = [label in ranked[row] for row, label in pairs if label >= N_SEEN]
    seen = [label in ranked[row] for row, label in pairs if label < N_SEEN]
    assert np.mean(unseen) > 0.7
    assert np.mean(seen) > 0.8
    assert isinstance(tagger.method.combiner_, BoostedCombiner)


def test_members_take_their_own_columns(tagger):
    widths = {member.name: member.n_features_in_ for member in tagger.method.members_}
    assert widths["lexical"] == 2 * N_LABELS
    assert widths["knn"] == widths["linear"] == tagger.pipeline.text.n_features
    assert tagger.method.n_features_in_ == widths["lexical"] + widths["knn"]


def test_a_loaded_model_and_single_texts_rank_alike(tagger, test_set, tmp_path):
    tagger.save(tmp_path / "m")
    loaded = ls.load(tmp_path / "m")
    together, after = tagger.predict(test_set, 5), loaded.predict(test_set, 5)
    assert np.array_equal(together.labels, after.labels)
    assert np.array_equal(together.scores, after.scores)
    assert [loaded.tag(text) for text in test_set.texts] == tagger.tag_many(test_set.texts)


def test_explanations_name_the_match(tagger):
    found = tagger.explain("bright pencils and quiet things.", "pencil")
    assert "pencil (name in the text)" in dict(found.features)


def test_only_and_exclude_reach_labels_without_examples(tagger):
    text = "pencils and orchids"
    assert {tag.name for tag in tagger.tag(text, only=["pencil"])} <= {"pencil"}
    assert "pencil" not in {tag.name for tag in tagger.tag(text, exclude=["pencil"])}


def test_without_a_member_that_uses_them_label_texts_change_nothing():
    data = named(120)
    tagger = ls.train(data, method="fusion", members="knn,linear")
    plain = ls.train(data, method="fusion", members="knn,linear", labels=None)
    assert tagger.pipeline.matcher is None
    assert tagger.method.n_labels_ == N_SEEN
    assert type(tagger.method.combiner_) is Combiner
    assert np.array_equal(tagger.predict(data, 3).labels, plain.predict(data, 3).labels)


@pytest.mark.parametrize("objective", ["psp", "f1"])
def test_other_objectives(objective):
    tagger = ls.train(named(200), method="fusion", members="knn,lexical", objective=objective)
    assert len(tagger.tag("old pencils", k=2)) > 0


def test_copies_of_members_and_given_validation():
    tagger = ls.train(
        named(150), valid=named(60, seed=2), method="fusion", members="knn,lexical", ensemble=2
    )
    assert [member.name for member in tagger.method.members_] == ["knn", "lexical"] * 2
    assert tagger.tag("pencils", k=1)[0].name == "pencil"


def test_auto_adds_the_lexical_member():
    plan = plan_training(named(60), method="fusion")
    assert plan.parameters["members"][0]["method"] == "lexical"
    assert any(purpose.startswith("lexical:") for purpose in plan.memory)


def test_damaged_columns_are_refused(tagger):
    method = tagger.method
    arrays = method.state()
    sizes = {"n_features": method.n_features_in_, "n_labels": method.n_labels_}
    for name in ("n_text", "combiner.counts"):
        with pytest.raises(ModelFormatError):
            ls.Fusion.restored(method.to_json(), {**arrays, name: arrays[name] + 10**6}, **sizes)


def test_an_update_counts_further_matches_and_adds_labels(test_set, tmp_path):
    model = ls.train(named(400), method="fusion", members=MEMBERS)
    known = model.predict(test_set, 5)
    lexical = next(each for each in model.method.members_ if each.name == "lexical")
    before = lexical.counts_.copy()
    pencil = model.names().index("pencil")
    rows = [{"text": "hidden3 hidden5 hidden7", "labels": ["airship"]}] * 20
    model.update([*rows, {"text": "bright pencils.", "labels": [model.label_names[pencil]]}])
    assert model.label_names[-1] == "airship"
    assert "airship" in {tag.name for tag in model.tag("hidden3 hidden5 hidden7", k=3)}
    counts = lexical.counts_
    assert counts.shape == (N_LABELS + 1, 5)
    assert (counts[pencil] - before[pencil]).tolist() == [1, 1, 1, 1, 1]
    again = model.predict(test_set, 5)
    assert np.mean(again.labels[:, 0] == known.labels[:, 0]) > 0.8
    model.save(tmp_path / "m")
    loaded = ls.load(tmp_path / "m").predict(test_set, 5)
    assert np.array_equal(loaded.labels, again.labels)
    assert np.array_equal(loaded.scores, again.scores)
    assert model.neighbours("hidden3", k=1)
    assert model.explain("bright pencils", "pencil").examples


def test_an_update_can_name_new_labels_and_rename_others(test_set, tmp_path):
    model = ls.train(named(400), method="fusion", members=MEMBERS)
    pencil = model.names().index("pencil")
    file = tmp_path / "more.tsv"
    file.write_text(f"id\tname@en\nx1\tairship\nx2\tballoon\nc{pencil}\tcrayon\n")

    def first(tagger, name):
        return tagger.tag(f"bright {name}s and old. And more of it.", k=1)[0].name

    assert first(model, "pencil") == "pencil"
    assert first(model, "crayon") != "pencil"
    # Of the new labels, the first has an example, in which it is not named.
    model.update([{"text": "quiet hidden3", "labels": ["x1", "c3"]}], labels=file)
    assert model.label_names[-2:] == ["x1", "x2"]
    for name in ("airship", "balloon", "crayon"):
        assert first(model, name) == name
    assert first(model, "pencil") != "crayon"
    assert model.method.n_features_in_ == model.pipeline.n_features
    again = model.predict(test_set, 5)
    model.save(tmp_path / "m")
    loaded = ls.load(tmp_path / "m")
    assert np.array_equal(loaded.predict(test_set, 5).scores, again.scores)
    assert "airship (name in the text)" in dict(loaded.explain("airships", "airship").features)
    # A label without a name needs no columns; it has them once it is named.
    loaded.update([{"text": "quiet hidden5", "labels": ["x3"]}])
    file.write_text("id\tname@en\tname@de\nx3\tmeteor\tMeteor\nx4\tcomet\tKomet\n")
    loaded.update([{"text": "quiet hidden6", "labels": ["x3"]}], labels=file)
    assert loaded.label_names[-2:] == ["x3", "x4"]
    assert [first(loaded, name) for name in ("comet", "meteor")] == ["comet", "meteor"]
    assert loaded.pipeline.matcher.languages == ("en", "de")


def test_labels_can_be_added_without_examples(tagger):
    method = tagger.method
    other = ls.Fusion.restored(
        method.to_json(),
        method.state(),
        n_features=method.n_features_in_,
        n_labels=method.n_labels_,
    )
    width = other.n_features_in_ + 4
    other.partial_fit(np.zeros((0, width)), np.zeros((0, N_LABELS + 2)), name_matches=True)
    assert (other.n_features_in_, other.n_labels_) == (width, N_LABELS + 2)
    X = np.zeros((1, width), np.float32)
    X[0, -2:] = 9_000_000.0, 1_000.0  # a match of the last label
    assert N_LABELS + 1 in other.predict(X, 3).labels[0]
    with pytest.raises(InputError, match=f"fitted on {width + 2}"):
        other.partial_fit(X, np.ones((1, N_LABELS + 3)), name_matches=True)
    plain = ls.Fusion(members="knn").fit(np.eye(3), np.eye(3))
    with pytest.raises(InputError, match="without match columns"):
        plain.partial_fit(np.eye(3), np.eye(3), name_matches=True)


def test_auto_compares_texts_of_labels_that_have_descriptions():
    shape = Shape(
        points=500, features=900, labels=40, feature_nnz=9000, label_nnz=700, match_nnz=300
    )
    methods = [member.method for member in plan_members("auto", shape)]
    assert "lexical" in methods
    assert "labeltext" not in methods
    described = replace(shape, label_text_nnz=40 * LONG_TEXTS)
    assert [member.method for member in plan_members("auto", described)][:2] == [
        "lexical",
        "labeltext",
    ]
