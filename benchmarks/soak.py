"""A server under mixed load for an hour, and ten thousand updates: no growth, no drift.

    python benchmarks/soak.py [--seconds 3600] [--steps 10000] [--fusion-steps 500]
        [--memory-mb 1500] [--clients 4]

A server of a generated catalogue, which learns, gets requests of all kinds over loopback, some of
them invalid. Its memory, as proportional set size of all its processes, must stay below the
ceiling; after a fifth of the time it may only grow with the model, which keeps its examples. No
request may fail with a status of 500 or above, other than 503 of a full queue. Then single examples
are added to a model one by one; its answers must be those of a fresh load from disk, to the bit.
Ends with exit code 1 if anything is wrong. Writes benchmarks/results/soak.json and .md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil

import labelspace as ls
from kept import keep
from labelspace.datasets.products import product_records
from labelspace.model.store import size_in_bytes
from labelspace.model.tagger import Tagger
from serve import memory, server

EXAMPLES = 1500
LEARNED_SHARE = 0.002  # of the requests: each makes the model larger
CHECKED = 50  # texts whose answers are compared with those of a fresh load
GROWTH = 1.1  # of memory beyond that of the model, from a fifth of the time to the end


def requests(rows: list[dict[str, Any]], dice: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield endless requests: their kind and their bytes."""
    kinds = {
        "tag": 60, "tag batch": 8, "tag with options": 8, "labels": 6, "neighbours": 6,
        "model": 3, "metrics": 2, "invalid": 4, "too large": 0.5, "not found": 2, "tree": 2,
    }  # fmt: skip
    names, weights = list(kinds), list(kinds.values())
    while True:
        text = dice.choice(rows)["text"]
        kind = dice.choices(names, weights)[0]
        if dice.random() < LEARNED_SHARE:
            row = dice.choice(rows)
            body = {"examples": [{"text": row["text"], "labels": row["labels"]}]}
            yield "learn", _post("/v1/models/model/learn", body)
        elif kind == "tag":
            yield kind, _post("/v1/models/model/tag", {"text": text, "k": 5})
        elif kind == "tag batch":
            texts = [dice.choice(rows)["text"] for _ in range(dice.randint(2, 40))]
            yield kind, _post("/v1/models/model/tag", {"texts": texts, "k": dice.randint(1, 20)})
        elif kind == "tag with options":
            only = dice.sample(rows[0]["labels"], 1)
            yield kind, _post("/v1/models/model/tag", {"text": text, "only": only})
        elif kind == "labels":
            yield kind, _get(f"/v1/models/model/labels?q={text.split()[0].encode().hex()[:4]}")
        elif kind == "neighbours":
            yield kind, _post("/v1/models/model/neighbours", {"text": text, "k": 3})
        elif kind == "invalid":
            yield kind, _raw("POST", "/v1/models/model/tag", b'{"text": [1, {"a": ' + b"[" * 500)
        elif kind == "too large":
            yield kind, _raw("POST", "/v1/models/model/tag", b'{"text": "' + b"x" * (1 << 25))
        elif kind == "not found":
            yield kind, _get("/v1/models/other/tag")
        else:
            paths = {"model": "/v1/models/model", "metrics": "/metrics"}
            yield kind, _get(paths.get(kind, "/v1/models/model/tree"))


def _post(path: str, body: Any) -> bytes:
    return _raw("POST", path, json.dumps(body).encode())


def _get(path: str) -> bytes:
    return _raw("GET", path, b"")


def _raw(verb: str, path: str, body: bytes) -> bytes:
    head = f"{verb} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def client(
    address: str, stream: Iterator[tuple[str, bytes]], end: float, seen: Counter[tuple[str, int]]
) -> None:
    """Send requests one after another until the time is over."""
    place = urlsplit(address)
    connection = None
    while time.monotonic() < end:
        if connection is None:
            connection = await asyncio.open_connection(place.hostname, place.port)
        reader, writer = connection
        kind, content = next(stream)
        status = 0
        try:
            writer.write(content)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
            status = int(head.split()[1])
            length = re.search(rb"(?i)content-length: (\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
            if b"connection: close" in head.lower():
                connection = None
        except (ConnectionError, asyncio.IncompleteReadError):
            connection = None  # the server closes it on a body that is too large
        except TimeoutError:
            status, connection = 599, None
        seen[kind, status] += 1
        if connection is None:
            writer.close()


async def watch(process: Any, end: float, found: list[tuple[float, float]]) -> None:
    """Record the memory of the server every few seconds, in MB."""
    while time.monotonic() < end:
        found.append((time.monotonic(), memory(process)))
        await asyncio.sleep(max(0.5, min(10.0, (end - time.monotonic()) / 50)))


def serve(seconds: float, clients: int, ceiling: float) -> tuple[dict[str, Any], list[str]]:
    """Serve under load; return figures, and what was wrong."""
    rows = list(product_records(EXAMPLES))
    dice = random.Random(0)
    seen: Counter[tuple[str, int]] = Counter()
    sizes: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        ls.train(rows[:1000], progress=False).save(model)
        before = size_in_bytes(model)
        with server(model, "--allow-learn") as (address, process):
            end = time.monotonic() + seconds

            async def run() -> None:
                streams = [requests(rows, dice) for _ in range(clients)]
                await asyncio.gather(
                    watch(process, end, sizes), *(client(address, s, end, seen) for s in streams)
                )

            asyncio.run(run())
            died = process.poll() is not None
        grown = (size_in_bytes(model) - before) / 1e6
        left = [path.name for path in Path(folder).iterdir() if path.name.startswith(".")]
        same = _as_loaded(ls.load(model), [row["text"] for row in rows[:CHECKED]])
    warm = [size for at, size in sizes if at - sizes[0][0] >= seconds / 5]
    first, last = float(np.median(warm[:5])), float(np.median(warm[-5:]))
    highest = max(size for _, size in sizes)
    failed = {
        f"{kind} {status}": n
        for (kind, status), n in seen.items()
        if status >= 500 and status != 503
    }
    wrong = [f"requests failed: {failed}"] if failed else []
    wrong += ["the server ended"] if died else []
    wrong += [f"left behind: {left}"] if left else []
    wrong += [] if same else ["the model answers otherwise after a load"]
    if highest > ceiling:
        wrong.append(f"{highest:.0f} MB are above the ceiling of {ceiling:.0f} MB")
    if last > GROWTH * first + 4 * grown:
        wrong.append(f"memory grew from {first:.0f} to {last:.0f} MB, the model by {grown:.1f} MB")
    figures = {
        "what": f"server, {clients} clients", "seconds": seconds,
        "requests": sum(seen.values()), "learned": seen["learn", 202],
        "failed": sum(failed.values()), "MB": first, "MB at the end": last, "highest MB": highest,
        "model grew by MB": grown,
    }  # fmt: skip
    print(dict(sorted((f"{kind} {status}", n) for (kind, status), n in seen.items())), flush=True)
    return figures, wrong


def update(method: str, steps: int, **params: Any) -> tuple[dict[str, Any], list[str]]:
    """Add single examples one by one; return figures, and what was wrong."""
    rows = list(product_records(1000 + max(100, min(steps, 2000))))
    texts = [row["text"] for row in rows[:CHECKED]]
    tagger = ls.train(rows[:1000], method=method, progress=False, **params)
    process, wrong, spent, sizes, drift = psutil.Process(), [], [], [], 0
    begin = size = 0.0
    for step in range(steps):
        start = time.perf_counter()
        row = rows[1000 + step % (len(rows) - 1000)]
        tagger.update([{"text": row["text"], "labels": row["labels"]}])
        spent.append(time.perf_counter() - start)
        if step == steps // 10:  # libraries and buffers are there by then
            begin, size = process.memory_info().rss / 1e6, _bytes_of(tagger) / 1e6
        if (step + 1) % max(1, steps // 10) == 0:
            drift += not _as_loaded(tagger, texts)
            sizes.append(process.memory_info().rss / 1e6)
    grown, kept = sizes[-1] - begin, _bytes_of(tagger) / 1e6 - size
    if drift:
        wrong.append(f"{method}: {drift} of 10 times, a fresh load answers otherwise")
    if grown > 40 + 6 * kept:
        wrong.append(f"{method}: memory grew by {grown:.0f} MB, the model by {kept:.1f} MB")
    tenth = max(1, steps // 10)
    figures = {
        "what": f"updates of {method}", "seconds": float(sum(spent)), "requests": steps,
        "learned": steps, "failed": 0, "MB": begin, "MB at the end": sizes[-1],
        "highest MB": max(sizes), "model grew by MB": kept,
        "ms per step, first tenth": 1e3 * float(np.median(spent[:tenth])),
        "last tenth": 1e3 * float(np.median(spent[-tenth:])),
    }  # fmt: skip
    return figures, wrong


def _bytes_of(tagger: Tagger) -> int:
    return sum(np.asarray(array).nbytes for array in tagger.method.state().values())


def _as_loaded(tagger: Tagger, texts: list[str]) -> bool:
    """Return whether a model that is saved and loaded gives the same answers, to the bit."""
    with tempfile.TemporaryDirectory() as folder:
        tagger.save(Path(folder) / "m")
        fresh = ls.load(Path(folder) / "m")
        return fresh.tag_many(texts, k=10) == tagger.tag_many(texts, k=10)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--fusion-steps", type=int, default=500)
    parser.add_argument("--memory-mb", type=float, default=1500.0)
    parser.add_argument("--clients", type=int, default=4)
    given = parser.parse_args()
    found = [
        update("knn", given.steps),
        update("fusion", given.fusion_steps),
        serve(given.seconds, given.clients, given.memory_mb),
    ]
    wrong = [each for _, some in found for each in some]
    keep("soak", [{**row, "wrong": "; ".join(some) or "nothing"} for row, some in found], ("what",))
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
