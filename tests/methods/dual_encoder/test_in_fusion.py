"""The dual encoder as a member of a fusion: labels that the combination hides, saving, updates."""

from __future__ import annotations

import numpy as np
import pytest

import labelspace as ls
from labelspace.methods.dual_encoder.update import TRAINED
from labelspace.methods.fusion import method as fusion_method
from support.named import N_LABELS, N_SEEN, named

SETTINGS = {
    "members": "knn,lexical,dual-encoder",
    "member_settings": "dual-encoder.dim=16; dual-encoder.epochs=3",
}


@pytest.fixture(scope="module")
def trained():
    """Return a model, the labels that its combination hid, and the labels with examples."""
    hidden = []
    before = fusion_method.labels_hidden

    def noted(*args):
        hidden.append(before(*args))
        return hidden[-1]

    patch = pytest.MonkeyPatch()
    patch.setattr(fusion_method, "labels_hidden", noted)
    try:
        data = named(400)
        tagger = ls.train(data, method="fusion", progress=False, **SETTINGS)
    finally:
        patch.undo()
    return tagger, hidden[0]


def member_of(tagger):
    return next(each for each in tagger.method.members_ if each.name == "dual-encoder")


def test_it_is_not_trained_on_labels_that_the_combination_hides(trained):
    tagger, hidden = trained
    counts = member_of(tagger).counts_
    assert len(hidden) > 0
    assert np.flatnonzero(counts[:N_SEEN] != TRAINED).tolist() == hidden.tolist()
    # Once the combination is fitted, the held-out examples give them a vector.
    assert (counts[hidden] > 0).all()
    assert (counts[N_SEEN:] == 0).all()


def test_a_loaded_model_ranks_alike_and_is_updated(trained, tmp_path):
    tagger, _ = trained
    test = named(40, seed=3, n_labels=N_LABELS)
    tagger.save(tmp_path / "model")
    again = ls.load(tmp_path / "model")
    before, after = tagger.predict(test, 5), again.predict(test, 5)
    assert np.array_equal(before.labels, after.labels)
    assert np.array_equal(before.scores, after.scores)
    vectors = member_of(again).label_vectors_
    again.update(named(30, seed=8, n_labels=N_LABELS))
    grown = member_of(again).counts_[N_SEEN:]
    assert (grown > 0).any()
    assert np.abs(member_of(again).label_vectors_ - vectors).max() > 0
