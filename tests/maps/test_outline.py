"""The outline of a label tree: names of branches, and a page as safe as the map's."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load

from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import UnsupportedError
from labelspace.labels.propensity import LabelCounts
from labelspace.labels.tree import LabelTree
from labelspace.maps.outline import node_names, packed_tree, tree_page
from support.drawn import RUDE


def tree():
    """Return a root with two branches: labels 0, 1, 2, 4 below the first, 3 on the second."""
    parent = np.array([-1, 0, 0, 1, 1, 1, 1])
    return LabelTree.from_parents(parent, np.array([-1, -1, 3, 0, 1, 2, 4]), 5)


NAMES = ["a", "b", "c", "d", "e"]


def tagger(**extra):
    method = SimpleNamespace(name="some", has_label_trees="trees_" in extra, **extra)
    counts = LabelCounts(np.array([1, 5, 3, 2, 9]), 20)
    return SimpleNamespace(
        method=method, names=lambda: NAMES, label_counts=counts, taxonomy=None, label_names=NAMES
    )


def test_branches_without_a_name_show_their_most_frequent_labels():
    names = node_names(tree(), NAMES, np.array([1, 5, 3, 2, 9]), {})
    assert names == ["All labels", "e, b, c, …", "d", "a", "b", "c", "e"]


def test_own_names_go_before_examples():
    assert node_names(tree(), NAMES, np.zeros(5, int), {1: "kitchen"})[1] == "kitchen"


def test_the_arrays_are_the_tree():
    arrays = load(gzip.decompress(packed_tree(tree(), NAMES, np.array([1, 5, 3, 2, 9]), {})))
    assert arrays["parent"].tolist() == [-1, 0, 0, 1, 1, 1, 1]
    assert arrays["labels"].tolist() == [5, 4, 1, 1, 1, 1, 1]
    assert arrays["counts"].tolist() == [0, 0, 2, 1, 5, 3, 9]
    assert arrays["is_label"].tolist() == [0, 0, 1, 1, 1, 1, 1]
    assert json.loads(arrays["names"].tobytes())[2] == "d"


def test_a_taxonomy_is_shown_by_its_names_without_branches_that_hold_no_label():
    pairs = [("a", "food"), ("food", "goods"), ("b", "goods"), ("ghost", "goods")]
    model = tagger()
    model.taxonomy = Taxonomy.from_names(pairs, NAMES)
    page = tree_page(model, RUDE)
    assert "<img" not in page
    assert page.count("</script>") == 2
    from labelspace.maps.outline import _taxonomy_outline

    shown, named = _taxonomy_outline(model.taxonomy)
    names = node_names(shown, NAMES, np.zeros(5, int), named)
    assert sorted(names) == sorted(["All labels", *NAMES, "food", "goods"])
    below = {names[node]: names[shown.parent[node]] for node in range(1, len(shown))}
    assert below["a"] == "food"
    assert below["food"] == "goods"


def test_the_tree_of_the_method_goes_first_and_none_is_an_error():
    assert "method some" in tree_page(tagger(trees_=[tree()]), "shop")
    with pytest.raises(UnsupportedError, match="no label tree"):
        tree_page(tagger(), "shop")
