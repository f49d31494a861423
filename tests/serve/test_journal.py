"""The journal of accepted examples: what is appended is there after any kill, and only once."""

from __future__ import annotations

import pytest

import support.served  # noqa: F401  # skips where the extra is not installed
from labelspace.errors import StoreError
from labelspace.serve.journal import Entry, Journal

PAIRS = [("a text", ["c1"]), ("line\nbreak \u2028 and ü", ["c1", "c2"])]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.journal.jsonl"


def test_examples_are_there_after_a_restart(path):
    first = Journal(path)
    assert first.append(PAIRS) == 2
    assert first.append(PAIRS[:1]) == 3
    again = Journal(path)
    assert again.name == first.name
    assert again.after(0, 10) == [
        Entry(1, "a text", ("c1",)),
        Entry(2, "line\nbreak \u2028 and ü", ("c1", "c2")),
        Entry(3, "a text", ("c1",)),
    ]
    assert [entry.sequence for entry in again.after(1, 1)] == [2]


def test_numbers_go_on_when_all_examples_are_learned(path):
    journal = Journal(path)
    journal.append(PAIRS)
    journal.forget(2)
    assert len(journal) == len(Journal(path)) == 0
    assert Journal(path).append(PAIRS[:1]) == 3
    assert Journal(path).name == journal.name


def test_forgetting_keeps_what_came_later(path):
    journal = Journal(path)
    journal.append(PAIRS)
    journal.append(PAIRS)
    journal.forget(3)
    journal.append(PAIRS[:1])
    for each in (journal, Journal(path)):
        assert [entry.sequence for entry in each.after(0, 10)] == [4, 5]


def test_an_end_that_a_kill_cut_off_is_not_an_example(path):
    journal = Journal(path)
    journal.append(PAIRS)
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        again = Journal(path)
        assert [entry.sequence for entry in again.after(0, 10)] == [1]
        assert again.append(PAIRS[:1]) == 2
        assert len(Journal(path)) == 2


def test_a_first_line_that_a_kill_cut_off(path):
    Journal(path).append(PAIRS)
    whole = path.read_bytes()
    for end in (0, 1, whole.index(b"\n")):
        path.write_bytes(whole[:end])
        again = Journal(path)
        assert len(again) == 0
        assert again.append(PAIRS) == 2
        assert len(Journal(path)) == 2
        assert Journal(path).name == again.name


@pytest.mark.parametrize("line", [0, 1])
def test_a_damaged_line_before_others_is_an_error(path, line):
    Journal(path).append(PAIRS)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b'": ', b'":  x', 1)
    path.write_bytes(b"".join(lines))
    with pytest.raises(StoreError, match=f"{path.name}:{line + 1}: this line is damaged"):
        Journal(path)
    assert path.read_bytes() == b"".join(lines)


def test_a_changed_text_is_noticed(path):
    Journal(path).append(PAIRS)
    path.write_bytes(path.read_bytes().replace(b"a text", b"b text"))
    with pytest.raises(StoreError, match="damaged"):
        Journal(path)


def test_an_example_that_a_full_disk_refused_is_not_in_front_of_later_ones(path):
    resource = pytest.importorskip("resource", reason="there are no limits here")
    journal = Journal(path)
    journal.append(PAIRS[:1])
    size, (soft, hard) = path.stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            journal.append([("more than is left of the disk", ["c1"])])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.stat().st_size == size
    assert journal.append([("accepted later", ["c2"])]) == 2
    assert [entry.text for entry in Journal(path).after(0, 10)] == ["a text", "accepted later"]


def test_what_could_not_be_removed_is_removed_before_the_next_example(path):
    journal = Journal(path)
    journal.append(PAIRS[:1])
    with path.open("ab") as file:  # as of a disk that also failed when it was to be shortened
        file.write(b'{"sequence": 2, "te')
    assert journal.append([("accepted later", ["c2"])]) == 2
    assert [entry.text for entry in Journal(path).after(0, 10)] == ["a text", "accepted later"]
