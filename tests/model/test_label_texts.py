"""Models with label texts: labels without examples, names in languages, saving and updates."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import labelspace as ls
from labelspace.data import read_label_texts
from labelspace.errors import DataError, ModelFormatError, ParameterError

ROWS = [
    {"text": "ripe apple and pear", "labels": ["c2", "c1"]},
    {"text": "ripe plum and apple", "labels": ["c2"]},
    {"text": "steel hammer", "labels": ["c3"]},
    {"text": "steel saw, a hammer", "labels": ["c3"]},
] * 3
TEXTS = """id\tname\tname@de\tsynonyms\tnotation\turi\tbroader
c1\tfruit\tObst\t\t1\thttp://x.org/c1\t
c2\tapple\tApfel\tapples|pippin\t1.1\thttp://x.org/c2\tc1
c3\ttool\t\t\t2\t\t
c4\tpear\tBirne\t\t1.2\t\tc1
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "label_texts.tsv").write_text(TEXTS)
    return path


@pytest.fixture
def tagger(file):
    return ls.train(file, method="knn", neighbours=3)


def test_texts_beside_the_data_are_used_unless_refused(file, tagger):
    assert tagger.label_names == ["c1", "c2", "c3", "c4"]
    assert tagger.names("de") == ["Obst", "Apfel", "tool", "Birne"]
    assert sorted(tagger.taxonomy.pairs()) == [("c2", "c1"), ("c4", "c1")]
    assert ls.train(file, method="knn", labels=None).label_texts is None


def test_texts_of_a_table_in_memory(file):
    texts = read_label_texts(file.with_name("label_texts.tsv"))
    assert ls.train(ROWS, method="knn", labels=texts).names()[1] == "apple"
    assert ls.train(ls.read(ROWS), method="knn", labels=texts).names()[1] == "apple"
    assert ls.train(ls.read(ROWS, label_texts=texts), method="knn").names()[1] == "apple"


def test_labels_without_examples_cost_a_method_nothing_that_cannot_predict_them(file, tagger):
    without = ls.train(file, method="knn", neighbours=3, labels=None)
    assert tagger.method.n_labels_ == without.method.n_labels_ == 3
    for name, array in without.method.state().items():
        assert np.array_equal(tagger.method.state()[name], array)
    assert tagger.label_counts.counts.tolist() == [3, 6, 6, 0]
    assert tagger.metadata["data"]["labels"] == 4
    assert tagger.metadata["data"]["labels_used"] == 3


def test_tags_have_names_ids_uris_and_notations(tagger):
    tag = tagger.tag("ripe apple", k=1)[0]
    assert tag == ls.Tag("apple", tag.score, "c2", "http://x.org/c2", "1.1")
    assert repr(tag).endswith("id='c2', uri='http://x.org/c2', notation='1.1')")
    assert tagger.tag("ripe apple", k=1, language="de")[0].name == "Apfel"
    assert tagger.tag_many([{"text": "saw"}], k=1, language="de")[0][0].name == "tool"
    assert "<th>id</th>" in tagger.tag("saw")._repr_html_()
    ranking = tagger.predict(tagger.read(ROWS[2:3]), k=1)
    assert tagger.to_tags(ranking, language="de")[0][0].id == "c3"


def test_a_language_without_names_is_refused(file, tagger):
    with pytest.raises(ParameterError, match=r"language 'fr': .* it has de"):
        tagger.tag("ripe apple", language="fr")
    with pytest.raises(ParameterError, match="train it with --labels"):
        ls.train(file, method="knn", labels=None).tag("ripe apple", language="de")


def test_without_texts_the_id_is_the_name(file):
    tag = ls.train(file, method="knn", labels=None).tag("ripe apple", k=1)[0]
    assert (tag.id, tag.name, tag.uri, repr(tag)) == (
        "c2",
        "c2",
        "",
        f"Tag(name='c2', score={tag.score!r})",
    )


def test_files_of_predictions_have_ids(tagger, tmp_path):
    new = [{"id": "a", "text": "ripe apple"}]
    for name in ("out.jsonl", "out.csv", "out.parquet"):
        tagger.predict_file(new, tmp_path / name, k=2, language="de")
    line = json.loads((tmp_path / "out.jsonl").read_text())
    first = line["labels"][0]
    assert list(first) == ["id", "name", "uri", "notation", "score"]
    assert (first["id"], first["name"]) == ("c2", "Apfel")
    row = next(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert (row["labels"], row["names"], row["notations"]) == ("c2|c1", "Apfel|Obst", "1.1|1")
    row = pq.read_table(tmp_path / "out.parquet").to_pylist()[0]
    assert (row["labels"], row["names"]) == (["c2", "c1"], ["Apfel", "Obst"])
    assert row["uris"] == ["http://x.org/c2", "http://x.org/c1"]


def test_a_reloaded_model_has_the_same_texts(tagger, tmp_path):
    tagger.save(tmp_path / "m")
    loaded = ls.load(tmp_path / "m")
    assert loaded.label_texts == tagger.label_texts
    assert loaded.taxonomy == tagger.taxonomy
    assert loaded.label_names == tagger.label_names
    assert loaded.tag("ripe apple") == tagger.tag("ripe apple")


def test_evaluation_counts_labels_of_the_texts_as_known(tagger):
    found = tagger.evaluate([{"text": "ripe pear", "labels": ["c4", "c1", "c9"]}])
    assert found["unknown_labels"]["labels"] == 1
    assert 0 < found["recall@5"] < 100
    assert all(np.isfinite(found[name]) for name in ("PSP@5", "nDCG@5"))


def test_levels_and_thresholds_cope_with_labels_without_examples(file):
    tagger = ls.train(file, method="knn", threshold_for="micro-f1")
    assert 0 <= tagger.resolve_threshold("auto") <= 1
    assert "by_level" in tagger.evaluate(file, levels=True)
    assert len(tagger.label_names) == 4


def test_memory_is_planned_without_labels_that_cannot_be_predicted(file):
    from labelspace.model.training import needed_memory

    with_texts = needed_memory(file, method="hierarchicalxc")
    assert with_texts == needed_memory(file, method="hierarchicalxc", labels=None)


def test_texts_of_other_labels_are_refused(file, tmp_path):
    other = tmp_path / "other.tsv"
    other.write_text("x1\tone\n")
    with pytest.raises(DataError, match=r"other.tsv: none of the labels is in this file"):
        ls.train(file, method="knn", labels=other)


# Updates --------------------------------------------------------------------------------------

MORE = [
    {"text": "a yellow pear", "labels": ["c4"]},
    {"text": "a pear cake", "labels": ["c4", "c7"]},
] * 6
SMALL = {"dim": 8, "epochs": 12, "batch_size": 4, "lr": 0.05, "feature_damping": 0.0}


@pytest.fixture
def glas(file):
    pytest.importorskip("torch")
    return ls.train(file, method="glas", **SMALL)


def test_a_label_that_only_had_texts_gets_examples(glas):
    assert glas.method.n_labels_ == 3
    glas.update(MORE)
    assert glas.label_names == ["c1", "c2", "c3", "c4", "c7"]
    assert glas.method.n_labels_ == 5
    assert glas.label_counts.counts.tolist() == [3, 6, 6, 12, 6]
    assert glas.label_texts.names() == ["fruit", "apple", "tool", "pear", "c7"]
    assert sorted(glas.taxonomy.pairs()) == [("c2", "c1"), ("c4", "c1")]
    assert "pear" in [tag.name for tag in glas.tag("ripe pear", k=3)]


def test_new_labels_come_before_those_without_examples(glas, tmp_path):
    glas.update([{"text": "ripe cake", "labels": ["c7"]}] * 4)
    assert glas.label_names == ["c1", "c2", "c3", "c7", "c4"]
    assert glas.method.n_labels_ == 4
    assert glas.label_counts.counts.tolist() == [3, 6, 6, 4, 0]
    assert glas.names() == ["fruit", "apple", "tool", "c7", "pear"]
    glas.save(tmp_path / "m")
    assert ls.load(tmp_path / "m").label_texts == glas.label_texts


def test_an_update_can_bring_texts(glas, tmp_path):
    file = tmp_path / "more.tsv"
    file.write_text("id\tname\tbroader\nc7\tcake\t\nc3\ttools\t\nc8\tpie\tc7\n")
    glas.update(MORE, labels=file)
    named = dict(zip(glas.label_names, glas.names(), strict=True))
    assert named == {"c1": "fruit", "c2": "apple", "c3": "tools", "c4": "pear", "c7": "cake",
                     "c8": "pie"}  # fmt: skip
    assert ("c8", "c7") in glas.taxonomy.pairs()
    assert glas.method.n_labels_ == 5


def test_a_model_trained_without_texts_takes_none_by_itself(file):
    pytest.importorskip("torch")
    tagger = ls.train(file, method="glas", labels=None, **SMALL)
    tagger.update(file)
    assert tagger.label_texts is None
    tagger.update(file, labels=file.with_name("label_texts.tsv"))
    assert tagger.names("de") == ["Obst", "Apfel", "tool", "Birne"]


# Explanations and maps ------------------------------------------------------------------------


def test_a_label_is_explained_by_its_name(file):
    tagger = ls.train(file, method="linear")
    assert tagger.explain("ripe apple", "apple").label == tagger.explain("ripe apple", "c2").label
    with pytest.raises(ParameterError, match="'pear' has no training examples"):
        tagger.explain("ripe apple", "pear")


def test_a_map_has_the_labels_of_the_method(glas, tmp_path):
    from labelspace.maps.label_map import label_map
    from labelspace.maps.write import write_map

    assert label_map(glas, "").names == ["fruit", "apple", "tool"]
    assert write_map(glas, tmp_path / "tree.html", tree=True) > 1000


# Damaged models -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda texts: texts["preferred"].update(de=["one"]),
        lambda texts: texts["preferred"].update(de=[1, 2, 3, 4]),
        lambda texts: texts.update(alternative={"": "abcd"}),
        lambda texts: texts.update(uris="abcd"),
        lambda texts: texts.update(code="import os"),
        lambda texts: texts.update(notations=["\ud800", "", "", ""]),
    ],
)
def test_texts_that_do_not_fit_are_refused(tagger, tmp_path, damage):
    tagger.save(tmp_path / "m")
    _change(tmp_path / "m", "label_texts.json", damage)
    with pytest.raises(ModelFormatError, match=str(tmp_path / "m")):
        ls.load(tmp_path / "m")


def test_labels_beyond_those_of_the_method_need_texts(tagger, tmp_path):
    tagger.label_texts = None
    tagger.save(tmp_path / "m")
    with pytest.raises(ModelFormatError, match="not a list of 3 names"):
        ls.load(tmp_path / "m")


def _change(model: Path, name: str, damage) -> None:
    document = json.loads((model / name).read_text())
    damage(document)
    content = json.dumps(document).encode()
    (model / name).write_bytes(content)
    header = json.loads((model / "model.json").read_text())
    sha256 = hashlib.sha256(content).hexdigest()
    header["files"][name] = {"sha256": sha256, "bytes": len(content)}
    (model / "model.json").write_text(json.dumps(header))
