"""SIGTERM and SIGHUP end a command as Ctrl-C does: work is saved, no traceback is printed.

`docker stop`, systemd, Slurm and `timeout` send SIGTERM; a terminal that closes sends SIGHUP.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Terminated(KeyboardInterrupt):
    """A signal other than that of Ctrl-C ends the command."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Raise Terminated in the main thread where a signal would otherwise end the process.

    A signal that is ignored, as SIGHUP under nohup, or that has a handler is left alone.
    """
    changed = []
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _terminate)
                changed.append(number)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def stopped_by(stop: KeyboardInterrupt) -> str:
    """Return how a sentence on the end of the command begins."""
    if isinstance(stop, Terminated):
        return f"stopped by {signal.Signals(stop.signum).name}"
    return "interrupted"


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code that shells give a process which this signal has ended."""
    return 128 + (stop.signum if isinstance(stop, Terminated) else signal.SIGINT)


def _terminate(signum: int, frame: Any) -> None:
    del frame
    raise Terminated(signum)
