"""The generated catalogue: well-formed, the same everywhere, skewed, learnable but not trivial."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from labelspace.data.taxonomy import Taxonomy
from labelspace.datasets.products import Dice, product_records, write_catalogue
from labelspace.errors import DataError, ParameterError

WORDS = files("labelspace.datasets").joinpath("product_words.toml").read_text(encoding="utf-8")
DEPARTMENTS = tomllib.loads(WORDS)["departments"]
DATASETS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "datasets.md"

# Of the first 500 records with seed 0; changes only if the words or the generator change.
DIGEST = "9ef3a9151aa99e5812d79083273eba54e7d1be12c660f2431eadd453cd0f9ab9"
PRINT_DIGEST = """
import hashlib, json
from labelspace.datasets.products import product_records
text = "\\n".join(json.dumps(record) for record in product_records(500))
print(hashlib.sha256(text.encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    return list(product_records(10_000))


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_same_records_in_any_process(hash_seed: str) -> None:
    environment = os.environ | {
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    run = subprocess.run(
        [sys.executable, "-c", PRINT_DIGEST],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert run.stdout.strip() == DIGEST


@settings(max_examples=20, deadline=None)
@given(st.integers(-(2**70), 2**70), st.integers(0, 10**9), st.integers(0, 30))
def test_a_record_depends_on_seed_and_number_alone(seed: int, start: int, n: int) -> None:
    whole = list(product_records(n, seed=seed, start=start))
    assert len(whole) == n
    for i, record in enumerate(whole):
        assert [record] == list(product_records(1, seed=seed, start=start + i))


def test_seeds_give_other_products() -> None:
    assert next(product_records(1, seed=1))["text"] != next(product_records(1, seed=2))["text"]


def test_records_come_one_by_one() -> None:
    assert len(list(islice(product_records(10**15), 3))) == 3


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(ParameterError, match="negative"):
        next(product_records(-1))


def test_every_record_is_well_formed(records: list[dict[str, Any]]) -> None:
    assert len({record["id"] for record in records}) == len(records)
    for record in records:
        assert set(record) == {"id", "text", "labels", "path", "brand"}
        text, path, brand = record["text"], record["path"], record["brand"]
        assert text == " ".join(text.split())
        assert text
        assert 2 <= len(path) <= 5
        expected = [" > ".join(path[:end]) for end in range(1, len(path) + 1)]
        assert record["labels"] == expected + ([f"brand: {brand}"] if brand else [])
        department = DEPARTMENTS[path[0]]
        category = department["categories"][path[1]]
        if len(path) > 2:
            assert path[2] in category["types"]
        if len(path) > 3:
            assert path[3].removesuffix(f" {path[2]}") in category["kinds"]
        if len(path) > 4:
            assert path[4].removesuffix(f" {path[3]}") in department["styles"]


def test_some_have_no_brand_and_some_paths_stop_early(records: list[dict[str, Any]]) -> None:
    n = len(records)
    assert sum(not record["brand"] for record in records) / n == pytest.approx(0.25, abs=0.03)
    depths = Counter(len(record["path"]) for record in records)
    assert all(depths[depth] > 0.03 * n for depth in (2, 3, 4))
    assert depths[5] / n == pytest.approx(0.8, abs=0.03)


def test_labels_grow_with_the_catalogue(records: list[dict[str, Any]]) -> None:
    seen = {n: {x for r in records[:n] for x in r["labels"]} for n in (300, 1_000, 10_000)}
    assert 200 < len(seen[300]) < len(seen[1_000]) < 1_200
    assert 1_500 < len(seen[10_000]) < 2_500


def test_few_labels_are_common_and_many_rare(records: list[dict[str, Any]]) -> None:
    for is_brand in (False, True):
        counts = Counter(
            label
            for record in records
            for label in record["labels"][len(record["path"]) - 1 :]
            if label.startswith("brand: ") == is_brand
        )
        ordered = np.array(sorted(counts.values(), reverse=True))
        top = max(1, len(ordered) // 10)
        assert ordered[:top].sum() > 0.5 * ordered.sum()
        assert np.median(ordered) < ordered.mean() / 2


def test_noise_is_there(records: list[dict[str, Any]]) -> None:
    n = len(records)
    branded = [record for record in records if record["brand"]]
    shown = sum(record["brand"].lower() in record["text"].lower() for record in branded)
    assert 0.75 < shown / len(branded) < 0.9  # left out at times, mistyped at times
    assert 0.1 < sum(record["text"].islower() for record in records) / n < 0.2
    assert len({record["text"] for record in records}) > 0.95 * n
    # The same last label must come with several of its synonyms.
    headsets = [r["text"].lower() for r in records if "Headphones" in r["path"]]
    assert all(sum(noun in text for text in headsets) > 20 for noun in ("headphones", "headset"))


def test_pick_early_follows_the_power() -> None:
    counts = Counter(Dice(0, i).pick_early("abcd", 2) for i in range(20_000))
    weights = np.array([1, 1 / 4, 1 / 9, 1 / 16])
    found = np.array([counts[letter] for letter in "abcd"]) / 20_000
    np.testing.assert_allclose(found, weights / weights.sum(), atol=0.012)


def test_shuffled_keeps_all_items() -> None:
    orders = {tuple(Dice(0, i).shuffled("abc")) for i in range(200)}
    assert len(orders) == 6
    assert all(sorted(order) == list("abc") for order in orders)


def test_neighbours_find_the_labels_but_not_all(records: list[dict[str, Any]]) -> None:
    train, test = records[:8_000], records[8_000:]
    vectoriser = TfidfVectorizer(sublinear_tf=True, dtype=np.float32)
    near = vectoriser.fit_transform(r["text"] for r in train)
    near = (vectoriser.transform(r["text"] for r in test) @ near.T).toarray()
    near[near < np.sort(near, axis=1)[:, -10][:, None]] = 0
    names = MultiLabelBinarizer(sparse_output=True)
    labels = names.fit_transform([r["labels"] for r in train]).tocsr()

    def precision(scores: np.ndarray, k: int) -> float:
        best = names.classes_[np.argsort(-scores, axis=1, kind="stable")[:, :k]]
        return float(
            np.mean([np.isin(row, r["labels"]) for row, r in zip(best, test, strict=True)])
        )

    votes = (csr_matrix(near) @ labels).toarray()
    common = np.repeat(np.asarray(labels.sum(axis=0)), len(test), axis=0)
    assert precision(common, 1) < 0.4
    assert 0.9 < precision(votes, 1) < 0.99
    assert 0.65 < precision(votes, 5) < 0.9


def test_written_files_hold_the_records_and_a_tree(tmp_path: Path) -> None:
    train, test, hierarchy = write_catalogue(tmp_path / "shop", train=300, test=100, seed=5)
    for path, start, n in ((train, 0, 300), (test, 300, 100)):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert list(map(json.loads, lines)) == list(product_records(n, seed=5, start=start))
    pairs = [line.split("\t") for line in hierarchy.read_text(encoding="utf-8").splitlines()]
    assert pairs == sorted(pairs)
    assert all(child.rpartition(" > ")[0] == parent for child, parent in pairs)
    seen = {
        label
        for record in product_records(400, seed=5)
        for label in record["labels"]
        if not label.startswith("brand: ")
    }
    assert {child for child, _ in pairs} == {label for label in seen if " > " in label}
    taxonomy = Taxonomy.from_names([(child, parent) for child, parent in pairs], sorted(seen))
    assert taxonomy.is_tree
    assert len(taxonomy) == len(seen)
    assert taxonomy.depths().max() == 4


def test_written_bytes_are_the_same_each_time(tmp_path: Path) -> None:
    digests = [
        [
            hashlib.sha256(path.read_bytes()).hexdigest()
            for path in write_catalogue(tmp_path / name, train=50, test=20)
        ]
        for name in ("one", "two")
    ]
    assert digests[0] == digests[1]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(DataError, match="file: cannot be made"):
        write_catalogue(tmp_path / "file", train=1, test=1)


def test_the_page_shows_a_real_record() -> None:
    page = DATASETS_PAGE.read_text(encoding="utf-8")
    shown = json.loads(page.split("```json\n")[1].split("```")[0])
    assert shown == next(product_records(1, start=int(shown["id"][1:])))


def test_words_are_well_formed() -> None:
    assert len(DEPARTMENTS) == 10
    for department in DEPARTMENTS.values():
        assert len(department["categories"]) == 5
        for category in department["categories"].values():
            assert all(category["types"].values())  # every type has a noun
            for listed in (list(category["types"]), category["kinds"], department["styles"]):
                assert len(set(listed)) == len(listed)
                assert all(word and word == word.strip() for word in listed)
