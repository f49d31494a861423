"""Estimates against what training takes, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MEASURE = """
import json, re, sys
from pathlib import Path
import numpy as np
from scipy.sparse import csr_matrix
from labelspace.components.training_data import Shape
from labelspace.methods.registry import method_class

name, params, n, n_features, n_labels = json.loads(sys.argv[1])

def drawn(n):
    rng = np.random.default_rng(0)
    X, Y = (
        csr_matrix(
            (rng.random(n * many, np.float32), rng.integers(0, width, n * many),
             np.arange(n + 1) * many),
            shape=(n, width),
        )
        for many, width in ((20, n_features), (3, n_labels))
    )
    return X, Y

def peak():
    return 1024 * int(re.search("VmHWM:\\s*([0-9]+)", Path("/proc/self/status").read_text())[1])

method_class(name)(**params).fit(*drawn(300))  # what is imported and compiled is not counted
X, Y = drawn(n)
model = method_class(name)(**params)
shape = Shape.of(X, Y)
needs = model.memory(shape, model.resolve(model.get_params(), shape))
before = peak()
model.fit(X, Y)
print(json.dumps([sum(needs.values()), peak() - before]))
"""
SLACK = 30e6  # what allocators keep, and small things


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("name", "params", "n", "n_features", "n_labels"),
    [
        ("glas", {"dim": 512, "epochs": 1, "neighbours": 0}, 60_000, 500, 50),
        ("dual-encoder", {"epochs": 1}, 20_000, 30_000, 20_000),
        ("fusion", {"members": "knn,knn"}, 60_000, 3000, 100),
        ("linear", {"passes": 1}, 60_000, 3000, 20),
    ],
)
def test_training_takes_no_more_than_was_estimated(name, params, n, n_features, n_labels):
    job = json.dumps([name, params, n, n_features, n_labels])
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, job], capture_output=True, text=True, check=True
    )
    estimated, measured = json.loads(run.stdout)
    assert measured <= estimated + SLACK
    assert estimated <= 10 * measured + SLACK  # or all would be refused
