"""Bearer tokens from a file, which is read again when it changes."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import time
from pathlib import Path

from labelspace.errors import ParameterError

logger = logging.getLogger(__name__)

READ, LEARN = "read", "learn"
_SCOPES = (READ, LEARN)
_SHORTEST = 16  # characters of a token
_EVERY = 1.0  # seconds between two looks at the file


class Tokens:
    """The tokens that are accepted, and what each allows.

    A line of the file is `token` or `token scope`; the scope is `read` (the default) or `learn`,
    which includes `read`. Blank lines and lines that begin with `#` are skipped.

    Parameters
    ----------
    path : path
        The file.

    Raises
    ------
    ParameterError
        If the file cannot be read, has no token, or a line is not valid.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._seen, self._looked = self._signature(), time.monotonic()
        self._known = read_tokens(self.path)
        if not self._known:
            raise ParameterError(f"{self.path} has no token: write one per line")
        if os.name == "posix" and os.stat(self.path).st_mode & 0o007:
            logger.warning("%s: other users can read or change the tokens; chmod o-rwx", self.path)

    def scope(self, token: str) -> str | None:
        """Return what a token allows; None if it is not known.

        All tokens are compared, each in constant time, so that the time does not depend on how much
        of a token is right.
        """
        self._refresh()
        given, found = _digest(token), None
        for digest, scope in self._known:
            if hmac.compare_digest(digest, given):
                found = scope
        return found

    def read_again(self) -> None:
        """Read the file; if that fails, the tokens stay as they were."""
        try:
            self._known = read_tokens(self.path)
        except ParameterError as error:
            logger.error("%s; the tokens are unchanged", error)
        else:
            logger.info("%s: %d tokens", self.path, len(self._known))

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked < _EVERY:
            return
        self._looked = now
        seen = self._signature()
        if seen != self._seen:
            self._seen = seen
            self.read_again()

    def _signature(self) -> tuple[int, ...] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns


def read_tokens(path: Path) -> list[tuple[bytes, str]]:
    """Return the digest and the scope of each token of a file; no error quotes a token."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ParameterError(f"--token-file {path}: {reason}") from None
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        token, scope = words[0], words[1] if len(words) > 1 else READ
        if len(words) > 2 or scope not in _SCOPES:
            raise ParameterError(
                f"{path}:{number}: expected `token`, `token read` or `token learn`"
            )
        if len(token) < _SHORTEST:
            raise ParameterError(
                f"{path}:{number}: a token has at least {_SHORTEST} characters; make one with "
                "python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
        found.append((_digest(token), scope))
    return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
