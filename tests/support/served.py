"""Servers for tests: an application in this process, or a real one on a free port.

A test module that imports this is skipped where the extra `serve` is not installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import threading

import pytest

for _name in ("fastapi", "uvicorn", "prometheus_client", "simplemma", "httpx"):
    pytest.importorskip(_name, reason="the extra serve is not installed: pip install -e '.[dev]'")

import httpx  # noqa: E402

import labelspace as ls  # noqa: E402
from labelspace.data.label_texts import LabelRecord, LabelTexts  # noqa: E402
from labelspace.serve.app import Application  # noqa: E402
from labelspace.serve.settings import Limits, Settings  # noqa: E402

TEXTS = LabelTexts.of(
    [
        LabelRecord("c1", {"en": "fruit", "de": "Obst"}, uri="http://x.org/c1", broader=("food",)),
        LabelRecord("c2", {"en": "apple", "de": "Apfel"}, uri="http://x.org/c2", broader=("c1",)),
        LabelRecord("c3", {"en": "tool", "de": "Werkzeug"}, uri="http://x.org/c3", notation="7.1"),
        LabelRecord("c4", {"en": "saw/hand", "de": "Säge"}, uri="http://x.org/c4", broader=("c3",)),
    ]
)
ROWS = [
    {"id": "a", "text": "ripe red apple with a sweet taste", "labels": ["c1", "c2"]},
    {"id": "b", "text": "sweet plum and a ripe pear", "labels": ["c1"]},
    {"id": "c", "text": "steel hammer with a wooden handle", "labels": ["c3"]},
    {"id": "d", "text": "hand saw of steel with sharp teeth", "labels": ["c3", "c4"]},
] * 5


def train_model(place, method="knn", **options):
    """Train a small model with label texts and a taxonomy; return its directory."""
    tagger = ls.train(ROWS, method=method, labels=TEXTS, **options)
    tagger.choose_threshold(ROWS)
    tagger.save(place)
    return place


class InProcess:
    """An application that runs in a thread of this process; requests go to it without a socket."""

    def __init__(self, app):
        self.app = app
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        self.lifespan = app._api.router.lifespan_context(app._api)

    def __enter__(self):
        self.thread.start()
        self.wait(self.lifespan.__aenter__())
        return self

    def __exit__(self, *_):
        self.wait(self.client.aclose())
        self.wait(self.lifespan.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def get(self, path, **options):
        return self.wait(self.client.get(path, **options))

    def post(self, path, json=None, **options):
        return self.wait(self.client.post(path, json=json, **options))

    def together(self, path, bodies):
        """Send several requests at once; return their answers."""

        async def all_of_them():
            return await asyncio.gather(*(self.client.post(path, json=body) for body in bodies))

        return self.wait(all_of_them())


def in_process(models, limits=None, **settings):
    """Return an application for models by name, to be entered."""
    paths = {name: str(path) for name, path in models.items()}
    return InProcess(Application(Settings(paths, limits or Limits(), **settings)))


@contextlib.contextmanager
def real_server(*arguments, log=None):
    """Run `labelspace serve` on a free port; yield its address and its process."""
    lines = [] if log is None else log
    command = [sys.executable, "-m", "labelspace", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    ready = threading.Event()

    def read():
        for line in process.stderr:
            lines.append(line)
            if " on http://" in line:
                ready.set()
        ready.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert ready.wait(120), "".join(lines)
        found = next(
            (re.search(r" on (http://\S+)", line) for line in lines if " on http" in line), None
        )
        assert found, "".join(lines)
        yield found[1], process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait(10)
        reader.join(10)
        process.stderr.close()
