"""scikit-learn's own checks of estimators, as far as they make sense for a ranking."""

from __future__ import annotations

import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from labelspace.features import Hashing, StaticVectors, Tfidf, Tokens, WordVectors
from labelspace.methods.baselines import MostCommon
from labelspace.methods.fusion.method import Fusion
from labelspace.methods.knn import KNN
from labelspace.methods.linear import Linear
from labelspace.metrics.ranking import measure


class BestScore:
    """Return the score of the best label as an array, which is what the checks compare."""

    def predict(self, X):
        return super().predict(X, 1).scores

    def score(self, X, Y):
        return measure("P@1", super().predict(X, 1), Y) / 100.0


class CheckedKNN(BestScore, KNN):
    pass


class CheckedLinear(BestScore, Linear):
    pass


class CheckedMostCommon(BestScore, MostCommon):
    pass


class CheckedFusion(BestScore, Fusion):
    pass


OWN_MESSAGE = "the error is raised; its message names the shape or type in this package's words"
EXPECTED_FAILURES = {
    "check_fit_score_takes_y": "partial_fit is there for all methods; some raise UnsupportedError",
    "check_n_features_in_after_fitting": OWN_MESSAGE,
    "check_complex_data": OWN_MESSAGE,
    "check_fit2d_predict1d": OWN_MESSAGE,
    "check_dtype_object": "arrays of objects are refused, also where they hold numbers",
    "check_estimators_empty_data_messages": "examples without features are ranked by frequency",
}
METHODS = [
    CheckedKNN(neighbours=3),
    CheckedLinear(),
    CheckedMostCommon(),
    CheckedFusion(members="linear,knn"),
]


def expected_failures(_):
    return EXPECTED_FAILURES


# The checks train on a few rows of random numbers, which some methods warn of.
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(METHODS, expected_failed_checks=expected_failures)
def test_methods(estimator, check):
    check(estimator)


# scikit-learn leaves out all checks for transformers of texts; these need no data.
@pytest.mark.parametrize("features", [Tfidf(), Hashing(), StaticVectors(), Tokens(), WordVectors()])
@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_get_params_invariance",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_valid_tag_types",
    ],
)
def test_text_features(features, check):
    getattr(estimator_checks, check)(type(features).__name__, clone(features))
