"""Models whose checksums are right and whose content is not: an error of ours, never a crash."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from labelspace.errors import LabelspaceError, ModelFormatError
from labelspace.model.tagger import load
from labelspace.model.training import train

TEXTS = [f"red apple number{i % 7} pie kind{i % 5} of{i % 4}" for i in range(80)]
METHODS = {
    "knn": {},
    "labeltext": {},
    "linear": {"negatives": "hard", "shortlist": 4},
    "hierarchicalxc": {},
    "dual-encoder": {"dim": 16, "epochs": 1},
    "dxml": {"epochs": 2},
    "hyperbolic": {"epochs": 1},
    "treespace": {"epochs": 2},
    "fusion": {"members": "knn,linear,hierarchicalxc"},
}
PLACES = 12  # in each file
HOSTILE = b"\x7f\xff\xff\x7f\xff\xff\xff\x7f"  # NaN in every kind of float, and a large integer

CHILD = """
import json, sys
import numpy as np
from labelspace.errors import LabelspaceError
from labelspace.model.tagger import load
texts = json.loads(sys.stdin.readline())
for line in sys.stdin:
    place = line.strip()
    print("at", place, flush=True)
    try:
        tagger = load(place)
        for tags in tagger.tag_many(texts, 3):
            assert all(np.isfinite(tag.score) and 0 <= tag.score <= 1 for tag in tags), tags
    except LabelspaceError as error:
        assert place in str(error) and "\\n" not in str(error), error
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    lines = [
        json.dumps({"text": text, "labels": ["all", f"l{i % 5}", f"m{i % 4}"]})
        for i, text in enumerate(TEXTS)
    ]
    (folder / "data.jsonl").write_text("\n".join(lines) + "\n")
    for method, settings in METHODS.items():
        train(folder / "data.jsonl", method=method, **settings).save(folder / method)
    return folder


def signed(model):
    """Write the checksums anew."""
    header = json.loads((model / "model.json").read_text())
    for name in header["files"]:
        content = (model / name).read_bytes()
        header["files"][name] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
        }
    (model / "model.json").write_text(json.dumps(header))


@pytest.fixture
def changed(models, tmp_path):
    """Return changed(method, arrays=..., header=..., documents=...), which writes a model."""

    def change(method, arrays=None, header=None, documents=None, stem="method"):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(models / method, copy)
        if arrays is not None:
            kept = load_file(copy / f"{stem}.safetensors")
            kept = {name: np.array(array) for name, array in kept.items()}
            arrays(kept)
            save_file(kept, copy / f"{stem}.safetensors")
        for name, document in (documents or {}).items():
            (copy / f"{name}.json").write_text(document)
        if header is not None:
            whole = json.loads((copy / "model.json").read_text())
            header(whole)
            (copy / "model.json").write_text(json.dumps(whole))
        signed(copy)
        return copy

    return change


def test_bytes_overwritten_at_many_places(models, tmp_path):
    """In one child process, which a wrong access would kill."""
    places = []
    for file in sorted(models.glob("*/*.safetensors")):
        data = file.read_bytes()
        head = 8 + int.from_bytes(data[:8], "little")
        step = max(8, (len(data) - head) // PLACES // 8 * 8)
        for at in range(head, len(data) - 8, step):
            copy = tmp_path / f"{file.parent.name}-{file.stem}-{at}"
            shutil.copytree(file.parent, copy)
            (copy / file.name).write_bytes(data[:at] + HOSTILE + data[at + 8 :])
            signed(copy)
            places.append(copy)
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input="\n".join([json.dumps(TEXTS[:20]), *map(str, places), ""]),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-200:], done.stderr[-2000:])
    assert done.stdout.endswith("done\n")


def put(name, place, value):
    def change(arrays):
        assert name in arrays, sorted(arrays)
        arrays[name][place] = value

    return change


@pytest.mark.parametrize(
    ("method", "name", "place", "value"),
    [
        ("knn", "Y.indices", 0, 100_000),
        ("knn", "Y.indices", 0, -1),
        ("knn", "Y.indptr", 1, 2**30),
        ("knn", "Y.shape", 1, 10**6),
        ("knn", "Y.shape", 0, -1),
        ("knn", "postings.indices", 0, 2_000_000),
        ("knn", "postings.shape", 1, 10**12),
        ("knn", "postings.data", 0, np.nan),
        ("linear", "weights.indptr", 1, 2**30),
        ("linear", "weights.indptr", 0, 1),
        ("linear", "shortlist.indices", 0, 10**8),
        ("linear", "shortlist.offsets", 0, np.inf),
        ("linear", "shortlist.offsets", 0, np.nan),
        ("hierarchicalxc", "0.chunks", 1, 2**30),
        ("hierarchicalxc", "0.sibling", 0, 65535),
        ("hierarchicalxc", "0.parent", 2, 10**6),
        ("hierarchicalxc", "0.parent", 1, 1),
        ("hierarchicalxc", "0.label", -1, 10**6),
        ("hierarchicalxc", "0.features", 0, -5),
        ("hierarchicalxc", "0.cells", 1, -(2**30)),
        ("dxml", "Y.indices", 0, 2**30),
        ("dxml", "vote", 0, 0.0),
        ("dxml", "0.encoder.first", (0, 0), 3e38),
        ("dxml", "Y.indices", slice(None), 0),
        ("hyperbolic", "Y.indices", 0, 2**30),
        ("hyperbolic", "0.points", (0, 0), np.inf),
        ("treespace", "nodes.edges", (0, 1), 10**6),
        ("treespace", "nodes.edges", (0, 0), 0),
        ("treespace", "nodes.label", -1, 10**6),
        ("treespace", "space", 1, 99),
        ("treespace", "dims", 0, 10**9),
        ("treespace", "encoder.first", (0, 0), -1e30),
        ("treespace", "blend", 2, 1e30),
        ("fusion", "combiner.counts", 0, -7),
        ("fusion", "combiner.weights", (0, 0), -np.inf),
        ("fusion", "member.0.Y.indices", 0, 10**6),
    ],
)
def test_values_that_would_have_loops_read_and_write_anywhere(changed, method, name, place, value):
    copy = changed(method, arrays=put(name, place, value))
    with pytest.raises(LabelspaceError, match="copy"):
        load(copy).tag_many(TEXTS[:5], 3)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("knn", {"neighbours": 0}),
        ("knn", {"neighbours": "many"}),
        ("knn", {"power": 1e400}),
        ("knn", {"power": 10**400}),
        ("knn", {"seed": [1]}),
        ("treespace", {"neighbours": -1}),
        ("treespace", {"neighbours": 0}),  # with examples that vote
        ("fusion", {"shortlist": 0}),
        ("hyperbolic", {"ensemble": 10**9}),
        ("hierarchicalxc", {"ensemble": 10**9}),
        ("hierarchicalxc", {"node_hidden": 5}),
    ],
)
def test_parameters_out_of_range(changed, method, parameters):
    copy = changed(method, header=lambda header: header["resolved"].update(parameters))
    with pytest.raises(ModelFormatError, match="copy"):
        load(copy)


def test_more_neighbours_than_examples_are_all_of_them(changed):
    many = {"neighbours": 10**9}
    copy = changed("treespace", header=lambda header: header["resolved"].update(many))
    found = load(copy).tag_many(TEXTS[:5], 3)
    all_of_them = {"neighbours": len(TEXTS)}
    other = changed("treespace", header=lambda header: header["resolved"].update(all_of_them))
    assert found == load(other).tag_many(TEXTS[:5], 3)


@pytest.mark.parametrize("part", ["parameters", "resolved"])
@pytest.mark.parametrize("damage", [{"neighbours": 0}, {"nonsense": 1}, {"seed": [1]}])
def test_parameters_that_are_none(changed, part, damage):
    copy = changed("knn", header=lambda header: header[part].update(damage))
    with pytest.raises(ModelFormatError, match="copy"):
        load(copy)


def test_a_model_that_is_older_than_a_parameter_has_its_default(changed):
    def older(header):
        for part in ("parameters", "resolved"):
            del header[part]["reduction"]

    assert load(changed("dxml", header=older)).method.params_.reduction == "mean"


def test_resolved_parameters_that_are_missing(changed):
    for damage in ({}, None, []):
        copy = changed("knn", header=lambda header, damage=damage: header.update(resolved=damage))
        with pytest.raises(ModelFormatError, match="copy"):
            load(copy)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("labels", [0, -1, 10**9, "5", None, 8.0])
def test_numbers_of_labels_and_features_that_do_not_fit(changed, method, labels):
    for key in ("labels", "features"):
        copy = changed(method, header=lambda header, key=key: header.update({key: labels}))
        with pytest.raises(ModelFormatError, match="copy"):
            load(copy)


@pytest.mark.parametrize(
    "names",
    [
        {}, None, [], ["a"], [1, 2, 3], "aaa", ["all", "all"], [None], [["all"]],
        ["all", "l0", "l1", "l2", "l3", "l4", "m0", "m1", "m2", "\ud800"],
        ["all", "l0", "l1", "l2", "l3", "l4", "m0", "m1", "m2", "m2"],
    ],
)  # fmt: skip
def test_label_names_that_are_none(changed, names):
    copy = changed("knn", documents={"labels": json.dumps(names)})
    with pytest.raises(ModelFormatError, match="copy"):
        load(copy)


@pytest.mark.parametrize("name", ["features", "labels"])
@pytest.mark.parametrize(
    "text", ["[]", "{}", "5", "null", '"x"', "[" * 100_000, "1e400", "NaN", "\x00", '{"text": {}}']
)
def test_documents_of_another_type(changed, name, text):
    copy = changed("knn", documents={name: text})
    with pytest.raises(ModelFormatError, match="copy"):
        load(copy)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": None}, {"method": "knn"}, {"method": "knn@x"}, {"parameters": None},
        {"parameters": [1]}, {"parameters": {"no such": 1}}, {"features": {}},
    ],
)  # fmt: skip
def test_headers_of_another_type(changed, changes):
    copy = changed("knn", header=lambda header: header.update(changes))
    with pytest.raises(LabelspaceError, match="copy"):
        load(copy)


def test_arrays_of_other_types_and_names(changed):
    def rename(arrays):
        arrays["Z.data"] = arrays.pop("Y.data")

    def retype(arrays):
        arrays["Y.indices"] = arrays["Y.indices"].astype(np.float64)

    def flatten(arrays):
        arrays["Y.indptr"] = arrays["Y.indptr"][:, None]

    for change in (dict.clear, rename, retype, flatten):
        with pytest.raises(ModelFormatError, match="copy"):
            load(changed("knn", arrays=change))


def test_a_short_list_that_is_missing_is_an_error_and_no_assertion(changed):
    def without(arrays):
        for name in [name for name in arrays if name.startswith("shortlist.")]:
            del arrays[name]

    with pytest.raises(ModelFormatError, match="short list is missing"):
        load(changed("linear", arrays=without)).tag_many(TEXTS[:5], 3)


def test_members_of_a_fusion_are_checked_too(changed):
    def with_members(text):
        return lambda arrays: arrays.update(members=np.frombuffer(text.encode(), np.uint8))

    for text in (
        "[]",
        "{}",
        '[["fusion", {}, false]]',
        '[["knn", {"neighbours": 0}, false], ["linear", {}, true], ["hierarchicalxc", {}, false]]',
        "[" * 100_000,
    ):
        with pytest.raises(ModelFormatError, match="copy"):
            load(changed("fusion", arrays=with_members(text)))


def test_counts_and_terms_that_do_not_fit(changed):
    with pytest.raises(ModelFormatError, match="counts"):
        load(changed("knn", arrays=put("counts", 0, -1), stem="labels"))

    def shorter(arrays):
        name = next(name for name in arrays if "idf" in name)
        arrays[name] = arrays[name][:-1]

    with pytest.raises(ModelFormatError, match="terms"):
        load(changed("knn", arrays=shorter, stem="features"))
