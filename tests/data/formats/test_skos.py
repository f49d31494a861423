"""SKOS vocabularies: the same labels from each format, and files that are damaged or hostile."""

from __future__ import annotations

import gzip
import socket

import pytest

from labelspace.data import read_label_texts
from labelspace.data.formats import skos
from labelspace.errors import DataError, MissingExtraError

TURTLE = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xl: <http://www.w3.org/2008/05/skos-xl#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix ex: <http://x.org/> .
ex:all a skos:ConceptScheme ; skos:prefLabel "All"@en .
ex:c1 a skos:Concept ; skos:prefLabel "fruit"@en, "Obst"@de ; skos:altLabel "Frucht"@de ;
  skos:notation "1.2" ; skos:scopeNote "In kitchens."@en ; skos:definition "It is eaten."@en .
ex:c2 a skos:Concept ; skos:prefLabel "apple"@en, "apples"@en ; skos:broader ex:c1 .
ex:c3 xl:prefLabel [ xl:literalForm "pear"@en ] ; a skos:Concept .
ex:c1 skos:narrower ex:c3 .
ex:c4 a skos:Concept ; skos:prefLabel "withdrawn"@en ; owl:deprecated true .
"""
NAMESPACES = (
    'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:skos="http://www.w3.org/2004/02/skos/core#"'
)


def xml(label="fruit", before=""):
    return (
        f'<?xml version="1.0"?>\n{before}\n<rdf:RDF {NAMESPACES}>\n'
        '<skos:Concept rdf:about="http://x.org/c1">\n'
        f'<skos:prefLabel xml:lang="en">{label}</skos:prefLabel></skos:Concept>\n'
        '<skos:Concept rdf:about="http://x.org/c2"><skos:broader rdf:resource="http://x.org/c1"/>'
        "</skos:Concept>\n</rdf:RDF>\n"
    )


@pytest.fixture
def put(tmp_path):
    def write(content, name):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_concepts_of_turtle(put):
    texts = read_label_texts(put(TURTLE, "labels.ttl"))
    assert texts.ids == texts.uris == ("http://x.org/c1", "http://x.org/c2", "http://x.org/c3")
    assert texts.preferred == {"en": ("fruit", "apple", "pear"), "de": ("Obst", "", "")}
    assert texts.alternative == {"de": (("Frucht",), (), ()), "en": ((), ("apples",), ())}
    assert texts.notations == ("1.2", "", "")
    assert texts.descriptions == ("It is eaten.", "", "")
    above = "http://x.org/c1"
    assert texts.broader == (("http://x.org/c2", above), ("http://x.org/c3", above))


@pytest.mark.parametrize(("kind", "name"), [("nt", "labels.nt.gz"), ("xml", "labels.rdf")])
def test_other_formats_hold_the_same(put, kind, name):
    rdflib = pytest.importorskip("rdflib")
    graph = rdflib.Graph().parse(data=TURTLE, format="turtle")
    content = graph.serialize(format=kind, encoding="utf-8")
    found = read_label_texts(
        put(gzip.compress(content, mtime=0) if name.endswith(".gz") else content, name)
    )
    wanted = read_label_texts(put(TURTLE, "labels.ttl"))
    assert sorted(found.ids) == sorted(wanted.ids)
    again = found.aligned(wanted.ids)
    assert sorted(again.forms()) == sorted(
        # Statements have no order, and so one of two preferred names is the first.
        (label, {"apple": "apples", "apples": "apple"}.get(text, text), language, kind)
        if again.preferred["en"][1] == "apples"
        else (label, text, language, kind)
        for label, text, language, kind in wanted.forms()
    )
    assert set(again.broader) == set(wanted.broader)


def test_addresses_do_not_hold_the_folder_of_the_file(put):
    text = '<#c1> <http://www.w3.org/2004/02/skos/core#prefLabel> "fruit"@en .'
    assert read_label_texts(put(text, "labels.ttl")).ids == ("file:///labels.ttl#c1",)


def test_short_entities_stand_for_namespaces(put):
    before = '<!DOCTYPE rdf:RDF [<!ENTITY kind "ripe ">]>'
    texts = read_label_texts(put(xml("&kind;fruit", before), "a.rdf"))
    assert texts.preferred["en"][0] == "ripe fruit"


NESTED = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))


@pytest.mark.parametrize(
    ("declared", "label", "message"),
    [
        ('<!ENTITY e SYSTEM "file:///etc/hostname">', "&e;", "2: the entity 'e' is external"),
        ('<!ENTITY e SYSTEM "http://127.0.0.1:9/x">', "&e;", "2: the entity 'e' is external"),
        ('<!ENTITY % e SYSTEM "http://127.0.0.1:9/x"> %e;', "a", "2: the entity 'e' is external"),
        (f'<!ENTITY e0 "ha">{NESTED}', "&e9;", "2: the entity 'e1' is external or refers to"),
        (f'<!ENTITY e "{"ha" * 50_000}">', "&e;" * 50_000, "'e' has 100000 characters"),
    ],
)
def test_hostile_entities_are_refused(put, declared, label, message):
    with pytest.raises(DataError, match=message):
        read_label_texts(put(xml(label, f"<!DOCTYPE rdf:RDF [{declared}]>"), "a.rdf"))


def test_an_external_document_type_is_not_fetched(put):
    before = '<!DOCTYPE rdf:RDF SYSTEM "http://127.0.0.1:9/x.dtd">'
    assert len(read_label_texts(put(xml(before=before), "a.rdf"))) == 2


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (TURTLE + "ex:c9 skos:prefLabel\n  oops\n", "a.ttl", r"a.ttl:1\d: not valid Turtle"),
        (TURTLE + "ex:c9 ex:p " + "[" * 5000, "a.ttl", r"a.ttl: not valid Turtle"),
        (TURTLE + "ex:c1 skos:broader ex:c2 .", "a.ttl", r"a.ttl: .*cycle: '.*c1' -> '.*c2' -> "),
        (
            TURTLE.encode() + b'ex:c5 skos:prefLabel "\xe4"@de .',
            "a.ttl",
            r"a.ttl:12:\d+: byte 0xe4",
        ),
        ("@prefix ex: <http://x.org/> .\nex:a ex:b ex:c .", "a.ttl", "is it a SKOS vocabulary"),
        ("<http://x.org/c1> oops\n", "a.nt", r"a.nt:1: not N-Triples"),
        (xml()[:250], "a.rdf", r"a.rdf:6: not valid XML"),
        (
            xml().replace('"http://x.org/c1">', '"a" rdf:ID="b">'),
            "a.rdf",
            r"a.rdf:4: not valid RDF",
        ),
        ("<?xml version='1.0'?><html><body/></html>", "a.rdf", "is it a SKOS vocabulary"),
        ("<?xml version='1.0'?><html>&no;</html>", "a.rdf", "a.rdf:1: not valid XML"),
        ("", "a.ttl", "the file is empty"),
        (gzip.compress(TURTLE.encode(), mtime=0)[:99], "a.ttl.gz", "truncated gzip"),
    ],
)
def test_errors_name_file_and_line(put, content, name, message):
    with pytest.raises(DataError, match=message):
        read_label_texts(put(content, name))


def test_turtle_that_is_too_large_for_memory(put, monkeypatch):
    monkeypatch.setattr(skos, "_TURTLE_BYTES", 100)
    with pytest.raises(DataError, match=r"convert it to N-Triples"):
        read_label_texts(put(TURTLE, "a.ttl"))


def test_options_of_tables_are_refused(put):
    with pytest.raises(DataError, match="neither a header nor separators"):
        read_label_texts(put(TURTLE, "a.ttl"), separator="|")


def test_without_rdflib_the_extra_is_named(put, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rdflib", None)
    with pytest.raises(MissingExtraError, match=r"labelspace\[skos\]"):
        read_label_texts(put(TURTLE, "a.ttl"))
