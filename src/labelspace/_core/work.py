"""How far long work is: reported where it is done, shown by whoever listens further up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def report_work(what: str, done: int, total: int) -> None:
    """Tell the listener, if there is one, that `done` parts of `total` are done."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener(what, done, total)` for all work that is reported in this thread."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)
