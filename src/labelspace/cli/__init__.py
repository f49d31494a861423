"""The command line. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `labelspace`; errors become one sentence on standard error."""
    try:
        _run()
    except KeyboardInterrupt as error:
        sys.exit(getattr(error, "exit_code", 130))
    except SystemExit as error:
        # typer turns an interrupt into an exit code of its own.
        sys.exit(getattr(_interrupt(error), "exit_code", error.code))


def _run() -> None:
    from labelspace._core.plain import log_plainly
    from labelspace.cli.app import app
    from labelspace.errors import LabelspaceError, ParameterError

    log_plainly()
    try:
        app()
    except LabelspaceError as error:
        code = 2 if isinstance(error, ParameterError) else 1
        _fail(str(error), getattr(error, "exit_code", code))
    except OSError as error:
        places = [str(name) for name in (error.filename, error.filename2) if name is not None]
        _fail(": ".join([*places, error.strerror or str(error)]), 1)
    except MemoryError as error:
        _fail(f"out of memory: {error or 'give less data, or see labelspace plan'}", 1)


def _fail(sentence: str, code: int) -> None:
    from labelspace._core.plain import plain

    print(f"error: {plain(sentence)}", file=sys.stderr)
    sys.exit(code)


def _interrupt(error: BaseException | None) -> BaseException | None:
    """Return the KeyboardInterrupt that led to an error, if one did."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error
