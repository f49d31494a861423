"""A read-only installation without a home works: compiled loops go to a temporary folder."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import labelspace

CODE = """
import numpy as np
from labelspace._core.sparse_loops import scale_rows
data = np.empty(2, np.float32)
scale_rows(np.array([0, 2]), np.array([3, 4], np.float32), data)
print(data.tolist())
"""


def without_the_rights_of_root():
    """Drop capabilities: without them, permissions bind programs that root runs."""
    drop, override, read_search = 24, 1, 2
    for capability in (override, read_search):
        ctypes.CDLL(None).prctl(drop, capability, 0, 0, 0)


@pytest.fixture
def package(tmp_path):
    """Return a read-only copy of the package."""
    copy = tmp_path / "lib" / "labelspace"
    source = Path(labelspace.__file__).parent
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    folders = [path for path in [copy, *copy.rglob("*")] if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    yield copy
    for folder in folders:
        folder.chmod(0o755)


@pytest.fixture
def run(package, tmp_path):
    def run(code, **more):
        env = {"PYTHONPATH": str(package.parent), "HOME": str(package / "none"), "PATH": "/bin"}
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
            cwd=tmp_path, env={**env, "TMPDIR": str(tmp_path / "tmp"), **more},
            preexec_fn=without_the_rights_of_root if os.getuid() == 0 else None,
        )  # fmt: skip

    (tmp_path / "tmp").mkdir()
    return run


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's ways to bind root")
def test_without_a_folder_to_write_to_a_private_one_is_made(run, package, tmp_path):
    if run(f"open({str(package / 'x')!r}, 'w')").returncode == 0:
        pytest.skip("root cannot be bound by permissions here")
    done = run(CODE)
    assert done.stdout == "[0.6000000238418579, 0.800000011920929]\n", done.stderr
    (made,) = (tmp_path / "tmp").iterdir()
    assert made.stat().st_mode & 0o077 == 0
    assert any(made.rglob("*.nbi"))
    chosen = tmp_path / "chosen"
    assert run(CODE, NUMBA_CACHE_DIR=str(chosen)).returncode == 0
    assert any(chosen.rglob("*.nbi"))


def test_where_there_is_a_folder_nothing_is_set():
    code = "import os, labelspace; print('NUMBA_CACHE_DIR' in os.environ)"
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    writable = os.access(Path(labelspace.__file__).parent, os.W_OK)
    assert done.stdout == f"{not writable}\n" or not writable
