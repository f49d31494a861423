"""A disk that fails: `failing_disk.c`, compiled here and loaded before the C library."""

from __future__ import annotations

import ctypes
import errno
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
MODES = {"count": 1, "from": 2, "once": 3, "bytes": 4, "kill": 5}
WRITE, SYNC, RENAME, CREATE, MAKE, REMOVE, TRUNCATE = (1 << place for place in range(7))
EVERY = 127

# The calls that a disk in this state refuses: on a full one, files can still be removed.
REFUSED = {
    errno.ENOSPC: WRITE | CREATE | MAKE | SYNC,
    errno.EDQUOT: WRITE | CREATE | MAKE | SYNC,
    errno.EIO: WRITE | SYNC | RENAME | TRUNCATE,
    errno.EROFS: EVERY,
}


@dataclass(frozen=True)
class Fault:
    """What happens to changes of files in a folder.

    `mode` is "count", "from" (the call number `at` and all later ones fail), "once", "bytes"
    (writes fail after `at` bytes) or "kill" (SIGKILL instead of the call number `at`).
    """

    mode: str = "count"
    at: int = 0
    error: int = errno.EIO
    kinds: int = EVERY

    def begin(self, folder: str) -> None:
        """Let it happen in this process from now on."""
        library = ctypes.CDLL(None)
        place = str(Path(folder).resolve()).encode()
        library.failing_disk(
            place, MODES[self.mode], self.kinds, ctypes.c_long(self.at), self.error
        )


def full(at: int) -> Fault:
    """Return a disk that is full after so many bytes."""
    return Fault("bytes", at, errno.ENOSPC, WRITE)


def refusing(error: int, at: int, *, once: bool = False) -> Fault:
    """Return a disk that refuses changes from the call number `at` on, or that one alone."""
    return Fault("once" if once else "from", at, error, REFUSED[error])


def counts() -> dict[str, int]:
    """Return how many calls and failures there were since `begin`."""
    library = ctypes.CDLL(None)
    for name in ("calls", "bytes", "failures"):
        getattr(library, f"failing_disk_{name}").restype = ctypes.c_long
    return {
        "calls": library.failing_disk_calls(),
        "bytes": library.failing_disk_bytes(),
        "failures": library.failing_disk_failures(),
    }


def compiled(folder: Path) -> Path | None:
    """Compile the library into a folder; None where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    target = folder / "failing_disk.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(target), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, check=False)
    return target if done.returncode == 0 else None
