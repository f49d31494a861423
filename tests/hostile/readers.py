"""What reads bytes that may be hostile, each as a function of the bytes: only our errors may come.

A target takes a folder for its file and the bytes. It returns if they were read, and lets errors
of labelspace pass; whatever else it raises is a finding.
"""

from __future__ import annotations

import functools
import gzip
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from labelspace._core import cache
from labelspace._core.arrays import read_arrays, write_arrays
from labelspace._core.json_text import parsed_json
from labelspace.data import read, read_taxonomy, statistics
from labelspace.data.dataset import Dataset
from labelspace.data.label_files import read_label_texts
from labelspace.data.name_files import read_names
from labelspace.errors import LabelspaceError

MOST_SECONDS = 2
MOST_MEGABYTES = 2048

_TABLE = b'{"text": "a b", "labels": ["x"]}\n{"text": "c", "labels": ["x", "y"]}\n'
_TURTLE = (
    b"@prefix s: <http://www.w3.org/2004/02/skos/core#> .\n"
    b'<http://x/1> a s:Concept ; s:prefLabel "fruit"@en ; s:broader <http://x/2> .\n'
    b'<http://x/2> a s:Concept ; s:prefLabel "food" .\n'
)
_XML = (
    b'<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    b'xmlns:s="http://www.w3.org/2004/02/skos/core#"><s:Concept rdf:about="http://x/1">'
    b'<s:prefLabel xml:lang="en">fruit</s:prefLabel></s:Concept></rdf:RDF>'
)
_NAMES = ["a", "b", "c"]


def _dataset(name: str) -> Callable[[Path, bytes], None]:
    def target(folder: Path, content: bytes) -> None:
        dataset = read(_written(folder, name, content))
        assert isinstance(dataset, Dataset)
        statistics(dataset)

    return target


def _label_texts(name: str) -> Callable[[Path, bytes], None]:
    def target(folder: Path, content: bytes) -> None:
        texts = read_label_texts(_written(folder, name, content))
        texts.documents()
        texts.names("en")

    return target


def _taxonomy(folder: Path, content: bytes) -> None:
    read_taxonomy(_written(folder, "taxonomy.tsv", content), _NAMES).ancestors()


def _names(folder: Path, content: bytes) -> None:
    read_names(_written(folder, "names.txt", content))


def _zipped(folder: Path, content: bytes) -> None:
    """Read the content both as what it is in a gzip file, and as the gzip file itself."""
    _dataset("a.jsonl.gz")(folder, content)
    _dataset("a.svm.gz")(folder, gzip.compress(content, 1))


def _arrays(folder: Path, content: bytes) -> None:
    try:
        arrays, _ = read_arrays(_written(folder, "a.safetensors", content))
    except ValueError as error:  # as it declares; the model's store turns it into one of ours
        _check_sentence(error)
        return
    sum(float(np.count_nonzero(array)) for array in arrays.values())


def _cache_entry(folder: Path, content: bytes) -> None:
    """An entry that is damaged is made again: it is no error at all."""
    from labelspace.data import cache as of_data

    entry = _written(folder, "entry", content)
    restore = functools.partial(of_data._restore, source="a file")
    found = cache.read_entry(entry, "a file", restore)
    if found is not None:
        statistics(found)
    # What the checksum would hide: the same arrays with one that is right.
    try:
        arrays, _ = read_arrays(entry)
    except ValueError:
        return
    write_arrays(entry, arrays, {"checksum": cache._checksum(arrays)})
    found = cache.read_entry(entry, "a file", restore)
    if found is not None:
        statistics(found)


def _json(_: Path, content: bytes) -> None:
    try:
        parsed_json(content)
    except ValueError as error:
        _check_sentence(error)


def _journal(folder: Path, content: bytes) -> None:
    from labelspace.serve.journal import Journal

    (folder / "journal").unlink(missing_ok=True)
    Journal(_written(folder, "journal", content)).after(0, 10)


def _requests(folder: Path, content: bytes) -> None:
    """The first byte chooses the route and the type of the body, the rest is the body."""
    routes = [
        "/v1/models/m/tag", "/v1/models/m/neighbours", "/v1/models/m/learn",
        "/v1/projects/m/suggest", "/v1/projects/m/suggest-batch", "/v1/projects/m/learn",
        "/v1/detect-language",
    ]  # fmt: skip
    kinds = ["application/json", "application/x-www-form-urlencoded", "text/plain", ""]
    first = content[0] if content else 0
    headers = {"content-type": kinds[first % 4]} if kinds[first % 4] else {}
    if first > 200:
        headers["content-encoding"] = "gzip"
    server = _server(folder.parent)
    route = routes[first // 4 % len(routes)]
    answers = [server.post(route, content=content[1:], headers=headers)]
    if first % 8 == 7:
        text = content[1:200].decode("utf-8", "replace")
        answers = [
            server.get("/v1/models/m/labels", params={"query": text, "limit": text[:3]}),
            server.get("/v1/models/m/tree", params={"label": text}),
        ]
    for answer in answers:
        assert answer.status_code < 500, (answer.status_code, answer.text[:300])
        if answer.headers.get("content-type", "").startswith("application/json"):
            answer.json()


@functools.cache
def _server(folder: Path) -> Any:
    from support.served import in_process, train_model

    server = in_process({"m": train_model(folder / "served")}, allow_learn=True)
    server.__enter__()
    return server


def _check_sentence(error: Exception, most: int = 500) -> None:
    if len(str(error)) > most:
        raise AssertionError(f"the error is no sentence: {error!s:.500}") from error


def _written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _a_cached_data_set() -> bytes:
    import tempfile

    from labelspace.data import cache as of_data

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "a.txt"
        path.write_text("2 3 2\n0 0:1 2:1\n0,1 1:2\n")
        arrays = of_data._pack(read(path))  # type: ignore[arg-type]
        assert arrays is not None
        write_arrays(Path(place) / "e", arrays, {"checksum": cache._checksum(arrays)})
        return (Path(place) / "e").read_bytes()


def _a_parquet_table() -> bytes:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.table({"text": ["a", "b"], "labels": [["x"], ["y", "x"]]}), sink)
    return sink.getvalue()


Target = Callable[[Path, bytes], None]

TARGETS: dict[str, tuple[Target, list[bytes]]] = {
    "jsonl": (_dataset("a.jsonl"), [_TABLE]),
    "csv": (_dataset("a.csv"), [b'text,labels\n"a, b",x|y\nc,x\n']),
    "tsv": (_dataset("a.tsv"), [b"text\tlabels\na b\tx|y\nc\tx\n"]),
    "parquet": (_dataset("a.parquet"), [_a_parquet_table()]),
    "gzip": (_zipped, [gzip.compress(_TABLE), b"1 1:1 2:0.5\n"]),
    "xc": (_dataset("a.txt"), [b"2 3 2\n0 0:1 2:1\n0,1 1:2.5e-3\n"]),
    "svmlight": (_dataset("a.svm"), [b"1,2 1:1 3:0.5 # note\n0 2:-1e9\n"]),
    "xc-labels": (_dataset("trn_X_Y.txt"), [b"2 3\n0:1 2:1\n1:1\n"]),
    "names": (_names, [b"a\nb\n\"c d\"\n"]),
    "taxonomy": (_taxonomy, [b"a\tb\nb\tc\n# x\n"]),
    "labels-tsv": (_label_texts("l.tsv"), [b"id\tlabel\tlabel_de\nc1\tfruit\tObst\n"]),
    "labels-csv": (_label_texts("l.csv"), [b"id,label,broader\nc1,fruit,c2\nc2,food,\n"]),
    "labels-jsonl": (
        _label_texts("l.jsonl"),
        [b'{"id": "c1", "label": {"en": "fruit"}, "altLabel": ["fruits"], "broader": ["c2"]}\n'],
    ),
    "turtle": (_label_texts("l.ttl"), [_TURTLE]),
    "ntriples": (
        _label_texts("l.nt"),
        [b'<http://x/1> <http://www.w3.org/2004/02/skos/core#prefLabel> "fruit"@en .\n'],
    ),
    "rdf-xml": (_label_texts("l.rdf"), [_XML]),
    "safetensors": (_arrays, [_a_cached_data_set()]),
    "cache": (_cache_entry, [_a_cached_data_set()]),
    "json": (_json, [b'{"a": [1, 2.5, null, "x"]}']),
    "journal": (_journal, [b""]),
    "http": (
        _requests,
        [
            b'\x00{"texts": ["ripe apple"], "k": 3}', b'\x08{"examples": [{"text": "a"}]}',
            b"\x0dtext=apple&limit=3", b'\x10{"documents": [{"text": "a"}]}', b"\x07apple",
        ],
    ),
}  # fmt: skip


def run(name: str, folder: Path, content: bytes) -> None:
    """Give one input to a target; errors of labelspace are what it may raise."""
    logging.disable(logging.WARNING)
    try:
        TARGETS[name][0](folder, content)
    except LabelspaceError as error:
        _check_sentence(error, 3000)


def mutated(seeds: list[bytes], numbers: range) -> Iterator[bytes]:
    """Yield seeded mutations of the seeds: for machines without atheris, and for `make test`."""
    tokens = (
        b"\0", b"\xff", b"\xff\xfe", b"\n", b"\r", b"\t", b",", b":", b'"', b"{", b"[", b"[" * 2000,
        b"1e999", b"-1", b"999999999999", b"0x1", b"nan", b"#", b"\\u0000", b"\\ud800", b"<",
        b"&a;", b"<!DOCTYPE a [", b"1" * 5000, b" ", b"\xe2\x80\xa8", b"\xef\xbb\xbf",
    )  # fmt: skip
    for number in numbers:
        rng = np.random.default_rng(number)
        content = bytearray(seeds[number % len(seeds)])
        for _ in range(int(rng.integers(1, 5))):
            at = int(rng.integers(0, len(content) + 1))
            kind = int(rng.integers(0, 5))
            if kind == 0:
                content[at : at + 1] = rng.bytes(1)
            elif kind == 1:
                content[at:at] = tokens[int(rng.integers(0, len(tokens)))]
            elif kind == 2:
                del content[at : at + int(rng.integers(1, 9))]
            elif kind == 3:
                content[at:at] = content[at // 2 : at]
            else:
                content = content[:at]
        yield bytes(content)
