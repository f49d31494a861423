"""The log of a server: one line per event on standard error, with the time in front."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from labelspace._core.plain import plain

_LOGGERS = ("labelspace", "uvicorn.error")


class _Lines(logging.Handler):
    """Writes records with the time; control characters of a message are escaped."""

    def emit(self, record: logging.LogRecord) -> None:
        clock = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        lines = [plain(record.getMessage())]
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            lines += [f"  {plain(line)}" for line in trace.splitlines()]
        sys.stderr.write("".join(f"{clock} {level}{line}\n" for line in lines))


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
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(old)
