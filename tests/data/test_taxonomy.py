"""Hierarchies: files of child and parent, what they must not hold, and depths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelspace.data import Taxonomy, read_taxonomy, write_taxonomy
from labelspace.errors import DataError


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


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "# a", ""])
def test_names_that_a_file_cannot_hold(tmp_path: Path, name: str) -> None:
    taxonomy = Taxonomy((name, "parent"), np.array([[0, 1]]), 1)
    with pytest.raises(DataError, match="cannot stand"):
        write_taxonomy(taxonomy, tmp_path / "h.tsv")
    assert not list(tmp_path.iterdir())
