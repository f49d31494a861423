"""The compiled parser against a slow one written from the description, on texts of all kinds."""

from __future__ import annotations

import gzip
import re
from contextlib import suppress
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Dataset
from labelspace.data.formats import blocks as _blocks
from labelspace.data.formats import xc
from labelspace.errors import DataError

DECIMAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
Row = tuple[dict[int, float], dict[int, float]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "data.txt"


# The slow parser: None is a text that must be refused.


def slow_number(text: str, limit: int) -> int:
    if not re.fullmatch("[0-9]{1,18}", text, re.ASCII) or int(text) >= limit:
        raise ValueError(text)
    return int(text)


def slow_value(text: str) -> float:
    with np.errstate(over="ignore"):
        value = np.float32(float(text)) if DECIMAL.fullmatch(text) else np.float32("nan")
    if not np.isfinite(value):
        raise ValueError(text)
    return float(value)


def slow_row(line: str, n_features: int, n_labels: int) -> Row:
    words = re.findall(r"[^ \t\r]+", line)
    labels: list[str] = []
    if words and line[0] not in " \t\r" and ":" not in words[0]:
        labels = words.pop(0).split(",")
    label_numbers = {slow_number(text, n_labels): 1.0 for text in labels}
    features: dict[int, float] = {}
    for word in words:
        index, _, value = word.partition(":")
        features[slow_number(index, n_features)] = slow_value(value)
    if len(label_numbers) < len(labels) or len(features) < len(words):
        raise ValueError("repeated")
    return label_numbers, features


def slow_xc(data: bytes) -> tuple[list[Row], int, int] | None:
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        header, *lines = text.removesuffix("\n").split("\n")
        words = re.findall(r"[^ \t\r]+", header)
        n_rows, n_features, n_labels = (slow_number(word, 10**18) for word in words)
        while len(lines) > n_rows and not lines[-1].strip(" \t\r"):
            lines.pop()
        rows = [slow_row(line, n_features, n_labels) for line in lines]
    except ValueError:
        return None
    too_wide = max(n_features, n_labels) > 2**31 - 1
    return None if too_wide or len(rows) != n_rows else (rows, n_features, n_labels)


def rows_of(matrix: csr_matrix) -> list[dict[int, float]]:
    rows = []
    for start, end in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        indices = matrix.indices[start:end].tolist()
        assert indices == sorted(set(indices))
        rows.append(dict(zip(indices, matrix.data[start:end].tolist(), strict=True)))
    return rows


def check_against_slow(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    expected = slow_xc(data)
    if expected is None:
        with pytest.raises(DataError):
            xc.read_xc(path)
        return
    rows, n_features, n_labels = expected
    dataset = xc.read_xc(path)
    assert dataset.features.shape == (len(rows), n_features)
    assert dataset.labels.shape == (len(rows), n_labels)
    assert list(zip(rows_of(dataset.labels), rows_of(dataset.features), strict=True)) == rows


# Numbers

signs = st.sampled_from(["", "-", "+"])
digits = st.text("0123456789", max_size=30)
exponents = st.sampled_from(["", "e", "E", "e+", "e-"])
decimal_texts = st.builds(
    lambda sign, whole, point, rest, mark, power: (
        f"{sign}{whole}{point}{rest}{mark}{power if mark else ''}"
    ),
    signs,
    digits,
    st.sampled_from(["", "."]),
    digits,
    exponents,
    st.integers(0, 60),
).filter(DECIMAL.fullmatch)
float32s = st.floats(width=32, allow_nan=False, allow_infinity=False)


def halfway(value: float, hairs: int) -> str:
    """Return the exact middle between two neighbouring float32, or a number next to it."""
    with np.errstate(over="ignore"):
        above = float(np.nextafter(np.float32(value), np.float32(np.inf)))
    if np.isinf(above):
        return repr(value)
    with localcontext(prec=300):
        middle = (Decimal(value) + Decimal(above)) / 2
        return str(middle + hairs * middle.scaleb(-40))


number_texts = st.one_of(
    decimal_texts,
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    float32s.map(repr),
    float32s.map(lambda value: str(np.float32(value))),
    st.builds(halfway, float32s, st.integers(-1, 1)),
    st.builds(lambda n, e: f"{n}e{e}", st.integers(0, 2**70), st.integers(-100, 40)),
).filter(DECIMAL.fullmatch)


@settings(max_examples=150, deadline=None)
@given(texts=st.lists(number_texts, min_size=1, max_size=60))
def test_values_are_those_of_float(path: Path, texts: list[str]) -> None:
    with np.errstate(over="ignore"):
        expected = np.array([np.float32(float(text)) for text in texts], dtype=np.float32)
    fits = np.isfinite(expected)
    row = " ".join(f"{i}:{text}" for i, text in enumerate(texts) if fits[i])
    path.write_text(f"1 {len(texts)}\n{row}\n")
    matrix = xc.read_matrix(path)
    assert np.array_equal(matrix.data.view(np.int32), expected[fits].view(np.int32))
    for text in [text for text, fine in zip(texts, fits, strict=True) if not fine][:2]:
        path.write_text(f"1 1\n0:{text}\n")
        with pytest.raises(DataError, match="too large"):
            xc.read_matrix(path)


@settings(max_examples=200, deadline=None)
@given(text=st.text("0123456789+-.eEnaifx_", max_size=8))
def test_only_decimal_numbers_are_values(path: Path, text: str) -> None:
    check_against_slow(f"1 1 1\n0 0:{text}\n".encode(), path)


def test_random_float32_patterns(path: Path) -> None:
    """All magnitudes, printed with enough digits for a float32 and for a double."""
    patterns = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32)
    values = patterns.view(np.float32)
    values = values[np.isfinite(values)]
    for digits_shown in (9, 17, 25):
        row = " ".join(f"{i}:{value:.{digits_shown}g}" for i, value in enumerate(values.tolist()))
        path.write_text(f"1 {len(values)}\n{row}\n")
        assert np.array_equal(xc.read_matrix(path).data, values)


def test_doubles_beside_the_middle_of_two_float32(path: Path) -> None:
    """One unit of a double decides here: an almost right parser rounds some of them wrongly."""
    rng = np.random.default_rng(2)
    values = (rng.random(5000) * 10.0 ** rng.uniform(-37, 37, 5000)).astype(np.float32)
    above = np.nextafter(values, np.float32(np.inf)).astype(np.float64)
    middles = (values.astype(np.float64) + above) / 2
    doubles = [middles, np.nextafter(middles, 0), np.nextafter(middles, np.inf)]
    for numbers in doubles:
        for shown in ("{!r}", "{:.17g}", "{:.16e}", "{:.25g}", "{:.40e}"):
            texts = [shown.format(number) for number in numbers.tolist()]
            row = " ".join(f"{i}:{text}" for i, text in enumerate(texts))
            path.write_text(f"1 {len(texts)}\n{row}\n")
            expected = np.array([float(text) for text in texts]).astype(np.float32)
            assert np.array_equal(xc.read_matrix(path).data, expected)


# Round trips


def dataset_of(rows: list[Row], n_features: int, n_labels: int) -> Dataset:
    matrices = []
    for which, width in ((0, n_labels), (1, n_features)):
        parts = [sorted(row[which].items()) for row in rows]
        indptr = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        indices = [index for part in parts for index, _ in part]
        values = np.array([value for part in parts for _, value in part], dtype=np.float32)
        matrices.append(csr_matrix((values, indices, indptr), shape=(len(rows), width)))
    return Dataset(matrices[0], matrices[1])


row_strategy = st.tuples(
    st.dictionaries(st.integers(0, 9), st.just(1.0), max_size=4),
    st.dictionaries(st.integers(0, 2**31 - 2), float32s, max_size=6),
)


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(row_strategy, max_size=12), block=st.sampled_from([3, 100, 1 << 20]))
def test_what_is_written_is_read(path: Path, rows: list[Row], block: int) -> None:
    dataset = dataset_of(rows, 2**31 - 1, 10)
    xc.write_xc(dataset, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_blocks, "BLOCK_BYTES", block)
        again = xc.read_xc(path)
    assert rows_of(again.labels) == [row[0] for row in rows]
    assert rows_of(again.features) == [row[1] for row in rows]
    assert np.array_equal(np.signbit(again.features.data), np.signbit(dataset.features.data))


def test_values_are_written_as_short_as_numpy_does(path: Path) -> None:
    patterns = np.random.default_rng(1).integers(0, 2**32, 3000, dtype=np.uint32)
    values = patterns.view(np.float32)
    values = values[np.isfinite(values)]
    row = csr_matrix(values[None, :])
    xc.write_xc(Dataset(csr_matrix((1, 1), dtype=np.float32), row), path)
    texts = [word.split(":")[1] for word in path.read_text().split("\n")[1].split()]
    for text, value in zip(texts, values, strict=True):
        assert np.float32(text) == value
        ours, theirs = (
            len(Decimal(number).normalize().as_tuple().digits) for number in (text, str(value))
        )
        assert ours <= theirs


# Damaged files

VALID = [
    b"3 5 4\n0,3 0:1 2:0.25 4:-1e-3\n 1:2\n2 3:7.5 0:1\n",
    b"\xef\xbb\xbf4 12 3\r\n1\r\n0,1,2 10:1 11:2\r\n\r\n 3:1234567.875 5:1E5\r\n\r\n",
    b"2 3 2\n0\t0:1\n \n",
]
odd_bytes = st.sampled_from(list(b"0123456789:, \t\r\n-+.eE#x\x00\x80\xc3\xa9\xff"))
edits = st.lists(
    st.tuples(
        st.sampled_from(["replace", "insert", "delete", "cut", "swap"]),
        st.integers(0, 999),
        odd_bytes,
    ),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, changes: list[tuple[str, int, int]]) -> bytes:
    content = bytearray(data)
    for change, position, byte in changes:
        at = position % (len(content) + 1)
        if change == "insert":
            content.insert(at, byte)
        elif change == "cut":
            del content[at:]
        elif change == "replace":
            content[at : at + 1] = bytes([byte])
        elif change == "delete":
            del content[at : at + 1 + byte % 5]
        else:
            content = content[at:] + content[:at]
    return bytes(content)


@settings(max_examples=500, deadline=None)
@given(data=st.sampled_from(VALID), changes=edits, block=st.sampled_from([5, 1 << 20]))
def test_damaged_text_is_read_right_or_refused(
    path: Path, data: bytes, changes: list[tuple[str, int, int]], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_blocks, "BLOCK_BYTES", block)
        check_against_slow(damaged(data, changes), path)


@settings(max_examples=150, deadline=None)
@given(data=st.sampled_from(VALID), changes=edits)
def test_damaged_gzip_is_the_same_data_or_refused(
    path: Path, data: bytes, changes: list[tuple[str, int, int]]
) -> None:
    packed = damaged(gzip.compress(data, mtime=0), changes)
    path.write_bytes(packed)
    try:
        dataset = xc.read_xc(path)
    except DataError:
        return
    rows, _, _ = slow_xc(data) or ([], 0, 0)
    assert list(zip(rows_of(dataset.labels), rows_of(dataset.features), strict=True)) == rows


@settings(max_examples=200, deadline=None)
@given(data=st.sampled_from([*VALID, b"1,2 1:5 3:1 # c\n\n# d\n0 2:1\n"]), changes=edits)
def test_damage_raises_nothing_but_data_errors(
    path: Path, data: bytes, changes: list[tuple[str, int, int]]
) -> None:
    path.write_bytes(damaged(data, changes))
    readers = [
        xc.read_svmlight,
        xc.read_matrix,
        xc.read_splits,
        lambda place: xc.read_pair(None, place),
        lambda place: list(xc.iter_xc(place, 2)),
        lambda place: list(xc.iter_svmlight(place, 2, 9, 9)),
    ]
    for read in readers:
        with suppress(DataError):
            read(path)
    assert xc.sniff(path) in ("xc", "matrix", "svmlight", None)
