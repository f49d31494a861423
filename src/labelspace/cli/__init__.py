"""The command line. Exit codes: 0 done, 1 failed, 2 wrongly called."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `labelspace`; our errors become one sentence on standard error."""
    from labelspace.cli.app import app
    from labelspace.cli.plain import log_plainly, plain
    from labelspace.errors import LabelspaceError, ParameterError

    log_plainly()
    try:
        app()
    except LabelspaceError as error:
        print(f"error: {plain(str(error))}", file=sys.stderr)
        sys.exit(2 if isinstance(error, ParameterError) else 1)
