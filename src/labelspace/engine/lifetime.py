"""The end of a child process: with its parent, however the parent ends.

loky's workers live on when their parent is killed: for the rest of the task, which may take hours,
and idle for five minutes more.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress

_PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>


def end_with_parent(parent: int | None = None) -> None:
    """End this process as soon as its parent process ends; ignore Ctrl-C, which is the parent's.

    On Linux the kernel does it at once. Elsewhere a thread waits for the parent, which it can
    only while no compiled code holds Python's global lock.

    Parameters
    ----------
    parent : int, optional
        The process id of the parent, which may have ended before this call; by default the
        present parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid() if parent is None else parent
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it ended before the line above
            os._exit(1)
    else:
        threading.Thread(target=_wait_and_exit, args=(parent,), daemon=True).start()


def _wait_and_exit(parent: int) -> None:
    import psutil  # type: ignore[import-untyped]  # it has no types

    with suppress(psutil.NoSuchProcess):
        psutil.Process(parent).wait()
    os._exit(1)
