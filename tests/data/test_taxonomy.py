"""Hierarchies: files of child and parent, what they must not hold, and depths."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelspace.data import Taxonomy, read_taxonomy, write_taxonomy
from labelspace.data.taxonomy import joined
from labelspace.errors import DataError

AWKWARD = ["a\tb", "a\nb", "# a", "#", "", " ", '"', '"a"', "\ufeffa", "a\r", "a\u2028b", "a\x85b"]


def write_file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_a_hierarchy_file(tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "h.tsv",
        "\ufeff# child\tparent\r\n#tag\tthings\r\n\r\n#\ncat\tanimal\ndog\tanimal\ncat\tanimal\n",
    )
    taxonomy = read_taxonomy(path, ["dog", "cat"])
    assert taxonomy.n_labels == 2
    assert taxonomy.node_names[:2] == ("dog", "cat")
    assert set(taxonomy.node_names) == {"dog", "cat", "#tag", "things", "animal"}
    named = {(taxonomy.node_names[c], taxonomy.node_names[p]) for c, p in taxonomy.edges}
    assert named == {("#tag", "things"), ("cat", "animal"), ("dog", "animal")}
    assert len(taxonomy.edges) == 3
    assert taxonomy.is_tree


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a\tb\nc\n", 2, "expected `child TAB parent`, found 'c'"),
        ("a\tb\tc\n", 1, "expected `child TAB parent`"),
        ("a\tb\n\n\tc\n", 3, "expected `child TAB parent`"),
        ("a\t\n", 1, "expected `child TAB parent`"),
        ("a\tb\nb\tc\nc\ta\n", None, "cycle: .* -> "),
        ("a\ta\n", None, "cycle: a -> a"),
    ],
)
def test_broken_files(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    path = write_file(tmp_path / "h.tsv", text)
    with pytest.raises(DataError, match=message) as caught:
        read_taxonomy(path, ["a"])
    assert caught.value.line == line
    assert str(path) in str(caught.value)


def test_other_encodings_and_absent_files(tmp_path: Path) -> None:
    path = tmp_path / "h.tsv"
    path.write_bytes(b"a\tb\nc\t\xe4\n")
    with pytest.raises(DataError, match="UTF-8") as caught:
        read_taxonomy(path, ["a"])
    assert (caught.value.line, caught.value.column) == (2, 3)
    with pytest.raises(DataError, match="no such file"):
        read_taxonomy(tmp_path / "absent.tsv", ["a"])


@given(
    edges=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30),
    n_labels=st.integers(0, 12),
)
@settings(max_examples=60, deadline=None)
def test_written_edges_come_back(
    tmp_path_factory: pytest.TempPathFactory, edges: list[tuple[int, int]], n_labels: int
) -> None:
    names = [f"ä {i} # x" for i in range(12)]
    pairs = [(names[max(e)], names[min(e)]) for e in edges if e[0] != e[1]]
    taxonomy = Taxonomy.from_names(pairs, names[:n_labels])
    path = tmp_path_factory.mktemp("t") / "h.tsv"
    write_taxonomy(taxonomy, path)
    back = read_taxonomy(path, names[:n_labels])
    assert as_pairs(back) == as_pairs(taxonomy) == set(pairs)
    assert back.node_names[:n_labels] == taxonomy.node_names[:n_labels]
    depths = dict(zip(taxonomy.node_names, taxonomy.depths().tolist(), strict=True))
    assert depths == {name: slow_depth(name, set(pairs)) for name in taxonomy.node_names}


def as_pairs(taxonomy: Taxonomy) -> set[tuple[str, str]]:
    return {(taxonomy.node_names[c], taxonomy.node_names[p]) for c, p in taxonomy.edges}


def slow_depth(name: str, pairs: set[tuple[str, str]]) -> int:
    return max((1 + slow_depth(p, pairs) for c, p in pairs if c == name), default=0)


@given(
    names=st.lists(
        st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(AWKWARD),
        min_size=2,
        max_size=6,
        unique=True,
    )
)
@settings(max_examples=200, deadline=None)
def test_any_name_survives(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    pairs = list(pairwise(names))
    path = tmp_path_factory.mktemp("t") / "h.tsv"
    write_taxonomy(Taxonomy.from_names(pairs, names[:1]), path)
    assert as_pairs(read_taxonomy(path, names[:1])) == set(pairs)


def test_a_long_cycle_is_named_in_a_short_message() -> None:
    names = [f"{i} {'long ' * 100}" for i in range(60_000)]
    edges = np.array([(i, (i + 1) % len(names)) for i in range(len(names))])
    with pytest.raises(DataError, match=r"a cycle: .* -> .* -> \.\.\. \(60000 names\)") as caught:
        Taxonomy(tuple(names), edges, 0)
    assert len(str(caught.value)) < 600


def test_taxonomies_are_joined_and_must_agree() -> None:
    first = Taxonomy.from_names([("cat", "animal")], ["cat"])
    second = Taxonomy.from_names([["animal", "thing"], ["cat", "animal"]], ["animal", "cat"])
    both = joined([first, None, second], ["cat", "dog"])
    assert both is not None
    assert both.node_names == ("cat", "dog", "animal", "thing")
    assert as_pairs(both) == {("cat", "animal"), ("animal", "thing")}
    opposite = Taxonomy.from_names([("animal", "cat")], ["cat"])
    with pytest.raises(DataError, match=r"cycle: .*animal"):
        joined([first, opposite], ["cat"])
    assert joined([None], ["cat"]) is None
