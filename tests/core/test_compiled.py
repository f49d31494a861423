"""A read-only installation without a home works: compiled loops go to a temporary folder."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.errors import TypingError

import labelspace
from labelspace._core import compiled
from labelspace._core.compiled import loop, loop_part
from labelspace.runs.progress import COMPILING_EACH_TIME

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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's ways to bind root")
def test_without_any_folder_loops_are_compiled_in_memory_and_that_is_said(run, package):
    if run(f"open({str(package / 'x')!r}, 'w')").returncode == 0:
        pytest.skip("root cannot be bound by permissions here")
    notice = "from labelspace.runs.progress import compilation_notice\n"
    notice += "notice = compilation_notice(print)\nnotice.__enter__()\n"
    done = run(notice + CODE, NUMBA_CACHE_DIR=str(package / "none"))
    said, result = done.stdout.splitlines()
    assert said == COMPILING_EACH_TIME
    assert result == "[0.6000000238418579, 0.800000011920929]", done.stderr


def test_the_garbage_collector_runs_again_after_compilation():
    def fails(number):
        return number + "text"

    assert gc.isenabled()
    assert loop(lambda number: number)(2) == 2
    with pytest.raises(TypingError):
        loop(fails)(2)
    assert gc.isenabled()


def test_a_part_of_a_loop_runs_in_python_and_in_loops():
    assert twice(2) == 4
    assert four_times(2) == 8
    assert four_times.signatures


@loop_part
def twice(number):
    return 2 * number


@loop
def four_times(number):
    return 2 * twice(number)


def test_where_there_is_a_folder_nothing_is_set():
    code = "import os, labelspace; print('NUMBA_CACHE_DIR' in os.environ)"
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    writable = os.access(Path(labelspace.__file__).parent, os.W_OK)
    assert done.stdout == f"{not writable}\n" or not writable


def test_loops_older_than_their_source_are_removed_once_per_version(tmp_path):
    cache = tmp_path / "inner" / "__pycache__"
    cache.mkdir(parents=True)
    (tmp_path / "__pycache__").mkdir()
    (cache.parent / "loops.py").touch()
    (tmp_path / "_version.py").touch()
    names = ("loops.old-1.py311.nbi", "loops.new-9.py311.nbi", "gone.any-1.py311.nbi", "other.pyc")
    for name in names:
        (cache / name).touch()
    os.utime(cache.parent / "loops.py", (1000, 1000))
    os.utime(cache / names[0], (999, 999))
    os.utime(cache / names[1], (1001, 1001))
    compiled.remove_outdated(str(tmp_path))
    assert sorted(path.name for path in cache.iterdir()) == sorted(names[1:])
    os.utime(cache / names[1], (999, 999))
    compiled.remove_outdated(str(tmp_path))  # the version is the same
    assert (cache / names[1]).exists()
    os.utime(tmp_path / "_version.py", (2**32, 2**32))
    compiled.remove_outdated(str(tmp_path))
    assert not (cache / names[1]).exists()
