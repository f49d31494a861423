"""The log of a server: one line per event on standard error, with the time in front."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from labelspace._core.plain import plain

_LOGGERS = ("labelspace", "uvicorn.error")


class _Lines(logging.Handler):
    """Writes records with the time; control characters of a message are escaped.

    The lines of requests that are answered in one turn of the event loop are written at once, at
    its end: each write gives the interpreter's lock to the thread that computes.
    """

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._waiting: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        clock = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        lines = [plain(record.getMessage())]
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            lines += [f"  {plain(line)}" for line in trace.splitlines()]
        self._waiting += [f"{clock} {level}{line}\n" for line in lines]
        try:
            loop = asyncio.get_running_loop() if record.levelno == logging.INFO else None
        except RuntimeError:  # of another thread
            loop = None
        if loop is None:
            self.flush()
        elif len(self._waiting) == len(lines):  # the first ones of this turn
            loop.call_soon(self.flush)

    def flush(self) -> None:
        self.acquire()
        try:
            text, self._waiting = "".join(self._waiting), []
            if text:
                sys.stderr.write(text)
        finally:
            self.release()


@contextmanager
def logged_to_stderr(level: int = logging.INFO) -> Iterator[None]:
    """Send what the server and uvicorn log to standard error, and nowhere else."""
    before = []
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        before.append((logger, logger.handlers, logger.propagate, logger.level))
        logger.handlers, logger.propagate = [_Lines(level)], False
        logger.setLevel(max(level, logging.WARNING) if name == "uvicorn.error" else level)
    try:
        yield
    finally:
        for logger, handlers, propagate, old in before:
            for own in logger.handlers:
                own.flush()
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(old)
