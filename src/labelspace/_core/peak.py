"""Peak memory of this process.

Processes of other Python environments run this file too (`comparison/pecos_process.py`): outside of
Windows it needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def peak_bytes() -> int:
    """Return the most memory this process has used so far.

    Linux's VmHWM begins anew with each program; ru_maxrss starts at what the parent had.
    """
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    if sys.platform == "win32":
        import psutil  # type: ignore[import-untyped]  # it has no types

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
