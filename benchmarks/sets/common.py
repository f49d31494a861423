"""What the scripts of this folder share: options, download, the split by hash, output files."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def parser(description: str | None, source: str) -> argparse.ArgumentParser:
    """Return the parser of a script; `source` describes what `--source` takes."""
    made = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    made.add_argument("out", type=Path, help="folder to write")
    made.add_argument("--source", type=Path, help=f"{source}; downloaded if not given")
    return made


def fetch(url: str, folder: Path) -> Path:
    """Download a file into a folder, unless it is there, and return its path."""
    target = folder / url.rsplit("/", 1)[-1]
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"downloading {url}", file=sys.stderr)
        with (
            urllib.request.urlopen(url, timeout=60) as response,
            tempfile.NamedTemporaryFile(dir=folder, delete=False) as part,
        ):
            shutil.copyfileobj(response, part)
        Path(part.name).replace(target)
    return target


def is_test(key: str, one_in: int) -> bool:
    """Return whether the examples of this key belong to the test set, one key in `one_in`."""
    return int(hashlib.md5(key.encode()).hexdigest()[:8], 16) % one_in == 0


def write_records(path: Path, records: Iterable[Record]) -> int:
    """Write JSON lines, gzipped without a time stamp, and return their number."""
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    write_gzip(path, "".join(lines))
    print(f"{path}: {len(lines):,} examples", file=sys.stderr)
    return len(lines)


def write_gzip(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_split(
    out: Path, records: Sequence[Record], in_test: Sequence[bool], edges: Iterable[tuple[str, str]]
) -> None:
    """Write train.jsonl.gz, test.jsonl.gz and hierarchy.tsv (child, parent)."""
    pairs = list(zip(records, in_test, strict=True))
    write_records(out / "train.jsonl.gz", [record for record, held_out in pairs if not held_out])
    write_records(out / "test.jsonl.gz", [record for record, held_out in pairs if held_out])
    write_lines(out / "hierarchy.tsv", [f"{child}\t{parent}" for child, parent in edges])
