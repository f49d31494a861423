"""Files are replaced whole, and what killed processes left is removed; streams are written into."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from labelspace._core.files import (
    Busy,
    beside,
    checked_path,
    left_beside,
    lock_file,
    private_folder,
    remove_dead,
    replaced,
)
from labelspace._core.streams import replacing
from labelspace.errors import DataError, ParameterError

WRITER = """
import sys, time
from pathlib import Path
from labelspace._core.files import replaced
with replaced(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("open", flush=True)
    time.sleep(60)
"""


def writer(path):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "open\n"
    return process


def hidden(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_what_a_killed_process_left_is_removed_by_the_next_and_a_running_one_is_not(tmp_path):
    path = tmp_path / "a[1].txt"
    with writer(path) as running, writer(path) as killed:
        try:
            killed.send_signal(signal.SIGKILL)
            killed.wait(20)
            assert len(hidden(tmp_path)) == 2
            with replaced(path) as file:
                file.write(b"whole")
            assert path.read_bytes() == b"whole"
            assert len(hidden(tmp_path)) == 1  # of the one that runs
        finally:
            running.kill()
            running.wait(20)
    remove_dead(left_beside(path, "tmp"))
    assert hidden(tmp_path) == []


def test_names_that_are_not_ours_stay(tmp_path):
    names = [".m.old-2024", ".m.old-backup", ".m.new-abc", ".m.backup.tmp", ".n.0123456789ab.tmp"]
    for name in names:
        (tmp_path / name).write_text("mine")
    with replaced(tmp_path / "m") as file:
        file.write(b"x")
    assert hidden(tmp_path) == sorted(names)


def test_failing_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")

    def fail():
        with replacing(path) as file:
            file.write(b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "old"
    assert hidden(tmp_path) == []


def test_two_at_once_each_give_a_whole_file(tmp_path):
    path = tmp_path / "a"
    with replacing(path) as one, replacing(path) as two:
        one.write(b"1" * 10)
        two.write(b"2" * 20)
    assert path.read_bytes() == b"1" * 10  # the last one to end
    assert hidden(tmp_path) == []


def test_a_fifo_is_written_into(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()), daemon=True)
    reader.start()
    with replacing(fifo) as file:
        file.write(b"rows")
    reader.join(20)
    assert got == [b"rows"]
    assert fifo.is_fifo()


def test_a_device_is_written_into():
    with replacing("/dev/null") as file:
        file.write(b"rows")
    assert os.path.exists("/dev/null")
    assert not os.path.isfile("/dev/null")


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.skipif(not os.path.exists("/dev/fd/1"), reason="no streams by name here")
def test_standard_output_by_name(tmp_path, name):
    code = (
        "from labelspace._core.streams import replacing\n"
        "print('before')\n"
        f"with replacing({name!r}) as file:\n    file.write(b'rows\\n')"
    )
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert piped.stdout == b"before\nrows\n"
    with (tmp_path / "out").open("wb") as out:
        out.write(b"first\n")
        out.flush()
        subprocess.run([sys.executable, "-c", code], stdout=out, timeout=60, check=True)
    assert (tmp_path / "out").read_bytes() == b"first\nbefore\nrows\n"


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "folder" / "real")
    for content in (b"first", b"second"):
        with replacing(link) as file:
            file.write(content)
        assert (tmp_path / "folder" / "real").read_bytes() == content
    assert link.is_symlink()
    assert hidden(tmp_path) == hidden(tmp_path / "folder") == []


def test_places_that_cannot_be_written_are_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    places = {
        tmp_path: "directory",
        tmp_path / "no" / "x": "No such file or directory",
        tmp_path / "file" / "x": "Not a directory",
        tmp_path / ("x" * 300): "too long",
    }
    for place, words in places.items():
        with pytest.raises(DataError, match=words), replacing(place):
            pass


@pytest.mark.parametrize("path", [None, 5, b"x", "a\0b"])
def test_what_is_no_path(path):
    with pytest.raises(ParameterError, match="path="):
        checked_path(path)


def test_a_lock_is_held_by_one_and_leaves_nothing(tmp_path):
    path = tmp_path / "lock"
    with lock_file(path, wait=False) as held:
        assert held
        with pytest.raises(Busy) as refused, lock_file(path, wait=False):
            pass
        assert refused.value.pid == os.getpid()
    assert not path.exists()
    with lock_file(path, wait=False):
        pass


def test_those_that_wait_for_a_lock_have_it_one_after_the_other(tmp_path):
    inside, most = [], []

    def work():
        for _ in range(50):
            with lock_file(tmp_path / "lock", wait=True):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(most) == 200
    assert max(most) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_private_folder_is_ours_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = private_folder("x")
    assert private_folder("x") == folder
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o777)
    other = private_folder("x")  # anyone might have put something into the first
    assert other != folder
    assert other.stat().st_mode & 0o077 == 0


def test_drafts_have_names_of_their_own(tmp_path):
    assert beside(tmp_path / "m", "new") != beside(tmp_path / "m", "new")
