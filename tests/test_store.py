"""Models on disk: whole or not at all, and a sentence for everything that can be wrong."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from labelspace import store
from labelspace.errors import (
    ModelChecksumError,
    ModelFileMissingError,
    ModelFormatError,
    ModelMethodError,
    StoreError,
)
from labelspace.features.pipeline import FeaturePipeline
from labelspace.methods.knn import KNN
from labelspace.tagger import Tagger, load
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
    with pytest.raises(ModelFormatError, match="not a whole model"):
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
    os.rename(model, model.with_name(".model.old-1"))  # a kill between the two renames
    assert load(model).label_names[0] == "new"


SAVER = """
import sys, numpy as np
from labelspace import store
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
