"""Rebuild the set `tib-gnd`: predict a library's subject headings from title and abstract.

    python benchmarks/sets/tib_gnd.py data/tib-gnd [--source CLONE_OR_ARCHIVE]

The source is the repository sciknoworg/subject-indexing-dataset, as a clone or as a .tar.gz
archive. Its own split into train, dev and test is kept.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from common import Record, fetch, parser, write_lines, write_records

URL = "https://github.com/sciknoworg/subject-indexing-dataset/archive/refs/heads/main.tar.gz"
DATA = "TIBKAT/all-subjects/data/"
PARTS = ("train", "dev", "test")


def read(source: Path) -> Iterator[tuple[str, bytes]]:
    """Yield path below `DATA` and content of each record, in the order of their paths."""
    if source.is_dir():
        for path in sorted((source / DATA).rglob("*.jsonld")):
            yield path.relative_to(source / DATA).as_posix(), path.read_bytes()
        return
    with tarfile.open(source) as archive:
        for member in archive:
            _, inside, path = member.name.partition(DATA)
            if inside and path.endswith(".jsonld"):
                opened = archive.extractfile(member)
                assert opened is not None
                yield path, opened.read()


def parse(path: str, content: bytes) -> tuple[Record, dict[str, str]] | None:
    """Return the record of a file and the names of its subjects; None without subjects."""
    graph = json.loads(content)["@graph"]
    item = next((node for node in graph if "title" in node), None)
    if item is None or "dcterms:subject" not in item:
        return None
    labels = [subject["@id"] for subject in _listed(item["dcterms:subject"])]
    names = {node["@id"]: " ".join(_listed(node["sameAs"])) for node in graph if "sameAs" in node}
    texts = [" ".join(_listed(item.get(field, ()))) for field in ("title", "abstract")]
    record = {
        "id": PurePosixPath(path).stem,
        "text": ". ".join(text for text in texts if text),
        "labels": labels,
        "lang": PurePosixPath(path).parent.name,
    }
    return record, names


def build(files: Iterable[tuple[str, bytes]], out: Path) -> None:
    records: dict[str, dict[str, Record]] = {part: {} for part in PARTS}
    names: dict[str, str] = {}
    for path, content in files:
        part = path.partition("/")[0]
        if part in records and (parsed := parse(path, content)):
            record, found = parsed
            records[part][record["id"]] = record
            names.update(found)
    for part, chosen in records.items():
        write_records(out / f"{part}.jsonl.gz", chosen.values())
    ids = sorted(
        {label for part in records.values() for r in part.values() for label in r["labels"]}
    )
    write_lines(out / "label_ids.txt", ids)
    write_lines(out / "labels.txt", [names.get(label, label) for label in ids])


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def main() -> None:
    options = parser(__doc__, "clone or .tar.gz archive of the repository").parse_args()
    build(read(options.source or fetch(URL, options.out / "download")), options.out)


if __name__ == "__main__":
    main()
