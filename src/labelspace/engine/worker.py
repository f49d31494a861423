"""The process at the other end of `LocalEngine`, run as a script: items in, answers out.

Imports at the top are the standard library's alone, so that it has its share of the cores before
numpy or torch count them.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from typing import IO, Any

MARK = "LABELSPACE_WORKER"  # in the environment of a worker
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>


def send(pipe: IO[bytes] | None, message: bytes) -> None:
    """One message, its length first."""
    assert pipe is not None
    pipe.write(len(message).to_bytes(8, "little"))
    pipe.write(message)
    pipe.flush()


def receive(pipe: IO[bytes] | None) -> bytes:
    """The next message; EOFError if the other end has closed."""
    assert pipe is not None
    length = pipe.read(8)
    message = pipe.read(int.from_bytes(length, "little"))
    if len(length) < 8 or len(message) < int.from_bytes(length, "little"):
        raise EOFError
    return message


def end_with_caller() -> None:
    """Have Linux end this process as soon as the one that started it ends, whatever it is doing.

    Elsewhere it is for the caller to close a pipe, which a thread can notice only while no compiled
    code holds Python's lock.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides what Ctrl-C ends
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)


def main(place: int, count: int) -> None:
    """Answer until the caller is gone."""
    end_with_caller()
    if hasattr(os, "sched_setaffinity"):
        own = sorted(os.sched_getaffinity(0))[place::count]
        if own:
            os.sched_setaffinity(0, own)
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints must not get between the answers
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(incoming, inbox), daemon=True).start()
    sys.path[:] = pickle.loads(inbox.get())
    call, task, shared = inbox.get(), None, {}
    while True:
        message = inbox.get()
        try:
            if task is None:
                task, shared = _opened(call)
            answer = pickle.dumps((True, task(pickle.loads(message), **shared)))
        except Exception as error:
            answer = _failure(error)
        send(outgoing, answer)


def _listen(incoming: IO[bytes], inbox: queue.SimpleQueue[bytes]) -> None:
    """Take messages in even while a task runs, to end with the caller and not after the task."""
    while True:
        try:
            inbox.put(receive(incoming))
        except (EOFError, OSError):
            os._exit(0)


def _opened(call: bytes) -> Any:
    from labelspace.engine.shared import opened

    task, shared = pickle.loads(call)
    return task, opened(shared)


def _failure(error: Exception) -> bytes:
    """The error as an answer, or its text where it cannot travel."""
    where = "".join(traceback.format_exception(error))
    try:
        answer = pickle.dumps((False, error))
        pickle.loads(answer)
    except Exception:
        from labelspace.errors import LabelspaceError

        error = LabelspaceError(f"{type(error).__name__}: {error}")
    error.add_note(f"in a worker process:\n{where}")
    return pickle.dumps((False, error))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
