"""Metrics against those that napkinXC ships, which follow the Extreme Classification Repository."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from labelspace.labels.propensity import inverse_propensities
from labelspace.metrics.ranking import evaluate

napkinxc = pytest.importorskip("napkinxc.metrics", reason="napkinXC is not installed")
KS = (1, 2, 3, 4, 5, 6)


@st.composite
def cases(draw):
    """Draw truth and rankings with empty rows, short rows and labels unseen in training."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_labels = draw(st.integers(1, 30)), draw(st.integers(2, 40))
    n_seen = draw(st.integers(1, n_labels))
    density = draw(st.sampled_from([0.03, 0.2, 0.7]))
    truth = rng.random((n, n_labels)) < density
    truth[rng.integers(n), rng.integers(n_labels)] = True
    train = rng.random((draw(st.integers(3, 60)), n_seen)) < density
    rows = [
        rng.permutation(n_labels)[: rng.integers(0, min(n_labels, max(KS)) + 1)].tolist()
        for _ in range(n)
    ]
    return csr_matrix(truth, dtype=np.float32), csr_matrix(train, dtype=np.float32), rows


@given(cases())
@settings(max_examples=150, deadline=None)
def test_agrees_with_napkinxc(case) -> None:
    truth, train, rows = case
    labels = np.full((len(rows), max(KS)), -1)
    for i, row in enumerate(rows):
        labels[i, : len(row)] = row
    ranking = SimpleNamespace(labels=labels, scores=np.ones(labels.shape))
    ours = evaluate(ranking, truth, train, ks=KS, bands=False)

    # napkinXC has no label beyond the training matrix, and counts in the matrix's own precision.
    train = train.astype(np.float64)
    train.resize(train.shape[0], truth.shape[1])
    weights = napkinxc.Jain_et_al_inverse_propensity(train)
    np.testing.assert_allclose(inverse_propensities(train), weights, rtol=1e-12)
    true = [row.indices.tolist() for row in truth]
    theirs = {
        "P": napkinxc.precision_at_k(true, rows, k=max(KS)),
        "nDCG": napkinxc.ndcg_at_k(true, rows, k=max(KS)),
        "recall": napkinxc.recall_at_k(true, rows, k=max(KS)),
        "coverage": napkinxc.coverage_at_k(true, rows, k=max(KS)),
        "PSP": napkinxc.psprecision_at_k(true, rows, weights, k=max(KS)),
        "PSnDCG": napkinxc.psndcg_at_k(true, rows, weights, k=max(KS)),
    }
    expected = {f"{name}@{k}": 100 * at_k[k - 1] for name, at_k in theirs.items() for k in KS}
    assert ours == pytest.approx(expected, rel=0, abs=1e-9)


def test_micro_f1_agrees_with_napkinxc() -> None:
    rng = np.random.default_rng(3)
    truth = csr_matrix(rng.random((50, 12)) < 0.2, dtype=np.float32)
    labels = np.argsort(rng.random((50, 12)), axis=1)[:, :4]
    scores = np.sort(rng.random((50, 4)).astype(np.float32), axis=1)[:, ::-1]
    ours = evaluate(SimpleNamespace(labels=labels, scores=scores), truth, threshold=0.5)
    chosen = [row[score >= 0.5].tolist() for row, score in zip(labels, scores, strict=True)]
    theirs = napkinxc.f1_measure([row.indices.tolist() for row in truth], chosen, average="micro")
    assert ours["micro-F1"] == pytest.approx(100 * theirs, abs=1e-9)
