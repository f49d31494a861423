"""`labelspace map` end to end, on a small model."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")


@pytest.fixture
def model(shop, command):
    code, _, said = command(
        *("train", shop / "train.jsonl", "--method", "hyperbolic", "--out", shop / "model"),
        *("--set", "dim=3", "--set", "epochs=1", "--set", "ensemble=2"),
    )
    assert code == 0, said
    return shop / "model"


def test_a_page_and_a_picture(model, shop, command):
    (shop / "hierarchy.tsv").write_text("tool\tthing\ncloth\ttool\n", encoding="utf-8")
    for name, start in (
        ("map.html", b"<!doctype html>"),
        ("map.png", b"\x89PNG"),
        ("map.svg", b"<?xml"),
    ):
        if name != "map.html":
            pytest.importorskip("matplotlib")
        data = ("--data", shop / "train.jsonl")
        code, _, said = command("map", model, "--out", shop / name, *data)
        assert code == 0, said
        assert "3 labels" in said
        assert (shop / name).read_bytes().startswith(start)


def test_the_map_shows_names_and_counts_of_the_model(model):
    from labelspace import load
    from labelspace.maps.label_map import label_map

    tagger = load(model)
    drawn = label_map(tagger, "shop")
    counts = dict(zip(drawn.names, drawn.counts.tolist(), strict=True))
    assert counts == {"cloth": 25, "fruit": 25, "tool": 25}
    assert drawn.near.labels.shape == (3, 2)
    assert (drawn.parent == -1).all()
    assert "outside" in drawn.notes[1]


def test_two_dimensions_are_drawn_unchanged(shop, command):
    from labelspace import load
    from labelspace.maps.label_map import label_map

    settings = [f"--set={each}" for each in ("dim=2", "epochs=1", "ensemble=1")]
    model = shop / "flat"
    command("train", shop / "train.jsonl", "--method", "hyperbolic", *settings, "--out", model)
    tagger = load(model)
    drawn = label_map(tagger, "shop")
    own = tagger.method.label_vectors_
    np.testing.assert_allclose(np.column_stack([drawn.points.real, drawn.points.imag]), own)
    assert "unchanged" in drawn.notes[1]


def test_data_bring_the_taxonomy_and_counts_that_a_model_lacks(model, shop):
    from labelspace import load
    from labelspace.data import read
    from labelspace.maps.label_map import label_map

    (shop / "hierarchy.tsv").write_text("tool\tthing\ncloth\tstuff\nstuff\ttool\n", "utf-8")
    tagger = load(model)
    tagger.label_counts = None
    assert label_map(tagger, "shop").counts is None
    data = read(shop / "train.jsonl", label_names=tagger.label_names)
    drawn = label_map(tagger, "shop", data)
    assert drawn.counts.tolist() == [25, 25, 25]
    lines = [(drawn.names[a], drawn.names[b]) for a, b in enumerate(drawn.parent) if b >= 0]
    assert lines == [("cloth", "tool")]


def test_another_ending_is_refused_before_anything_is_read(shop, command):
    code, _, said = command("map", shop / "nothing", "--out", shop / "map.gif")
    assert code == 2
    assert ".html or .png or .svg" in said


def test_a_model_without_a_space_is_an_error(shop, command):
    command("train", shop / "train.jsonl", "--method", "knn", "--out", shop / "knn")
    code, _, said = command("map", shop / "knn", "--out", shop / "map.html")
    assert code == 1
    assert "hyperbolic" in said
    assert not (shop / "map.html").exists()


def test_a_tree_as_an_outline(model, shop, command):
    (shop / "hierarchy.tsv").write_text("tool\tthing\ncloth\tthing\n", encoding="utf-8")
    arguments = ("map", model, "--tree", "--out", shop / "tree.html")
    code, _, said = command(*arguments)
    assert code == 1
    assert "no taxonomy" in said
    code, _, said = command(*arguments, "--data", shop / "train.jsonl")
    assert code == 0, said
    assert "the taxonomy of the labels" in (shop / "tree.html").read_text(encoding="utf-8")
    assert command("map", model, "--tree", "--out", shop / "tree.png")[0] == 2
