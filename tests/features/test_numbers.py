"""Columns of numbers: ranks whatever their unit, missing values without effect, kept in a model."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import labelspace
from labelspace.data import Columns, Dataset, read
from labelspace.datasets.products import product_records
from labelspace.errors import DataError, InputError, ModelFormatError, ParameterError
from labelspace.features import FeaturePipeline, Tfidf, pipeline_for
from labelspace.features.numbers import WEIGHT, Numbers
from labelspace.metrics.ranking import evaluate

finite = st.floats(-(2.0**100), 2.0**100, width=32)


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


def fitted(values: np.ndarray, weight: float = WEIGHT) -> Numbers:
    names = [f"column {i}" for i in range(values.shape[-1])]
    return Numbers.fit(values, names, weight)


def test_a_value_becomes_its_rank() -> None:
    numbers = fitted(column(*range(101)), weight=1.0)
    ranks = numbers.transform(column(-5, 0, 25, 50, 75, 100, 1e6)).ravel()
    np.testing.assert_allclose(ranks, [-1, -1, -0.5, 0, 0.5, 1, 1], atol=1e-6)


def test_neither_unit_nor_outliers_matter() -> None:
    prices = np.random.default_rng(0).lognormal(8, 2, 501).astype(np.float32)
    expected = fitted(column(*prices)).transform(column(*prices))
    dear = prices.copy()
    dear[np.argmax(dear)] = 1e30
    for other in (prices * 1000 - 5, dear):
        found = fitted(column(*other)).transform(column(*other))
        np.testing.assert_allclose(found, expected, atol=0.07 * WEIGHT)


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    numbers = fitted(column(*[0] * 90, *[1] * 10), weight=1.0)
    low, high = numbers.transform(column(0, 1)).ravel()
    assert -0.2 < low < 0 < 0.8 < high <= 1
    assert fitted(column(7, 7, 7)).transform(column(7, 8)).tolist() == [[0], [0]]


def test_missing_values_have_no_effect_and_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    values = np.array([[1, np.nan], [2, np.nan], [3, np.nan], [np.nan, np.nan]], np.float32)
    with caplog.at_level(logging.WARNING):
        numbers = fitted(values, weight=1.0)
    assert "5 of 8 numbers are missing" in caplog.text
    whole = fitted(np.hstack([values[:3, :1]] * 2), weight=1.0)
    np.testing.assert_array_equal(
        numbers.transform(values)[:3, 0], whole.transform(values[:3])[:, 0]
    )
    assert not numbers.transform(values)[3].any()
    assert not numbers.transform(values)[:, 1].any()


@given(
    train=st.lists(st.tuples(finite, finite), min_size=1, max_size=50),
    new=st.lists(st.tuples(finite, finite | st.just(np.nan)), min_size=1, max_size=20),
)
@settings(max_examples=100, deadline=None)
def test_rows_are_short_and_order_is_kept(train, new) -> None:
    numbers = fitted(np.array(train, np.float32))
    values = np.array(new, np.float32)
    features = numbers.transform(values)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    assert (np.linalg.norm(features, axis=1) <= WEIGHT * 1.0001).all()
    assert (np.diff(features[np.argsort(values[:, 0]), 0]) >= -1e-7).all()
    back = Numbers.from_state(json.loads(json.dumps(numbers.state())), 2)
    np.testing.assert_array_equal(back.transform(values), features)
    for row, alone in enumerate(features):
        np.testing.assert_array_equal(back.transform(values[row : row + 1])[0], alone)


@pytest.mark.parametrize(
    "state",
    [
        [],
        {"quantiles": [[1.0]], "names": ["a"]},
        {"quantiles": [[1.0], [2.0, 1.0]]},
        {"quantiles": [[1.0], [float("nan")]]},
        {"quantiles": [[1.0], ["2"]]},
        {"quantiles": [[1.0], None]},
        {"weight": float("inf")},
        {"weight": None},
        {"names": ["a"]},
        {"names": ["a", 1]},
        {"names": None},
    ],
)
def test_a_scale_that_is_none(state) -> None:
    right = {"names": ["a", "b"], "quantiles": [[1.0], [2.0]], "weight": 0.3}
    assert Numbers.from_state(right, 2).names == ["a", "b"]
    with pytest.raises(ModelFormatError, match="not the scale of 2 numbers"):
        Numbers.from_state(right | state if isinstance(state, dict) else state, 2)


def test_what_is_no_number() -> None:
    for wrong in (column(np.inf), np.array([["a"]]), np.ones(3)):
        with pytest.raises(InputError):
            fitted(wrong)


def test_a_model_without_a_scale_takes_numbers_as_they_are() -> None:
    both = Dataset(
        csr_matrix(np.eye(2)),
        features=column(3, 4000),
        texts=["aa bb", "aa cc"],
        number_names=["price"],
    )
    pipeline = pipeline_for(both, "tfidf").fit(both)
    params, arrays = pipeline.state()
    assert params.pop("numbers")
    old = FeaturePipeline.from_state(params, arrays)
    np.testing.assert_array_equal(old.transform(both)[:, -1].toarray(), both.features)
    with pytest.raises(InputError, match="NaN"):
        old.transform(replace(both, features=column(np.nan, 1)))
    with pytest.raises(ModelFormatError, match="n_numeric"):
        FeaturePipeline.from_state(params | {"n_numeric": "1"}, arrays)


def test_columns_of_a_table_are_scaled_and_named_and_other_dense_features_are_not() -> None:
    rows = [{"text": f"aa b{i % 2}", "labels": ["x"], "price": 1000.0 * i} for i in range(9)]
    table = read(rows, columns=Columns(numbers=("price",)))
    pipeline = pipeline_for(table, "tfidf").fit(table)
    assert pipeline.feature_names()[-1] == "price"
    assert abs(pipeline.transform(table)[:, [-1]].toarray()).max() <= WEIGHT
    vectors = replace(table, number_names=None)
    plain = pipeline_for(vectors, "tfidf").fit(vectors)
    assert plain.feature_names()[-1] == "feature 0"
    np.testing.assert_array_equal(plain.transform(vectors)[:, [-1]].toarray(), table.features)
    with pytest.raises(DataError, match="2 names of numeric columns for 1 features"):
        replace(table, number_names=["price", "weight"])


def test_features_that_are_none() -> None:
    both = Dataset(csr_matrix(np.eye(2)), texts=["aa bb", "aa cc"])
    for wrong in (5, Tfidf, b"tfidf", ["tfidf"]):
        with pytest.raises(ParameterError, match=r"features=.*: expected"):
            pipeline_for(both, wrong)
    own = Tfidf()
    assert pipeline_for(both, own).text is own


# A price beside the text ----------------------------------------------------------------------


def shop(with_price: bool) -> tuple[Dataset, Dataset]:
    """Return training and test data with prices in the thousands, one in twenty missing."""
    records = list(product_records(1600, seed=3))
    names = sorted({name for record in records for name in record["labels"]})
    number = {name: i for i, name in enumerate(names)}
    rows = [(row, number[n]) for row, record in enumerate(records) for n in record["labels"]]
    pairs = np.array(rows).T
    labels = csr_matrix((np.ones(len(rows), np.float32), pairs), shape=(1600, len(names)))
    rng = np.random.default_rng(0)
    price = rng.lognormal(8, 1.5, 1600).astype(np.float32)
    price[rng.random(1600) < 0.05] = np.nan
    whole = Dataset(
        labels,
        features=price[:, None] if with_price else None,
        number_names=["price"] if with_price else None,
        texts=[record["text"] for record in records],
        label_names=names,
    )
    return whole.take(np.arange(1200)), whole.take(np.arange(1200, 1600))


@pytest.mark.parametrize(
    ("method", "params"),
    [("knn", {}), ("linear", {}), ("fusion", {"members": "knn,linear"})],
)
def test_a_price_never_costs_more_than_noise(method: str, params: dict[str, str]) -> None:
    figures = []
    for with_price in (False, True):
        train, test = shop(with_price)
        tagger = labelspace.train(train, method=method, **params)
        figures.append(evaluate(tagger.predict(test), test.labels)["P@1"])
    assert figures[0] > 85
    assert abs(figures[0] - figures[1]) < 2
