"""Names on a map never cover each other and fit on a line."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from labelspace.maps.names import Box, Placed, beside, on_one_line

PAGE = Box(0, 0, 400, 300)
numbers = st.floats(0, 400, allow_nan=False)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(numbers, numbers, st.floats(5, 120)), max_size=40))
def test_names_stand_on_the_page_and_apart(points):
    placed = Placed(PAGE, most=20)
    taken = [placed.first_free(beside(x, y, width, 12.0, 3.0)) for x, y, width in points]
    boxes = [box for box in taken if box is not None]
    assert len(boxes) <= 20
    for box in boxes:
        assert box.left >= 0
        assert box.top >= 0
        assert box.right <= 400
        assert box.bottom <= 300
    for one, other in combinations(boxes, 2):
        assert (
            one.right <= other.left
            or other.right <= one.left
            or one.bottom <= other.top
            or other.bottom <= one.top
        )


def test_a_name_goes_right_then_left_of_its_point():
    placed = Placed(PAGE, most=9)
    first = placed.first_free(beside(200, 150, 50, 12, 3))
    second = placed.first_free(beside(200, 150, 50, 12, 3))
    assert (first.left, second.right) == (203, 197)
    assert placed.first_free(beside(399, 150, 50, 12, 3)).right <= 400


def test_a_name_is_one_short_line():
    assert on_one_line("a\nb\t\x00 c\u202e") == "a b c"
    long = on_one_line("x" * 100)
    assert len(long) == 36
    assert long.endswith("…")
    assert on_one_line("") == ""


def test_a_path_keeps_its_leaf():
    path = "Clothing > Women's Clothing > Western Wear > "
    assert on_one_line(f"{path}Skirts") == "… > Western Wear > Skirts"
    assert on_one_line(f"{path}Fusion Wear & Occasion Wear") == "… > Fusion Wear & Occasion Wear"
    long = on_one_line(f"{path}{'leaf ' * 20}")
    assert long.startswith("leaf leaf")
    assert long.endswith("…")
    assert len(long) <= 36
