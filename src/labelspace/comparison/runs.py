"""One run of a comparison, in a process that ends with this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labelspace._core.arrays import read_arrays
from labelspace.comparison.significance import hits_as_text
from labelspace.errors import LabelspaceError

HITS_FILE = "hits.safetensors"  # of each test example, as `packed_hits` returns them


def run(job: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Run the job in a process that may write to `folder`, and return its figures and hits."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        (Path(own) / "job.json").write_text(json.dumps(job), encoding="utf-8")
        _in_own_process(Path(own))
        result: dict[str, Any] = json.loads((Path(own) / "result.json").read_text("utf-8"))
        if "error" in result:
            raise LabelspaceError(result["error"])
        hits = read_arrays(Path(own) / HITS_FILE)[0]["hits"]
        return {**result, "hits": hits_as_text(hits)}


def _in_own_process(folder: Path) -> None:
    command = [sys.executable, "-m", "labelspace.comparison.entrant", str(folder)]
    # The other process ends when its standard input is closed, however this one ends.
    reading, writing = os.pipe()
    try:
        ended = subprocess.run(
            command,
            stdin=reading,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    finally:
        os.close(reading)
        os.close(writing)
    if ended.returncode != 0 or not (folder / "result.json").exists():
        said = (ended.stderr or ended.stdout).strip().splitlines()[-1:] or ["it printed nothing"]
        cause = (
            f"ended by signal {-ended.returncode} (out of memory?)"
            if ended.returncode < 0
            else f"failed with exit code {ended.returncode}"
        )
        raise LabelspaceError(f"{cause}: {said[0]}")
