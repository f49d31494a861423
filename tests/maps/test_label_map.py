"""Names of groups, labels without vectors, and colours of frequencies."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.maps.label_map import (
    LabelMap,
    _placed,
    _telling,
    frequency_levels,
    frequency_ticks,
)
from labelspace.maps.nearest import Near


def grouped(names, counts, group, heads, parent=None):
    n = len(names)
    near = Near(np.empty((n, 0), np.int32), np.empty((n, 0), np.float32))
    above = np.full(n, -1) if parent is None else np.array(parent)
    ids = [f"id{i}" for i in range(n)]
    return LabelMap(
        "t", ("", ""), names, ids, np.zeros(n, complex), np.array(counts), above,
        np.array(group), np.array(heads), near,
    )  # fmt: skip


def test_groups_are_named_by_the_last_levels_that_tell_them_apart():
    names = ["Home > Tables", "Garden > Tables", "Toys"]
    assert grouped(names, [3, 2, 1], [0, 1, 2], [0, 1, 2]).titles == [
        "Home > Tables",
        "Garden > Tables",
        "Toys",
    ]


def test_a_label_far_more_frequent_than_the_head_is_named_too():
    names = ["English", "Architecture", "Home", "Home > Sofas", "Rare"]
    counts, group = [500, 1000, 300, 599, 0], [0, 0, 1, 1, 0]
    assert grouped(names, counts, group, [0, 2]).titles == ["English, Architecture", "Home"]
    counts[3] = 600
    assert grouped(names, counts, group, [0, 2]).titles[1] == "Home, Sofas"


def test_groups_of_one_name_are_told_apart_by_a_frequent_label_or_the_id():
    names = ["change", "change", "travel", "connect", "change", "change"]
    drawn = grouped(names, [9, 9, 5, 4, 9, 9], [0, 1, 0, 1, 2, 3], [0, 1, 4, 5])
    assert drawn.titles[:2] == ["change (travel)", "change (connect)"]
    assert len(set(drawn.titles)) == 4
    assert drawn.titles[3].endswith("(id5)")


def test_a_group_is_named_after_the_label_that_nearly_all_of_it_is_below():
    names = ["causal agent", "person", *(f"p{i}" for i in range(8)), "agent"]
    parent = np.array([-1, 0, *[1] * 8, 0])
    counts = np.array([60, 50, *[5] * 8, 10])
    heads = np.array([0])
    assert _telling(heads, parent, counts, names).tolist() == [1]
    # Not if the child has few of the examples, or is the next level of a path.
    assert _telling(heads, parent, np.where(counts == 50, 20, counts), names).tolist() == [0]
    names[1] = "causal agent > person"
    assert _telling(heads, parent, counts, names).tolist() == [0]
    names[1], parent[5:10] = "person", 0
    assert _telling(heads, parent, counts, names).tolist() == [0]


def test_names_are_written_inwards_where_lines_lead_outwards():
    drawn = grouped(list("abcd"), [1] * 4, [-1] * 4, [], parent=[-1, 0, -1, 2])
    drawn.points[:] = [0.3, 0.6, -0.3, -0.6]
    assert drawn.names_left.tolist() == [True, False, False, True]


def test_labels_without_vectors_have_the_place_of_the_taxonomy_or_of_their_name():
    vectors = np.array([[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]], np.float32)
    names = ["motor", "tree", "electric motor", "unlike", "oak"]
    shown, alike = _placed(names, vectors, np.array([[4, 1]]))
    assert shown.tolist() == [0, 1, 2, 4]  # neither the taxonomy nor a name places label 3
    assert alike.tolist() == [-1, -1, 0, -1, -1]


def test_all_labels_are_shown_if_none_has_a_vector():
    shown, _ = _placed(["a", "b"], np.zeros((2, 3), np.float32), np.empty((0, 2), np.int32))
    assert shown.tolist() == [0, 1]


def test_levels_go_by_the_logarithm():
    np.testing.assert_allclose(frequency_levels(np.array([0, 1, 10, 100])), [0, 0, 0.5, 1])
    np.testing.assert_array_equal(frequency_levels(np.zeros(3)), 0)
    assert frequency_levels(np.empty(0)).shape == (0,)


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (0, [1]),
        (1, [1]),
        (2, [2]),
        (7, [1, 7]),
        (120, [1, 10, 120]),
        (15351, [1, 10, 100, 1000, 15351]),
    ],
)
def test_ticks_are_powers_of_ten_and_the_largest(most, expected):
    assert frequency_ticks(most) == expected
