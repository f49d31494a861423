"""`make demo` is the first thing a stranger runs: it runs here too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_the_demo_ends_well_and_leaves_its_report(tmp_path):
    ended = subprocess.run(
        [sys.executable, DEMO], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "knn" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
