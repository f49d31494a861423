"""`labelspace serve`: models over HTTP."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from labelspace.cli import options
from labelspace.cli.output import print_message
from labelspace.cli.signals import termination_as_interrupt
from labelspace.errors import MissingExtraError, ParameterError


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL...", help="Model directories, as DIRECTORY or NAME=DIRECTORY."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")] = 8000,
    watch: Annotated[
        bool, typer.Option("--watch", help="Load new versions of the model directories.")
    ] = False,
    allow_learn: Annotated[
        bool, typer.Option("--allow-learn", help="Accept examples, and update the models by them.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with a bearer token per line: `token`, or `token learn`."),
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Allow other machines to connect without a token.")
    ] = False,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(help="Origin whose pages may use the server, or *; repeatable."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(help="Name in the Host header, as behind a proxy; repeatable."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    batch: Annotated[int, typer.Option(min=1, help="Texts that are computed together.")] = 64,
    queue: Annotated[int, typer.Option(min=1, help="Texts that may wait, per model.")] = 2048,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request.")] = 10_000_000,
    max_text: Annotated[int, typer.Option(min=1, help="Characters of a text.")] = 1_000_000,
    max_texts: Annotated[int, typer.Option(min=1, help="Texts per request.")] = 1024,
    max_k: Annotated[int, typer.Option(min=1, help="Labels per text.")] = 1000,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds per request.")] = 30.0,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Serve a generated catalogue; trained to demo/model if absent."
        ),
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    engine: options.Engine = "local",
    address: options.Address = None,
) -> None:
    """Serve models over HTTP: an API, Annif's API, and a page.

    Requests that arrive together are computed together. The server listens on this machine only,
    unless --host and --token-file are given. SIGTERM ends it when all requests are answered.

    --engine ray serves by --workers replicas on a Ray cluster, all nodes of which must be able to
    read the model directories.

    Example: labelspace serve model/

    Example: labelspace serve shop=models/2026-11 --watch --host 0.0.0.0 --token-file tokens.txt
    """
    from labelspace.engine import engine_of
    from labelspace.engine.ray import RayEngine

    try:
        import labelspace.serve.app  # noqa: F401
        from labelspace.serve.run import check_exposure, run_server
        from labelspace.serve.settings import Limits, Settings, answered_hosts, named_models
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"serve needs {error.name}, which is not installed: pip install 'labelspace[serve]'"
        ) from None

    check_exposure(host, has_tokens=token_file is not None, no_auth=no_auth)
    given = list(models or ())
    if demo:
        from labelspace.serve.demo import PLACE, demo_model

        once = f"training the model of the demo to {PLACE}, once: about half a minute"
        demo_model(on_train=lambda: print_message(once))
        given.append(f"demo={PLACE}")
    if not given:
        raise ParameterError("give the directory of a model, or --demo for a generated catalogue")
    settings = Settings(
        named_models(given),
        Limits(max_body, max_text, max_k, max_texts, queue, batch, timeout),
        watch=watch,
        allow_learn=allow_learn,
        token_file=None if token_file is None else str(token_file),
        origins=tuple(cors_origin or ()),
        hosts=answered_hosts(host, token_file, allowed_host or ()),
        several=workers > 1 and engine == "local",
    )

    def ready(address: str) -> None:
        print_message(f"serving {', '.join(settings.models)} on {address} (Ctrl-C stops)")
        if open_:
            typer.launch(address)

    if engine == "local":
        with engine_of(engine, address):  # it refuses an address
            run_server(settings, host, port, workers=workers, on_ready=ready)
        return
    from labelspace.serve.ray_app import run_on_ray

    with termination_as_interrupt(), engine_of(engine, address) as cluster:
        assert isinstance(cluster, RayEngine)
        with suppress(KeyboardInterrupt):
            run_on_ray(cluster, settings, host, port, replicas=workers, on_ready=ready)
