"""Files in and out: gzip by its first bytes, and writing that is seen whole or not at all."""

from __future__ import annotations

import gzip
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, cast

from labelspace.errors import DataError

PathLike = str | os.PathLike[str]

GZIP_MAGIC = b"\x1f\x8b"
LINE_BYTES = 1 << 28  # no row is that long: such a file has no line ends, or means harm


def limited_lines(stream: IO[bytes], path: PathLike) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line with its end), and raise a DataError where a line has no end in sight."""
    for number, line in enumerate(iter(partial(stream.readline, LINE_BYTES + 1), b""), 1):
        if len(line) > LINE_BYTES:
            raise endless_line(path, number)
        yield number, line


def endless_line(path: PathLike, line: int) -> DataError:
    """The error for a line longer than LINE_BYTES."""
    message = f"a line of more than {LINE_BYTES >> 20} MB; end each row with a line break"
    return DataError(message, path=str(path), line=line)


@contextmanager
def opened(path: PathLike) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked where it is gzip; what goes wrong is a DataError."""
    place = Path(path)
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
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` at the end; nothing changes on failure."""
    place = Path(path)
    draft = place.with_name(f".{place.name}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            with open(draft, "xb") as raw:
                if place.suffix == ".gz":
                    # No name and no time inside: the same rows give the same bytes.
                    with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                        yield cast(IO[bytes], packed)
                else:
                    yield raw
            os.replace(draft, place)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", path=place) from error
