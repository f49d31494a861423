"""Memory of the machine or container: total and available."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]

_ROOT = Path("/")
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")


def available_bytes(root: Path = _ROOT) -> int:
    """Return the available memory of the machine, or of the container if that is less.

    `root` is the folder of `proc` and `sys`.
    """
    free = int(psutil.virtual_memory().available)
    return max(0, min([free, *(limit - used for limit, used in _limits(root))]))


def total_bytes(root: Path = _ROOT) -> int:
    """Return the memory of the machine, or of the container if that is less."""
    total = int(psutil.virtual_memory().total)
    return min([total, *(limit for limit, _ in _limits(root))])


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use of each control group that this process is in (Linux).

    Cached files that the kernel drops when memory is short (inactive_file) are not used memory.
    """
    base = root / "sys" / "fs" / "cgroup"
    for controllers, path in _own_groups(root):
        if controllers == "":
            tops, names = (base, base / "unified"), _VERSION_2
        elif "memory" in controllers.split(","):
            tops, names = (base / "memory", base), _VERSION_1
        else:
            continue
        for top in tops:
            for group in _upwards(top, path):
                with contextlib.suppress(OSError, ValueError):  # no limit is the word "max"
                    limit = int((group / names[0]).read_text())
                    used = int((group / names[1]).read_text())
                    yield limit, max(0, used - _cached(group, names[2]))


def _own_groups(root: Path) -> list[tuple[str, str]]:
    """Return (controllers, path) of this process's groups; "" is version 2."""
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    found = [line.split(":", 2) for line in lines if line.count(":") >= 2]
    return [(controllers, path) for _, controllers, path in found]


def _upwards(top: Path, path: str) -> Iterator[Path]:
    """Yield a group and those above it, whose limits hold too.

    A container often sees its own group at the top, and its path as the machine names it.
    """
    parts = [part for part in path.split("/") if part]
    if ".." not in parts:
        for depth in range(len(parts), 0, -1):
            yield top.joinpath(*parts[:depth])
    yield top


def _cached(group: Path, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in (group / "memory.stat").read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0


def in_words(n_bytes: float) -> str:
    """Return a size as text: 1234567 is '1.2 MB'."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"
