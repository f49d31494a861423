"""Models on disk: a directory of `model.json`, safetensors and JSON files. Reading runs no code.

A save goes to a temporary sibling, is fsynced and swapped in whole, so a reader sees the old model
or the new one. Arrays come back as read-only memory maps.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from labelspace.arrays import read_arrays, sync, write_arrays
from labelspace.errors import (
    ModelChecksumError,
    ModelFileMissingError,
    ModelFormatError,
    StoreError,
)

FORMAT = 1
HEADER = "model.json"


@dataclass
class Bundle:
    """What a model directory holds.

    header     facts for `model.json`: method, parameters, versions, metrics
    arrays     file stem -> arrays, kept as `<stem>.safetensors`
    documents  file stem -> JSON value, kept as `<stem>.json`
    """

    header: dict[str, Any]
    arrays: dict[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    documents: dict[str, Any] = field(default_factory=dict)


def save(bundle: Bundle, directory: str | Path) -> None:
    """Write the model whole, or leave what was there."""
    check_target(directory)
    target = Path(directory).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    _recover(target)
    _sweep(target)
    fresh = target.with_name(f".{target.name}.new-{os.getpid()}")
    fresh.mkdir()
    try:
        _fill(fresh, bundle)
        _swap_in(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def check_target(directory: str | Path) -> None:
    """Raise StoreError if a model cannot be saved there; call it before work that takes long."""
    target = Path(directory).absolute()
    if not target.name or target.resolve() == Path.cwd():
        raise StoreError(f"{directory} is the current directory: give the path of another one")
    if target.exists() and not _replaceable(target):
        raise StoreError(f"{directory} exists and holds no model: choose another place")


def load(directory: str | Path, *, verify: bool = True) -> Bundle:
    """Read a model; `verify=False` skips the checksums (they read every byte)."""
    place = Path(directory)
    _recover(place.absolute())
    header = _read_header(place)
    try:
        return _read_files(place, header, verify)
    except StoreError:
        # A save may have swapped the directory between two of our reads.
        if _read_header(place) == header:
            raise
        return _read_files(place, _read_header(place), verify)


def size_in_bytes(directory: str | Path) -> int:
    """What the model takes on disk."""
    return sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())


def _fill(directory: Path, bundle: Bundle) -> None:
    for stem, arrays in bundle.arrays.items():
        write_arrays(directory / f"{stem}.safetensors", arrays)
    for stem, document in bundle.documents.items():
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        (directory / f"{stem}.json").write_text(text, encoding="utf-8")
    files = {
        file.name: {"sha256": _sha256(file), "bytes": file.stat().st_size}
        for file in sorted(directory.iterdir())
    }
    header = {"format": FORMAT, **bundle.header, "files": files}
    text = json.dumps(header, indent=2, ensure_ascii=False, allow_nan=False)
    (directory / HEADER).write_text(text + "\n", encoding="utf-8")
    for file in directory.iterdir():
        sync(file)
    sync(directory)


def _read_header(place: Path) -> dict[str, Any]:
    path = place / HEADER
    if not path.exists():
        raise ModelFormatError(f"{place} holds no model: there is no {HEADER} in it")
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        written = int(header["format"])
        header["files"].items()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFormatError(f"{path} is not a model header: {error}") from None
    if written > FORMAT:
        raise ModelFormatError(
            f"{place} has model format {written}; this labelspace reads up to {FORMAT}: upgrade it"
        )
    return dict(header)


def _read_files(place: Path, header: dict[str, Any], verify: bool) -> Bundle:
    bundle = Bundle({k: v for k, v in header.items() if k not in ("format", "files")})
    for name, facts in header["files"].items():
        path = place / name
        if Path(name).name != name:
            raise ModelFormatError(f"{place / HEADER} names a file outside the model: {name!r}")
        if not path.exists():
            raise ModelFileMissingError(f"{path} is missing: copy the whole model directory again")
        if path.stat().st_size != facts["bytes"] or (verify and _sha256(path) != facts["sha256"]):
            raise ModelChecksumError(
                f"{path} is not the file that was saved (wrong checksum): "
                "it was changed or damaged; restore the model from a copy"
            )
        if path.suffix == ".safetensors":
            bundle.arrays[path.stem], _ = read_arrays(path)
        else:
            bundle.documents[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    return bundle


def _swap_in(fresh: Path, target: Path) -> None:
    """Put `fresh` where `target` is; afterwards `fresh` is the old model, or nothing."""
    if not target.exists():
        os.rename(fresh, target)
    elif not _exchange(fresh, target):
        # No atomic exchange on this system: two renames, and `_recover` for a kill between them.
        old = target.with_name(f".{target.name}.old-{os.getpid()}")
        os.rename(target, old)
        os.rename(fresh, target)
        shutil.rmtree(old, ignore_errors=True)
    sync(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two directories in one step (Linux's renameat2); False where that cannot be."""
    if not sys.platform.startswith("linux"):
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    at_cwd, exchange = -100, 2
    return (
        call is not None
        and call(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0
    )


def _recover(target: Path) -> None:
    """Put back a model that a killed save had moved aside."""
    for left in target.parent.glob(f".{target.name}.old-*"):
        if not target.exists():
            os.rename(left, target)


def _sweep(target: Path) -> None:
    """Remove what killed saves left beside the model; a save that still runs keeps its files."""
    for left in target.parent.glob(f".{target.name}.[no][el][wd]-*"):
        pid = int(left.name.rpartition("-")[2])
        if pid == os.getpid() or not _runs(pid):
            shutil.rmtree(left, ignore_errors=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _replaceable(target: Path) -> bool:
    return target.is_dir() and ((target / HEADER).exists() or not any(target.iterdir()))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
