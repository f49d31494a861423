"""docs/formats.md: its code reads models without labelspace, and its tables name every array."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import labelspace as ls
from labelspace.methods.fusion.float16 import as_float32
from labelspace.methods.registry import HOMES, method_class
from labelspace.model.store import load
from labelspace.search.build import build_index
from support.named import named
from support.planted import planted
from support.small import SMALL

PAGE = Path(__file__).resolve().parent.parent / "docs" / "formats.md"
CODE = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
KINDS = ("fruit", "tool", "cloth", "paper", "glass")


def texts(n, seed=0):
    """Return texts of one or two kinds, whose words overlap."""
    draw = np.random.default_rng(seed)
    found = []
    for i in range(n):
        chosen = [KINDS[i % 5], *([KINDS[(i + 1) % 5]] if i % 3 == 0 else [])]
        words = [f"{kind}{draw.integers(7)}" for kind in chosen for _ in range(3)]
        found.append(
            {"text": " ".join([*words, f"any{draw.integers(9)}", "the"]), "labels": chosen}
        )
    return found


@pytest.fixture(scope="module")
def reader():
    """Return what the code of the page defines."""
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(CODE))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
        )
    }
    assert imported == {"hashlib", "json", "math", "re", "pathlib", "numpy"}
    defined: dict[str, object] = {}
    exec(compile(CODE, str(PAGE), "exec"), defined)
    return defined


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("linear", {"negatives": "all"}),
        ("knn", {"neighbours": 7}),
        ("fusion", {"members": "knn,linear"}),
    ],
)
def test_a_model_is_read_and_used_by_the_code_of_the_page(reader, tmp_path, method, settings):
    tagger = ls.train(texts(240), method=method, **settings)
    tagger.save(tmp_path / "model")
    header, documents, arrays = reader["read_model"](tmp_path / "model")
    asked = [row["text"] for row in texts(40, seed=1)] + ["", "unknown words"]
    scores = reader[f"{method}_scores"]
    for text, tags in zip(asked, tagger.tag_many(asked, k=5), strict=True):
        x = reader["vector"](text, header, documents, arrays)
        found = scores(x, header, arrays["method"])
        if method != "fusion":
            found = dict(enumerate(found))
        own = {documents["labels"].index(tag.name): tag.score for tag in tags}
        for label, score in own.items():
            assert found[label] == pytest.approx(score, abs=2e-5)
        others = [score for label, score in found.items() if label not in own]
        assert max(others, default=0.0) <= min(own.values(), default=1.0) + 2e-5


def test_damage_is_found_by_the_code_of_the_page(reader, tmp_path):
    ls.train(texts(20), method="knn").save(tmp_path / "model")
    with (tmp_path / "model" / "method.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    with pytest.raises(ValueError, match="damaged"):
        reader["read_model"](tmp_path / "model")


# Tables: by heading, the name, type and shape of every array.
TABLES: dict[str, list[tuple[str, str, str]]] = {}
for heading, body in re.findall(
    r"^#{2,4} ([^\n]+)\n(.*?)(?=^#{2,4} |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S
):
    cells = [
        [c.strip() for c in line.split("|")[1:-1]] for line in body.splitlines() if "|" in line
    ]
    TABLES[heading] = [(row[0].strip("`"), row[1], row[2]) for row in cells if len(row) == 4][2:]

CSR = {"data": "float32", "indices": "int", "indptr": "int", "shape": "int64"}


def is_named(name, array, section, sizes, members=()):
    """Return whether a table has this array, with its type and shape."""
    for pattern, kind, shape in TABLES[section]:
        own = re.escape(pattern).replace("N", r"(\d+)").replace("…", ".+")
        nested = re.fullmatch(r"\[.+\]\(#(.+)\)", kind)
        if nested:
            # The tables of a combination have whole names, those of other parts the rest of them.
            found = re.match(own + r"\.(.+)", name)
            rest = found and (name if nested[1] == "combination" else found.groups()[-1])
            if pattern == "combiner" and nested[1] == "combination":
                rest = name if name.startswith("combiner.") else None
            if rest and is_part(rest, array, nested[1], sizes):
                return True
        elif pattern == "member.N.…":
            found = re.fullmatch(own.replace(".+", "(.+)"), name)
            if found:
                member = members[int(found[1])]
                inner = {**sizes, "labels": member["labels"]}
                if is_named(found[2], array, member["method"], inner):
                    return True
        elif kind.startswith("CSR"):
            found = re.fullmatch(own + r"\.(data|indices|indptr|shape)", name)
            if found:
                part = found.groups()[-1]
                wanted = "float16" if kind == "CSR16" and part == "data" else CSR[part]
                return has(array, wanted, "(2)" if part == "shape" else "(n)", sizes)
        elif re.fullmatch(own, name) and (not kind or has(array, kind, shape, sizes)):
            return True  # an array of two types has two rows
    return False


def is_part(rest, array, section, sizes):
    if section != "companion":
        return is_named(rest, array, section, sizes)
    tables = ("hierarchicalxc", "combination")
    return rest == "document" or any(is_named(rest, array, each, sizes) for each in tables)


def has(array, kind, shape, sizes):
    """Return whether an array has the type and the shape of a row of a table."""
    dtype = array.dtype.name
    if dtype != kind and not (kind in ("int", "float") and dtype.startswith((kind, f"u{kind}"))):
        return False
    for one in shape.split(" or "):
        parts = [part for part in one.strip("()").split(", ") if part]
        wanted = [sizes.get(part, int(part) if part.isdigit() else None) for part in parts]
        if len(wanted) == array.ndim and all(
            size is None or size == real for size, real in zip(wanted, array.shape, strict=True)
        ):
            return True
    return False


def unnamed(method, arrays, n_features, n_labels):
    members = json.loads(bytes(arrays["members"])) if "members" in arrays else ()
    sizes = {"features": n_features, "labels": n_labels, "features + 1": n_features + 1}
    return [
        f"{name} {array.dtype} {array.shape}"
        for name, array in as_float32(arrays).items()
        if not is_named(name, array, method, sizes, members)
    ]


FURTHER = [
    ("linear", {"negatives": "hard"}),
    ("knn", {"max_document_frequency": 0.2}),
    ("hierarchicalxc", {"inputs": "code", "node_hidden": 4, "keep_examples": False}),
    ("hierarchicalxc", {"inputs": "code"}),
    ("fusion", {"members": "knn,linear", "objective": "psp"}),
    ("glas", {"dim": 8, "epochs": 1, "precision": "float16"}),
    ("glas", {"dim": 8, "epochs": 1, "precision": "int8"}),
]


@pytest.mark.parametrize("name", sorted(HOMES))
def test_every_array_of_a_method_is_in_its_table(name):
    settings = SMALL.get(name, {})
    X, Y = planted()
    for further in [{}, *(more for method, more in FURTHER if method == name)]:
        method = method_class(name)(**{**settings, **further})
        given = {"label_names": csr_matrix(np.ones((Y.shape[1], 2)))}
        method.fit(X, Y, **(given if method.needs_label_names else {}))
        assert unnamed(name, method.state(), method.n_features_in_, method.n_labels_) == []


@pytest.mark.parametrize("kind", ["projected", "quantised"])
def test_every_array_of_an_index_is_in_its_table(kind):
    vectors = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)
    arrays = build_index(vectors, kind=kind).state()
    sizes = {"vectors": 300, "dimension": 8}
    assert [name for name in arrays if not is_named(name, arrays[name], "index", sizes)] == []


def test_every_file_key_and_array_of_a_model_is_in_a_table(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    tagger = ls.train(named(), method="fusion", members="linear,lexical,labeltext")
    tagger.save(tmp_path / "model")
    ls.train(texts(60), method="knn", features="chars").save(tmp_path / "chars")
    for place in (tmp_path / "model", tmp_path / "chars"):
        bundle, method = load(place), ls.load(place).method
        files = {f"{stem}.safetensors" for stem in bundle.arrays}
        files |= {f"{stem}.json" for stem in bundle.documents}
        assert [name for name in files if f"| `{name}` |" not in page] == []
        facts = set(method.metadata())
        assert [key for key in bundle.header if f"`{key}`" not in page and key not in facts] == []
        sizes = method.n_features_in_, method.n_labels_
        assert unnamed(method.name, bundle.arrays["method"], *sizes) == []
        assert unnamed("Features", bundle.arrays["features"], *sizes) == []
        assert bundle.arrays["labels"].keys() == {"counts", "n_points"}
