"""Damage to a saved model, drawn by a number: bytes, arrays, JSON values, kinds of files.

The checksums are written anew, so that it is the content that has to be checked.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

_BYTES = (b"\x7f\xff\xff\x7f\xff\xff\xff\x7f", b"\xff" * 8, b"\0" * 8, b"\x80", b"}", b'"', b"[")
_INTEGERS = (0, 1, -1, 2, 7, 255, 65_535, 2**30, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1)
_FLOATS = (np.nan, np.inf, -np.inf, 1e30, -1e30, 3e38, 1e-40, 0.0, -0.0, -1.0, 2.0, 1e5)
_DTYPES = ["b1", "u1", "i1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8"]
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 1.5, -0.5, 1e30, 10**9, 10**18, 10**40, "", "x", "x" * 5000,
    "auto", "none", "\0", "\ud800", "a\nb", "../x", [], {}, [0], [[]], {"": 0}, ["x", "x"],
)  # fmt: skip


def mutate(folder: Path, random: Random) -> str:
    """Damage the model in this folder in one to three ways, and return what was done."""
    done = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        change = random.choices(*zip(*_CHANGES, strict=True))[0]
        done.append(f"{change.__name__.strip('_')}: {change(folder, random)}")
    sign(folder)
    return "; ".join(done)


def sign(folder: Path) -> None:
    """Write the checksums of a model anew, where its header can still be read."""
    if (folder / "model.json").is_symlink() or not (folder / "model.json").is_file():
        return  # it may be one without an end
    try:
        header = json.loads((folder / "model.json").read_bytes())
        for name, record in header["files"].items():
            if (folder / name).is_file() and not (folder / name).is_symlink():
                content = (folder / name).read_bytes()
                record["sha256"] = hashlib.sha256(content).hexdigest()
                record["bytes"] = len(content)
        _write(folder / "model.json", json.dumps(header).encode())
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return


def _write(path: Path, content: bytes) -> None:
    """Write a file anew: the old one may be a hard link to the undamaged model."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def _files(folder: Path, suffix: str = "") -> list[Path]:
    found = sorted(folder.iterdir())
    return [
        path for path in found
        if path.name.endswith(suffix) and path.is_file() and not path.is_symlink()
    ]  # fmt: skip


def _bytes(folder: Path, random: Random) -> str:
    path = random.choice(_files(folder) or [folder / "model.json"])
    content = bytearray(path.read_bytes()) if path.is_file() else bytearray(b"{}")
    # Headers and small arrays are a small part of a file, and damage to them does the most.
    reach = random.choice((len(content), min(len(content), 400), 9))
    for _ in range(random.choice((1, 1, 2, 8))):
        at = random.randrange(max(1, reach))
        piece = random.choice((*_BYTES, bytes(random.randrange(256) for _ in range(4))))
        if random.random() < 0.1:
            del content[at : at + len(piece)]
        else:
            content[at : at + len(piece)] = piece
    _write(path, bytes(content))
    return path.name


def _cut(folder: Path, random: Random) -> str:
    path = random.choice(_files(folder) or [folder / "model.json"])
    content = path.read_bytes() if path.is_file() else b""
    part = content[: random.choice((0, 1, 8, len(content) // 2, max(0, len(content) - 1)))]
    _write(path, random.choice((part, content + content, content + b" " * 9)))
    return path.name


def _with_arrays(
    folder: Path, random: Random, change: Callable[[dict[str, Any], str, Random], str]
) -> str:
    path = random.choice(_files(folder, ".safetensors") or [folder / "none"])
    try:
        arrays = {name: np.array(array) for name, array in load_file(path).items()}
    except Exception:  # damaged already
        return "unreadable"
    if not arrays:
        return "empty"
    name = random.choice(sorted(arrays))
    done = change(arrays, name, random)
    path.unlink()
    save_file({n: np.ascontiguousarray(array) for n, array in arrays.items()}, path)
    return f"{path.stem} {name} {done}"


def _elements(folder: Path, random: Random) -> str:
    def change(arrays: dict[str, Any], name: str, random: Random) -> str:
        flat = arrays[name].reshape(-1)
        if not flat.size:
            return "empty"
        value = _extreme(flat, random)
        count = random.choice((1, 1, 2, flat.size))
        places = [random.choice((0, flat.size - 1, random.randrange(flat.size)))]
        places += [random.randrange(flat.size) for _ in range(min(count, 50) - 1)]
        if count == flat.size and random.random() < 0.5:
            flat[:] = value
            return f"= {value}"
        flat[places] = value
        return f"{places[:3]} = {value}"

    return _with_arrays(folder, random, change)


def _extreme(flat: np.ndarray, random: Random) -> Any:
    with np.errstate(all="ignore"):
        if flat.dtype.kind == "f":
            return np.float64(random.choice(_FLOATS)).astype(flat.dtype)
        near = int(flat[random.randrange(flat.size)])
        wanted = random.choice((*_INTEGERS, near + 1, near - 1, 2 * near, flat.size, near * 1000))
        if flat.dtype.kind == "b":
            return bool(wanted % 2)
        return np.array(wanted % 2**64, np.uint64).astype(flat.dtype)


def _plausible(folder: Path, random: Random) -> str:
    """Put values in place of others that ranges alone do not tell from them."""

    def change(arrays: dict[str, Any], name: str, random: Random) -> str:
        flat = arrays[name].reshape(-1)
        if flat.size < 2:
            return "too short"
        kind = random.randrange(4)
        if kind == 0:
            flat[:] = flat[np.random.default_rng(random.randrange(2**32)).permutation(flat.size)]
        elif kind == 1:
            one, other = random.randrange(flat.size), random.randrange(flat.size)
            flat[one] = flat[other]
        elif kind == 2:
            flat[:] = flat[random.randrange(flat.size)]
        elif flat.dtype.kind == "f":
            with np.errstate(all="ignore"):
                scaled = flat.astype(np.float64) * random.choice((-1.0, 1e-6, 1e6, 1e18, 1e30))
                flat[:] = np.clip(scaled, -3e38, 3e38).astype(flat.dtype)
        else:
            low, high = int(flat.min()), int(flat.max())
            flat[random.randrange(flat.size)] = random.randint(low, high)
        return ("permuted", "one copied", "all the same", "scaled or drawn")[kind]

    return _with_arrays(folder, random, change)


def _shape(folder: Path, random: Random) -> str:
    def change(arrays: dict[str, Any], name: str, random: Random) -> str:
        array = arrays[name]
        forms = [
            array.reshape(-1), array[None], array[..., None], array.T, array[:0] if array.ndim
            else array.reshape(1), array.reshape(-1)[:1], np.concatenate([array, array])
            if array.ndim else array[None, None], array[:-1] if array.ndim else array[None],
            array[..., :-1] if array.ndim else array[None], array[::-1] if array.ndim else array,
            np.sort(array, axis=None).reshape(array.shape), np.zeros((0, 5), array.dtype),
            np.zeros((2**40, 0), array.dtype),
        ]  # fmt: skip
        number = random.randrange(len(forms))
        arrays[name] = forms[number]
        return f"{array.shape} -> {arrays[name].shape} ({number})"

    return _with_arrays(folder, random, change)


def _dtype(folder: Path, random: Random) -> str:
    def change(arrays: dict[str, Any], name: str, random: Random) -> str:
        dtype, array = np.dtype(random.choice(_DTYPES)), arrays[name]
        with np.errstate(all="ignore"):
            as_bytes = random.random() < 0.3 and array.nbytes % dtype.itemsize == 0 and array.ndim
            arrays[name] = array.reshape(-1).view(dtype) if as_bytes else array.astype(dtype)
        return str(dtype)

    return _with_arrays(folder, random, change)


def _names(folder: Path, random: Random) -> str:
    def change(arrays: dict[str, Any], name: str, random: Random) -> str:
        other = random.choice(sorted(arrays))
        kind = random.randrange(5)
        if kind == 0:
            arrays[name], arrays[other] = arrays[other], arrays[name]
        elif kind == 1:
            del arrays[name]
        elif kind == 2:
            arrays[random.choice(("x", "", "9.x", f"{name}.x", f"x.{name}"))] = arrays[name].copy()
        elif kind == 3:
            arrays[other] = arrays[name].copy()
        else:
            for own in [n for n in arrays if n.partition(".")[0] == name.partition(".")[0]]:
                del arrays[own]
        return f"{('swap', 'drop', 'extra', 'copy', 'drop group')[kind]} {other}"

    return _with_arrays(folder, random, change)


def _embedded(folder: Path, random: Random) -> str:
    """Damage JSON that is kept as an array of bytes."""

    def change(arrays: dict[str, Any], _: str, random: Random) -> str:
        texts = sorted(n for n, a in arrays.items() if a.dtype == np.uint8 and a.size > 1)
        if not texts:
            return "no text"
        chosen = random.choice(texts)
        written = arrays[chosen].tobytes()
        try:
            document = json.loads(written)
            document, done = _other_value(document, random)
            written = json.dumps(document).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):
            at = random.randrange(len(written))
            written, done = written[:at] + random.choice(_BYTES) + written[at + 1 :], "bytes"
        arrays[chosen] = np.frombuffer(written, np.uint8)
        return f"in {chosen}: {done}"

    return _with_arrays(folder, random, change)


def _json(folder: Path, random: Random) -> str:
    path = random.choice(_files(folder, ".json") or [folder / "none"])
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return "unreadable"
    document, done = _other_value(document, random)
    _write(path, json.dumps(document).encode("utf-8", "surrogatepass"))
    return f"{path.name}: {done}"


def _other_value(document: Any, random: Random) -> tuple[Any, str]:
    """Return the document with one value replaced, dropped, doubled or wrapped, at any depth."""
    if not isinstance(document, list | dict) or not document or random.random() < 0.05:
        value = random.choice(_VALUES)
        return value, f"= {value!r:.40}"
    keys = list(document) if isinstance(document, dict) else range(len(document))
    key = random.choice(keys)
    if random.random() < 0.6 and isinstance(document[key], list | dict):
        document[key], done = _other_value(document[key], random)
        return document, f"{key}/{done}"
    kind = random.randrange(6)
    if kind == 0:
        del document[key]
    elif kind == 1 and isinstance(document, list):
        document.insert(key, document[random.choice(keys)])
    elif kind == 1:
        document[random.choice(("", "x", "__class__", str(key) + "x"))] = document[key]
    elif kind == 2:
        document[key] = document[random.choice(keys)]
    else:
        document[key] = random.choice(_VALUES)
    return (
        document,
        f"{key!r:.20} ({kind}) = {document[key]!r:.40}" if kind > 1 else f"{key!r:.20} ({kind})",
    )


def _nested(folder: Path, random: Random) -> str:
    path = random.choice([*_files(folder, ".json"), folder / "model.json"])
    depth = random.choice((60, 900, 100_000))
    opened, closed = random.choice((("[", "]"), ('{"a":', "}")))
    _write(path, (opened * depth + "1" + closed * depth).encode())
    return f"{path.name} {depth}"


def _kind(folder: Path, random: Random) -> str:
    """Put something else than a regular file in a file's place."""
    path = random.choice(_files(folder) or [folder / "model.json"])
    kind = random.randrange(6)
    path.unlink(missing_ok=True)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.symlink_to("/dev/zero")
    elif kind == 2:
        path.symlink_to("/etc/hostname")
    elif kind == 3:
        path.mkdir()
    elif kind == 4:
        path.symlink_to(path.name)
    return f"{path.name} {('FIFO', 'zeros', 'link', 'directory', 'loop', 'missing')[kind]}"


_CHANGES: list[tuple[Callable[[Path, Random], str], int]] = [
    (_bytes, 6), (_cut, 1), (_elements, 10), (_plausible, 12), (_shape, 4), (_dtype, 3),
    (_names, 4),
    (_embedded, 2), (_json, 8), (_nested, 1), (_kind, 1),
]  # fmt: skip
