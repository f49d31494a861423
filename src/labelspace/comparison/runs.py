"""One run of a comparison, in a process that ends with this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labelspace._core.arrays import read_arrays
from labelspace.comparison.significance import hits_as_text
from labelspace.errors import LabelspaceError

HITS_FILE = "hits.safetensors"  # of each test example, as `packed_hits` returns them


def run(job: Mapping[str, Any], folder: Path, limit: float | None = None) -> dict[str, Any]:
    """Run the job in a process that may write to `folder`, and return its figures and hits.

    After `limit` seconds it is stopped, and LabelspaceError is raised.
    """
    with tempfile.TemporaryDirectory(dir=folder) as own:
        (Path(own) / "job.json").write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, "-m", "labelspace.comparison.entrant", own]
        result = in_own_process(command, Path(own), limit)
        if "error" in result:
            raise LabelspaceError(result["error"])
        hits = read_arrays(Path(own) / HITS_FILE)[0]["hits"]
        return {**result, "hits": hits_as_text(hits)}


def in_own_process(
    command: Sequence[str], folder: Path, limit: float | None = None
) -> dict[str, Any]:
    """Run a command that writes `result.json` to the folder, and return what it wrote.

    The command must end when its standard input is closed: then it ends with this process, however
    that ends.
    """
    written = folder / "result.json"
    written.unlink(missing_ok=True)
    reading, writing = os.pipe()
    try:
        ended = subprocess.run(
            command,
            stdin=reading,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        raise LabelspaceError(f"stopped after {limit:g} s") from None
    finally:
        os.close(reading)
        os.close(writing)
    if ended.returncode != 0 or not written.exists():
        said = (ended.stderr or ended.stdout).strip().splitlines()[-1:] or ["it printed nothing"]
        cause = (
            f"ended by signal {-ended.returncode} (out of memory?)"
            if ended.returncode < 0
            else f"failed with exit code {ended.returncode}"
        )
        raise LabelspaceError(f"{cause}: {said[0]}")
    result: dict[str, Any] = json.loads(written.read_text("utf-8"))
    return result
