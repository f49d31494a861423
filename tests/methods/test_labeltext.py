"""Label texts as documents: the cosine by hand, labels without examples, updates, label texts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

import labelspace as ls
from labelspace.errors import InputError, ModelFormatError
from labelspace.methods.labeltext import LabelText
from support.fitted import restored
from support.named import N_LABELS, N_SEEN, WORDS, named

TEXTS = np.array([[0, 2, 0, 0], [0, 0, 1, 1], [3, 0, 0, 4]], np.float32)
X = np.array([[2, 0, 0, 0], [0, 1, 1, 0]] * 5, np.float32)
Y = np.array([[1, 0, 0], [1, 1, 0]] * 5, np.float32)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def by_hand(weight):
    """Return the documents of TEXTS with the means of X, written out."""
    means = np.zeros_like(TEXTS)
    for label in range(2):
        means[label] = unit(unit(X)[Y[:, label] > 0].sum(axis=0))
    return unit(unit(TEXTS) + weight * means)


@pytest.mark.parametrize("weight", [0.0, 1.0, 0.5])
def test_labels_are_ranked_by_the_cosine_of_their_documents(weight):
    model = LabelText(examples=weight, prune=0.0).fit(X, Y, label_texts=TEXTS)
    queries = np.array([[1, 1, 0, 0], [0, 0, 1, 3], [1, 0, 0, 1]], np.float32)
    cosines = unit(queries) @ by_hand(weight).T
    ranked = model.predict(queries, 3)
    for row in range(3):
        found = ranked.labels[row][ranked.labels[row] >= 0]
        assert found.tolist() == [at for at in np.argsort(-cosines[row]) if cosines[row, at] > 0]
    line = model.calibration_
    p = np.clip(cosines.max(axis=1), 1e-4, 1 - 1e-4)
    odds = line.slope * np.log(p / (1 - p)) + line.offset
    assert ranked.scores[:, 0] == pytest.approx(1 / (1 + np.exp(-odds)), rel=1e-4)


def test_a_part_of_the_text_of_a_label_without_examples_is_enough():
    model = LabelText().fit(X, Y, label_texts=TEXTS)
    assert model.predict([[0, 0, 0, 1]], 1).labels.tolist() == [[2]]
    hidden = model.without_examples_of(np.array([0]))
    assert hidden.predict([[1, 0, 0, 0]], 3).labels.tolist() == [[2, -1, -1]]
    assert model.predict([[1, 0, 0, 0]], 3).labels.tolist() == [[2, 0, -1]]


def test_updates_add_examples_and_labels():
    whole = LabelText(prune=0.0).fit(X, Y, label_texts=TEXTS)
    model = LabelText(prune=0.0).fit(X[:4], Y[:4], label_texts=TEXTS).partial_fit(X[4:], Y[4:])
    assert model.centroids_.toarray() == pytest.approx(whole.centroids_.toarray(), abs=1e-6)
    assert model.lengths_ == pytest.approx(whole.lengths_)
    model.partial_fit([[0, 0, 0, 2.0]], [[0, 0, 0, 1]])
    assert model.predict([[0, 0, 0, 1.0]], 1).labels.tolist() == [[3]]


def test_small_entries_of_means_are_left_out():
    model = LabelText(prune=0.6).fit(X, Y, label_texts=TEXTS)
    # The mean of label 0 is (1, 0.7, 0.7, 0), scaled to length 1.
    assert model.centroids_[0].nonzero()[1].tolist() == [0]


def test_explanations_are_shares_of_the_cosine():
    model = LabelText(prune=0.0).fit(X, Y, label_texts=TEXTS)
    query = np.array([[1, 1, 0, 0]], np.float32)
    found = model.explain(query, 0)
    assert sum(share for _, share in found.features) == pytest.approx(
        float((unit(query) @ by_hand(1.0)[0]).item()), rel=1e-5
    )
    assert {feature for feature, _ in found.features} == {0, 1}


@pytest.mark.parametrize("texts", [TEXTS[:2], TEXTS[:, :3]])
def test_label_texts_of_another_size_are_refused(texts):
    with pytest.raises(InputError):
        LabelText().fit(X, Y, label_texts=texts)


def test_damaged_lengths_are_refused():
    model = LabelText().fit(X, Y)
    with pytest.raises(ModelFormatError, match="lengths"):
        restored(model, {**model.state(), "lengths": np.zeros(2)})


def described(*args, **kwargs):
    """Return `named` data of which every label has a description with two more words."""
    data = named(*args, **kwargs)
    texts = data.label_texts
    words = tuple(f"{WORDS[at]} with moss{at} and salt{at}" for at in range(len(texts)))
    return ls.Dataset(
        data.labels,
        texts=data.texts,
        label_names=data.label_names,
        label_texts=ls.LabelTexts(texts.ids, texts.preferred, descriptions=words),
    )


def moss():
    """Return described data in which the words of all descriptions occur."""
    data = described(200)
    rows = csr_matrix((np.ones(N_LABELS, np.float32), (np.arange(N_LABELS), [0] * N_LABELS)),
                      shape=(N_LABELS, N_LABELS))  # fmt: skip
    return ls.Dataset(
        vstack([data.labels, rows], "csr"),
        texts=[*data.texts, *(f"moss{at} here" for at in range(N_LABELS))],
        label_names=data.label_names,
        label_texts=data.label_texts,
    )


def test_a_model_finds_labels_by_words_of_their_descriptions(tmp_path):
    tagger = ls.train(moss(), method="labeltext", progress=False)
    assert tagger.method.n_labels_ == N_LABELS
    assert tagger.pipeline.matcher is None
    for model in (tagger, _saved(tagger, tmp_path)):
        for label in range(N_SEEN, N_LABELS):
            assert model.tag(f"grey moss{label}", k=1)[0].id == f"c{label}"


def _saved(tagger, folder):
    tagger.save(folder / "model")
    return ls.load(folder / "model")


def test_it_is_a_member_of_a_fusion(tmp_path):
    tagger = ls.train(moss(), method="fusion", members="knn,labeltext,lexical", progress=False)
    member = next(each for each in tagger.method.members_ if each.name == "labeltext")
    assert member.texts_.nnz >= N_LABELS
    assert member.n_features_in_ == tagger.pipeline.text.n_features
    test = named(40, seed=3, n_labels=N_LABELS)
    before, again = tagger.predict(test, 5), _saved(tagger, tmp_path).predict(test, 5)
    assert np.array_equal(before.labels, again.labels)
    assert np.array_equal(before.scores, again.scores)
    # Without the member, a label would be no candidate by its description.
    assert f"c{N_SEEN}" in {tag.id for tag in tagger.tag(f"grey moss{N_SEEN}", k=N_LABELS)}
    length = member.lengths_[1]
    tagger.update(named(60, seed=4))
    assert member.lengths_[1] > length
