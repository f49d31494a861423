"""Reading files, pipes and gzip; writing files that appear whole or not at all."""

from __future__ import annotations

import gzip
import os
import stat
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from labelspace._core.files import PathLike, checked_path, replaced
from labelspace.errors import DataError

__all__ = ["GZIP_MAGIC", "PathLike", "opened", "replacing"]

GZIP_MAGIC = b"\x1f\x8b"
STANDARD_INPUT = "-"
LINE_BYTES = 1 << 28  # no row is that long: such a file has no line ends, or is malicious
_DESCRIPTORS = Path("/proc/self/fd")
_CHUNK = 1 << 20

if TYPE_CHECKING:
    _Path = Path
else:
    _Path = type(Path())  # Path itself cannot be derived from before Python 3.12


class Spooled(_Path):
    """A path to a pipe whose content is in a temporary file; opening the path opens that file.

    Its name, its suffix and the errors about it are those of the pipe. The temporary file is
    removed with the object.
    """

    _copy: str | None = None

    def __fspath__(self) -> str:
        return str(self) if self._copy is None else self._copy

    def __reduce__(self) -> Any:
        """Let another process of this machine read the copy, as long as this object is there."""
        copy = os.fspath(self).replace(str(_DESCRIPTORS), f"/proc/{os.getpid()}/fd")
        return _copied, (str(self), copy)


def _copied(name: str, copy: str) -> Spooled:
    found = Spooled(name)
    found._copy = copy
    return found


def at_rest(path: PathLike) -> Path:
    """Return a path that can be opened several times: a pipe is read now, to a temporary file.

    `-` is standard input.
    """
    if isinstance(path, Spooled):
        return path
    place = checked_path(path)
    try:
        if str(place) == STANDARD_INPUT:
            if sys.stdin is None:
                raise DataError("there is none: it is closed", path="standard input")
            return _spooled(Path("standard input"), sys.stdin.buffer)
        mode = os.stat(place).st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            return place
        with open(place, "rb", buffering=0) as pipe:
            if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode) and not pipe.isatty():
                raise DataError("this is a device, expected a file or a pipe", path=place)
            return _spooled(place, cast(BinaryIO, pipe))
    except ValueError as error:  # half a surrogate pair, which no file system takes
        raise DataError(f"not the name of a file: {error}", path=repr(str(path))) from None
    except OSError:
        return place  # the error is raised where it is opened


def _spooled(place: Path, pipe: BinaryIO) -> Spooled:
    """Copy the rest of the pipe to a temporary file, in constant memory."""
    spooled = Spooled(place)
    try:
        descriptor, name = tempfile.mkstemp(prefix="labelspace-pipe-")
        if _DESCRIPTORS.is_dir():  # without a name it is gone even if the process is killed
            os.unlink(name)
            spooled._copy = str(_DESCRIPTORS / str(descriptor))
            weakref.finalize(spooled, os.close, descriptor)
        else:
            spooled._copy = name
            weakref.finalize(spooled, _discard, descriptor, name)
        with open(descriptor, "wb", closefd=False) as copy:
            while chunk := _chunk(pipe, place):
                copy.write(chunk)
    except OSError as error:
        raise DataError(
            f"cannot be kept in {tempfile.gettempdir()} while it is read: "
            f"{error.strerror or error}; set TMPDIR to a folder with more space",
            path=place,
        ) from error
    return spooled


def _chunk(pipe: BinaryIO, place: Path) -> bytes:
    """Read the next bytes of a pipe; raise DataError if that fails."""
    try:
        return pipe.read(_CHUNK)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=place) from error


def _discard(descriptor: int, name: str) -> None:
    """Close and remove a temporary file."""
    os.close(descriptor)
    Path(name).unlink(missing_ok=True)


def limited_lines(stream: IO[bytes], path: PathLike) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line with its end); raise DataError for a line longer than LINE_BYTES."""
    for number, line in enumerate(iter(partial(stream.readline, LINE_BYTES + 1), b""), 1):
        if len(line) > LINE_BYTES:
            raise endless_line(path, number)
        yield number, line


def endless_line(path: PathLike, line: int) -> DataError:
    """Return the error for a line longer than LINE_BYTES."""
    message = f"a line of more than {LINE_BYTES >> 20} MB; end each row with a line break"
    return DataError(message, path=str(path), line=line)


@contextmanager
def opened(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, unpacked if it is gzip; every failure is a DataError."""
    place = at_rest(path)
    try:
        with open(place, "rb") as raw:
            if raw.peek(2)[:2] == GZIP_MAGIC:
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield cast(IO[bytes], unpacked)
            else:
                yield raw
    except FileNotFoundError:
        raise DataError("no such file", path=place) from None
    except IsADirectoryError:
        raise DataError("this is a directory, expected a file", path=place) from None
    except EOFError:
        message = "truncated gzip: the file ends too early; copy or download it again"
        raise DataError(message, path=place) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        message = f"corrupt gzip ({error}); copy or download it again"
        raise DataError(message, path=place) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=place) from error


@contextmanager
def replacing(path: PathLike, before: Callable[[], object] | None = None) -> Iterator[IO[bytes]]:
    """Yield a file to write that replaces `path` at the end; nothing changes on failure.

    See `labelspace._core.files.replaced`; a file whose name ends in .gz is compressed.
    """
    place = checked_path(path)
    try:
        with replaced(place, before=before) as raw:
            if place.suffix == ".gz":
                # No name and no time inside: the same rows give the same bytes.
                with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                    yield cast(IO[bytes], packed)
            else:
                yield raw
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", path=place) from error
