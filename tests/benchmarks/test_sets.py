"""The scripts that rebuild the benchmark sets, on tiny sources in the formats of the real ones."""

import gzip
import importlib.util
import json
import sys
import tarfile
from pathlib import Path

import pytest

from labelspace.data import read, read_split

SETS = Path(__file__).resolve().parents[2] / "benchmarks" / "sets"


@pytest.fixture
def script(monkeypatch):
    """Load a script of benchmarks/sets, which import each other by file name."""
    monkeypatch.syspath_prepend(str(SETS))

    def load(name):
        spec = importlib.util.spec_from_file_location(name, SETS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    yield load
    sys.modules.pop("common", None)


def records(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def both(folder):
    return records(folder / "train.jsonl.gz") + records(folder / "test.jsonl.gz")


WORDNET = """\
  1 This software and database is being provided to you
00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | that which is perceived
00001930 03 n 01 physical_entity 0 001 @ 00001740 n 0000 | an entity that exists
00002684 03 n 02 object 0 physical_object 0 001 @ 00001930 n 0000 | a tangible entity
00002700 03 n 01 Everest 0 002 @i 00002684 n 0000 #p 00001930 n 0000 | a mountain; "it is high"
"""


def test_wordnet_gives_every_synset_all_of_its_hypernyms(script, tmp_path):
    wordnet = script("wordnet")
    (tmp_path / "data.noun").write_text(WORDNET, encoding="utf-8")
    (tmp_path / "data.verb").write_text("", encoding="utf-8")
    wordnet.build(wordnet.read(tmp_path), tmp_path / "out")
    found = {record["id"]: record for record in both(tmp_path / "out")}
    assert set(found) == {"physical_entity.n.00001930", "object.n.00002684", "Everest.n.00002700"}
    everest = found["Everest.n.00002700"]
    assert everest["text"] == 'Everest: a mountain; "it is high"'
    assert everest["labels"] == [
        "entity.n.00001740",
        "physical_entity.n.00001930",
        "object.n.00002684",
    ]
    assert found["object.n.00002684"]["text"].startswith("object, physical object: ")
    edges = (tmp_path / "out" / "hierarchy.tsv").read_text(encoding="utf-8").splitlines()
    assert edges == [
        "physical_entity.n.00001930\tentity.n.00001740",
        "object.n.00002684\tphysical_entity.n.00001930",
    ]


def test_wordnet_reads_the_archive(script, tmp_path):
    wordnet = script("wordnet")
    folder = tmp_path / "WordNet-3.0" / "dict"
    folder.mkdir(parents=True)
    (folder / "data.noun").write_text(WORDNET, encoding="utf-8")
    (folder / "data.verb").write_text("", encoding="utf-8")
    with tarfile.open(tmp_path / "wordnet.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "WordNet-3.0", "WordNet-3.0")
    assert list(wordnet.read(tmp_path / "wordnet.tar.gz")) == list(wordnet.read(folder))


PACKAGES = """\
Package: frozen-bubble
Version: 2
Source: bubbles (2.1)
Description: pop the  bubbles
Description-md5: aa
Tag: game::{arcade,puzzle}, interface::graphical,
 use::gameplaying

Package: frozen-bubble
Version: 1
Description: the same again
Tag: role::program

Package: untagged
Description: has no tags
"""
TRANSLATION = """\
Package: frozen-bubble
Description-md5: aa
Description-en: pop the bubbles
 Colourful bubbles
 fall down.
 .
 Pop them.
"""


def test_debtags_joins_descriptions_and_splits_by_source_package(script, tmp_path):
    debtags = script("debtags")
    debtags.build(PACKAGES, TRANSLATION, tmp_path)
    assert both(tmp_path) == [
        {
            "id": "frozen-bubble",
            "text": "frozen-bubble: pop the bubbles. Colourful bubbles fall down. Pop them.",
            "labels": ["game::arcade", "game::puzzle", "interface::graphical", "use::gameplaying"],
        }
    ]
    in_test = bool(records(tmp_path / "test.jsonl.gz"))
    assert in_test == debtags.is_test("bubbles", 5)


def test_flipkart_drops_the_name_from_the_path(script, tmp_path):
    flipkart = script("flipkart")
    row = {"uniq_id": "1", "product_name": "Red Shorts 32", "brand": "Loom"}
    rows = [
        row | {"product_category_tree": '["Clothing >> Shorts >> Red Shorts 32"]'},
        row | {"uniq_id": "2", "brand": "", "product_category_tree": '["Clothing >> Red Sho..."]'},
        row | {"uniq_id": "3", "product_category_tree": '["Red Shorts 32"]'},
        row | {"uniq_id": "4", "product_category_tree": '["Clothing >> Shorts"]'},
    ]
    flipkart.build(rows, tmp_path)
    labels = {record["id"]: record["labels"] for record in both(tmp_path)}
    assert labels == {
        "1": ["Clothing", "Clothing > Shorts", "brand: Loom"],
        "2": ["Clothing"],
        "4": ["Clothing", "Clothing > Shorts", "brand: Loom"],
    }
    assert flipkart.split_key("Red Shorts 32") == flipkart.split_key("RED shorts, 34")


def test_tib_gnd_keeps_the_split_of_the_source(script, tmp_path):
    tib_gnd = script("tib_gnd")
    record = {
        "@graph": [
            {"@id": "gnd:1", "sameAs": "Rente"},
            {
                "@id": "x",
                "title": ["A", "title"],
                "abstract": "Text",
                "dcterms:subject": {"@id": "gnd:1"},
            },
        ]
    }
    blind = {"@graph": [{"@id": "x", "title": "A title"}]}
    for path, content in {
        "train/Book/de/3A1.jsonld": record,
        "test/gold/Book/en/3A2.jsonld": record,
        "test/blind/Book/en/3A2.jsonld": blind,
    }.items():
        target = tmp_path / "clone" / tib_gnd.DATA / path
        target.parent.mkdir(parents=True)
        target.write_text(json.dumps(content), encoding="utf-8")
    tib_gnd.build(tib_gnd.read(tmp_path / "clone"), tmp_path / "out")
    assert records(tmp_path / "out" / "train.jsonl.gz") == [
        {"id": "3A1", "text": "A title. Text", "labels": ["gnd:1"], "lang": "de"}
    ]
    assert [r["lang"] for r in records(tmp_path / "out" / "test.jsonl.gz")] == ["en"]
    assert (tmp_path / "out" / "labels.txt").read_text(encoding="utf-8") == "Rente\n"


ARFF = """\
@relation MULAN
@attribute 'first word' {0,1}
@attribute second {0,1}
@attribute TAG_a {0,1}
@attribute TAG_b {0,1}
@data
{0 1,2 1}
{1 1,2 1,3 1}
0,1,0,0
"""
XML = """\
<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="TAG_a"></label><label name="TAG_b"></label>
</labels>
"""


def test_mulan_becomes_xc_text_with_names(script, tmp_path):
    mulan = script("mulan")
    (tmp_path / "bibtex.xml").write_text(XML, encoding="utf-8")
    for part in ("train", "test"):
        (tmp_path / f"bibtex-{part}.arff").write_text(ARFF, encoding="utf-8")
    mulan.build(tmp_path, "bibtex", tmp_path / "out")
    train = read(tmp_path / "out" / "train.txt.gz")
    assert train.label_names == ("TAG_a", "TAG_b")
    assert train.labels.toarray().tolist() == [[1, 0], [1, 1], [0, 0]]
    assert train.features.toarray().tolist() == [[1, 0], [0, 1], [0, 1]]
    assert (tmp_path / "out" / "features.txt").read_text(encoding="utf-8") == "first word\nsecond\n"


def test_the_sets_can_be_read(script, tmp_path):
    debtags = script("debtags")
    paragraphs = [f"Package: p{i}\nDescription: d\nTag: role::program\n" for i in range(20)]
    debtags.build("\n".join(paragraphs), "", tmp_path)
    train, test = read_split(tmp_path)
    assert len(train.texts) + len(test.texts) == 20
    assert len(test.texts) > 0
    assert train.taxonomy is not None
