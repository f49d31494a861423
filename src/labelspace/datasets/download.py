"""Downloads a public set: resumes after a lost connection, and unpacks archives safely."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from gzip import BadGzipFile
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from stat import S_ISLNK
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from labelspace.datasets.catalogue import PublicSet, find
from labelspace.errors import DataError, DownloadError

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all if known

CHUNK = 1 << 20
ATTEMPTS = 5  # in a row that bring less than a chunk each
PACKED_AT_MOST = 100  # times; text packs about five to one
UNPACKED_ANYWAY = 1 << 30  # bytes that are unpacked however small the archive is
FIRST_PAUSE = 0.2  # seconds, doubled after each attempt
DAMAGED = (zipfile.BadZipFile, tarfile.TarError, BadGzipFile, EOFError, zlib.error)


class _DroppedError(Exception):
    """The connection broke; the .part file holds what arrived, and another attempt may resume."""


class _BeyondEndError(Exception):
    """The server has no bytes beyond those received (416); holds its Content-Range."""


def get(
    name: str,
    directory: str | Path,
    *,
    from_file: str | Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return the folder `directory/name` with a public set, downloading it if it is absent.

    Parameters
    ----------
    name : str
        The name of the set, such as "eurlex-4k"; see `labelspace.datasets.catalogue`.
    directory : path
        Where the folder is, or will be.
    from_file : path, optional
        An archive that was downloaded by hand, to be unpacked instead.
    progress : callable, optional
        Called with the bytes received and the total, None if it is not known.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ParameterError
        If there is no such set.
    DownloadError
        If the archive cannot be downloaded; the message names the page to download it from.
    DataError
        If the archive cannot be unpacked.
    """
    public, directory = find(name), Path(directory)
    folder = directory / public.name
    if folder.is_dir():
        return folder
    if from_file is not None and not Path(from_file).is_file():
        raise DownloadError(f"there is no file {from_file}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        archive = Path(from_file) if from_file else _fetch_archive(public, directory, progress)
        _unpack_whole(archive, folder)
    except OSError as error:
        raise DownloadError(f"cannot write {folder}: {error.strerror or error}") from error
    return folder


def download(
    url: str,
    target: str | Path,
    *,
    sha256: str | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
) -> Path:
    """Fetch `url` into `target`, by way of `target.part`, which a later call takes up again.

    Without `sha256` the checksum is written to `target.sha256` after the first download, and what
    is there or comes later under that name is held against it.
    """
    target = Path(target)
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(f"only http and https can be fetched, not {url}")
    try:
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            part = _sibling(target, ".part")
            _fetch_with_retries(url, part, progress, timeout)
            _check_sum(part, target, sha256)
            os.replace(part, target)
            _sibling(part, ".etag").unlink(missing_ok=True)
        else:
            _check_sum(target, target, sha256)
    except OSError as error:
        raise DownloadError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def extract(archive: str | Path, directory: str | Path) -> list[Path]:
    """Unpack a zip or tar archive, or copy a .txt(.gz) file; return the files, sorted.

    A member that is a link or would land outside the directory is refused.
    """
    archive, directory = Path(archive), Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if zipfile.is_zipfile(archive):
            return sorted(_unzip(archive, directory))
        if tarfile.is_tarfile(archive):
            return sorted(_untar(archive, directory))
        if archive.name.endswith((".txt", ".txt.gz")):
            return [Path(shutil.copyfile(archive, directory / archive.name))]
    except DAMAGED as error:
        message = f"the archive is damaged ({error}); delete it and fetch it again"
        raise DataError(message, path=archive) from error
    except OSError as error:
        message = f"cannot be unpacked into {directory}: {error.strerror or error}"
        raise DataError(message, path=archive) from error
    raise DataError("expected a zip or tar archive, or a .txt or .txt.gz file", path=archive)


def _fetch_archive(public: PublicSet, directory: Path, progress: Progress | None) -> Path:
    by_hand = (
        f"Fetch {public.title} by hand from {public.page} and run: "
        f"labelspace data get {public.name} --from FILE"
    )
    if public.url is None:
        raise DownloadError(f"no direct address of {public.title} is known. {by_hand}")
    archive = directory / f"{public.name}.zip"
    try:
        return download(public.url, archive, sha256=public.sha256, progress=progress)
    except DownloadError as error:
        raise DownloadError(f"{error}. {by_hand}") from error


def _unpack_whole(archive: Path, folder: Path) -> None:
    """Unpack beside `folder` and rename, so that a folder of this name is always complete."""
    staging = _sibling(folder, ".unpacking")
    try:
        shutil.rmtree(staging, ignore_errors=True)
        extract(archive, staging)
        os.replace(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fetch_with_retries(url: str, part: Path, progress: Progress | None, timeout: float) -> None:
    failures = 0
    while True:
        before = _size(part)
        try:
            _fetch(url, part, progress, timeout)
            return
        except _DroppedError as dropped:
            failures = 0 if _size(part) - before >= CHUNK else failures + 1
            if failures == ATTEMPTS:
                raise DownloadError(
                    f"the connection to {urlsplit(url).netloc} broke {ATTEMPTS} times in a row "
                    f"({dropped}); run again to go on from the {_size(part):,} bytes in {part}"
                ) from dropped
        time.sleep(FIRST_PAUSE * 2**failures)


def _fetch(url: str, part: Path, progress: Progress | None, timeout: float) -> None:
    """Make one request; append to `part` if the server confirms that the file is unchanged."""
    etag_file = _sibling(part, ".etag")
    etag = etag_file.read_text(encoding="utf-8") if etag_file.exists() else ""
    done = _size(part) if etag else 0  # bytes of an unknown version are of no use
    headers = {"User-Agent": "labelspace"}
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": etag}
    try:
        response = _open(Request(url, headers=headers), timeout)
    except _BeyondEndError as beyond:
        if str(beyond) == f"bytes */{done}":
            return  # everything had arrived before; only the renaming was left
        etag_file.unlink(missing_ok=True)
        raise _DroppedError("the file on the server has changed") from beyond
    with response:
        if response.headers.get_content_type() == "text/html":
            raise DownloadError(f"{url} answered with a web page instead of the file")
        resumed = response.status == 206
        if resumed and not _continues(response, done, etag):
            etag_file.unlink(missing_ok=True)
            raise _DroppedError("the file on the server has changed")
        done = done if resumed else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length is not None else None
        with part.open("ab" if resumed else "wb") as file:
            # After the old bytes are gone, so that a tag never belongs to other bytes.
            etag_file.write_text(_validator(response), encoding="utf-8")
            _copy(response, file, done, total, progress)


def _open(request: Request, timeout: float) -> HTTPResponse:
    """Return the response; raise _DroppedError for errors that may not occur again."""
    try:
        response: HTTPResponse = urlopen(request, timeout=timeout)
        return response
    except HTTPError as error:
        error.close()
        if error.code == 416:
            raise _BeyondEndError(error.headers.get("Content-Range", "")) from error
        answer = f"{request.full_url} answered {error.code} {error.reason}"
        if error.code == 429 or error.code >= 500:
            raise _DroppedError(answer) from error
        raise DownloadError(answer) from error
    except (HTTPException, ConnectionError, TimeoutError) as error:
        raise _DroppedError(str(error) or type(error).__name__) from error
    except URLError as error:
        if isinstance(error.reason, ConnectionResetError | TimeoutError):
            raise _DroppedError(str(error.reason)) from error
        message = f"cannot reach {request.host}: {error.reason}; this machine may be offline"
        raise DownloadError(message) from error


def _copy(
    response: HTTPResponse, file: BinaryIO, done: int, total: int | None, progress: Progress | None
) -> None:
    while True:
        try:
            chunk = response.read1(CHUNK)
        except (HTTPException, OSError) as error:
            raise _DroppedError(str(error) or type(error).__name__) from error
        if not chunk:
            break
        file.write(chunk)
        done += len(chunk)
        if progress is not None:
            progress(done, total)
    if total is not None and done != total:  # http.client does not report an early end
        raise _DroppedError(f"{done:,} of {total:,} bytes arrived")


def _continues(response: HTTPResponse, done: int, etag: str) -> bool:
    """Return whether a partial response continues the same file from where it stopped."""
    starts_there = response.headers.get("Content-Range", "").startswith(f"bytes {done}-")
    return starts_there and _validator(response) == etag


def _validator(response: HTTPResponse) -> str:
    """Return the tag of this version of the file; a weak tag does not promise the same bytes."""
    etag = str(response.headers.get("ETag", ""))
    if etag and not etag.startswith("W/"):
        return etag
    return str(response.headers.get("Last-Modified", ""))


def _check_sum(file: Path, target: Path, sha256: str | None) -> None:
    """Check `file` against the given checksum or the recorded one; record it if there is none."""
    record = _sibling(target, ".sha256")
    if sha256 is None and record.exists():
        sha256 = record.read_text(encoding="utf-8").split()[0]
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if sha256 is None:
        record.write_text(f"{found}  {target.name}\n", encoding="utf-8")
    elif found != sha256.lower():
        fix = "delete it to download it again"
        if file != target:
            file.unlink()  # a wrong .part cannot become right by resuming
            fix = f"if it was replaced on purpose, delete {record.name}"
        raise DownloadError(f"{target} has sha256 {found}, expected {sha256}; {fix}")


def _unzip(archive: Path, directory: Path) -> list[Path]:
    with zipfile.ZipFile(archive) as opened:
        members = [member for member in opened.infolist() if not member.is_dir()]
        for member in members:
            _refuse_outside(member.filename, archive)
            if S_ISLNK(member.external_attr >> 16):
                raise DataError(f"member {member.filename!r} is a link", path=archive)
            if member.flag_bits & 1:
                raise DataError(f"member {member.filename!r} is encrypted", path=archive)
        _refuse_bomb(sum(member.file_size for member in members), archive)
        return [Path(opened.extract(member, directory)) for member in members]


def _untar(archive: Path, directory: Path) -> list[Path]:
    files, size = [], 0
    with tarfile.open(archive) as opened:
        for member in opened:
            if member.isdir():
                continue
            _refuse_outside(member.name, archive)
            if not member.isreg():
                raise DataError(f"member {member.name!r} is a link or a device", path=archive)
            size += member.size
            _refuse_bomb(size, archive)
            opened.extract(member, directory, filter="data")
            files.append(directory / member.name)
    return files


def _refuse_outside(member: str, archive: Path) -> None:
    path = PurePosixPath(member.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in member.split("/")[0]:
        raise DataError(f"member {member!r} would be written outside the folder", path=archive)


def _refuse_bomb(size: int, archive: Path) -> None:
    """Raise a DataError for an archive whose content is out of proportion to it."""
    if size > max(UNPACKED_ANYWAY, PACKED_AT_MOST * archive.stat().st_size):
        message = f"it unpacks to more than {size:,} bytes, far more than an archive of its size"
        raise DataError(f"{message}; unpack it by hand if that is right", path=archive)


def _sibling(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0
