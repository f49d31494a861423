"""Files in and out: gzip by its first bytes, and writing that is seen whole or not at all."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from labelspace.errors import DataError
from labelspace.files import PathLike, checked_path, replaced

__all__ = ["GZIP_MAGIC", "PathLike", "opened", "replacing"]

GZIP_MAGIC = b"\x1f\x8b"


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
    """A file to write that takes the place of `path` at the end; nothing changes on failure.

    See `labelspace.files.replaced`; a name that ends in .gz is packed.
    """
    place = checked_path(path)
    try:
        with replaced(place) as raw:
            if place.suffix == ".gz":
                # No name and no time inside: the same rows give the same bytes.
                with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                    yield cast(IO[bytes], packed)
            else:
                yield raw
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", path=place) from error
