"""Models have the bits that were recorded, so that moving code about changes none of them.

`python tests/golden/test_golden.py` records them anew. Bits depend on the processor and on the
versions of the libraries: elsewhere than where they were recorded, the test is skipped.
"""

from __future__ import annotations

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from labelspace.methods.registry import method_class
from support.planted import planted

RECORD = Path(__file__).with_name("hashes.json")
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "faiss-cpu", "gensim")

# Every method, and the settings that take other paths through the shared parts.
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "dual-encoder": ("dual-encoder", {"dim": 16, "epochs": 3, "batch_size": 32}),
    "dxml": ("dxml", {"dim": 16, "hidden": (24,), "epochs": 3, "batch_size": 32, "ensemble": 1}),
    "dxml smooth-l1": ("dxml", {"dim": 16, "epochs": 2, "loss": "smooth-l1", "ensemble": 1}),
    "fusion": ("fusion", {}),
    "fusion knn,linear": ("fusion", {"members": "knn,linear", "validation": 0.3}),
    "fusion trees psp": ("fusion", {"members": "hierarchicalxc,knn", "objective": "psp"}),
    "glas": ("glas", {"dim": 16, "epochs": 3, "batch_size": 32, "n_negatives": 4}),
    "glas softmax": ("glas", {"dim": 16, "epochs": 2, "loss": "softmax", "hidden": (24,)}),
    "hierarchicalxc": ("hierarchicalxc", {"fanout": 2, "leaf_size": 3}),
    "hierarchicalxc hard": ("hierarchicalxc", {"tree": "complete", "search": "hard"}),
    "hyperbolic": ("hyperbolic", {"dim": 8, "epochs": 3, "batch_size": 32, "neighbours": 5}),
    "knn": ("knn", {"neighbours": 5}),
    "labeltext": ("labeltext", {}),
    "linear": ("linear", {}),
    "linear hard": ("linear", {"negatives": "hard", "shortlist": 6}),
    "most-common": ("most-common", {}),
    "neuralxc": ("neuralxc", {"input_layers": (16,), "output_layers": (16,), "epochs": 3}),
    "random": ("random", {}),
    "seq2seq": ("seq2seq", {"width": 16, "layers": 1, "heads": 2, "epochs": 2, "beams": 4}),
    "treespace": ("treespace", {"dim": 16, "top_dim": 8, "width": 16, "epochs": 3}),
    "treespace node": ("treespace", {"dim": 16, "top_dim": 8, "projections": "node", "epochs": 2}),
}


def machine() -> dict[str, str]:
    """What the bits depend on beside the code."""
    flags = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        names = next((line for line in lines if line.startswith("model name")), "")
        sets = next((line for line in lines if line.startswith("flags")), "")
        flags = f"{names} {hashlib.sha256(sets.encode()).hexdigest()[:12]}"
    return {
        "processor": f"{platform.machine()} {flags}",
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


def sha(array: np.ndarray) -> str:
    content = f"{array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def hashes(setting: str, seed: int, threads: int) -> dict[str, str]:
    """Fit on small data; returns the hash of every array of the state and of the ranking."""
    name, params = SETTINGS[setting]
    X, Y = planted(150, seed=7)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            model = method_class(name)(**params, seed=seed).fit(X, Y)
            ranking = model.predict(X, 5)
    finally:
        torch.set_num_threads(before)
    found = {key: sha(np.asarray(array)) for key, array in sorted(model.state().items())}
    return found | {"labels": sha(ranking.labels), "scores": sha(ranking.scores)}


@pytest.mark.parametrize("setting", SETTINGS)
def test_bits_are_those_that_were_recorded(setting: str) -> None:
    record = json.loads(RECORD.read_text())
    if record["machine"] != machine():
        pytest.skip("recorded on another processor or with other versions of the libraries")
    for seed in (0, 1):
        for threads in (1, 2):
            kept = record["hashes"][f"{setting}, seed {seed}, {threads} threads"]
            assert hashes(setting, seed, threads) == kept


def write_record() -> None:
    found = {
        f"{setting}, seed {seed}, {threads} threads": hashes(setting, seed, threads)
        for setting in SETTINGS
        for seed in (0, 1)
        for threads in (1, 2)
    }
    RECORD.write_text(json.dumps({"machine": machine(), "hashes": found}, indent=1) + "\n")


if __name__ == "__main__":
    write_record()
