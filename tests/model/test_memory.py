"""Memory is asked for before it is used."""

from __future__ import annotations

import tracemalloc

import numpy as np
import psutil
import pytest
from scipy.sparse import csr_matrix

from labelspace.errors import MemoryBudgetError
from labelspace.labels.cooccurrence import CooccurrenceTarget
from labelspace.methods.base import Shape
from labelspace.methods.knn import KNN
from labelspace.methods.registry import method_class
from labelspace.model import memory

SMALL = Shape(100, 50, 20, 500, 200)
HUGE = Shape(10**9, 10**9, 10**9, 10**13, 10**10)


def test_what_fits_passes_and_what_does_not_is_refused_in_words():
    memory.refuse_if_too_large(KNN(), SMALL)
    with pytest.raises(MemoryBudgetError, match=r"training knn needs about [\d.]+ TB more"):
        memory.refuse_if_too_large(KNN(), HUGE)


def test_available_memory_is_a_sane_number():
    assert 10**7 < memory.available_bytes() < 10**14


@pytest.mark.parametrize(
    ("n", "words"),
    [(0, "0 B"), (999, "999 B"), (1234, "1.2 kB"), (5 * 10**9, "5.0 GB"), (10**13, "10.0 TB")],
)
def test_in_words(n, words):
    assert memory.in_words(n) == words


GB = 10**9


def tree(root, cgroup, **files):
    """A machine's files: /proc/self/cgroup and what lies below /sys/fs/cgroup."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    return root


def version_2(group, limit, used, cached=0):
    group = f"{group}/" if group else ""
    return {
        f"{group}memory.max": limit,
        f"{group}memory.current": used,
        f"{group}memory.stat": f"anon 5\ninactive_file {cached}\nactive_file 7\n",
    }


def version_1(group, limit, used, cached=0):
    group = f"memory/{group}/" if group else "memory/"
    return {
        f"{group}memory.limit_in_bytes": limit,
        f"{group}memory.usage_in_bytes": used,
        f"{group}memory.stat": f"inactive_file 3\ntotal_inactive_file {cached}\n",
    }


@pytest.fixture
def machine(monkeypatch):
    """One with 64 GB, of which 50 are free."""
    memory_of = type("Memory", (), {"total": 64 * GB, "available": 50 * GB})
    monkeypatch.setattr(psutil, "virtual_memory", memory_of)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("cgroup", "files", "total", "free"),
    [
        # At the top, as a container sees its own group; cached files are not used memory.
        ("0::/\n", version_2("", 8 * GB, 7 * GB, 4 * GB), 8, 5),
        # The process's own group, below the top, which has no limit.
        ("0::/a.slice/job\n", version_2("a.slice/job", 4 * GB, GB), 4, 3),
        # A limit of a group above it.
        ("0::/a/b\n", version_2("a", 4 * GB, GB) | version_2("a/b", "max", 0), 4, 3),
        ("0::/\n", version_2("", "max", 7 * GB), 64, 50),
        ("0::/\n", {}, 64, 50),
        ("0::/../x\n", version_2("", 8 * GB, GB), 8, 7),
        # Version 1, with the path as the machine names it and the container's group at the top.
        ("4:cpu:/x\n9:memory:/docker/1f\n", version_1("", 6 * GB, 5 * GB, 3 * GB), 6, 4),
        ("9:cpu,memory:/docker/1f\n", version_1("docker/1f", 6 * GB, 5 * GB), 6, 1),
        ("9:memory:/\n", version_1("", 9223372036854771712, 5 * GB), 64, 50),
        # Both: version 2 without memory, as on machines that are half way.
        ("1:memory:/x\n0::/x\n", version_1("x", 6 * GB, 5 * GB), 6, 1),
        ("0::/\n", version_2("", 2 * GB, 3 * GB), 2, 0),
        ("", {}, 64, 50),
        ("nonsense\n", {}, 64, 50),
        ("0::/\n", version_2("", "many", "few"), 64, 50),
    ],
)
def test_what_a_container_leaves(tmp_path, cgroup, files, total, free):
    root = tree(tmp_path, cgroup, **files)
    assert memory.total_bytes(root) == total * GB
    assert memory.available_bytes(root) == free * GB


@pytest.mark.usefixtures("machine")
def test_a_machine_without_control_groups(tmp_path):
    assert memory.available_bytes(tmp_path) == 50 * GB
    assert memory.total_bytes(tmp_path) == 64 * GB


def test_the_peak_grows_with_what_is_used():
    before = memory.peak_bytes()
    block = np.ones(before // 8 + 10**6)
    assert memory.peak_bytes() >= max(before, block.nbytes)


def test_the_shape_of_a_file_that_claims_many_features_is_found_in_little_memory():
    X = csr_matrix((np.ones(2, np.float32), [5, 1_999_999_999], [0, 2]), shape=(1, 2 * 10**9))
    Y = csr_matrix(np.ones((1, 1), np.float32))
    tracemalloc.start()
    shape = Shape.of(X, Y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**6
    assert (shape.features, shape.feature_nnz, shape.common_features) == (2 * 10**9, 2, 2)


def test_dense_features_have_the_shape_of_sparse_ones():
    X = np.array([[1, 0, 2], [1, 0, 0]], np.float32)
    Y = csr_matrix(np.eye(2, dtype=np.float32))
    assert Shape.of(X, Y) == Shape.of(csr_matrix(X), Y)


def test_a_few_examples_with_many_labels_are_seen_by_the_estimate_of_a_label_graph():
    rng = np.random.default_rng(0)
    lengths = np.where(np.arange(2000) < 20, 100, 1)  # one in a hundred
    labels = np.concatenate([rng.choice(5000, many, replace=False) for many in lengths])
    rows = np.repeat(np.arange(2000), lengths)
    Y = csr_matrix((np.ones(len(rows), np.float32), (rows, labels)), shape=(2000, 5000))
    kept = CooccurrenceTarget(Y).U
    cells = Shape.of(Y, Y).cooccurrences()
    assert kept.nnz <= cells < 2 * kept.nnz
    mean = Shape(2000, 5000, 5000, Y.nnz, Y.nnz).cooccurrences()
    assert mean < kept.nnz / 5  # what is known without a look at single examples


def test_methods_that_keep_a_point_of_every_example_are_refused_where_these_do_not_fit(monkeypatch):
    glas = method_class("glas")(dim=1024, neighbours=0)
    shape = Shape(3_000_000, 1000, 1000, 10**7, 10**7)
    monkeypatch.setattr(memory, "available_bytes", lambda: 8 * 10**9)
    with pytest.raises(MemoryBudgetError, match=r"most of it is for points of all examples"):
        memory.refuse_if_too_large(glas, shape)
