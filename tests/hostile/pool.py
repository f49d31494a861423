"""Runs mutations in processes of their own, so that a signal or a hang is seen and survived."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

MOST_SECONDS = 20.0  # of processor time per mutation
_MOST_WAITING = 45.0  # seconds in all: a wait for a FIFO takes no processor time
_TESTS = Path(__file__).resolve().parents[1]


class Attempts:
    """A process that tries mutations one after the other; a new one where it dies or hangs."""

    def __init__(self, models: Path, scratch: Path, before: str = "") -> None:
        """Try models of a folder; `before` is Python that runs before each, to test this class."""
        self.models, self.scratch, self.before = models, scratch, before
        self._process: subprocess.Popen[str] | None = None

    def run(self, name: str, number: int) -> dict[str, Any]:
        """Return what came of one mutation; `result` is refused, valid or broken."""
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(f"{name} {number}\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._dead(name, number)
        found = self._answer(name)
        if found is None:
            return self._dead(name, number)
        if found["number"] < 0:  # the undamaged model, for which loops are compiled
            if found["result"] != "valid":
                raise RuntimeError(f"the undamaged model {name} is {found['result']}")
            found = self._answer(name, MOST_SECONDS)
        return self._dead(name, number) if found is None else found

    def close(self) -> None:
        if self._process is not None:
            self._end()

    def _answer(self, name: str, seconds: float | None = None) -> dict[str, Any] | None:
        """Return the next line; None where the process ended or took too long."""
        known = name in self._warmed
        limit = MOST_SECONDS if known or seconds else 900.0
        assert self._process is not None
        started, used = time.monotonic(), _processor_time(self._process.pid)
        while True:
            try:
                line = self._lines.get(timeout=1.0)
            except queue.Empty:
                waited = time.monotonic() - started
                took = _processor_time(self._process.pid) - used
                if took > limit or waited > max(_MOST_WAITING, 2 * limit):
                    self._hung = True
                    return None
                continue
            if line is None:
                return None
            self._warmed.add(name)
            answer: dict[str, Any] = json.loads(line)
            return answer

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._hung = False
            self._warmed: set[str] = set()
            self._lines: queue.Queue[str | None] = queue.Queue()
            paths = os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "hostile.answers",
                    str(self.models),
                    str(self.scratch),
                    self.before,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            )
            self._errors: list[str | None] = []
            self._pumps: list[threading.Thread] = []
            for stream, put in (
                (self._process.stdout, self._lines.put),
                (self._process.stderr, self._errors.append),
            ):
                pump = threading.Thread(target=_pump, args=(stream, put), daemon=True)
                self._pumps.append(pump)
                pump.start()
        return self._process

    def _dead(self, name: str, number: int) -> dict[str, Any]:
        code = self._end()
        kind = "hang" if self._hung else f"the process ended with {code}"
        where = "".join(filter(None, self._errors[-8:])).strip()[-600:]
        return {"name": name, "number": number, "result": "broken", "kind": kind, "where": where}

    def _end(self) -> int:
        """End the process, if it runs, and return its code."""
        process, self._process = self._process, None
        assert process is not None
        process.kill()
        code = process.wait()
        for pump in self._pumps:
            pump.join()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        return code


def _pump(stream: Any, put: Callable[[str | None], None]) -> None:
    for line in stream:
        put(line)
    put(None)


def _processor_time(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
