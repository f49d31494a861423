"""Arguments of `fit` and `partial_fit`: what is refused, and what a method receives."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.errors import InputError, UnsupportedError
from labelspace.methods.arguments import fit_data, refuse_not_taken, update_data
from labelspace.methods.knn import KNN
from labelspace.methods.labeltext import LabelText
from labelspace.methods.lexical import Lexical

X, Y = np.eye(3, 8), np.eye(3)
NOTHING = {
    "valid": None,
    "taxonomy": None,
    "label_names": None,
    "label_texts": None,
    "name_matches": False,
    "callbacks": (),
}


def test_further_arguments_are_refused_unless_the_method_declares_them():
    refuse_not_taken(KNN(), label_names=None, label_texts=None, name_matches=False)
    refuse_not_taken(LabelText(), label_texts=np.eye(3))
    refuse_not_taken(Lexical(), name_matches=True)
    with pytest.raises(UnsupportedError, match=r"knn does not take label_texts.*takes_label_texts"):
        refuse_not_taken(KNN(), label_texts=np.eye(3))
    with pytest.raises(UnsupportedError, match="labeltext does not take name_matches"):
        refuse_not_taken(LabelText(), label_texts=np.eye(3), name_matches=True)


def test_rows_of_label_texts_have_the_columns_before_the_match_columns():
    data = fit_data(X, Y, **{**NOTHING, "label_texts": np.ones((3, 2)), "name_matches": True})
    assert data.n_text_features == 2
    assert data.label_texts.shape == (3, 2)
    with pytest.raises(InputError, match="fitted on 2"):
        fit_data(X, Y, **{**NOTHING, "label_texts": np.ones((3, 8)), "name_matches": True})
    with pytest.raises(InputError, match="2 rows for 3 labels"):
        fit_data(X, Y, **{**NOTHING, "label_texts": np.ones((2, 8))})
    with pytest.raises(InputError, match="fewer than 2 for each of 3 labels"):
        fit_data(X[:, :5], Y, **{**NOTHING, "name_matches": True})


def test_held_out_labels_get_the_columns_that_they_lack_and_must_not_have_more():
    data = fit_data(X, Y, **{**NOTHING, "valid": (X, Y[:, :2])})
    assert data.valid[1].shape == (3, 3)
    with pytest.raises(InputError, match="valid has 4 label columns and Y has 3"):
        fit_data(X, Y, **{**NOTHING, "valid": (X, np.eye(3, 4))})
    with pytest.raises(InputError, match="must be a pair"):
        fit_data(X, Y, **{**NOTHING, "valid": X[:1]})


def test_an_update_needs_a_column_for_every_known_label():
    given = {"n_labels": 3, "name_matches": False, "callbacks": ()}
    assert update_data(X, np.eye(3, 5), n_features=8, **given).Y.shape == (3, 5)
    with pytest.raises(InputError, match="Y has 2 columns and the model 3 labels"):
        update_data(X, Y[:, :2], n_features=8, **given)
    with pytest.raises(InputError, match="fitted on 7"):
        update_data(X, Y, n_features=7, **given)
