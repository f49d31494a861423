"""`labelspace data`: conversion loses nothing, sets are found, files are complete or absent."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.data import Dataset, Taxonomy, read, write

NAMES = ["plain", "two\u2028lines", 'a "quote"', "line\nbreak", '"', "end\r", "next\x85line"]


@pytest.fixture
def numbered(tmp_path):
    """Write a data set with awkward names and a hierarchy as Parquet."""
    rng = np.random.default_rng(0)
    labels = csr_matrix(np.eye(len(NAMES), dtype=np.float32)[np.arange(70) % len(NAMES)])
    features = labels.toarray() + rng.random((70, len(NAMES))).astype(np.float32) / 10
    taxonomy = Taxonomy.from_names([(name, "all\tof them") for name in NAMES], NAMES)
    dataset = Dataset(
        labels,
        csr_matrix(features),
        label_names=NAMES,
        ids=[f"id {row}" for row in range(70)],
        taxonomy=taxonomy,
    )
    write(dataset, tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


def test_convert_to_xc_and_back_loses_nothing_but_ids(numbered, command):
    for middle in ("b.txt", "c.txt.gz"):
        first, second = numbered.with_name(middle), numbered.with_name(f"{middle}.parquet")
        code, _, said = command("data", "convert", numbered, first)
        assert code == 0
        assert "ids are not written" in said
        assert f"{middle}.labels.txt: label names" in said.replace("\n", "")
        assert command("data", "convert", first, second)[0] == 0
        given, found = read(numbered), read(second)
        assert found.label_names == given.label_names
        assert set(found.taxonomy.pairs()) == set(given.taxonomy.pairs())
        assert (found.labels != given.labels).nnz == 0
        assert (found.features != given.features).nnz == 0


def test_names_beside_reach_the_model_and_its_answers(numbered, command):
    file = numbered.with_name("train.txt")
    assert command("data", "convert", numbered, file)[0] == 0
    assert command("train", file, "--out", numbered.with_name("m"), "--method", "knn")[0] == 0
    answers = command("predict", numbered.with_name("m"), file, "--top", "1")[1].split("\n")
    assert [json.loads(line)["labels"][0]["name"] for line in answers[: len(NAMES)]] == NAMES
    # By number where the test file has no names, and by name where it has others.
    bare = numbered.with_name("bare.txt")
    bare.write_bytes(file.read_bytes())
    found = command("evaluate", numbered.with_name("m"), bare, "--json")[1]
    assert json.loads(found)["P@1"] == 100.0
    turned = read(numbered, label_names=NAMES[::-1])
    write(turned, numbered.with_name("turned.txt"))
    found = command("evaluate", numbered.with_name("m"), numbered.with_name("turned.txt"), "--json")
    assert json.loads(found[1])["P@1"] == 100.0


def test_label_names_are_read_line_by_line(numbered, command):
    file, names = numbered.with_name("x.txt"), numbered.with_name("names")
    file.write_text("2 1 2\n0 0:1\n1 0:1\n")
    names.write_text("a\u2028b\nc\n", encoding="utf-8")
    out = numbered.with_name("x.jsonl")
    assert command("data", "convert", file, out, "--label-names", names)[0] == 0
    assert read(out).label_names == ("a\u2028b", "c")
    code, _, said = command("data", "convert", file, out, "--label-names", "absent")
    assert (code, "no such file" in said) == (1, True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("new.txt", "2 7 0\n 1:1\n 2:1\n"),
        ("new.txt", "2 7 99\n98 1:1\n 2:1\n"),
        ("new.svm", "0 1:0.001\n 2:1 7:0.001\n"),
        ("tst_X_Xf.txt", "2 7\n1:1\n2:1\n"),
    ],
)
def test_predict_needs_no_labels(numbered, command, name, content):
    model = numbered.with_name("m")
    train = numbered.with_name("train.txt")
    assert command("data", "convert", numbered, train)[0] == 0
    assert command("train", train, "--out", model, "--method", "knn")[0] == 0
    new = numbered.with_name(name)
    new.write_text(content)
    code, out, said = command("predict", model, new, "--top", "1")
    assert code == 0, said
    assert len(out.rstrip("\n").split("\n")) == 2


def test_a_fetched_set_is_found_in_the_folder_of_its_archive(tmp_path, command):
    archive = tmp_path / "Bibtex.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for part in ("train", "test"):
            rows = "".join(f"{i % 2} {i % 2}:1\n" for i in range(20))
            packed.writestr(f"Bibtex/bibtex_{part}.txt", f"20 2 2\n{rows}")
        packed.writestr("__MACOSX/x", "")
    out = tmp_path / "my data"
    code, _, said = command("data", "get", "bibtex", "--from", archive, "--out", out)
    said = " ".join(said.split())
    assert code == 0
    assert f"labelspace compare --train '{out}/bibtex'" in said
    assert f"labelspace train '{out}/bibtex/Bibtex/bibtex_train.txt'" in said
    code, _, said = command("compare", "--train", out / "bibtex", "--methods", "most-common")
    assert code == 0, said
    for folder in ("one", "two"):
        (tmp_path / "many" / folder).mkdir(parents=True)
        for part in ("train", "test"):
            (tmp_path / "many" / folder / f"{part}.jsonl").write_text('{"text": "a"}\n')
    code, _, said = command("compare", "--train", tmp_path / "many")
    assert "several folders hold data: one, two" in " ".join(said.split())


def test_a_synth_that_fails_late_leaves_none(tmp_path, monkeypatch):
    from labelspace.datasets import products as synthetic

    def records(n, *, seed, start):
        yield from product_records(n, seed=seed, start=start)
        if start:
            raise KeyboardInterrupt

    product_records = synthetic.product_records
    monkeypatch.setattr(synthetic, "product_records", records)
    with pytest.raises(KeyboardInterrupt):
        synthetic.write_catalogue(tmp_path / "shop", train=5, test=5)
    assert list((tmp_path / "shop").iterdir()) == []
