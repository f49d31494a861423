"""What commands print: tables for people, JSON for programs, progress on standard error."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from labelspace.nn.callbacks import Callback

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from labelspace.nn.trainer import Trainer


def say(message: str) -> None:
    """A line about what happens, apart from the results."""
    typer.echo(message, err=True)


def say_threshold(chosen: Mapping[str, Any]) -> None:
    """A threshold and the figures of the sets it gives."""
    figures = ", ".join(
        f"{name} {chosen[key]:.2f}"
        for name, key in (
            ("precision", "precision"),
            ("recall", "recall"),
            ("micro-F1", "micro_f1"),
            ("macro-F1", "macro_f1"),
        )
    )
    say(f"threshold {chosen['value']:.4f} for {chosen['goal']}: {figures} percent "
        f"on {chosen['examples']:,} held-out examples")  # fmt: skip


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Text to the left, numbers to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for place, name in enumerate(columns):
        numeric = any(isinstance(row[place], int | float) for row in rows)
        table.add_column(name, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    # A terminal may be narrow; a file or pipe gets whole lines.
    console = Console()
    Console(width=None if console.is_terminal else 200, soft_wrap=True).print(table)


def print_facts(facts: Mapping[str, Any], title: str = "") -> None:
    """Name and value, a line each."""
    print_table(("", ""), [(name, _cell(value)) for name, value in facts.items()], title)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if 0 < abs(value) < 0.01 else f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


class ProgressBar(Callback):
    """A bar over the batches of a training run, or over the parts of other work.

    name  of the part of a run that it shows
    """

    def __init__(self, progress: Progress, name: str = "") -> None:
        self.progress, self.name = progress, f"{name} " if name else ""
        self.works: dict[str, TaskID] = {}

    def within(self, part: str) -> Callback:
        return ProgressBar(self.progress, f"{self.name}{part}")

    def on_work(self, what: str, done: int, total: int) -> None:
        if what not in self.works:
            self.works[what] = self.progress.add_task(f"{self.name}{what}", total=total)
        self.progress.update(self.works[what], completed=done, visible=done < total)

    def on_start(self, run: Trainer) -> None:
        total = run.epochs * run.steps_per_epoch
        self.task = self.progress.add_task(f"{self.name}training", total=total)

    def on_batch(self, run: Trainer) -> None:
        at = run.progress
        self.progress.update(
            self.task,
            completed=at.epoch * run.steps_per_epoch + at.step,
            description=f"{self.name}epoch {at.epoch + 1}/{run.epochs} loss {run.loss:.4f}",
        )

    def on_end(self, run: Trainer) -> None:
        self.progress.update(self.task, completed=run.epochs * run.steps_per_epoch)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A rich progress display on standard error."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield progress


class Stages:
    """Says what happens next, and how long the last thing took."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.since = time.monotonic()
        self.current = ""

    def __call__(self, stage: str) -> None:
        now = time.monotonic()
        if self.current and not self.quiet:
            say(f"  {self.current}: {now - self.since:.1f} s")
        self.since, self.current = now, stage
