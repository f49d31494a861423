"""Which level a label stands on, what its ancestors are, and kinds beside a path."""

from __future__ import annotations

import json

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data import Columns, read
from labelspace.data.taxonomy import Taxonomy, joined
from labelspace.labels.levels import Levels

NAMES = ["a", "a > b", "a > b > c", "brand: x", "brand: y", "colour: red", "lone", "d"]
PAIRS = [("a > b", "a"), ("a > b > c", "a > b"), ("a > b > c", "d"), ("d", "outside")]


def build():
    return Levels.build(Taxonomy.from_names(PAIRS, NAMES), NAMES)


def test_depth_kind_and_ancestors():
    levels = build()
    assert levels.names == ("L0", "L1", "L2", "brand", "colour")
    assert [levels.names[level] for level in levels.of] == [
        *("L0", "L1", "L2", "brand", "brand", "colour", "L0", "L1"),
    ]
    assert levels.on_path.tolist() == [True, True, True, False, False, False, True, True]
    nodes = [*NAMES, "outside"]
    ancestors = levels.ancestors()
    found = [{nodes[node] for node in ancestors[row].indices} for row in range(len(NAMES))]
    assert found[2] == {"a > b > c", "a > b", "a", "d", "outside"}
    assert found[1] == {"a > b", "a"}
    assert found[3] == {"brand: x"}
    assert set(ancestors.data.tolist()) == {1.0}


def test_one_label_each():
    levels = build()
    assert levels.one_label_each(csr_matrix([[1, 1, 1, 1, 0, 1, 0, 0]]))
    assert not levels.one_label_each(csr_matrix([[1, 0, 0, 1, 1, 0, 0, 0]]))
    assert not levels.one_label_each(csr_matrix([[0, 1, 0, 0, 0, 0, 0, 1]]))


def test_taxonomies_are_joined_by_name():
    first = Taxonomy.from_names([("b", "a")], ["a", "b"])
    second = Taxonomy.from_names([("c", "b"), ("b", "a")], ["b", "c"])
    both = joined([first, None, second], ["c", "b", "a"])
    assert sorted(both.pairs()) == [("b", "a"), ("c", "b")]
    assert both.node_names == ("c", "b", "a")
    assert joined([None], ["a"]) is None


def test_a_brand_and_a_category_of_one_name_are_two_labels(tmp_path):
    rows = [
        {"text": "t", "L0": "Titan", "L1": "Watches", "brand": "Titan"},
        {"text": "t", "L0": "Titan", "L1": None, "brand": None},
    ]
    file = tmp_path / "t.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    dataset = read(file, columns=Columns(path=("L0", "L1"), labels=("brand",)))
    assert dataset.names() == ["Titan", "Titan > Watches", "brand: Titan"]
    assert np.array_equal(dataset.labels.toarray(), [[1, 1, 1], [1, 0, 0]])
    assert Levels.build(dataset.taxonomy, dataset.names()).names == ("L0", "L1", "brand")


def test_a_colon_in_many_names_makes_no_levels():
    names = ["a", "a > b", *(f"topic {i}: intro" for i in range(1000))]
    names += [f"brand: {i}" for i in range(200)]
    levels = Levels.build(Taxonomy.from_names([("a > b", "a")], names), names)
    assert levels.names == ("L0", "L1", "brand")
    assert set(levels.of[2:1002].tolist()) == {0}
    assert set(levels.of[1002:].tolist()) == {2}
