"""A sample of the mutations of `make fuzz`: refused with an error of labelspace, or valid answers.

Each model is damaged in a process of its own, so that a signal or a hang is seen.
"""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hostile.models import RECIPES, train
from hostile.mutations import sign
from hostile.pool import Attempts
from labelspace.errors import ModelFormatError
from labelspace.model.tagger import load

# One of each family of arrays, without the seconds that a torch model takes to train.
QUICK = ("knn", "knn-bounded", "linear", "hierarchicalxc", "fusion-texts", "features", "numbers")
MUTATIONS = 40


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name in QUICK:
        train(name, folder / name)
    return folder


def test_damaged_models_are_refused_or_valid(models, tmp_path):
    process, broken, results = Attempts(models, tmp_path / "scratch"), [], set()
    try:
        for name in QUICK:
            for number in range(MUTATIONS):
                found = process.run(name, number)
                results.add(found["result"])
                if found["result"] == "broken":
                    broken.append(found)
    finally:
        process.close()
    assert not broken
    assert results == {"refused", "valid"}  # otherwise the mutations do nothing, or all the same


def test_the_pool_sees_signals_hangs_and_foreign_errors(models, tmp_path, monkeypatch):
    monkeypatch.setattr("hostile.pool.MOST_SECONDS", 1.0)
    for code, seen in (
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended with -11"),
        ("while True: pass", "hang"),
        ("raise IndexError('seen')", "IndexError: seen"),
    ):
        process = Attempts(models, tmp_path / "scratch", before=code)
        try:
            found = process.run("numbers", 0)
        finally:
            process.close()
        assert found["result"] == "broken"
        assert seen in found["kind"]


def test_every_recipe_names_a_method_and_every_method_has_a_recipe():
    from labelspace.methods.registry import HOMES

    assert {recipe.method for recipe in RECIPES.values()} == set(HOMES)


@pytest.mark.parametrize("depth", [60, 900, 100_000])
@pytest.mark.parametrize("name", ["model.json", "labels.json", "features.json"])
def test_deep_nesting_is_refused(models, tmp_path, name, depth):
    shutil.copytree(models / "knn", tmp_path / "copy")
    (tmp_path / "copy" / name).write_text("[" * depth + "]" * depth)
    sign(tmp_path / "copy")
    with pytest.raises(ModelFormatError, match="copy"):
        load(tmp_path / "copy")


def test_a_value_of_many_letters_does_not_fill_the_error(models, tmp_path):
    shutil.copytree(models / "knn", tmp_path / "copy")
    document = json.loads((tmp_path / "copy" / "features.json").read_text())
    document["n_numeric"] = "x\n" * 5000
    (tmp_path / "copy" / "features.json").write_text(json.dumps(document))
    sign(tmp_path / "copy")
    with pytest.raises(ModelFormatError) as error:
        load(tmp_path / "copy")
    assert len(str(error.value)) < 1000
    assert "\n" not in str(error.value)


def test_a_document_or_header_that_is_too_large_is_not_read(models, tmp_path, monkeypatch):
    shutil.copytree(models / "knn", tmp_path / "copy")
    for limit, name in (("_MOST_HEADER", "model.json"), ("_MOST_DOCUMENT", "features.json")):
        with monkeypatch.context() as patched:
            patched.setattr(f"labelspace.model.store.{limit}", 100)
            with pytest.raises(ModelFormatError, match=rf"{name}.*more than 100 bytes"):
                load(tmp_path / "copy")
    load(tmp_path / "copy")


def test_a_header_that_names_many_files_is_refused(models, tmp_path):
    shutil.copytree(models / "knn", tmp_path / "copy")
    header = json.loads((tmp_path / "copy" / "model.json").read_text())
    header["files"] |= {f"f{n}.json": {"sha256": "", "bytes": 0} for n in range(100)}
    (tmp_path / "copy" / "model.json").write_text(json.dumps(header))
    with pytest.raises(ModelFormatError, match="more than 64 files"):
        load(tmp_path / "copy")


@pytest.mark.parametrize("size", [3e38, 1e31, 9e29])
def test_weights_that_overflow_are_an_error_and_no_score(models, tmp_path, size):
    shutil.copytree(models / "linear", tmp_path / "copy")
    file = tmp_path / "copy" / "method.safetensors"
    arrays = {name: np.array(array) for name, array in load_file(file).items()}
    arrays["weights.data"][::2] = -size
    arrays["weights.data"][1::2] = size
    save_file(arrays, file)
    sign(tmp_path / "copy")
    assert damage_is_seen(tmp_path / "copy") or size < 1e30


def damage_is_seen(place):
    """Return whether a model is refused, else check the scores that it gives."""
    try:
        found = load(place).tag_many(["apples breads candles small"] * 3, 5)
    except ModelFormatError:
        return True
    assert all(0 <= tag.score <= 1 for tags in found for tag in tags)
    return False
