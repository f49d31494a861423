"""Independent tasks on this machine's cores, one process each, large arrays shared by memory map.

Workers are fresh interpreters that talk through their pipes, so that a caller's script needs no
`if __name__ == "__main__"`, and they end as soon as the pipe from this process closes: by Ctrl-C,
by an error or by a kill, none is left behind. What goes through the pipes is pickled; no file is.
"""

from __future__ import annotations

import os
import pickle
import queue
import reprlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from labelspace._core.threads import cores
from labelspace.engine import worker
from labelspace.engine.scratch import scratch_folder
from labelspace.engine.shared import placed, read_only
from labelspace.engine.worker import receive, send
from labelspace.errors import LabelspaceError, ParameterError

Result = TypeVar("Result")


class LocalEngine:
    """Runs tasks in `workers` processes, as many as there are cores if None; 1: in this process."""

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ParameterError(f"workers={workers}: expected an integer of at least 1 or none")
        self.workers = workers

    def map(
        self,
        task: Callable[..., Result],
        items: Iterable[Any],
        *,
        shared: Mapping[str, Any] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Result]:
        """[task(item, **shared) for item in items], in that order.

        shared    arguments of every task; arrays and CSR matrices among them are read only
        progress  called with (tasks done, all tasks) in the caller's thread

        The first error of a task ends all others and is raised, with a note on its item.
        """
        work, shared = list(items), shared or {}
        tell = progress or (lambda *_: None)
        workers = min(self.workers or cores(), len(work))
        # A worker's core is its own: tasks within tasks run one after another.
        if workers <= 1 or worker.MARK in os.environ:
            return _in_turn(task, work, read_only(shared), tell)
        with scratch_folder("engine") as directory:
            call = _pickled((task, placed(shared, directory)))
            return _Pool(call, workers).run(work, tell)


def _in_turn(
    task: Callable[..., Result],
    items: Sequence[Any],
    shared: Mapping[str, Any],
    tell: Callable[[int, int], None],
) -> list[Result]:
    results = []
    for number, item in enumerate(items):
        try:
            results.append(task(item, **shared))
        except Exception as error:
            error.add_note(_place(number, items))
            raise
        tell(number + 1, len(items))
    return results


class _Pool:
    """Worker processes, each with a thread of ours that hands it items and takes its answers."""

    def __init__(self, call: bytes, count: int) -> None:
        self.call, self.count = call, count
        self.answers: queue.SimpleQueue[tuple[int, bool, Any]] = queue.SimpleQueue()
        self.ended = threading.Event()
        self.processes: list[subprocess.Popen[bytes]] = []

    def run(self, items: Sequence[Any], tell: Callable[[int, int], None]) -> list[Any]:
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(items)):
            waiting.put(number)
        try:
            with ThreadPoolExecutor(self.count) as threads:
                try:
                    for place in range(self.count):
                        self.processes.append(_start(place, self.count))
                    for process in self.processes:
                        threads.submit(self._feed, process, waiting, items)
                    return self._gather(items, tell)
                finally:
                    self._end()
        finally:
            for process in self.processes:
                # Waits for its end and closes its pipes, on which a message may still have waited.
                with suppress(BrokenPipeError), process:
                    pass

    def _gather(self, items: Sequence[Any], tell: Callable[[int, int], None]) -> list[Any]:
        results: list[Any] = [None] * len(items)
        for done in range(len(items)):
            number, fine, answer = self.answers.get()
            if not fine:
                answer.add_note(_place(number, items))
                raise answer
            results[number] = answer
            tell(done + 1, len(items))
        return results

    def _feed(
        self,
        process: subprocess.Popen[bytes],
        waiting: queue.SimpleQueue[int],
        items: Sequence[Any],
    ) -> None:
        """Hand items to one worker until there are no more, or the pool has ended."""
        number = -1
        try:
            send(process.stdin, _pickled(sys.path))
            send(process.stdin, self.call)
            while not self.ended.is_set():
                number = waiting.get_nowait()
                send(process.stdin, _pickled(items[number]))
                self.answers.put((number, *pickle.loads(receive(process.stdout))))
        except queue.Empty:
            pass
        except (EOFError, OSError):
            self.answers.put((number, False, _died(process.wait())))
        except Exception as error:  # such as an item or an answer that cannot be pickled
            self.answers.put((number, False, error))

    def _end(self) -> None:
        self.ended.set()
        for process in self.processes:
            process.kill()


def _start(place: int, count: int) -> subprocess.Popen[bytes]:
    # By its path and not as a module: it takes its cores before anything heavy is imported.
    command = [sys.executable, "-P", worker.__file__, str(place), str(count)]
    threads = str(max(1, cores() // count))
    environment = {"OMP_NUM_THREADS": threads, **os.environ, worker.MARK: "1"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ParameterError(
            f"tasks, items and shared arguments must be plain values and functions of a module, "
            f"for they go to other processes: {error}"
        ) from None


def _place(number: int, items: Sequence[Any]) -> str:
    if number < 0:
        return "before the first item"
    return f"in item {number + 1} of {len(items)}: {reprlib.repr(items[number])}"


def _died(code: int) -> LabelspaceError:
    return LabelspaceError(
        f"a worker process ended by itself (exit code {code}); "
        "if that is -9, the machine was out of memory: use fewer workers"
    )
