"""Training on a file whose texts are not held in memory: how much less, and the same model."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

TRAIN = """
import json, re, sys
from pathlib import Path
import labelspace as ls
from labelspace._core.sparse import digest
from labelspace.model import training

small, large, limit = json.loads(sys.argv[1])
training.MOST_LETTERS = limit

def peak():
    return 1024 * int(re.search("VmHWM:\\s*([0-9]+)", Path("/proc/self/status").read_text())[1])

ls.train(small, method="knn")  # what is imported and compiled is not counted
before = peak()
model = ls.train(large, method="knn")
grown = peak() - before
parts = [*model.pipeline.state()[1].items(), *model.method.state().items()]
print(json.dumps([grown, digest(*model.pipeline.feature_names(), *model.label_names,
                                *(item for name, array in parts for item in (name, array)))]))
"""
LIMIT = 1 << 20  # letters
TEXTS, WORDS, LETTERS = 6000, 16, 400  # long words: many letters, few terms
BOUND = 25e6


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_peak_memory_does_not_grow_with_the_texts(tmp_path):
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    _write(small, 1200, 200)
    _write(large, TEXTS, WORDS * LETTERS)
    assert TEXTS * WORDS * LETTERS > BOUND
    streamed, bits = _trained(small, large, LIMIT)
    held, expected = _trained(small, large, None)
    assert streamed < BOUND < held
    assert bits == expected


def _write(path, n_texts, n_letters):
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=20)) * (LETTERS // 20) for _ in range(200)]
    rows = [
        {
            "text": " ".join(rng.choices(words, k=WORDS))[:n_letters],
            "labels": [f"label {rng.randrange(20)}"],
        }
        for _ in range(n_texts)
    ]
    with path.open("w") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)


def _trained(small, large, limit):
    """Return by how many bytes the peak grew, and a digest of the model."""
    job = json.dumps([str(small), str(large), limit])
    run = subprocess.run(
        [sys.executable, "-c", TRAIN, job], capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)
