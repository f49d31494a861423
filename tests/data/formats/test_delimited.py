"""CSV and TSV of every origin: what separates the cells, which encoding, which limits."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from labelspace._core import streams as _files
from labelspace.data import Columns, Dataset, read
from labelspace.data.formats import delimited
from labelspace.errors import DataError, ParameterError

ROWS = [["id", "text", "labels"], ["1", "größer, 2 m", "x|y"], ["2", 'say "no"\nor; yes', "x"]]


def written(delimiter: str, end: str = "\r\n") -> str:
    quoted = [['"{}"'.format(cell.replace('"', '""')) for cell in row] for row in ROWS]
    return "".join(delimiter.join(row) + end for row in quoted)


def check(dataset: Dataset) -> None:
    assert dataset.ids == ["1", "2"]
    assert dataset.texts == [row[1] for row in ROWS[1:]]
    assert dataset.label_names == ("x", "y")
    assert dataset.labels.toarray().tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.tab", "t.csv.gz", "t.txt", "t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_header_shows_the_delimiter(
    tmp_path: Path, name: str, delimiter: str, end: str
) -> None:
    content = written(delimiter, end).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    check(read(tmp_path / name))


def test_the_default_stays_where_the_header_shows_no_other(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,a;b;c,labels\nt,1,x\n")
    assert read(path).texts == ["t"]
    path.write_text("text\na; b, c\n")
    with pytest.raises(DataError, match="2: 2 cells where the header has 1"):
        read(path, require_labels=False)
    path.write_text("title;tags\nt;x\n")
    with pytest.raises(DataError, match=r"no label column.*--label.*columns are: tags, title"):
        read(path)


@pytest.mark.parametrize("line", ["sep=;\r\n", "sep=;\n", "\n\nsep=;\n\n"])
def test_a_line_that_names_the_separator(tmp_path: Path, line: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(line + written(";"), newline="")
    check(read(path))
    path.write_text(line + "text;labels\nt;x\nt\n", newline="")
    with pytest.raises(DataError, match="1 cells") as caught:
        read(path)
    assert caught.value.line == line.count("\n") + 3


@pytest.mark.parametrize("given", ["~", "\t", "\\t", "tab"])
def test_a_delimiter_that_is_given(tmp_path: Path, given: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(written("~" if given == "~" else "\t"), newline="")
    check(read(path, columns=Columns(delimiter=given)))


@pytest.mark.parametrize("given", ["", ";;", '"', "\n"])
def test_a_delimiter_that_cannot_be(tmp_path: Path, given: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(written(","))
    with pytest.raises(ParameterError, match="one character"):
        read(path, columns=Columns(delimiter=given))


def test_blanks_around_column_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text, labels\nt, x\n")
    assert read(path).label_names == ("x",)


# Encodings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("name", ["t.csv", "t.txt"])
def test_a_byte_order_mark_gives_the_encoding(tmp_path: Path, name: str, encoding: str) -> None:
    text = written("\t" if name == "t.txt" else ",")
    (tmp_path / name).write_bytes(("\ufeff" + text).encode(encoding))
    check(read(tmp_path / name))


def test_json_lines_in_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "上海", "labels": ["上"]}\n{"text": "b"}', encoding="utf-16")
    assert read(path).texts == ["上海", "b"]
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(DataError, match="not utf-16") as caught:
        read(path)
    assert caught.value.line == 2


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16-le", "cp037", "utf-8"])
def test_an_encoding_that_is_given(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "t.csv").write_bytes(written(";").encode(encoding))
    check(read(tmp_path / "t.csv", columns=Columns(encoding=encoding)))


def test_bytes_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(written(",").encode("cp1252"))
    with pytest.raises(DataError, match=r"0xf6 is not UTF-8.*--encoding cp1252") as caught:
        read(path)
    assert (caught.value.line, caught.value.column) == (2, 8)
    path.write_bytes(b"text,labels\n\x81,x\n")
    with pytest.raises(DataError, match="0x81 is not cp1252") as caught:
        read(path, columns=Columns(encoding="cp1252"))
    for unknown in ("klingon", "hex", "a\0b"):
        with pytest.raises(ParameterError, match="not one that Python knows"):
            read(path, columns=Columns(encoding=unknown))
    path.write_bytes(written(",").encode("utf-16-le"))
    with pytest.raises(DataError, match=r"NUL.*--encoding"):
        read(path)


# Other files ----------------------------------------------------------------------------------


def test_a_text_without_a_header_does_not_fill_the_screen(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("word " * 400 + "\tlabel\nother\tlabel\n")
    with pytest.raises(DataError, match="no label column") as caught:
        read(path)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["t.tsv", "t.txt"])
def test_text_and_subjects(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    lines = ['A "text', "\t<http://x/1> <http://x/2>\n", "another\t<http://x/2>\n", "none\t\n"]
    path.write_text("".join(lines))
    dataset = read(path)
    assert dataset.texts == ['A "text', "another", "none"]
    assert dataset.label_names == ("http://x/1", "http://x/2")
    assert dataset.labels.toarray().tolist() == [[1, 1], [0, 1], [0, 0]]
    path.write_text("".join([*lines, "text\tmore text\n"]))
    with pytest.raises(DataError, match="URIs in angle brackets") as caught:
        read(path)
    assert caught.value.line == 4


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.xlsx", b"PK\x03\x04...", "spreadsheet; save it as CSV"),
        ("t.xls", b"\xd0\xcf\x11\xe0...", "spreadsheet; save it as CSV"),
        ("t.zip", b"PK\x03\x04...", "unpack it first"),
        ("t.txt", b"Once upon a time\nthere was\n", "a first line that names the columns"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / name)


# Limits ---------------------------------------------------------------------------------------


def test_the_limit_of_the_csv_module_stays(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,labels\n" + "w" * 200_000 + ",x\n")
    before = csv.field_size_limit()
    assert len((read(path).texts or [""])[0]) == 200_000
    assert csv.field_size_limit() == before < 200_000


def test_a_cell_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_CELL_LIMIT", 1000)
    path = tmp_path / "t.csv"
    path.write_text('text,labels\n"open,x\n' + "more,x\n" * 1000)
    with pytest.raises(DataError, match="is a quotation mark missing") as caught:
        read(path)
    assert caught.value.line == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_line_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr(_files, "LINE_BYTES", 10_000)
    for name in ("t.csv", "t.jsonl"):
        path = tmp_path / name
        text = "text,labels\nt,x\n" if name == "t.csv" else '{"text": "t", "labels": []}\n'
        path.write_text(text + "上" * 100_000, encoding=encoding)
        with pytest.raises(DataError, match="a line of more than") as caught:
            read(path)
        assert caught.value.line == text.count("\n") + 1


def test_a_header_of_very_many_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    header = [f"c{i}" for i in range(50_000)]
    path.write_text(",".join([*header, "labels"]) + "\n" + ",".join("1" * 50_000) + ",x\n")
    with pytest.raises(DataError, match="neither a text column") as caught:
        read(path)
    assert len(str(caught.value)) < 1000
