"""The figures of a model's card: what they are measured on, kept, and checked."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import labelspace as ls
from labelspace.components.held_out_ranking import PARTS, parts
from labelspace.components.stacking import Combiner
from labelspace.errors import ModelFormatError, ParameterError, StoreError
from labelspace.model.figures import MOST_KEPT, described, with_figures

WORDS = 12


def examples(n, seed):
    """Rows with two of twelve labels each; a quarter of the words name another label."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        first, second = rng.choice(WORDS, 2, replace=False).tolist()
        words = [f"word{first}", f"word{second}", f"word{rng.integers(WORDS)}"]
        noise = [f"noise{rng.integers(30)}" for _ in range(3)]
        rows.append({"text": " ".join(words + noise), "labels": [f"l{first}", f"l{second}"]})
    return rows


@pytest.fixture(scope="module")
def tagger():
    return ls.train(examples(1500, 0), members="knn,linear")


@pytest.fixture
def saved(tagger, tmp_path):
    tagger.save(tmp_path / "m")
    return tmp_path / "m"


def test_figures_of_the_hold_out_are_those_of_unseen_examples(tagger):
    (found,) = tagger.metadata["evaluation"]
    assert found["examples_from"] == "hold-out"
    assert found["examples"] == 150
    assert list(found["figures"]) == [f"{m}@{k}" for m in ("P", "nDCG", "PSP") for k in (1, 3, 5)]
    unseen = tagger.evaluate(examples(1000, 1))
    for name, value in found["figures"].items():  # 150 examples: P@1 has a deviation of 3.5
        assert value == pytest.approx(unseen[name], abs=11.0), name
    assert sum(part["pairs"] for part in found["calibration"]["bins"]) == 150 * 5
    assert found["calibration"]["ECE"] < 10.0


def test_each_part_is_ranked_by_a_combination_of_the_others(monkeypatch):
    """The scores are those of combinations that were fitted without the rows they rank."""
    fitted = []
    fit = Combiner.fit.__func__

    def recorded(cls, rankings, Y, *rest, **named):
        fitted.append((Y, fit(cls, rankings, Y, *rest, **named)))
        return fitted[-1][1]

    monkeypatch.setattr(Combiner, "fit", classmethod(recorded))
    rows = np.random.default_rng(0).random((600, 20))
    Y = csr_matrix((rows[:, :8] > 0.8).astype(np.float32))
    fusion = ls.Fusion(members="knn,linear").fit(rows, Y)
    held = fusion.held_out_
    whole, *others = [labels for labels, _ in fitted]
    assert len(others) == PARTS
    part = parts(whole.shape[0], PARTS, fusion.seed)
    for number, labels in enumerate(others):
        assert (labels != whole[part != number]).nnz == 0
    by_part = whole[np.argsort(part, kind="stable")]
    assert (by_part != held.Y).nnz == 0
    assert all(member.held_out_ is None for member in fusion.members_)


@pytest.mark.parametrize("method", ["linear", "labeltext", "hierarchicalxc", "dxml", "glas"])
def test_methods_that_hold_examples_out_are_measured_on_them(method):
    few = {"epochs": 3} if method in ("dxml", "glas") else {}
    tagger = ls.train(examples(600, 3), method=method, **few)
    (found,) = tagger.metadata["evaluation"]
    assert found["examples"] == 60
    assert tagger.method.held_out_ is None
    tagger = ls.train(examples(300, 3), valid=examples(100, 4), method=method, **few)
    (found,) = tagger.metadata["evaluation"]
    assert (found["examples_from"], found["source"]) == ("validation", "data in memory")
    assert found["examples"] == 100


def test_without_a_hold_out_or_with_a_tiny_one_there_are_none():
    assert "evaluation" not in ls.train(examples(300, 5), method="knn").metadata
    assert "evaluation" not in ls.train(examples(50, 5), method="linear").metadata


def test_a_test_file_is_kept_beside_training(saved, tmp_path):
    test = tmp_path / "test.jsonl"
    test.write_text("".join(json.dumps(row) + "\n" for row in examples(80, 6)))
    tagger, before = ls.load(saved), json.loads((saved / "model.json").read_text())
    found = tagger.evaluate(test, save_to=saved)
    tagger.evaluate(test, propensity=(0.6, 2.6), save_to=saved)  # in place of the former
    after = json.loads((saved / "model.json").read_text())
    training, of_test = after.pop("evaluation")
    assert [training] == before.pop("evaluation")
    assert after == before
    assert (of_test["source"], of_test["examples"]) == ("test.jsonl", 80)
    assert of_test["figures"]["P@1"] == round(found["P@1"], 4)
    assert "A = 0.6, B = 2.6" in of_test["note"]
    assert of_test["calibration"] == json.loads(json.dumps(found["calibration"]))
    again = ls.load(saved)
    assert again.metadata["evaluation"] == tagger.metadata["evaluation"] == [training, of_test]
    assert again.digest == tagger.digest


def test_figures_are_not_written_to_another_model(tagger, saved):
    with pytest.raises(ParameterError, match="not loaded from there"):
        tagger.evaluate(examples(40, 7), save_to=saved)
    loaded = ls.load(saved)
    ls.train(examples(100, 8), method="knn").save(saved)
    with pytest.raises(StoreError, match="was changed since it was loaded"):
        loaded.evaluate(examples(40, 7), save_to=saved)
    assert "evaluation" not in ls.load(saved).metadata


def test_an_update_marks_the_figures(saved):
    tagger = ls.load(saved)
    tagger.update(examples(20, 9))
    tagger.update(examples(5, 10))
    tagger.save(saved)
    (found,) = ls.load(saved).metadata["evaluation"]
    assert found["added_since"] == 25
    assert "before an update with 25 more examples" in described(found)


def test_the_oldest_tests_give_way(tagger):
    (training,) = tagger.metadata["evaluation"]
    kept = [training]
    for number in range(MOST_KEPT + 3):
        kept = with_figures(kept, {**training, "examples_from": "test", "source": str(number)})
    assert len(kept) == MOST_KEPT
    assert kept[0] is training
    assert [each["source"] for each in kept[1:]] == [str(n) for n in range(4, MOST_KEPT + 3)]


def put(*path):
    """Return a change of the figures: the last of `path` is put where the others lead."""

    def change(figures):
        for step in path[:-2]:
            figures = figures[step]
        figures[path[-2]] = path[-1]

    return change


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (put(0, "examples_from", "elsewhere"), "examples_from is unknown"),
        (put(0, "source", 3), "source is not a text"),
        (put(0, "note", "x" * 5000), "note is not a text"),
        (put(0, "measured", "yesterday"), "measured is not a date"),
        (put(0, "examples", -1), "examples is not a count"),
        (put(0, "examples", True), "examples is not a count"),
        (put(0, "added_since", 1.5), "added_since is not a count"),
        (put(0, "figures", [1]), "a figure has another name"),
        (put(0, "figures", "<b>", 1.0), "a figure has another name"),
        (put(0, "figures", "P@1", 101.0), "a figure is not a percentage"),
        (put(0, "figures", "P@1", "99"), "a figure is not a percentage"),
        (put(0, "calibration", None), "calibration has other fields"),
        (put(0, "calibration", "ECE", -0.1), "ECE is not a percentage"),
        (put(0, "calibration", "pairs", 7), "do not add up"),
        (put(0, "calibration", "bins", {}), "bins is not a list"),
        (put(0, "calibration", "bins", 0, 0), "a bin is not one"),
        (put(0, "calibration", "bins", 0, "true", 2.0), "a bin is not one"),
        (put(0, "more", 1), "has other fields"),
        (put(0, None), "has other fields"),
        (lambda figures: figures.extend(figures * 30), "is not a list of figures"),
    ],
)
def test_figures_that_were_changed_are_refused(saved, change, what):
    header = json.loads((saved / "model.json").read_text())
    changed = copy.deepcopy(header["evaluation"])
    change(changed)
    (saved / "model.json").write_text(json.dumps({**header, "evaluation": changed}))
    with pytest.raises(ModelFormatError, match=what) as refused:
        ls.load(saved)
    assert str(refused.value).startswith(f"{saved}: evaluation")
