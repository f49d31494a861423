"""Operations that are killed or meet a failing disk, and what has to hold afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from support.failing_disk import Fault
from support.nursery import Done, Nursery
from support.operations import Operation, Outcome

ENDS_WITHIN = 20.0  # seconds in which a process that a killed one had started has to end


@dataclass
class Reference:
    """What an undisturbed run did: its outputs, the files afterwards, calls, bytes, seconds."""

    old: Outcome
    new: Outcome
    before: set[str]
    after: set[str]
    calls: int
    bytes: int
    seconds: float


@dataclass
class Attack:
    """One operation, its undisturbed run, and ways to disturb it.

    Parameters
    ----------
    nursery : Nursery
    template : Path
        A folder that `prepare` has filled.
    scratch : Path
        For copies of it.
    operation : Operation
    """

    nursery: Nursery
    template: Path
    scratch: Path
    operation: Operation
    reference: Reference = field(init=False)
    number: int = 0

    def __post_init__(self) -> None:
        self.scratch = self.scratch / self.operation.name.replace(" ", "-")
        self.scratch.mkdir(parents=True)
        folder = self._fresh()
        old, before = self.operation.outcome(folder), listing(folder)
        start = time.monotonic()
        done = self.nursery.run(self.operation.arguments, folder, Fault())
        seconds = time.monotonic() - start
        assert done.code == 0, done.err
        self.reference = Reference(
            old,
            self.operation.outcome(folder),
            before,
            listing(folder),
            done.calls,
            done.bytes,
            seconds,
        )
        shutil.rmtree(folder)

    def kill_at(self, call: int) -> list[str]:
        """Kill it instead of a call that changes files; return what is wrong afterwards."""
        folder = self._fresh()
        done = self.nursery.run(self.operation.arguments, folder, Fault("kill", call))
        return self._after_kill(folder, done, f"killed at call {call}")

    def kill_after(self, seconds: float) -> list[str]:
        """Kill it after some time; return what is wrong afterwards."""
        folder = self._fresh()
        child = self.nursery.start(self.operation.arguments, folder)
        time.sleep(seconds)
        child.kill()
        done = child.wait()
        wrong = self._after_kill(folder, done, f"killed after {seconds:.3f} s")
        return [*wrong, *still_running(child.pid)]

    def meet(self, fault: Fault) -> list[str]:
        """Run it on a disk that fails; return what is wrong afterwards."""
        folder = self._fresh()
        done = self.nursery.run(self.operation.arguments, folder, fault)
        what = f"{fault.mode} {os.strerror(fault.error)} at {fault.at}"
        wrong = self._said(done)
        wrong += self._state(folder)
        if done.code == 0 and self.operation.outcome(folder) != self.reference.new:
            wrong.append("it ended with 0 and the outputs are others")
        if fault.error not in READ_ONLY:
            hidden = listing(folder) - self.reference.before - self.reference.after
            wrong += [f"left behind: {name}" for name in sorted(hidden) if _is_draft(name)]
        wrong += self._again(folder)
        shutil.rmtree(folder)
        return [f"{self.operation.name}, {what}: {each}" for each in wrong]

    def _fresh(self) -> Path:
        self.number += 1
        return Path(shutil.copytree(self.template, self.scratch / f"copy-{self.number}"))

    def _after_kill(self, folder: Path, done: Done, what: str) -> list[str]:
        wrong = []
        if done.code not in (0, -signal.SIGKILL):
            wrong.append(f"ended with {done.code}: {done.err[-500:]}")
        wrong += self._state(folder)
        if self.operation.check is not None:
            wrong += self.operation.check(folder, done.out)
        wrong += self._again(folder)
        shutil.rmtree(folder)
        return [f"{self.operation.name}, {what}: {each}" for each in wrong]

    def _state(self, folder: Path) -> list[str]:
        """Return outputs that are neither the old nor the new ones."""
        try:
            found = self.operation.outcome(folder)
        except Exception as error:
            return [f"an output is damaged: {type(error).__name__}: {error}"]
        old, new = self.reference.old, self.reference.new
        wrong = [
            f"{name} is neither old nor new"
            for name in {*old, *new}
            if found.get(name, "") not in (old.get(name, ""), new.get(name, ""))
            and not (self.operation.data and name != self.operation.data)
            and not (name == self.operation.data and name not in found)
        ]
        if self.operation.data in found and found not in (old, new):
            wrong.append("the data are beside companions of others")
        return wrong

    def _said(self, done: Done) -> list[str]:
        """Return what is wrong with the exit code and the error of a run on a failing disk."""
        if done.code == 0 and (done.failures == 0 or self.operation.may_succeed):
            return [] if "Traceback" not in done.err else [f"a traceback: {done.err[-700:]}"]
        errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
        last = (done.err.strip().splitlines() or [""])[-1]
        if done.code == 1 and len(errors) == 1 and "Traceback" not in done.err:
            if last != errors[0]:
                return [f"the error is not the last line: {last}"]
            names = {Path(name).name for name in self.reference.after} - {"tmp"}
            if self.operation.outputs and not any(name in last for name in names):
                return [f"the error names no file: {last}"]
            return []
        if done.code == 0:
            return []  # the caller compares the outputs
        return [f"exit code {done.code}, {len(errors)} errors: {done.err[-900:]}"]

    def _again(self, folder: Path) -> list[str]:
        """Run it once more without disturbance; return what differs from the reference."""
        done = self.nursery.run(self.operation.again or self.operation.arguments, folder)
        if done.code != 0:
            return [f"the next run ended with {done.code}: {done.err[-700:]}"]
        wrong = []
        if self.operation.outcome(folder) != self.reference.new:
            wrong.append("the next run has other outputs")
        left = listing(folder) - self.reference.after
        lost = self.reference.after - listing(folder)
        if left or lost:
            wrong.append(f"after the next run: left {sorted(left)}, lost {sorted(lost)}")
        return wrong


READ_ONLY = (30,)  # on such a disk nothing can be removed


def listing(folder: Path) -> set[str]:
    """Return the names of all files and folders in it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def still_running(group: int) -> list[str]:
    """Return what is wrong if processes of a group do not end; they are killed then."""
    if _until(lambda: not _alive(group), ENDS_WITHIN):
        return []
    os.killpg(group, signal.SIGKILL)
    return ["processes that it had started go on"]


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _until(check: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _is_draft(name: str) -> bool:
    return Path(name).name.startswith(".") or name.startswith("tmp/")
