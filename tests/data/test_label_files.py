"""Files of label texts: what columns mean, several names in a cell, and errors with their line."""

from __future__ import annotations

import gzip
import json

import pytest

from labelspace.data import read_label_texts
from labelspace.errors import DataError


@pytest.fixture
def put(tmp_path):
    def write(content, name="label_texts.tsv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


# Tables ---------------------------------------------------------------------------------------


def test_a_table_with_a_header(put):
    texts = read_label_texts(
        put(
            "id\tname@de\tname_en\tsynonyms\tdescription\tcode\turi\tbroader\n"
            "c1\tObst\tfruit\tfruits|produce\tIt is eaten.\tA1\thttp://x.org/1\t\n"
            "c2\tApfel\t\t\t\t\t\tc1\n"
        )
    )
    assert texts.ids == ("c1", "c2")
    assert texts.preferred == {"de": ("Obst", "Apfel"), "en": ("fruit", "")}
    assert texts.alternative == {"": (("fruits", "produce"), ())}
    assert texts.descriptions == ("It is eaten.", "")
    assert texts.notations == ("A1", "")
    assert texts.uris == ("http://x.org/1", "")
    assert texts.broader == (("c2", "c1"),)


def test_a_third_column_without_a_header_is_a_description_or_a_name(put):
    long = "a seed-bearing part of a plant that people eat"
    texts = read_label_texts(put(f"c1\tfruit\t{long}\nc2\ttool\t{long}\n"))
    assert texts.descriptions == (long, long)
    texts = read_label_texts(put("c1\tfruit\tObst\nc2\ttool\t\n"))
    assert texts.preferred == {"": ("fruit", "tool")}
    assert texts.alternative == {"": (("Obst",), ())}


def test_columns_in_evidently_different_languages(put):
    rows = "".join(f"c{i}\tGeschichte der Kunst {i}\tHistory of art {i}\n" for i in range(6))
    texts = read_label_texts(put(rows))
    assert texts.preferred["de"][0] == "Geschichte der Kunst 0"
    assert texts.preferred["en"][0] == "History of art 0"


def test_a_header_can_be_given(put):
    file = put("Obst\tc1\nApfel\tc2\n")
    texts = read_label_texts(file, header=["name@de", "id"])
    assert texts.ids == ("c1", "c2")
    assert texts.preferred == {"de": ("Obst", "Apfel")}
    with pytest.raises(DataError, match=r"unknown columns: colour"):
        read_label_texts(file, header=["id", "colour"])


def test_lists_of_names_are_recognised_and_inverted_names_are_not(put):
    lists = "".join(f"c{i}\tone{i}, two{i}, three{i}\n" for i in range(9)) + "c9\tten\n"
    assert read_label_texts(put(lists)).alternative == {
        "": (*((f"two{i}", f"three{i}") for i in range(9)), ())
    }
    inverted = "".join(f"c{i}\tGoethe, Johann {i}\n" for i in range(9))
    assert read_label_texts(put(inverted)).alternative == {}
    found = read_label_texts(put(inverted), separator=", ")
    assert found.preferred[""][0] == "Goethe"


def test_csv_has_quotes_and_tsv_has_none(put):
    texts = read_label_texts(put('id;name\nc1;"salt; ""fine"""\n', "label_texts.csv"))
    assert texts.preferred == {"": ('salt; "fine"',)}
    texts = read_label_texts(put('id\tname\nc1\t"Die Zeit"\n'))
    assert texts.preferred == {"": ('"Die Zeit"',)}


def test_uris_in_angle_brackets_as_annif_has_them(put):
    texts = read_label_texts(put("<http://x.org/1>\tfruit\n<http://x.org/2>\ttool\n"))
    assert texts.ids == texts.uris == ("http://x.org/1", "http://x.org/2")
    texts = read_label_texts(put("uri,label_fi,label_en\nhttp://x.org/1,hedelmä,fruit\n", "a.csv"))
    assert texts.ids == ("http://x.org/1",)
    assert texts.preferred == {"fi": ("hedelmä",), "en": ("fruit",)}


def test_json_lines(put):
    rows = [
        {"id": "c1", "name": {"en": "fruit", "de": "Obst"}, "alternative": {"en": ["fruits"]}},
        {"id": 2, "prefLabel": "tool", "altLabel": ["tools", "kit"], "broader": "c1", "x": None},
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    texts = read_label_texts(put(content, "label_texts.jsonl"))
    assert texts.ids == ("c1", "2")
    assert texts.preferred == {"en": ("fruit", ""), "de": ("Obst", ""), "": ("", "tool")}
    assert texts.alternative == {"en": (("fruits",), ()), "": ((), ("tools", "kit"))}
    assert texts.broader == (("2", "c1"),)


def test_gzip_and_a_byte_order_mark(put):
    packed = gzip.compress("\ufeffid\tname\nc1\tfruit\n".encode(), mtime=0)
    assert read_label_texts(put(packed, "label_texts.tsv.gz")).ids == ("c1",)


def test_columns_that_are_not_known_are_reported(put, caplog):
    read_label_texts(put("id\tname\tcolour\nc1\tfruit\tred\n"))
    assert "columns that are not used: colour" in caplog.text


# Errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("id\tname\nc1\tone\nc2\ttwo\nc1\tthree\n", "a.tsv",
         r"a.tsv:4: .*'c1' is already on line 2"),
        ("id\tname\nc1\tone\n\ttwo\n", "a.tsv", r"a.tsv:3: a label without an id"),
        ("id\tname\nc1\tone\ttwo\n", "a.tsv", r"a.tsv:2: 3 cells where there are 2 columns"),
        ("a\tb\tc\td\n", "a.tsv", r"a.tsv:1: 4 columns without a header"),
        ("id,name,label\nc1,a,b\n", "a.csv", r"a.csv:1: the columns name and label mean the same"),
        ('id,name\nc1,"open\n', "a.csv", r"a.csv:2: a row that begins here is broken"),
        ("id\tname\tbroader\na\tA\tb\nb\tB\tc\nc\tC\tb\n", "a.tsv",
         r"a.tsv:3: the broader labels have a cycle: 'b' -> 'c' -> 'b'"),
        ("id\tname\tbroader\na\tA\ta\n", "a.tsv", r"a.tsv:2: .*cycle: 'a' -> 'a'"),
        ('{"id": "c1"}\n{"id": "c2", "name": 1.5}\n', "a.jsonl", r"a.jsonl:2: '1.5' is not a text"),
        ('{"id": "c1", "name": {"klingon!": "x"}}\n', "a.jsonl", r"a.jsonl:1: .*not a language"),
        ('{"id": "c1"\n', "a.jsonl", r"a.jsonl:1:\d+: not valid JSON"),
        ('{"colour": "red"}\n', "a.jsonl", r"a.jsonl:1: no column of ids"),
        ("", "a.tsv", r"a.tsv: the file is empty"),
        ("\n \n", "a.csv", r"a.csv: the file is empty"),
        ("id\tname\n", "a.tsv", r"a.tsv: no labels in this file"),
        (b"id\tname\nc1\tna\xefve\n", "a.tsv", r"a.tsv:2:6: byte 0xef is not UTF-8"),
        (b"id\tname\nc1\t\x00\n", "a.tsv", r"a.tsv:2:4: a NUL byte"),
        (gzip.compress(b"id\tname\nc1\tone\n" * 50, mtime=0)[:-12], "a.tsv.gz", "truncated gzip"),
    ],
)  # fmt: skip
def test_errors_name_file_and_line(put, content, name, message):
    with pytest.raises(DataError, match=message):
        read_label_texts(put(content, name))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_label_texts(tmp_path / "nothing.tsv")


def test_the_files_of_real_sets(shared_data):
    gnd = read_label_texts(shared_data("tib-gnd") / "label_texts.tsv")
    assert len(gnd) == 41_218
    assert set(gnd.languages) == {"de", "en"}
    wordnet = read_label_texts(shared_data("wordnet") / "label_texts.tsv")
    assert wordnet.preferred["en"][2] == "abstraction"
    assert wordnet.alternative["en"][2] == ("abstract entity",)
    assert wordnet.descriptions[1] == "an entity that has physical existence"
