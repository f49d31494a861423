"""PECOS's XR-Linear as a peer, in the Python environment that has it.

PECOS needs numpy below 2 and cannot be imported beside labelspace. `pecos_process.py` runs in the
other environment, measures there, and exchanges .npz and JSON files with this process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, save_npz

from labelspace._core import peak
from labelspace._core.sparse import unit_rows
from labelspace.comparison import pecos_process, timing
from labelspace.comparison.runs import in_own_process
from labelspace.errors import MissingExtraError
from labelspace.model import store
from labelspace.ranking import Ranking

VARIABLE = "LABELSPACE_PECOS_PYTHON"
_HAS_PECOS = "import importlib.util as u; raise SystemExit(u.find_spec('pecos') is None)"


class PecosPeer:
    """XR-Linear as in PECOS's README: one tree of labels by hierarchical k-means, all defaults."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.python = interpreter(os.environ.get(VARIABLE, ""))
        self.folder = directory / "pecos"
        self.params: dict[str, Any] = {"seed": seed}

    def measure(
        self, X: csr_matrix, Y: csr_matrix, X_test: csr_matrix, k: int
    ) -> tuple[Ranking, dict[str, Any]]:
        """Train and predict in the other environment; see `Peer.measure`."""
        self.folder.mkdir()
        # Rows of length 1: PECOS's own tf-idf gives such, and its regularisation is meant for them.
        matrices = {"X_train": unit_rows(X), "Y_train": Y, "X_test": unit_rows(X_test)}
        for name, matrix in matrices.items():
            save_npz(self._file(name), csr_matrix(matrix, dtype=np.float32), compressed=False)
        ranking, result = self._run(k, matrices)
        return ranking, {**result, "model_mb": store.size_in_bytes(self._model) / 1e6}

    def rank(self, k: int) -> Ranking:
        """Return the ranking of the test rows by the model that `measure` has saved."""
        return self._run(k, ("X_test",))[0]

    @property
    def _model(self) -> Path:
        return self.folder / "model"

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.npz"

    def _run(self, k: int, names: Any) -> tuple[Ranking, dict[str, Any]]:
        job = {
            "k": k,
            **self.params,
            "model": str(self._model),
            "timing": timing.__file__,
            "peak": peak.__file__,
            **{name: str(self._file(name)) for name in names},
        }
        (self.folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        # Isolated (-I): PYTHONPATH may lead to packages of this environment.
        command = [str(self.python), "-I", pecos_process.__file__, str(self.folder)]
        result = in_own_process(command, self.folder)
        with np.load(self.folder / "ranking.npz") as found:
            return Ranking(found["labels"], found["scores"]), result


@cache
def interpreter(given: str) -> Path:
    """Return the Python that has PECOS.

    Parameters
    ----------
    given : str
        The value of LABELSPACE_PECOS_PYTHON. If it is empty, the Python is that of the environment
        `pecos` inside of this one, which `make peers` makes, or the present one.

    Raises
    ------
    MissingExtraError
        If there is none, or the one that is given has no PECOS.
    """
    own = Path(sys.prefix) / "pecos" / "bin" / "python"
    for python in (Path(given),) if given else (own, Path(sys.executable)):
        if python.is_file():
            checked = subprocess.run([str(python), "-I", "-c", _HAS_PECOS], check=False)
            if checked.returncode == 0:
                return python
    if given:
        raise MissingExtraError(f"{VARIABLE}={given} is no Python that has the package libpecos")
    raise MissingExtraError(
        "PECOS is not installed. It needs numpy below 2: install libpecos into an environment of "
        f"its own and set {VARIABLE} to the Python there; in a clone, `make peers` is enough"
    )
