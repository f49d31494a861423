"""Predictions among some labels: exact, of any depth, and closed under ancestors."""

from __future__ import annotations

import numpy as np
import pytest

import labelspace as ls
from labelspace.data.label_texts import LabelRecord, LabelTexts
from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import DataError, ParameterError
from labelspace.model.selection import Selection
from labelspace.ranking import Ranking

WORDS = [f"word{i}" for i in range(30)]
RNG = np.random.default_rng(0)
ROWS = [
    {
        "text": " ".join(RNG.choice(WORDS, 6)),
        "labels": [f"l{i}" for i in RNG.choice(20, 3, replace=False)],
    }
    for _ in range(80)
]
NEW = [" ".join(RNG.choice(WORDS, 6)) for _ in range(7)]


@pytest.fixture(scope="module")
def tagger():
    texts = LabelTexts.of(LabelRecord(f"l{i}", {"en": f"name {i % 18}"}) for i in range(20))
    return ls.train(ROWS, method="linear", labels=texts)


def whole(tagger, text):
    return [tag for tag in tagger.tag(text, k=20) if tag.score > 0]


def test_only_some_labels_in_the_order_of_the_whole_ranking(tagger):
    allowed = ["l3", "l7", "l11", "l15"]
    for text in NEW:
        wanted = [tag for tag in tagger.tag(text, k=20) if tag.id in allowed]
        assert tagger.tag(text, k=3, only=allowed) == wanted[:3]
        assert tagger.tag(text, k=20, only=allowed) == wanted


def test_all_but_some_labels(tagger):
    for text, tags in zip(NEW, tagger.tag_many(NEW, k=5, exclude=["l0", "name 5"]), strict=True):
        wanted = [tag for tag in tagger.tag(text, k=20) if tag.id not in ("l0", "l5")]
        assert tags == wanted[:5]


def test_both_in_files_and_in_a_batch(tagger, tmp_path):
    (tmp_path / "only.txt").write_text("l1\nname 2\n\nl3\n")
    (tmp_path / "exclude.txt").write_text("l3\n")
    options = {"only": tmp_path / "only.txt", "exclude": tmp_path / "exclude.txt"}
    batch = tagger.tag_many(NEW, k=5, **options)
    assert batch == [tagger.tag(text, k=5, **options) for text in NEW]
    assert {tag.id for tags in batch for tag in tags} == {"l1", "l2"}


def test_a_label_that_is_not_known_is_named(tagger, tmp_path):
    with pytest.raises(ParameterError, match="no label 'l99'"):
        tagger.tag("word1", only=["l99"])
    with pytest.raises(
        ParameterError, match=r"'name 1' is the name of several labels.*'l1', 'l19'"
    ):
        tagger.tag("word1", only=["name 1"])
    with pytest.raises(ParameterError, match="expected a list of labels"):
        tagger.tag("word1", exclude="l1")
    with pytest.raises(ParameterError, match="no label is left"):
        tagger.tag("word1", only=["l1"], exclude=["l1"])
    (tmp_path / "only.txt").write_text("l1\nl99\n")
    with pytest.raises(DataError, match=r"only.txt:2: the model has no label 'l99'"):
        tagger.tag("word1", only=tmp_path / "only.txt")


def test_candidates_that_end_early_give_fewer_labels():
    tagger = ls.train(ROWS, method="knn", neighbours=2)
    for text in NEW:
        wanted = [tag for tag in whole(tagger, text) if tag.name in ("l1", "l2")]
        assert tagger.tag(text, k=2, only=["l1", "l2"]) == wanted


def test_many_rows_are_ranked_in_parts(tagger, monkeypatch):
    wanted = tagger.tag_many(NEW, k=4, exclude=["l0"])
    monkeypatch.setattr("labelspace.model.selection._CELLS", 10)
    assert tagger.tag_many(NEW, k=4, exclude=["l0"]) == wanted


# Ancestors ------------------------------------------------------------------------------------

TREE = [("l1", "l0"), ("l2", "l1"), ("l3", "l1"), ("l4", "hidden"), ("hidden", "l0"), ("l2", "l5")]


@pytest.fixture
def tree(tagger):
    model = ls.Tagger(tagger.pipeline, tagger.method, tagger.label_names, tagger.label_counts)
    model.taxonomy = Taxonomy.from_names(TREE, model.label_names)
    return model


def ids(ranking, names):
    return [[names[label] for label in row if label >= 0] for row in ranking.labels.tolist()]


def test_ancestors_come_before_their_descendants(tree):
    at = {name: number for number, name in enumerate(tree.label_names)}
    ranking = Ranking(
        np.array([[at["l2"], at["l9"], at["l5"]], [at["l4"], -1, -1], [-1, -1, -1]]),
        np.array([[0.9, 0.8, 0.3], [0.5, 0, 0], [0, 0, 0]], np.float32),
    )
    closed = Selection(tree, ancestors=True).closed(ranking)
    assert ids(closed, tree.label_names) == [["l0", "l5", "l1", "l2", "l9"], ["l0", "l4"], []]
    assert closed.scores[0].tolist() == pytest.approx([0.9, 0.9, 0.9, 0.9, 0.8])
    assert closed.scores[1, :2].tolist() == [0.5, 0.5]


def test_ancestors_keep_an_order_that_is_not_by_score(tree):
    at = {name: number for number, name in enumerate(tree.label_names)}
    ranking = Ranking(
        np.array([[at["l9"], at["l2"], at["l4"]]]), np.array([[0.1, 0.4, 0.7]], np.float32)
    )
    closed = Selection(tree, ancestors=True).closed(ranking)
    assert ids(closed, tree.label_names) == [["l9", "l0", "l5", "l1", "l2", "l4"]]
    assert closed.scores[0].tolist() == pytest.approx([0.1, 0.7, 0.4, 0.4, 0.4, 0.7])


def test_no_label_is_without_its_ancestors_at_any_threshold(tree):
    parents = {}
    for child, parent in TREE:
        parents.setdefault(child, []).append("l0" if parent == "hidden" else parent)
    for threshold in (0.0, 0.02, 0.1, 0.3):
        for tags in tree.tag_many(NEW, k=4, threshold=threshold, ancestors=True):
            given = [tag.name for tag in tags]
            assert len(set(given)) == len(given)
            for place, name in enumerate(given):
                assert set(parents.get(name, [])) <= set(given[:place])


def test_descendants_of_a_label_that_is_left_out_are_left_out_too(tree):
    tags = tree.tag_many(NEW, k=20, exclude=["l1"], ancestors=True)
    given = {tag.name for each in tags for tag in each}
    assert not given & {"l1", "l2", "l3"}
    assert {"l0", "l4", "l5"} <= given


def test_ancestors_need_a_taxonomy(tagger):
    with pytest.raises(ParameterError, match="the model has no taxonomy"):
        tagger.tag("word1", ancestors=True)
