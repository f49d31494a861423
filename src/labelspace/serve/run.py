"""Runs a server: socket, processes, signals."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from labelspace.errors import LabelspaceError, ParameterError
from labelspace.serve.logs import logged_to_stderr
from labelspace.serve.settings import Settings, is_loopback

_BACKLOG = 2048
_GRACE = 5  # seconds that a stop may take beyond the time limit of a request


def run_server(
    settings: Settings,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    workers: int = 1,
    on_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve models until SIGTERM or SIGINT; requests that have arrived are answered first.

    Parameters
    ----------
    settings : Settings
        What is served, and how.
    host : str, default "127.0.0.1"
        The address to listen on.
    port : int, default 8000
        The port; 0 chooses a free one.
    workers : int, default 1
        Number of processes. They share the memory-mapped arrays of the models.
    on_ready : callable, optional
        Called with the server's address when it listens and the models are loaded.

    Raises
    ------
    ParameterError
        If the address is not one of this machine, or options exclude each other.
    StoreError
        If a model cannot be loaded.
    """
    if workers > 1 and settings.allow_learn:
        raise ParameterError(
            "--allow-learn with --workers: one process learns; serve with --workers 1, or learn in "
            "one server and serve the same model with --watch in another"
        )
    with logged_to_stderr(), bound(host, port) as listening:
        address = _address(host, listening)
        if workers > 1:
            _run_several(settings, listening, workers, lambda: on_ready(address))
        else:
            _run_one(settings, listening, lambda: on_ready(address))


def check_exposure(host: str, *, has_tokens: bool, no_auth: bool) -> None:
    """Raise ParameterError if anyone on the network could use the server unintentionally."""
    if not (is_loopback(host) or has_tokens or no_auth):
        raise ParameterError(
            f"--host {host}: other machines could use the server without a token; give "
            "--token-file FILE, or --no-auth if that is intended"
        )


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raise LabelspaceError with the reason if there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host.strip("[]"), port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise LabelspaceError(
            f"{host}:{port}: {error.strerror or error}; choose another --port or --host"
        ) from None
    listening.setblocking(False)
    listening.set_inheritable(True)
    return listening


def _address(host: str, listening: socket.socket) -> str:
    shown = f"[{host.strip('[]')}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def _config(app: Any, settings: Settings, **options: Any) -> Any:
    import uvicorn

    return uvicorn.Config(
        app,
        access_log=False,  # the gate writes the lines
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(settings.limits.seconds) + _GRACE,
        backlog=_BACKLOG,
        ws="none",
        **options,
    )


def _run_one(settings: Settings, listening: socket.socket, on_ready: Callable[[], None]) -> None:
    import uvicorn

    from labelspace.serve.app import Application

    app = Application(settings)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                on_ready()

        def handle_exit(self, sig: int, frame: Any) -> None:
            app.context.stopping = True
            super().handle_exit(sig, frame)

    server = Server(_config(app, settings))
    with _signals_are_handled():
        server.run([listening])
    if any(learner.is_running for learner in app.context.learners.values()):
        # The journal has the examples of an update that takes long. Compiled code that is cut off
        # by the end of the interpreter could crash.
        sys.stderr.flush()
        os._exit(0)


def _run_several(
    settings: Settings, listening: socket.socket, workers: int, on_ready: Callable[[], None]
) -> None:
    from uvicorn.config import STARTUP_FAILURE
    from uvicorn.supervisors import Multiprocess

    from labelspace._core.scratch import scratch_folder
    from labelspace.model import store
    from labelspace.serve.figures import FOLDER
    from labelspace.serve.tokens import Tokens

    for path in settings.models.values():
        store.load(path)  # an error is raised here, not in each process again and again
    if settings.token_file is not None:
        Tokens(settings.token_file)
    with scratch_folder("metrics") as folder:
        os.environ[FOLDER] = str(folder)
        settings.to_environment()
        config = _config(
            "labelspace.serve.app:from_environment",
            settings,
            factory=True,
            workers=workers,
            timeout_worker_healthcheck=60,
        )
        supervisor = Multiprocess(config, [listening])
        waiting = threading.Thread(target=_when_ready, args=(supervisor, on_ready), daemon=True)
        waiting.start()
        supervisor.run()
        if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
            raise LabelspaceError("a process of the server could not start: see the lines above")


def _when_ready(supervisor: Any, on_ready: Callable[[], None]) -> None:
    """Call `on_ready` when every process serves."""
    while len(supervisor.processes) < supervisor.processes_num:
        if supervisor.should_exit.wait(0.05):
            return
    if all(each.wait_until_ready(600, supervisor.should_exit) for each in supervisor.processes):
        on_ready()


@contextmanager
def _signals_are_handled() -> Iterator[None]:
    """Let the process end by itself, with code 0, after uvicorn has stopped on a signal.

    uvicorn sends itself the signal again at its end, which would end the process there.
    """
    changed = {}
    for name in ("SIGTERM", "SIGINT"):
        number = getattr(signal, name)
        with contextlib.suppress(ValueError):  # not the main thread
            changed[number] = signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number, handler in changed.items():
            signal.signal(number, handler)
        sys.stderr.flush()
