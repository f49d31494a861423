"""Load on `labelspace serve` over loopback: requests per second, latency and memory.

    python benchmarks/serve.py MODEL TEXTS [--connections 1,8,64] [--seconds 10] [--requests N]
        [--memory N] [--workers N] [--kills N] [--annif NAME=URL]...

TEXTS is a file that the model can read; its texts are sent one per request, k=5. Every number of
connections is measured with batching and without (`--batch 1`), each for so many seconds, or until
so many requests are answered. `in process` is one `Tagger.tag` after another. `cpu ms` is processor
time of the server per request, which other processes do not change as much. `MB` is the
proportional set size (PSS) of all processes of the server before and after the load. `--memory N`
sends N further requests, with batching, over the largest number of connections, and measures the
memory after every tenth of them. `--annif` is
the address of an Annif project's `suggest` that is measured beside it, and its name in the results,
such as Annif=http://127.0.0.1:5000/v1/projects/omikuji/suggest. `--kills N` kills a learning server
N times at random moments instead, and checks that no accepted example is lost or applied twice.
Writes benchmarks/results/serve.json and .md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
import psutil

import labelspace as ls
from kept import keep
from labelspace.serve.journal import Journal
from labelspace.serve.learning import journal_of

TEXTS = 2000  # that are sent in turn
WARM_UP = 50  # requests before the clock starts
_PARTS = 10  # of the requests of `--memory`


@contextmanager
def server(model: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a server on a free port; yield its address and process."""
    command = [sys.executable, "-m", "labelspace", "serve", f"model={model}", "--port", "0"]
    process = subprocess.Popen(
        [*command, *options], stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        assert process.stderr is not None
        found = None
        for line in process.stderr:
            found = re.search(r"on (http://\S+)", line)
            if found:
                break
        if found is None:
            raise SystemExit("the server did not start")
        # Nobody reads its log lines any more; a full pipe would stop it.
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        try:
            yield found[1], process
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(60)
            drain.wait(10)
    finally:
        if process.poll() is None:
            process.kill()


def tag_requests(address: str, texts: list[str]) -> list[bytes]:
    """Return whole HTTP requests of the server's own API."""
    bodies = [json.dumps({"text": text, "k": 5}).encode() for text in texts]
    path = "/v1/models/model/tag"
    return [_request(address, path, "application/json", body) for body in bodies]


def suggest_requests(address: str, texts: list[str]) -> list[bytes]:
    """Return whole HTTP requests of Annif's API."""
    bodies = [urlencode({"text": text, "limit": 5}).encode() for text in texts]
    kind = "application/x-www-form-urlencoded"
    return [_request(address, urlsplit(address).path, kind, body) for body in bodies]


def _request(address: str, path: str, kind: str, body: bytes) -> bytes:
    host = urlsplit(address).netloc
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def load(
    address: str, requests: list[bytes], connections: int, seconds: float, most: int | None
) -> dict[str, float]:
    """Send requests over so many connections; return requests per second and latencies in ms."""
    place = urlsplit(address)
    times: list[float] = []
    failed = 0
    turn = iter(range(1 << 60))
    end = 0.0

    async def client(warm_up: int) -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        done = 0
        while done < warm_up if warm_up else time.perf_counter() < end:
            number = next(turn)
            if not warm_up and most is not None and len(times) >= most:
                break
            start = time.perf_counter()
            writer.write(requests[number % len(requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            assert length is not None, head
            await reader.readexactly(int(length[1]))
            done += 1
            if not warm_up:
                times.append(time.perf_counter() - start)
                failed += not head.startswith(b"HTTP/1.1 200")
        writer.close()

    await client(WARM_UP)
    begin = time.perf_counter()
    end = begin + seconds
    await asyncio.gather(*(client(0) for _ in range(connections)))
    spent = time.perf_counter() - begin
    p50, p99 = (float(1e3 * np.quantile(times, share)) for share in (0.5, 0.99))
    figures = {"requests per second": len(times) / spent, "p50 ms": p50, "p99 ms": p99}
    return {**figures, "requests": len(times), "failed": failed}


def memory(process: subprocess.Popen[str]) -> float:
    """Return the memory of a process and those it started in MB, shared pages counted once."""
    return sum(each.memory_full_info().pss for each in family(process)) / 1e6


def cpu(process: subprocess.Popen[str]) -> float:
    """Return the processor time of a process and those it started, in seconds."""
    return sum(sum(each.cpu_times()[:2]) for each in family(process))


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return a process and those it started."""
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def measure(given: argparse.Namespace, texts: list[str]) -> list[dict[str, Any]]:
    """Measure every number of connections with batching and without."""
    tagger = ls.load(given.model)
    tagger.tag(texts[0])
    single = []
    for text in texts[:500]:
        start = time.perf_counter()
        tagger.tag(text, k=5)
        single.append(time.perf_counter() - start)
    alone = {
        "p50 ms": 1e3 * float(np.median(single)),
        "p99 ms": 1e3 * float(np.quantile(single, 0.99)),
    }
    rows: list[dict[str, Any]] = [{"server": "in process", "connections": 1, **alone}]
    print(rows[0], flush=True)
    del tagger
    workers = ("--workers", str(given.workers)) if given.workers > 1 else ()
    for name, options in (("batching", ()), ("without batching", ("--batch", "1"))):
        with server(given.model, *options, *workers) as (address, process):
            requests = tag_requests(address, texts)
            for connections in given.connections:
                before, spent = memory(process), cpu(process)
                figures = asyncio.run(
                    load(address, requests, connections, given.seconds, given.requests)
                )
                figures["cpu ms"] = 1e3 * (cpu(process) - spent) / max(1, figures["requests"])
                after = {"MB before": before, "MB after": memory(process)}
                several = f", {given.workers} processes" if given.workers > 1 else ""
                shown = {"server": name + several, "connections": connections}
                rows.append({**shown, **figures, **after})
                print(rows[-1], flush=True)
            if given.memory and not options:
                rows.append(measure_memory(given, address, process, requests))
                print(rows[-1], flush=True)
    for name, address in given.annif:
        requests = suggest_requests(address, texts)
        for connections in given.connections:
            figures = asyncio.run(
                load(address, requests, connections, given.seconds, given.requests)
            )
            rows.append({"server": name, "connections": connections, **figures})
            print(rows[-1], flush=True)
    return rows


def measure_memory(
    given: argparse.Namespace, address: str, process: subprocess.Popen[str], requests: list[bytes]
) -> dict[str, Any]:
    """Send many requests; return the memory before, after and between them."""
    connections = max(given.connections)
    found, answered, failed = [memory(process)], 0, 0
    for _ in range(_PARTS):
        figures = asyncio.run(
            load(address, requests, connections, float("inf"), given.memory // _PARTS)
        )
        answered, failed = answered + figures["requests"], failed + figures["failed"]
        found.append(memory(process))
    shown = {"MB before": found[0], "MB after": found[-1], "MB at most": max(found)}
    figures = {"requests": answered, "failed": failed, **shown}
    return {"server": "batching, memory", "connections": connections, **figures}


def kill(model: Path, texts: list[str], times: int) -> dict[str, int]:
    """Kill a server that learns; return how many examples were accepted, and are in the model."""
    dice = random.Random(0)
    accepted = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "model"
        shutil.copytree(model, copy)
        before = ls.load(copy)
        label, points = before.label_names[0], int(before.label_counts.n_points)  # type: ignore[union-attr]
        for turn in range(times):
            with server(copy, "--allow-learn") as (address, process):
                accepted = max(
                    accepted, asyncio.run(_learn_until_killed(address, process, label, texts, dice))
                )
            contained, last = checked(copy, points)
            assert last >= accepted, f"{accepted} were accepted, {last} are there"
            print(
                f"kill {turn + 1}: {accepted} accepted, {contained} in the model, {last} in all",
                flush=True,
            )
    return {"kills": times, "accepted": accepted, "lost": 0, "applied twice": 0}


async def _learn_until_killed(
    address: str, process: subprocess.Popen[str], label: str, texts: list[str], dice: random.Random
) -> int:
    """Send examples until the server is killed; return the last sequence number accepted."""
    place = urlsplit(address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    end = time.monotonic() + dice.uniform(0.05, 1.5)
    last = 0
    killed = asyncio.get_running_loop().call_later(
        end - time.monotonic(), process.send_signal, signal.SIGKILL
    )
    try:
        for number in chain.from_iterable(iter(lambda: range(len(texts)), None)):
            body = json.dumps({"examples": [{"text": texts[number] or "a", "labels": [label]}]})
            writer.write(
                _request(address, "/v1/models/model/learn", "application/json", body.encode())
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            assert length is not None
            content = await reader.readexactly(int(length[1]))
            if head.startswith(b"HTTP/1.1 202"):
                last = json.loads(content)["sequence"]
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        killed.cancel()
        writer.close()
    return last


def checked(model: Path, points: int) -> tuple[int, int]:
    """Return the last example in the model and the last one at all; raise if one is missing."""
    tagger, journal = ls.load(model), Journal(journal_of(model))
    contained = tagger.metadata.get("learned", {}).get("sequence", 0)
    assert tagger.label_counts is not None
    assert tagger.label_counts.n_points == points + contained, (
        "an example was applied twice or lost"
    )
    left = [entry.sequence for entry in journal.after(contained, 1 << 60)]
    assert left == list(range(contained + 1, contained + 1 + len(left))), "the journal has a gap"
    return contained, contained + len(left)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("texts")
    parser.add_argument(
        "--connections", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8, 64]
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--requests", type=int)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument(
        "--annif", action="append", default=[], type=lambda text: text.partition("=")[::2]
    )
    given = parser.parse_args()
    batch = next(iter(ls.load(given.model).iter_batches(given.texts, batch_size=TEXTS)))
    texts = list(batch.texts or ())
    if given.kills:
        print(kill(given.model, texts, given.kills))
        return
    rows = [{"model": given.model.resolve().name, **row} for row in measure(given, texts)]
    keep("serve", rows, ("model", "server", "connections"))


if __name__ == "__main__":
    main()
