"""The server's application on Ray Serve: replicas on the nodes of a cluster.

`labelspace serve --engine ray` runs it; `application` builds it for `serve run`, `serve deploy` and
a RayService of KubeRay, from a configuration file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from labelspace._core.threads import cores
from labelspace.engine.ray import RayEngine
from labelspace.engine.ray_nodes import ray_module, threads_for, use_cores
from labelspace.errors import LabelspaceError, MissingExtraError, ParameterError
from labelspace.model import store
from labelspace.serve.settings import Limits, Settings, named_models

NAME = "labelspace"  # of the application and of its deployment
_OPTIONS = ("models", "replicas", "cores", "limits", "watch", "token_file", "origins", "hosts")


def application(options: Mapping[str, Any]) -> Any:
    """Return the application for Ray Serve: what `import_path` of a configuration file names.

    Parameters
    ----------
    options : mapping
        `models`, a list of DIRECTORY or NAME=DIRECTORY that all nodes can read; and optionally
        `replicas` (1), `cores` per replica (1), `limits` by name, `watch`, `token_file`, `origins`
        and `hosts`, as `labelspace.serve.settings` documents them.

    Raises
    ------
    ParameterError
        If there is an option that is not known, or no model.
    """
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise ParameterError(f"args: {unknown[0]!r} is not one of {', '.join(_OPTIONS)}")
    given = options.get("models") or []
    if isinstance(given, str) or not given:
        raise ParameterError("args: models must be a list of model directories")
    hosts = options.get("hosts")
    settings = Settings(
        named_models(given),
        Limits(**(options.get("limits") or {})),
        watch=bool(options.get("watch", False)),
        token_file=options.get("token_file"),
        origins=tuple(options.get("origins") or ()),
        hosts=None if hosts is None else tuple(hosts),
    )
    return deployed(settings, int(options.get("replicas", 1)), float(options.get("cores", 1)))


def deployed(settings: Settings, replicas: int, n_cores: float) -> Any:
    """Return an application of so many replicas, each with all models and so many cores."""
    if settings.allow_learn:
        raise ParameterError(
            "--allow-learn with --engine ray: one process learns; learn in a server of its own, "
            "and serve the same model with --watch on Ray"
        )
    serve = _serve_module()
    limits = settings.limits
    deployment = serve.deployment(
        name=NAME,
        num_replicas=replicas,
        ray_actor_options={"num_cpus": n_cores},
        # The replica's own queue refuses what is too much, with the answer that is documented.
        max_ongoing_requests=limits.queue + limits.batch,
        graceful_shutdown_timeout_s=limits.seconds,
    )
    return deployment(serve.ingress()(_Replica)).bind(asdict(settings), max(1, int(n_cores)))


def run_on_ray(
    engine: RayEngine,
    settings: Settings,
    host: str,
    port: int,
    *,
    replicas: int,
    on_ready: Callable[[str], None],
    stop: threading.Event | None = None,
) -> None:
    """Serve on a cluster until `stop` is set, or Ctrl-C or SIGTERM is raised.

    Parameters
    ----------
    engine : RayEngine
        The cluster.
    settings : Settings
        What is served, and how; all nodes must be able to read the models' directories.
    host, port
        Where each node with a replica listens; the port must not be 0.
    replicas : int
        Number of processes with all models.
    on_ready : callable
        Called with the address when all replicas serve.
    stop : Event, optional
        Ends the server.
    """
    if port == 0:
        raise ParameterError("--port 0 with --engine ray: give a port, as all nodes listen on it")
    for path in settings.models.values():
        store.load(path)  # an error is raised here, not in each replica again and again
    ray, serve = engine.connect(), _serve_module()
    n_cores = max(1, min(cores(), int(ray.cluster_resources().get("CPU", 1)) // replicas))
    app = deployed(settings, replicas, n_cores)
    try:
        serve.start(http_options={"host": host, "port": port}, proxy_location="EveryNode")
        try:
            serve.run(app, name=NAME, route_prefix="/")
        except RuntimeError as error:
            lines = str(error).strip().splitlines()
            raise LabelspaceError(f"the application could not be started: {lines[-1]}") from None
        on_ready(f"http://{host}:{port}")
        (stop or threading.Event()).wait()
    finally:
        serve.shutdown()


class _Replica:
    """A process that serves: it loads the models when it starts."""

    def __init__(self, settings: Mapping[str, Any], n_cores: int) -> None:
        use_cores(n_cores, threads_for(n_cores))
        self.settings = Settings.of(settings)

    def __serve_build_asgi_app__(self) -> Any:
        from labelspace.serve.app import Application

        return Application(self.settings)


def _serve_module() -> Any:
    ray_module()
    try:
        from ray import serve
    except ImportError as error:
        raise MissingExtraError(
            f"serve on Ray needs {error.name}: pip install 'labelspace[ray,serve]'"
        ) from None
    return serve
