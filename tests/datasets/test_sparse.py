"""Generated sparse data: the requested shape, learnable, the same bits however it is cut."""

from __future__ import annotations

import dataclasses
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, vstack

from labelspace.data.dataset import Dataset
from labelspace.data.formats.xc import read_xc
from labelspace.datasets import sparse as synthetic_sparse
from labelspace.datasets.catalogue import find
from labelspace.datasets.sparse import (
    AMAZON_670K,
    SparseShape,
    iter_sparse,
    make_sparse,
    write_sparse,
)
from labelspace.errors import ParameterError

SMALL = SparseShape(300, 2_000, 400, nnz=30, labels_per_point=3)

shapes = st.builds(
    SparseShape,
    points=st.integers(1, 40),
    features=st.integers(60, 500),
    labels=st.integers(24, 300),
    nnz=st.floats(1, 30),
    labels_per_point=st.floats(1, 12),
    tail_exponent=st.floats(0, 4),
)


def same_matrix(one: csr_matrix, other: csr_matrix) -> bool:
    return (
        one.shape == other.shape
        and np.array_equal(one.indptr, other.indptr)
        and np.array_equal(one.indices, other.indices)
        and np.array_equal(one.data, other.data)
    )


@settings(max_examples=60, deadline=None)
@given(shapes, st.integers(0, 2**40), st.integers(0, 10**12))
def test_rows_are_well_formed_for_any_shape(shape: SparseShape, seed: int, start: int) -> None:
    data = make_sparse(shape, seed, start=start)
    features, labels = data.features, data.labels
    assert features.shape == (shape.points, shape.features)
    assert labels.shape == (shape.points, shape.labels)
    for matrix in (features, labels):
        assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
        assert matrix.data.dtype == np.float32
        for row in range(shape.points):
            indices = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
            assert len(indices) > 0
            assert (np.diff(indices) > 0).all()  # sorted, and none twice
            assert indices[0] >= 0
            assert indices[-1] < matrix.shape[1]
    assert (labels.data == 1).all()
    assert (features.data > 0).all()
    lengths = np.sqrt(np.asarray(features.multiply(features).sum(axis=1)))
    np.testing.assert_allclose(lengths, 1, atol=1e-4)


@settings(max_examples=20, deadline=None)
@given(shapes, st.integers(1, 50), st.integers(0, 5))
def test_batches_do_not_change_the_bits(shape: SparseShape, batch: int, start: int) -> None:
    whole = make_sparse(shape, 3, start=start)
    parts = list(iter_sparse(shape, seed=3, start=start, batch=batch))
    assert all(x.shape[0] == y.shape[0] <= batch for x, y in parts)
    assert same_matrix(vstack([x for x, _ in parts], format="csr"), whole.features)
    assert same_matrix(vstack([y for _, y in parts], format="csr"), whole.labels)


def test_points_go_on_where_the_training_set_ends() -> None:
    longer = make_sparse(dataclasses.replace(SMALL, points=400))
    rest = make_sparse(dataclasses.replace(SMALL, points=100), start=300)
    assert same_matrix(longer.features[300:], rest.features)
    assert same_matrix(longer.labels[300:], rest.labels)


def test_seed_decides() -> None:
    one, again, other = make_sparse(SMALL, 1), make_sparse(SMALL, 1), make_sparse(SMALL, 2)
    assert same_matrix(one.features, again.features)
    assert same_matrix(one.labels, again.labels)
    assert not same_matrix(one.features, other.features)
    assert not same_matrix(one.labels, other.labels)


def test_hash_is_splitmix64() -> None:
    """The first numbers of the published generator, started at 0."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [int(synthetic_sparse._hash(np.uint64(0), i)) for i in (1, 2, 3)] == published


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 5_000))
def test_ids_are_spread_without_loss(size: int) -> None:
    spread = synthetic_sparse._spread(np.arange(size, dtype=np.int32), size)
    assert np.array_equal(np.sort(spread), np.arange(size))


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.7])
def test_zipf_has_the_probabilities_of_the_integral(exponent: float) -> None:
    n = 20
    grid = (np.arange(20_000) + 0.5) / 20_000
    found = np.bincount([synthetic_sparse._zipf(u, n, exponent) for u in grid], minlength=n)
    fine = np.linspace(1, n + 1, 200 * n + 1)  # the midpoint rule, 200 steps a rank
    middle = (fine[1:] + fine[:-1]) / 2
    expected = (middle**-exponent).reshape(n, 200).sum(axis=1)
    np.testing.assert_allclose(found / 20_000, expected / expected.sum(), atol=2e-4)


@pytest.mark.parametrize(
    "shape",
    [
        SparseShape(20_000, 5_000, 3_000),
        SparseShape(20_000, 50_000, 100_000, nnz=20, labels_per_point=1.5, tail_exponent=0.5),
        SparseShape(5_000, 1_000, 500, nnz=7.5, labels_per_point=19.03),
    ],
)
def test_means_are_those_requested(shape: SparseShape) -> None:
    data = make_sparse(shape)
    assert data.features.nnz / shape.points == pytest.approx(shape.nnz, rel=0.02)
    assert data.labels.nnz / shape.points == pytest.approx(shape.labels_per_point, rel=0.02)
    assert np.diff(data.features.indptr).std() > shape.nnz / 5  # rows are not all of one length
    assert np.diff(data.labels.indptr).max() <= 2 * shape.labels_per_point


def test_frequencies_fall_by_a_power_law() -> None:
    slopes = []
    for exponent in (0.4, 0.7, 1.0, 1.3):
        shape = SparseShape(60_000, 100, 5_000, nnz=2, tail_exponent=exponent)
        counts = np.sort(np.asarray(make_sparse(shape).labels.sum(axis=0)).ravel())[::-1]
        ranks = np.unique(np.geomspace(10, 1_000, 40).astype(int))
        logs = np.log(ranks), np.log(counts[ranks - 1])
        slope, offset = np.polyfit(*logs, 1)
        assert np.abs(logs[1] - (slope * logs[0] + offset)).max() < 0.35  # a straight line
        assert -exponent < slope < -0.7 * exponent
        slopes.append(slope)
    assert slopes == sorted(slopes, reverse=True)


def votes(train: Dataset, test: Dataset, neighbours: int) -> csr_matrix:
    """Return labels of the nearest training points, weighted by cosine: a k-NN in four lines."""
    near = (test.features @ train.features.T).toarray()
    cut = np.sort(near, axis=1)[:, -neighbours][:, None]
    return csr_matrix(np.where(near >= cut, near, 0)) @ train.labels


def precision_at(scores: np.ndarray, test: Dataset, k: int) -> float:
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return float(np.take_along_axis(test.labels.toarray(), best, axis=1).mean())


@pytest.mark.parametrize(
    "shape",
    [
        SparseShape(3_000, 5_000, 500, labels_per_point=3),
        SparseShape(3_000, 20_000, 2_000, tail_exponent=0.6),
    ],
)
def test_neighbours_find_the_labels(shape: SparseShape) -> None:
    train = make_sparse(shape)
    test = make_sparse(dataclasses.replace(shape, points=300), start=shape.points)
    scores = votes(train, test, 10).toarray()
    common = np.repeat(np.asarray(train.labels.sum(axis=0)), len(test), axis=0)
    assert precision_at(common, test, 1) < 0.3
    assert 0.7 < precision_at(scores, test, 1) < 0.995
    assert 0.4 < precision_at(scores, test, 3) < 0.9


def test_ten_million_labels_need_no_table() -> None:
    shape = SparseShape(200, 1_000_000, 10_000_000)
    make_sparse(SMALL)  # what compiling takes does not count
    tracemalloc.start()
    try:
        labels = make_sparse(shape).labels
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert labels.indices.max() > 9_000_000
    assert peak < 10_000_000  # bytes: 4 MB mark the features of a row


@pytest.mark.parametrize("name", ["data.txt", "data.txt.gz"])
def test_written_text_reads_back_to_the_same_bits(name: str, tmp_path: Path) -> None:
    shape = SparseShape(17_000, 300, 40, nnz=4, labels_per_point=2)  # more than one batch
    write_sparse(shape, tmp_path / name, 7, start=5)
    back, made = read_xc(tmp_path / name), make_sparse(shape, 7, start=5)
    assert same_matrix(back.features, made.features)
    assert same_matrix(back.labels, made.labels)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"points": 0}, "points"),
        ({"features": 50}, "nnz"),
        ({"labels": 5}, "labels_per_point"),
        ({"labels": 2**31}, "labels"),
        ({"nnz": 0}, "nnz"),
        ({"labels_per_point": 0.5}, "labels_per_point"),
        ({"tail_exponent": -0.1}, "tail_exponent"),
        ({"tail_exponent": float("nan")}, "tail_exponent"),
    ],
)
def test_impossible_shapes_are_refused(change: dict[str, float], named: str) -> None:
    with pytest.raises(ParameterError, match=f"^{named} must be between"):
        dataclasses.replace(SMALL, **change)


def test_other_impossible_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="batch"):
        next(iter_sparse(SMALL, batch=0))
    with pytest.raises(ParameterError, match="seed"):
        make_sparse(SMALL, -1)


def test_presets_have_the_shape_of_the_public_sets() -> None:
    public = find("amazon-670k")
    shape = AMAZON_670K
    assert (shape.points, shape.features, shape.labels) == (490_449, 135_909, 670_091)
    assert (shape.nnz, shape.labels_per_point) == (76, public.labels_per_point)
    presets = [v for v in vars(synthetic_sparse).values() if isinstance(v, SparseShape)]
    assert len(presets) == 8


def test_amazon_670k_has_as_rare_labels_as_the_real_set() -> None:
    labels = make_sparse(dataclasses.replace(AMAZON_670K, points=20_000)).labels
    assert 0.001 < labels.sum(axis=0).max() / 20_000 < 0.01
