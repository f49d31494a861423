"""What the machine or its container has of memory, on any system."""

from __future__ import annotations

import psutil
import pytest

from labelspace._core import machine

GB = 10**9


def tree(root, cgroup, **files):
    """Write a machine's files: /proc/self/cgroup and those below /sys/fs/cgroup."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    return root


def version_2(group, limit, used, cached=0):
    group = f"{group}/" if group else ""
    return {
        f"{group}memory.max": limit,
        f"{group}memory.current": used,
        f"{group}memory.stat": f"anon 5\ninactive_file {cached}\nactive_file 7\n",
    }


def version_1(group, limit, used, cached=0):
    group = f"memory/{group}/" if group else "memory/"
    return {
        f"{group}memory.limit_in_bytes": limit,
        f"{group}memory.usage_in_bytes": used,
        f"{group}memory.stat": f"inactive_file 3\ntotal_inactive_file {cached}\n",
    }


@pytest.fixture
def large_machine(monkeypatch):
    """Simulate a machine with 64 GB, of which 50 are free."""
    memory_of = type("Memory", (), {"total": 64 * GB, "available": 50 * GB})
    monkeypatch.setattr(psutil, "virtual_memory", memory_of)


@pytest.mark.usefixtures("large_machine")
@pytest.mark.parametrize(
    ("cgroup", "files", "total", "free"),
    [
        # At the top, as a container sees its own group; cached files are not used memory.
        ("0::/\n", version_2("", 8 * GB, 7 * GB, 4 * GB), 8, 5),
        # The process's own group, below the top, which has no limit.
        ("0::/a.slice/job\n", version_2("a.slice/job", 4 * GB, GB), 4, 3),
        # A limit of a group above it.
        ("0::/a/b\n", version_2("a", 4 * GB, GB) | version_2("a/b", "max", 0), 4, 3),
        ("0::/\n", version_2("", "max", 7 * GB), 64, 50),
        ("0::/\n", {}, 64, 50),
        ("0::/../x\n", version_2("", 8 * GB, GB), 8, 7),
        # Version 1, with the path as the machine names it and the container's group at the top.
        ("4:cpu:/x\n9:memory:/docker/1f\n", version_1("", 6 * GB, 5 * GB, 3 * GB), 6, 4),
        ("9:cpu,memory:/docker/1f\n", version_1("docker/1f", 6 * GB, 5 * GB), 6, 1),
        ("9:memory:/\n", version_1("", 9223372036854771712, 5 * GB), 64, 50),
        # Both: version 2 without memory, as on machines that are half way.
        ("1:memory:/x\n0::/x\n", version_1("x", 6 * GB, 5 * GB), 6, 1),
        ("0::/\n", version_2("", 2 * GB, 3 * GB), 2, 0),
        ("", {}, 64, 50),
        ("nonsense\n", {}, 64, 50),
        ("0::/\n", version_2("", "many", "few"), 64, 50),
    ],
)
def test_what_a_container_leaves(tmp_path, cgroup, files, total, free):
    root = tree(tmp_path, cgroup, **files)
    assert machine.total_bytes(root) == total * GB
    assert machine.available_bytes(root) == free * GB


@pytest.mark.usefixtures("large_machine")
def test_a_machine_without_control_groups(tmp_path):
    assert machine.available_bytes(tmp_path) == 50 * GB
    assert machine.total_bytes(tmp_path) == 64 * GB


def test_available_memory_is_a_sane_number():
    assert 10**7 < machine.available_bytes() < 10**14


@pytest.mark.parametrize(
    ("n", "words"),
    [(0, "0 B"), (999, "999 B"), (1234, "1.2 kB"), (5 * 10**9, "5.0 GB"), (10**13, "10.0 TB")],
)
def test_in_words(n, words):
    assert machine.in_words(n) == words
