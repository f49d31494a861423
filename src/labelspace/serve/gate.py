"""What every request passes: host, token, size and encoding of its body; log line and figures."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from labelspace._core.plain import plain
from labelspace.serve.figures import Figures
from labelspace.serve.problems import Failure, overloaded, problem
from labelspace.serve.settings import Settings
from labelspace.serve.tokens import LEARN, Tokens

access = logging.getLogger("labelspace.serve.access")
logger = logging.getLogger(__name__)

SCOPE = "labelspace.scope"  # key of a request's scope: what its token allows

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# Probes and the files of the page, which hold no data, need no token.
_OPEN = ("/", "/health/live", "/health/ready")
_OPEN_FOLDER = "/page/"
_GZIP = 16 + zlib.MAX_WBITS
_BODIES = 32  # bodies of the largest size that are held at once, for the memory


class Gate:
    """An ASGI application around another one.

    Parameters
    ----------
    app : ASGI application
        The one inside.
    settings : Settings
        Limits, names of hosts.
    figures : Figures
        What `/metrics` shows.
    tokens : Tokens or None
        The tokens that are accepted; None accepts all requests.
    """

    def __init__(
        self, app: ASGIApp, settings: Settings, figures: Figures, tokens: Tokens | None
    ) -> None:
        self.app, self.figures, self.tokens = app, figures, tokens
        self.limits, self.hosts = settings.limits, settings.hosts
        self._counts: dict[tuple[str, str, int], Callable[[], None]] = {}
        self._times: dict[str, Callable[[float], None]] = {}
        self._held = 0  # bytes of bodies in memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, held = time.perf_counter(), 0, 0

        def hold(size: int) -> None:
            nonlocal held
            if self._held + size > _BODIES * self.limits.body:
                raise overloaded("too many large requests at once: repeat the request later")
            self._held += size
            held += size

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-content-type-options"] = "nosniff"
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            headers = Headers(scope=scope)
            self._check_host(headers)
            self._check_token(scope, headers)
            if scope["method"] in ("POST", "PUT", "PATCH"):
                receive = await self._body(headers, receive, hold)
            await self.app(scope, receive, answer)
        except Failure as failure:
            await failure.response()(scope, receive, answer)
        except ConnectionResetError:
            status = 499  # the client has gone before its request was complete
        except Exception:
            logger.exception("a request failed")
            if not status:
                await problem(500, "internal error")(scope, receive, answer)
        finally:
            self._held -= held
            self._record(scope, status, time.perf_counter() - start)

    def _check_host(self, headers: Headers) -> None:
        if self.hosts is None:
            return
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if name.lower() not in self.hosts:
            raise Failure(
                421, f"this server is not called {name[:100]!r}; start it with --allowed-host NAME"
            )

    def _check_token(self, scope: Scope, headers: Headers) -> None:
        scope[SCOPE] = LEARN
        path = scope["path"]
        if self.tokens is None or path in _OPEN or path.startswith(_OPEN_FOLDER):
            return
        kind, _, token = headers.get("authorization", "").partition(" ")
        allowed = self.tokens.scope(token.strip()) if kind.lower() == "bearer" else None
        if allowed is None:
            sentence = "a bearer token is needed" if not kind else "the token is not known"
            raise Failure(401, sentence, {"WWW-Authenticate": 'Bearer realm="labelspace"'})
        scope[SCOPE] = allowed

    async def _body(
        self, headers: Headers, receive: Receive, hold: Callable[[int], None]
    ) -> Receive:
        """Read and unpack the body; return a `receive` that gives it as a whole."""
        encoding = headers.get("content-encoding", "identity").lower()
        if encoding not in ("identity", "gzip"):
            raise Failure(415, "Content-Encoding: expected gzip or none", {"Connection": "close"})
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self.limits.body:
            raise self._too_large()
        parts, size = [], 0
        unpack = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
        try:
            async with asyncio.timeout(self.limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionResetError
                    part = message.get("body", b"")
                    if unpack is not None:
                        # One byte more than allowed shows that it is too large.
                        part = unpack.decompress(part, self.limits.body - size + 1)
                    size += len(part)
                    if size > self.limits.body:
                        raise self._too_large()
                    hold(len(part))
                    parts.append(part)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            seconds = f"{self.limits.seconds:g} seconds"
            raise Failure(
                408, f"the body did not arrive within {seconds}", {"Connection": "close"}
            ) from None
        except zlib.error:
            raise Failure(400, "the body is not valid gzip") from None
        if unpack is not None and not unpack.eof:
            raise Failure(400, "the body is not valid gzip: its end is missing")
        whole: list[Message] = [
            {"type": "http.request", "body": b"".join(parts), "more_body": False}
        ]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay

    def _too_large(self) -> Failure:
        detail = f"the body has more than {self.limits.body:,} bytes"
        return Failure(413, detail, {"Connection": "close"})

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        """Count the request and write one line, without its query and its content."""
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route: Any = scope.get("route")
        path = getattr(route, "path", "unmatched")
        key = (method, path, status)
        if key not in self._counts:
            self._counts[key] = self.figures.requests.labels(method, path, str(status)).inc
            self._times[path] = self.figures.seconds.labels(path).observe
        self._counts[key]()
        self._times[path](seconds)
        if access.isEnabledFor(logging.INFO):
            name = plain(scope["path"])
            access.info("%s %s %d %.1f ms", plain(scope["method"]), name, status, 1e3 * seconds)
