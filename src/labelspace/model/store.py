"""Models on disk: a directory of `model.json`, safetensors and JSON files. Reading runs no code.

A model is written to a temporary sibling directory, fsynced and exchanged in one step, so that a
reader sees the old model or the new one. Arrays are read as read-only memory maps.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import itertools
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from labelspace._core.arrays import mapped_arrays, open_flags, put_arrays
from labelspace._core.files import Busy, beside, checked_path, left_beside, lock_file, sync
from labelspace._core.json_text import parsed_json, shortened
from labelspace.errors import (
    ModelChecksumError,
    ModelFileMissingError,
    ModelFormatError,
    StoreError,
)

FORMAT = 1
HEADER = "model.json"

_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.(?:json|safetensors)")
# A document has the names of labels or of terms; the header has no list that grows with the data.
_MOST_HEADER, _MOST_DOCUMENT, _MOST_FILES = 1 << 26, 1 << 32, 64
_ATTEMPTS = 20  # at reading a directory that saves replace again and again


@dataclass
class Bundle:
    """The content of a model directory.

    Attributes
    ----------
    header : dict
        The content of `model.json`: method, parameters, versions, statistics.
    arrays : dict of str to arrays by name
        Arrays by file stem, stored as `<stem>.safetensors`.
    documents : dict of str to JSON value
        Values by file stem, stored as `<stem>.json`.
    digest : str
        The SHA-256 of the `model.json` that was read, which has the checksums of all other files;
        "" for a model that was not read.
    verified : bool
        Whether the checksums were compared.
    """

    header: dict[str, Any]
    arrays: dict[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    documents: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    verified: bool = True


def save(bundle: Bundle, directory: str | Path) -> None:
    """Write a model as a whole or leave what was there; of two concurrent saves, the last stays."""
    target = _resolved(directory)
    try:
        check_target(directory)
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock_file(target.with_name(f".{target.name}.saving"), wait=True) as alone:
            if alone:
                _settle(target)
            check_target(directory)
            fresh = beside(target, "new")
            fresh.mkdir()
            try:
                _fill(fresh, bundle)
                _swap_in(fresh, target)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise StoreError(
            f"{directory} cannot be written: {error.strerror or error}: "
            "free the space, or choose another place"
        ) from error


def load(directory: str | Path, *, verify: bool = True) -> Bundle:
    """Read a model; `verify=False` skips the checksums.

    All files are read from the directory that was found first, also if a save replaces it.
    """
    place = checked_path(directory, "directory")
    for attempt in range(_ATTEMPTS):
        folder = _Folder.open(place)
        try:
            return _read(folder, place, verify)
        except StoreError:
            # The files of a directory that was replaced are removed while we read them.
            if attempt == _ATTEMPTS - 1 or folder.is_at(place):
                raise
        except OSError as error:
            raise StoreError(f"{place} cannot be read: {error.strerror or error}") from error
        finally:
            folder.close()
    raise AssertionError("unreachable")


def digest(directory: str | Path) -> str:
    """Return the digest of a saved model, without reading more than `model.json`."""
    return hashlib.sha256((Path(directory) / HEADER).read_bytes()).hexdigest()


def check_target(directory: str | Path) -> None:
    """Raise StoreError if a model cannot be saved there; call it before work that takes long."""
    target = _resolved(directory)
    with contextlib.suppress(FileNotFoundError):  # the current directory may be gone
        if Path.cwd().is_relative_to(target):
            raise StoreError(
                f"{directory} is in use as the current directory and cannot be replaced: "
                "give the path of another directory"
            )
    try:
        _check_place(target, directory)
    except OSError as error:
        raise StoreError(
            f"{directory} cannot be written: {error.strerror or error}: choose another place"
        ) from error


@contextmanager
def locked(directory: str | Path) -> Iterator[None]:
    """Hold the right to change a model, from reading it to saving it.

    If another process or thread has it, raise StoreError at once. The kernel ends it with the
    process.
    """
    target = _resolved(directory)
    with contextlib.ExitStack() as held:
        try:
            if target.parent.is_dir():  # otherwise there is no model to change
                held.enter_context(lock_file(target.with_name(f".{target.name}.lock"), wait=False))
        except Busy as other:
            process = f"process {other.pid}" if other.pid else "another process"
            raise StoreError(
                f"{directory} is being changed by {process}: repeat the command when it has ended"
            ) from None
        except OSError as error:
            raise StoreError(f"{directory} cannot be written: {error.strerror}") from error
        yield


def size_in_bytes(directory: str | Path) -> int:
    """Return the size of the model on disk."""
    return sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())


class _Folder:
    """An open directory: its files are the same ones when another takes its name."""

    def __init__(self, path: Path, handle: int | None) -> None:
        self.path, self._handle = path, handle

    @classmethod
    def open(cls, place: Path) -> _Folder:
        """Open a model directory; or the old one, if a save was killed between its two renames."""
        if os.open not in os.supports_dir_fd:  # Windows, where an open directory cannot be renamed
            return cls(place, None)
        for _ in range(_ATTEMPTS):
            # Listed after the place was checked: a save may be between its two renames.
            for path in itertools.chain([place], _moved_aside(place)):
                try:
                    return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
                except FileNotFoundError:
                    continue
                except NotADirectoryError:
                    raise ModelFormatError(f"{place} is no directory and holds no model") from None
                except OSError as error:
                    raise StoreError(f"{place} cannot be read: {error.strerror}") from error
        raise ModelFormatError(f"{place} holds no model: there is no such directory")

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def is_at(self, place: Path) -> bool:
        """Return whether the directory of this name is still the one that is open."""
        if self._handle is None:
            return True
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(place))
        except OSError:
            return False

    def file(self, name: str) -> BufferedReader:
        """Open a regular file in it; links, FIFOs and devices are refused."""
        if self._handle is None:
            handle = os.open(self.path / name, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        else:
            handle = os.open(name, open_flags() | os.O_NOFOLLOW, dir_fd=self._handle)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ModelFormatError(f"{self.path / name} is not a regular file")
        except BaseException:
            os.close(handle)
            raise
        return os.fdopen(handle, "rb")


def _fill(directory: Path, bundle: Bundle) -> None:
    files = {}
    for stem, arrays in bundle.arrays.items():
        with (directory / f"{stem}.safetensors").open("xb") as file:
            put_arrays(file, arrays)
        files[f"{stem}.safetensors"] = _file_record(directory / f"{stem}.safetensors")
    for stem, document in bundle.documents.items():
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        (directory / f"{stem}.json").write_text(text, encoding="utf-8")
        files[f"{stem}.json"] = _file_record(directory / f"{stem}.json")
    header = {"format": FORMAT, **bundle.header, "files": dict(sorted(files.items()))}
    text = json.dumps(header, indent=2, ensure_ascii=False, allow_nan=False)
    (directory / HEADER).write_text(text + "\n", encoding="utf-8")
    for path in directory.iterdir():
        sync(path)
    sync(directory)


def _file_record(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": sha256, "bytes": path.stat().st_size}


def _read(folder: _Folder, place: Path, verify: bool) -> Bundle:
    header, digest = _read_header(folder, place)
    bundle = Bundle(
        {k: v for k, v in header.items() if k not in ("format", "files")},
        digest=digest,
        verified=verify,
    )
    if len(header["files"]) > _MOST_FILES:
        raise ModelFormatError(f"{place / HEADER} names more than {_MOST_FILES} files")
    for name, metadata in header["files"].items():
        if not _FILE.fullmatch(name) or name == HEADER:
            raise ModelFormatError(
                f"{place / HEADER} names a file outside the model: {shortened(repr(name))}"
            )
        if not isinstance(metadata, dict) or {"sha256", "bytes"} - metadata.keys():
            raise ModelFormatError(f"{place / HEADER} has no checksum and size of {name}")
        with _opened(folder, place, name) as file:
            _read_file(bundle, file, place / name, metadata, verify)
    return bundle


def _read_file(
    bundle: Bundle, file: BufferedReader, path: Path, metadata: Mapping[str, Any], verify: bool
) -> None:
    """Check one file and take it into the bundle, by the same descriptor."""
    size = os.fstat(file.fileno()).st_size
    if size != metadata["bytes"] or (
        verify and hashlib.file_digest(file, "sha256").hexdigest() != metadata["sha256"]
    ):
        raise ModelChecksumError(
            f"{path} is not the file that was saved (wrong checksum): "
            "it was changed or damaged; restore the model from a copy"
        )
    file.seek(0)
    if path.suffix == ".json":
        bundle.documents[path.stem], _ = _parsed(file, path, _MOST_DOCUMENT)
        return
    try:
        bundle.arrays[path.stem], _ = mapped_arrays(file, str(path))
    except ValueError as error:
        raise ModelFormatError(shortened(error)) from None


def _read_header(folder: _Folder, place: Path) -> tuple[dict[str, Any], str]:
    """Return the content of `model.json`, and its checksum."""
    path = place / HEADER
    try:
        file = folder.file(HEADER)
    except FileNotFoundError:
        raise ModelFormatError(f"{place} holds no model: there is no {HEADER} in it") from None
    except OSError as error:
        raise ModelFormatError(f"{path} is not a model header: {error.strerror}") from None
    with file:
        header, content = _parsed(file, path, _MOST_HEADER, "a model header")
    if not isinstance(header, dict) or not isinstance(header.get("files"), dict):
        raise ModelFormatError(f"{path} is not a model header: it names no files")
    written = header.get("format")
    if type(written) is not int:
        raise ModelFormatError(f"{path} is not a model header: its format is no whole number")
    if written > FORMAT:
        raise ModelFormatError(
            f"{place} has model format {written}; this labelspace reads up to {FORMAT}: upgrade it"
        )
    return header, hashlib.sha256(content).hexdigest()


def _opened(folder: _Folder, place: Path, name: str) -> BufferedReader:
    try:
        return folder.file(name)
    except FileNotFoundError:
        raise ModelFileMissingError(
            f"{place / name} is missing: copy the whole model directory again"
        ) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ModelFormatError(f"{place / name} is a link, not a regular file") from None
        raise StoreError(f"{place / name} cannot be read: {error.strerror}") from error


def _parsed(file: BufferedReader, path: Path, most: int, what: str = "JSON") -> tuple[Any, bytes]:
    """Return the JSON value of a file of bounded size, and its bytes."""
    content = file.read(most + 1)
    if len(content) > most:
        raise ModelFormatError(f"{path} is not {what}: it has more than {most:,} bytes")
    try:
        return parsed_json(content), content
    except ValueError as error:
        raise ModelFormatError(f"{path} is not {what}: {error}") from None


def _swap_in(fresh: Path, target: Path) -> None:
    """Put `fresh` where `target` is; afterwards `fresh` is the old model, or nothing."""
    if not target.exists():
        os.rename(fresh, target)
    elif not _exchange(fresh, target):
        # No atomic exchange on this system: two renames, and `_settle` for a kill between them.
        old = beside(target, "old")
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


def _settle(target: Path) -> None:
    """Put back a model that a killed save had moved aside, and remove what killed saves left.

    Only for the one that holds the lock: then no other save is running.
    """
    for left in left_beside(target, "old"):
        if not target.exists():
            os.rename(left, target)
    for left in (*left_beside(target, "old"), *left_beside(target, "new")):
        shutil.rmtree(left, ignore_errors=True)


def _moved_aside(place: Path) -> Iterator[Path]:
    yield from left_beside(Path(os.path.realpath(place)), "old")


def _resolved(directory: str | Path) -> Path:
    """Return the directory that a path leads to, links followed."""
    return Path(os.path.realpath(checked_path(directory, "directory")))


def _check_place(target: Path, directory: str | Path) -> None:
    if target.exists():
        if not target.is_dir():
            raise StoreError(f"{directory} is a file: choose another place for the model")
        if os.path.ismount(target):
            raise StoreError(f"{directory} is a mount point: give a directory in it")
        if not _replaceable(target):
            raise StoreError(f"{directory} exists and holds no model: choose another place")
    parent = target.parent
    while not parent.exists():
        parent = parent.parent
    # Tried, since permissions alone do not show read-only disks and quotas.
    probe = beside(parent / target.name, "new")
    probe.mkdir()
    with contextlib.suppress(FileNotFoundError):  # a save removes what others left
        probe.rmdir()


def _replaceable(target: Path) -> bool:
    return (target / HEADER).exists() or not any(target.iterdir())
