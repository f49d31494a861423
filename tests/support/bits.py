"""The bits of every method in a process of its own: `python bits.py THREADS SIZE [METHOD...]`.

Prints JSON: the hash of the fitted state and of a ranking, by method.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    # Before anything reads them; PYTHONHASHSEED comes from the caller.
    os.environ["OMP_NUM_THREADS"] = os.environ["LOKY_MAX_CPU_COUNT"] = sys.argv[1]

import numpy as np

from support.planted import planted
from support.small import SMALL

SIZES = {
    "small": {"n": 120, "seed": 3},
    # Large enough that torch and BLAS divide some of the work between threads.
    "large": {"n": 700, "n_features": 203, "n_labels": 131, "seed": 3},
}
LARGE: dict[str, dict[str, object]] = {
    "dxml": {"epochs": 1, "ensemble": 1, "hidden": (253,)},
    "fusion": {"members": "hierarchicalxc,knn,linear"},
    "glas": {"epochs": 1, "batch_size": 255, "dim": 257},
    "hyperbolic": {"epochs": 1, "batch_size": 255},
    "neuralxc": {"epochs": 1, "batch_size": 255, "ensemble": 1, "input_layers": (257,)},
    "seq2seq": {"width": 16, "layers": 1, "heads": 2, "epochs": 1, "beams": 2},
    "treespace": {"epochs": 1, "batch_size": 255, "dim": 129, "top_dim": 61, "width": 257},
}


def bits_of(name: str, size: str) -> str:
    """Fit a method; return the hash of its state and of a ranking."""
    from labelspace.methods.registry import method_class

    X, Y = planted(**SIZES[size])
    settings = SMALL if size == "small" else LARGE
    model = method_class(name)(**settings.get(name, {})).fit(X, Y)
    ranking = model.predict(X[:50], 5)
    sha = hashlib.sha256(ranking.labels.tobytes() + ranking.scores.tobytes())
    for key, array in sorted(model.state().items()):
        sha.update(f"{key} {array.dtype} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()[:16]


def in_own_process(
    threads: int, methods: Sequence[str], hash_seed: int, size: str = "large"
) -> dict[str, str]:
    """Return the bits of methods, fitted in a new process with so many threads."""
    done = subprocess.run(
        [sys.executable, "-P", __file__, str(threads), size, *methods],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    print(json.dumps({name: bits_of(name, sys.argv[2]) for name in sys.argv[3:]}))
