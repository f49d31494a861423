"""Models on disk: whole or not at all, and a sentence for everything that can be wrong."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from labelspace.errors import (
    ModelChecksumError,
    ModelFileMissingError,
    ModelFormatError,
    ModelMethodError,
    ParameterError,
    StoreError,
)
from labelspace.features.pipeline import FeaturePipeline
from labelspace.methods.knn import KNN
from labelspace.model import store
from labelspace.model.tagger import Tagger, load
from support.planted import planted


@pytest.fixture
def model(tmp_path):
    X, Y = planted()
    names = [f"ü {i}\n" for i in range(Y.shape[1])]
    tagger = Tagger(FeaturePipeline(None, n_numeric=X.shape[1]), KNN().fit(X, Y), names)
    tagger.save(tmp_path / "model")
    return tmp_path / "model"


def edit_header(model, **changes):
    header = json.loads((model / "model.json").read_text())
    (model / "model.json").write_text(json.dumps({**header, **changes}))


def test_nothing_but_json_and_safetensors_is_written(model):
    assert {file.suffix for file in model.iterdir()} == {".json", ".safetensors"}


def test_a_wrong_checksum(model):
    path = model / "method.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelChecksumError, match=r"method\.safetensors.*checksum"):
        load(model)


def test_a_truncated_file_is_found_without_reading_it(model):
    path = model / "method.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelChecksumError):
        load(model, verify=False)


def test_a_newer_format(model):
    edit_header(model, format=store.FORMAT + 1)
    with pytest.raises(ModelFormatError, match="upgrade"):
        load(model)


def test_a_missing_file(model):
    (model / "labels.json").unlink()
    with pytest.raises(ModelFileMissingError, match=r"labels\.json is missing"):
        load(model)


def test_an_unknown_method(model):
    edit_header(model, method="knm@1")
    with pytest.raises(ModelMethodError, match=r"no method 'knm'; did you mean 'knn'"):
        load(model)


def test_a_method_of_a_later_version(model):
    edit_header(model, method="knn@99")
    with pytest.raises(ModelMethodError, match="upgrade"):
        load(model)


def test_parameters_the_method_does_not_have(model):
    edit_header(model, parameters={"neighbors": 3})
    with pytest.raises(ModelFormatError, match="not a complete model"):
        load(model)


def test_no_model_at_all(tmp_path):
    with pytest.raises(ModelFormatError, match="holds no model"):
        load(tmp_path)
    (tmp_path / "model.json").write_text("[")
    with pytest.raises(ModelFormatError, match="not a model header"):
        load(tmp_path)


def test_a_header_cannot_reach_outside_its_directory(model):
    files = {"../x.json": {"sha256": "", "bytes": 0}}
    edit_header(model, files=files)
    with pytest.raises(ModelFormatError, match="outside"):
        load(model)


def test_a_directory_of_something_else_is_not_replaced(tmp_path):
    (tmp_path / "precious.txt").write_text("keep")
    with pytest.raises(StoreError, match="holds no model"):
        store.save(store.Bundle({}), tmp_path)
    assert (tmp_path / "precious.txt").read_text() == "keep"


def test_saving_over_a_model_leaves_only_the_new_one(model):
    before = sorted(file.name for file in model.parent.iterdir())
    tagger = load(model)
    tagger.label_names[0] = "new"
    tagger.save(model)
    assert load(model).label_names[0] == "new"
    assert sorted(file.name for file in model.parent.iterdir()) == before


def test_without_an_atomic_exchange_two_renames_do(model, monkeypatch):
    monkeypatch.setattr(store, "_exchange", lambda *_: False)
    tagger = load(model)
    tagger.label_names[0] = "new"
    tagger.save(model)
    assert load(model).label_names[0] == "new"
    os.rename(model, model.with_name(".model.0123456789ab.old"))  # a kill between the two renames
    assert load(model).label_names[0] == "new"


SAVER = """
import sys, numpy as np
from labelspace.model import store
turn = 0
while True:
    turn += 1
    array = np.full(200_000, turn, np.int64)
    store.save(store.Bundle({"turn": turn}, {"a": {"x": array}}, {"d": [turn] * 1000}), sys.argv[1])
    print(turn, flush=True)
"""


def test_a_kill_in_the_middle_of_a_save_leaves_the_old_model_or_the_new(tmp_path):
    place, draw = tmp_path / "model", random.Random(0)
    for _ in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(place)], stdout=subprocess.PIPE, text=True
        )
        with process:
            process.stdout.readline()  # the first save is done: from here on there is a model
            time.sleep(draw.uniform(0.0, 0.05))
            process.send_signal(signal.SIGKILL)
            said = process.stdout.read().split()
        bundle = store.load(place)
        turn = bundle.header["turn"]
        assert turn >= int(said[-1] if said else 1)
        assert (bundle.arrays["a"]["x"] == turn).all()
        assert bundle.documents["d"] == [turn] * 1000


def bundle_of(turn, size=300):
    array = np.full(size, turn, np.int64)
    return store.Bundle({"turn": turn}, {"a": {"x": array}}, {"d": [turn] * 10})


def test_a_load_during_saves_gives_one_model_whole(tmp_path):
    """Names of one model with the weights of another, checksums on: never."""
    place, stop, failed = tmp_path / "model", threading.Event(), []
    store.save(bundle_of(0), place)

    def save_often():
        turn = 0
        while not stop.is_set():
            turn += 1
            store.save(bundle_of(turn, 300 + turn % 2), place)

    saver = threading.Thread(target=save_often, daemon=True)
    saver.start()
    try:
        for _ in range(400):
            bundle = store.load(place)
            turn = bundle.header["turn"]
            if not (bundle.arrays["a"]["x"] == turn).all() or bundle.documents["d"][0] != turn:
                failed.append(turn)
    finally:
        stop.set()
        saver.join(60)
    assert failed == []


def test_files_are_those_of_the_directory_that_was_opened(tmp_path, monkeypatch):
    place = tmp_path / "model"
    store.save(bundle_of(1), place)
    read_header = store._read_header

    def then_replaced(folder, where):
        header, digest = read_header(folder, where)
        if header["turn"] == 1:
            store.save(bundle_of(2), place)
        return header, digest

    monkeypatch.setattr(store, "_read_header", then_replaced)
    bundle = store.load(place)
    assert bundle.header["turn"] == bundle.documents["d"][0] == bundle.arrays["a"]["x"][0]


def test_the_digest_identifies_what_was_saved(tmp_path):
    place = tmp_path / "model"
    found = []
    for turn in (1, 1, 2):
        store.save(bundle_of(turn), place)
        found.append(store.load(place).digest)
    assert found[0] == found[1] != found[2]
    content = (place / "model.json").read_bytes()
    assert found[2] == hashlib.sha256(content).hexdigest()


def test_threads_that_save_to_one_place_all_succeed(tmp_path):
    place, errors = tmp_path / "m[1]", []

    def work(number):
        for turn in range(8):
            try:
                store.save(bundle_of(10 * number + turn), place)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    turn = store.load(place).header["turn"]
    assert turn % 10 == 7
    assert [path.name for path in tmp_path.iterdir()] == ["m[1]"]


def test_the_next_save_removes_what_a_killed_one_left(tmp_path):
    place = tmp_path / "m[1]"
    process = subprocess.Popen(
        [sys.executable, "-c", SAVER, str(place)], stdout=subprocess.PIPE, text=True
    )
    with process:
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    (tmp_path / ".m[1].0123456789ab.new").mkdir()  # whatever the kill left
    (tmp_path / ".m[1].0123456789ab.old").mkdir()
    store.save(bundle_of(1), place)
    assert [path.name for path in tmp_path.iterdir()] == ["m[1]"]


@pytest.mark.parametrize("name", [".m.old-backup", ".m.old-2024", ".m.new-abc", ".m.new-1"])
def test_what_others_keep_beside_the_model_stays(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "precious.txt").write_text("keep")
    for turn in range(2):
        store.save(bundle_of(turn), tmp_path / "m")
    assert (tmp_path / name / "precious.txt").read_text() == "keep"


def test_a_reader_between_two_renames_gets_the_old_model_and_moves_nothing(tmp_path, monkeypatch):
    place, seen = tmp_path / "m", []
    store.save(bundle_of(1), place)
    monkeypatch.setattr(store, "_exchange", lambda *_: False)
    rename = os.rename

    def and_read(old, new):
        rename(old, new)
        seen.append(store.load(place).header["turn"])

    monkeypatch.setattr(os, "rename", and_read)
    store.save(bundle_of(2), place)
    assert seen == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_linked_place_is_written_through(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "current"
    link.symlink_to("real")
    for turn in range(2):
        store.save(bundle_of(turn), link)
    assert link.is_symlink()
    assert store.load(link).header["turn"] == store.load(tmp_path / "real").header["turn"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "real"]


@pytest.mark.parametrize("name", ["model.json", "labels.json", "method.safetensors"])
@pytest.mark.parametrize("kind", ["fifo", "zero", "link", "folder"])
def test_only_regular_files_are_opened(model, name, kind):
    path = model / name
    path.rename(model.parent / "moved")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "zero" else model.parent / "moved")
    with pytest.raises(StoreError, match=r"regular file|not a model header"):
        load(model)


@pytest.mark.parametrize("name", ["..", "", ".", "a/b.json", "x\0.json", "model.json", "x.pkl"])
def test_names_that_no_file_of_a_model_has(model, name):
    edit_header(model, files={name: {"sha256": "", "bytes": 0}})
    with pytest.raises(ModelFormatError, match="outside"):
        load(model)


@pytest.mark.parametrize("metadata", [None, [], "x", {}, {"bytes": 1}])
def test_facts_on_a_file_that_are_none(model, metadata):
    edit_header(model, files={"labels.json": metadata})
    with pytest.raises(ModelFormatError, match=r"checksum and size of labels\.json"):
        load(model)


@pytest.mark.parametrize(
    "text",
    ["[]", "5", "null", "[" * 100_000, '{"format": 1e400}', '{"format": true, "files": {}}',
     '{"format": 1, "files": []}', '{"format": 1, "files": {}, "x": NaN}', "\xff"],
)  # fmt: skip
def test_headers_that_are_none(model, text):
    (model / "model.json").write_text(text, encoding="latin-1")
    with pytest.raises(ModelFormatError, match="not a model header"):
        load(model)


def test_a_second_change_at_once_is_refused_with_a_sentence(tmp_path):
    with store.locked(tmp_path / "m"):
        store.save(bundle_of(1), tmp_path / "m")  # the one that has the lock may
        with (
            pytest.raises(StoreError, match=rf"being changed by process {os.getpid()}"),
            store.locked(tmp_path / "m"),
        ):
            pass
        with store.locked(tmp_path / "other"):
            pass
    with store.locked(tmp_path / "m"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_files_are_readable_by_whom_the_umask_allows(tmp_path):
    before = os.umask(0o027)
    try:
        store.save(bundle_of(1), tmp_path / "m")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "m").iterdir()} == {0o640}
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("check", [store.check_target, lambda place: store.save(PLAIN, place)])
def test_places_where_no_model_can_go_are_refused(tmp_path, monkeypatch, check):
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("keep")
    places = {
        tmp_path / "file": "is a file",
        tmp_path / "file" / "m": r"is a file|Not a directory",
        tmp_path / "full": "holds no model",
        tmp_path / ("x" * 250): "too long",
        tmp_path / ("x" * 300): "too long",
        "/proc/m": r"cannot be written",
        "/": "current directory",
    }
    for place, words in places.items():
        with pytest.raises(StoreError, match=words):
            check(place)
    monkeypatch.chdir(tmp_path / "full")
    for place in (".", ".."):
        with pytest.raises(StoreError, match="current directory"):
            check(place)
    for place in (None, "a\0b"):
        with pytest.raises(ParameterError, match="directory="):
            check(place)
    check(tmp_path / "new" / "m")


def test_a_load_of_what_is_no_directory(tmp_path):
    (tmp_path / "file").write_text("")
    for place, words in ((tmp_path / "file", "no directory"), (tmp_path / "no", "no such")):
        with pytest.raises(ModelFormatError, match=words):
            load(place)
    for place in (None, "a\0b"):
        with pytest.raises(ParameterError, match="directory="):
            load(place)


PLAIN = bundle_of(1)


def test_a_disk_that_is_full_is_one_sentence_and_the_old_model_stays(tmp_path):
    """A limit on the size of files fails a write as a full disk does."""
    code = """
import resource, signal, sys
import numpy as np
from labelspace.model import store
from labelspace.errors import StoreError
store.save(store.Bundle({"turn": 1}), sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    store.save(store.Bundle({}, {"a": {"x": np.zeros(100_000)}}), sys.argv[1])
except StoreError as error:
    print(error)
"""
    place = tmp_path / "m"
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)], capture_output=True, text=True, timeout=60
    )
    assert "cannot be written: File too large" in done.stdout
    assert done.stderr == ""
    assert store.load(place).header["turn"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
