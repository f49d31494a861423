"""The application: routes, errors, OpenAPI descriptions and the page, for any ASGI server."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import signal
import sys
import threading
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from labelspace._version import __version__
from labelspace.engine.lifetime import end_with_parent
from labelspace.errors import LabelspaceError
from labelspace.maps.page import assembled
from labelspace.serve.annif import TAG as ANNIF
from labelspace.serve.annif import annif_routes
from labelspace.serve.api import own_routes
from labelspace.serve.context import Context, json_response
from labelspace.serve.figures import Figures
from labelspace.serve.gate import Gate
from labelspace.serve.logs import logged_to_stderr
from labelspace.serve.models import leave_to_collector
from labelspace.serve.problems import Failure, Problem, invalid, problem, responses, status_of
from labelspace.serve.settings import Settings
from labelspace.serve.tokens import Tokens

# The page loads its own files and calls this server only.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_SMALLEST_PACKED = 1000  # bytes of an answer from which on it is compressed
_SWITCH = 0.0005  # seconds; Python's 0.005 would delay answers while a batch is computed


class Application:
    """A server's ASGI application; loading the models takes place here.

    Parameters
    ----------
    settings : Settings
        What is served, and how.

    Attributes
    ----------
    context : Context
        Models, learners and threads.

    Raises
    ------
    StoreError
        If a model cannot be loaded, or a journal is damaged.
    ParameterError
        If the file of tokens is not valid.
    """

    def __init__(self, settings: Settings) -> None:
        figures = Figures(settings.several)
        self.tokens = None if settings.token_file is None else Tokens(settings.token_file)
        self.context = Context(settings, figures)
        self.settings = settings
        self._api = self._routed()
        app: ASGIApp = GZipMiddleware(self._api, _SMALLEST_PACKED, compresslevel=5)
        app = Gate(app, settings, figures, self.tokens)
        if settings.origins:
            # Outermost, as a preflight request has no token.
            app = CORSMiddleware(
                app,
                allow_origins=settings.origins,
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type", "Content-Encoding"],
            )
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    def _routed(self) -> FastAPI:
        context = self.context
        api = FastAPI(
            title="labelspace",
            version=__version__,
            openapi_url=None,  # there are two descriptions, see below
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            lifespan=self._lifespan,
        )
        own, annif = own_routes(context), annif_routes(context)
        api.include_router(own)
        api.include_router(annif)
        descriptions = [
            to_json(described(router.routes, annif=router is annif)) for router in (own, annif)
        ]

        @api.get("/openapi.json", include_in_schema=False)
        async def describe() -> Response:
            return json_response(descriptions[0])

        @api.get("/v1/openapi.json", include_in_schema=False)
        async def describe_annif() -> Response:
            return json_response(descriptions[1])

        @api.get("/", include_in_schema=False)
        async def page() -> Response:
            return HTMLResponse(index, headers=_PAGE_HEADERS)

        folder = files("labelspace.serve") / "page"
        # The page draws the label space by the scripts and parts of the map's own page.
        index = assembled(
            (folder / "index.html").read_text(encoding="utf-8"), {"star": "The star is your text. "}
        )
        api.mount("/page/map", PageFiles(directory=str(files("labelspace.maps") / "page")))
        api.mount("/page", PageFiles(directory=str(folder)))
        api.add_exception_handler(Failure, _on_failure)
        api.add_exception_handler(LabelspaceError, _on_error)
        api.add_exception_handler(RequestValidationError, _on_invalid)
        api.add_exception_handler(HTTPException, _on_http)
        api.add_exception_handler(Exception, _on_unexpected)
        return api

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        context, settings = self.context, self.settings
        sys.setswitchinterval(_SWITCH)
        leave_to_collector()
        self._on_hang_up()
        for learner in context.learners.values():
            learner.start()
        watching = (
            asyncio.create_task(context.models.watch(settings.watch_seconds))
            if settings.watch
            else None
        )
        try:
            yield
        finally:
            if watching is not None:
                watching.cancel()
            await context.close()
            gc.unfreeze()

    def _on_hang_up(self) -> None:
        """Read the tokens again on SIGHUP, which would end the process otherwise."""
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            again = (lambda: None) if self.tokens is None else self.tokens.read_again
            with contextlib.suppress(NotImplementedError, RuntimeError):
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, again)


class PageFiles(StaticFiles):
    """The files of the page, with its content security policy."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(_PAGE_HEADERS)
        return response


def from_environment() -> Application:
    """Return the application of a worker process, which ends with its parent."""
    parent = multiprocessing.parent_process()
    if parent is not None:  # if that were killed, its workers would go on and keep the port
        end_with_parent(parent.pid)
    logged_to_stderr().__enter__()  # for as long as the process lives
    return Application(Settings.from_environment())


def described(routes: list[BaseRoute], *, annif: bool) -> dict[str, Any]:
    """Return the OpenAPI description of the server's own routes, or of Annif's."""
    title = "Annif's REST API, by labelspace" if annif else "labelspace"
    found = get_openapi(title=title, version=__version__, routes=routes)
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = Problem.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{}, {"token": []}]  # tokens are needed only where there is a file of them
    for path in found["paths"].values():
        for operation in path.values():
            answers = operation.get("responses", {})
            if "HTTPValidationError" in str(answers.get("422", "")):  # FastAPI's own
                status = 400 if annif else 422
                del answers["422"]
                answers[str(status)] = responses(status)[status]
    return found


def _status(request: Request, status: int) -> int:
    """Return the status as the route's API has it: Annif's answers 400 to what is not valid."""
    is_annif = ANNIF in getattr(request.scope.get("route"), "tags", ())
    return 400 if status == 422 and is_annif else status


async def _on_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, Failure)
    return problem(_status(request, error.status), error.detail, error.headers)


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, LabelspaceError)
    status = status_of(error)
    if status == 500:
        raise error
    return problem(_status(request, status), str(error))


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = error.errors()
    broken = any(each["type"] == "json_invalid" for each in errors)
    return problem(400 if broken else _status(request, 422), invalid(errors))


async def _on_unexpected(_: Request, error: Exception) -> Response:
    del error  # the gate logs it
    return problem(500, "internal error")


async def _on_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = {404: "there is nothing at this address", 405: "this method is not allowed here"}
    return problem(
        error.status_code, detail.get(error.status_code, str(error.detail)), error.headers
    )
