"""Progress of a long run: bars in a terminal or notebook, a line every 30 seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol

from labelspace._core.compiled import keeps_loops
from labelspace._core.plain import plain
from labelspace._core.work import listening
from labelspace.runs.callbacks import Callback, Run

SECONDS_PER_LINE = 30.0  # without a terminal
COMPILING = "compiling loops, once: later runs start at once"
COMPILING_EACH_TIME = "compiling loops: give a folder for them as NUMBA_CACHE_DIR to keep them"


class Display(Protocol):
    """The part of rich's Progress that is used here."""

    def add_task(self, description: str, *, total: float | None) -> Any: ...
    def update(self, task_id: Any, **changes: Any) -> None: ...


def interactive() -> bool:
    """Return whether standard error is a terminal or a notebook."""
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def print_line(message: str) -> None:
    """Print a line on standard error at once."""
    print(plain(message), file=sys.stderr, flush=True)


class Stages:
    """Prints every stage of a run when it begins, and how long it took when it ends."""

    def __init__(
        self, quiet: bool = False, print_message: Callable[[str], None] = print_line
    ) -> None:
        self.quiet, self.print_message = quiet, print_message
        self.since = time.monotonic()
        self.current = ""

    def __call__(self, stage: str) -> None:
        """End the stage before and begin this one; "" begins none."""
        now = time.monotonic()
        if self.current and not self.quiet:
            self.print_message(f"  {self.current}: {now - self.since:.1f} s")
        self.since, self.current = now, stage
        if stage and not self.quiet:
            self.print_message(f"{stage} ...")


class ProgressLines:
    """Prints the latest state of a run every `seconds`, from a thread of its own."""

    def __init__(
        self, seconds: float = SECONDS_PER_LINE, print_message: Callable[[str], None] = print_line
    ) -> None:
        self.seconds, self.print_message = seconds, print_message
        self.began = time.monotonic()
        self._tasks: dict[int, tuple[str, float, float | None]] = {}
        self._latest: int | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> ProgressLines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def add_task(self, description: str, *, total: float | None) -> int:
        """Begin a task; `total` is None where its size is not known."""
        number = len(self._tasks)
        self._tasks[number] = (description, 0.0, total)
        self._latest = number
        return number

    def update(self, task_id: int, **changes: Any) -> None:
        """Keep how far a task is."""
        description, completed, total = self._tasks[task_id]
        self._tasks[task_id] = (
            changes.get("description", description),
            changes.get("completed", completed + changes.get("advance", 0.0)),
            changes.get("total", total),
        )
        self._latest = task_id

    def line(self) -> str:
        """Return the time since the start, and the task that was updated last."""
        passed = f"  {time.monotonic() - self.began:.0f} s so far"
        if self._latest is None:
            return passed
        description, completed, total = self._tasks[self._latest]
        share = f", {100 * completed / total:.0f} percent" if total else ""
        return f"{passed}: {description}{share}"

    def _run(self) -> None:
        while not self._done.wait(self.seconds):
            self.print_message(self.line())


@contextmanager
def progress_bar(bars: bool = True) -> Iterator[Display]:
    """Show bars on standard error, or lines where they cannot be drawn; report compilation too.

    Work that is reported while it is open (`report_work`) is shown too. With `bars=False` there are
    lines in any case, for commands that print results to the same terminal.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        Task,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Description(TextColumn):
        """The name of a task, in which no character acts."""

        def render(self, task: Task) -> Text:
            return Text(plain(task.description), style=self.style)

    console = Console(stderr=True)
    # rich draws in notebooks by ipywidgets alone.
    widgets = console.is_jupyter and find_spec("ipywidgets") is not None
    if not bars or not (console.is_terminal or widgets):
        with compilation_notice(), ProgressLines() as lines, listening(ProgressBar(lines).on_work):
            yield lines
        return
    with (
        Progress(
            Description("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        ) as progress,
        compilation_notice(),
        listening(ProgressBar(progress).on_work),
    ):
        yield progress


@contextmanager
def compilation_notice(print_message: Callable[[str], None] = print_line) -> Iterator[None]:
    """Print one line if compiled loops are not in numba's cache and must be compiled."""
    from numba.core import event

    class Once(event.Listener):  # type: ignore[misc]  # numba has no types
        printed = False

        def on_start(self, happened: Any) -> None:
            # Numba compiles parts of its own that it never caches; ours are what takes long.
            if not Once.printed and _is_ours(happened.data.get("dispatcher")):
                Once.printed = True
                print_message(COMPILING if keeps_loops() else COMPILING_EACH_TIME)

        def on_end(self, happened: Any) -> None: ...

    with event.install_listener("numba:compile", Once()):
        yield


def _is_ours(dispatcher: Any) -> bool:
    return getattr(dispatcher, "__module__", "").partition(".")[0] == __package__.partition(".")[0]


class ProgressBar(Callback):
    """A bar over the batches of a training run, or over the parts of other work.

    `name` is that of the part of the run.
    """

    def __init__(self, progress: Display, name: str = "") -> None:
        self.progress, self.name = progress, f"{name} " if name else ""
        self.works: dict[str, Any] = {}

    def within(self, part: str) -> Callback:
        return ProgressBar(self.progress, f"{self.name}{part}")

    def on_work(self, what: str, done: int, total: int) -> None:
        if what not in self.works:
            self.works[what] = self.progress.add_task(f"{self.name}{what}", total=total)
        self.progress.update(self.works[what], completed=done, visible=done < total)

    def on_start(self, run: Run) -> None:
        total = run.epochs * run.steps_per_epoch
        self.task = self.progress.add_task(f"{self.name}training", total=total)

    def on_batch(self, run: Run) -> None:
        at = run.progress
        self.progress.update(
            self.task,
            completed=at.epoch * run.steps_per_epoch + at.step,
            description=f"{self.name}epoch {at.epoch + 1}/{run.epochs} loss {run.loss:.4f}",
        )

    def on_end(self, run: Run) -> None:
        self.progress.update(self.task, completed=run.epochs * run.steps_per_epoch)
