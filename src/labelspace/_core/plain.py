"""Text from data as a terminal may show it: no character of it acts, and none is hidden."""

from __future__ import annotations

import logging
import re
import sys
from typing import Any

# Control characters (C0, DEL, C1), line and paragraph separators, characters that reverse the
# direction of what follows, and halves of surrogate pairs, which no stream can encode.
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    r"""Return the text on one line, with its control characters as escapes such as \x1b or \n."""
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def plain_json(text: str) -> str:
    r"""Return JSON of the same value in which strings hold no control character but as \uXXXX."""
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]",
        lambda found: f"\\u{ord(found[0]):04x}",
        text,
    )


def spreadsheet_text(value: Any) -> Any:
    """Return a text with an apostrophe before what a spreadsheet would evaluate as a formula.

    For reports, which people read. Data files hold names as they are.
    """
    if not isinstance(value, str):
        return value
    text = plain(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


class _PlainHandler(logging.Handler):
    """Writes log records to standard error, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        print(plain(self.format(record)), file=sys.stderr)


def log_plainly() -> None:
    """Send the warnings of this package to standard error through `plain`."""
    logger = logging.getLogger("labelspace")
    if not any(isinstance(each, _PlainHandler) for each in logger.handlers):
        logger.addHandler(_PlainHandler(logging.WARNING))
