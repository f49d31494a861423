"""Which pairs are tested, on what, and that a resumed comparison gives the same answer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from labelspace.comparison.compare import compare, entrants
from labelspace.comparison.significance import (
    hits_as_text,
    hits_of_text,
    p_of_pair,
    pairs_to_test,
    significance,
)
from labelspace.data.dataset import Dataset
from labelspace.errors import CheckpointError
from labelspace.metrics.packed_hits import METRICS
from support.planted import planted


@pytest.fixture(scope="module")
def data():
    X, Y = planted(240, seed=5)
    return Dataset(labels=Y[:160], features=X[:160]), Dataset(labels=Y[160:], features=X[160:])


@pytest.fixture(scope="module")
def kept(data, tmp_path_factory):
    """Return the report of a comparison of several seeds, and the file of its runs."""
    state = tmp_path_factory.mktemp("kept") / "state"
    field = entrants(["knn", "random"], [], {})
    return compare(*data, field, repeat=2, state=state), state


def test_every_pair_of_systems_is_tested(kept):
    report, _ = kept
    tests = report["significance"]
    assert tests["examples"] == 80
    (pair,) = tests["pairs"]
    one, other = (report["entrants"][place] for place in pair["places"])
    assert pair["names"] == [one["name"], other["name"]] == ["knn", "random"]
    for metric in METRICS:
        found = pair[metric]
        # Differences of means over examples are those of the figures, means over seeds.
        assert found["difference"] == pytest.approx(one[metric] - other[metric])
        assert 0 < found["low"] < found["difference"] < found["high"]
        assert found["p"] == found["p_holm"] < 0.001  # planted, and found
    json.dumps(report, allow_nan=False)


def test_a_resumed_comparison_tests_the_same(data, kept):
    report, state = kept
    started = []
    again = compare(
        *data,
        entrants(["knn", "random"], [], {}),
        repeat=2,
        state=state,
        resume=True,
        on_start=lambda *run: started.append(run),
    )
    assert not started
    assert again["significance"] == report["significance"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda figures: figures.pop("hits"),
        lambda figures: figures.update(hits=figures["hits"][4:]),
        lambda figures: figures.update(hits="/" + figures["hits"][1:]),
        lambda figures: figures.update(hits="*" + figures["hits"][1:]),
        lambda figures: figures.update(hits=3),
    ],
)
def test_damaged_hits_of_a_kept_run_are_refused(data, kept, damage, tmp_path):
    lines = kept[1].read_text().splitlines()
    entry = json.loads(lines[1])
    damage(entry["figures"])
    state = tmp_path / "state"
    state.write_text("\n".join([lines[0], json.dumps(entry), ""]))
    with pytest.raises(CheckpointError, match="state:2: not a line of an unfinished comparison"):
        compare(*data, entrants(["knn"], [], {}), state=state, resume=True)


def test_hits_are_kept_as_a_text():
    packed = np.array([0, 31, 5], np.uint8)
    assert hits_of_text(hits_as_text(packed), 3).tolist() == [0, 31, 5]


def test_one_system_alone_is_not_tested(data, kept):
    alone = compare(*data, entrants(["knn"], [], {}), state=kept[1], resume=True)
    assert "significance" not in alone


def test_seeds_of_a_system_are_averaged_before_the_test():
    """Of two seeds one is right on the even examples, the other on the odd ones."""
    n_true = np.ones(40, np.int64)
    even, odd = np.tile([1, 0], 20).astype(np.uint8), np.tile([0, 1], 20).astype(np.uint8)
    half = [hits_as_text(even), hits_as_text(odd)]
    (pair,) = significance({0: half, 1: [hits_as_text(even)] * 2}, ["steady", "even"], n_true)[
        "pairs"
    ]
    assert (pair["P@1"]["difference"], pair["P@1"]["p"]) == (0.0, 1.0)
    (pair,) = significance(
        {0: half, 2: [hits_as_text(np.zeros(40, np.uint8))]}, ["steady", "failed", "none"], n_true
    )["pairs"]
    assert pair["places"] == [0, 2]
    assert pair["names"] == ["steady", "none"]
    assert pair["P@1"]["difference"] == 50.0
    assert pair["P@1"]["low"] == pair["P@1"]["high"] == 50.0  # each example has the same value


def test_many_systems_are_compared_with_the_first():
    assert pairs_to_test([3]) == []
    assert len(pairs_to_test(range(10))) == 45
    assert pairs_to_test([0, 2, 5]) == [(0, 2), (0, 5), (2, 5)]
    pairs = pairs_to_test(range(12))
    assert len(pairs) == 47
    assert {(0, 10), (0, 11)} < set(pairs)
    assert (1, 10) not in pairs


def test_p_values_are_corrected_for_the_pairs_of_a_metric():
    rng = np.random.default_rng(0)
    runs = {place: [hits_as_text(rng.integers(0, 32, 60, np.uint8))] for place in range(4)}
    tests = significance(runs, list("abcd"), np.full(60, 5))
    for metric in METRICS:
        pairs = [pair[metric] for pair in tests["pairs"]]
        least = min(pairs, key=lambda pair: pair["p"])
        assert least["p_holm"] == pytest.approx(min(1.0, 6 * least["p"]))
    report = {"significance": tests}
    assert p_of_pair(report, "P@1", 3, 1) == tests["pairs"][4]["P@1"]["p_holm"]
    assert p_of_pair(report, "PSP@1", 3, 1) is None
    assert p_of_pair({}, "P@1", 0, 1) is None
