"""Memory is asked for before it is used: a sentence instead of a killed process."""

from __future__ import annotations

import os
from pathlib import Path

from labelspace.errors import MemoryBudgetError
from labelspace.methods.base import Method, Shape


def available_bytes() -> int:
    """Memory that can still be had: the machine's, or the container's if that is less."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = 1024 * int(line.split()[1])
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        free = min(free, limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # not Linux, or no limit set ("max")
    return free


def needed_bytes(method: Method, shape: Shape) -> dict[str, int]:
    """What training will take at its peak, by purpose, the data themselves included."""
    data = 8 * (shape.feature_nnz + shape.label_nnz) + 16 * shape.points
    return {"the data": data, **type(method).memory(shape, method.get_params())}


def refuse_if_too_large(method: Method, shape: Shape) -> None:
    """Raise MemoryBudgetError if training would not fit into what is available."""
    parts = needed_bytes(method, shape)
    # The data are in memory by now.
    needed, free = sum(parts.values()) - parts["the data"], available_bytes()
    if needed > free:
        largest = max(parts, key=lambda part: parts[part])
        raise MemoryBudgetError(
            f"training {method.name} needs about {in_words(needed)} more and {in_words(free)} is "
            f"available; most of it is for {largest} ({in_words(parts[largest])}): "
            "see `labelspace plan` for what to lower"
        )


def in_words(n_bytes: float) -> str:
    """1234567 -> '1.2 MB'."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"
