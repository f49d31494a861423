"""The experiments on label trees: their figures by hand, and what their trials set."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Dataset
from labelspace.data.taxonomy import Taxonomy
from labelspace.methods.registry import method_class
from labelspace.reproductions import seq2seq, treespace
from labelspace.reproductions.by_level import sets_by_level
from labelspace.reproductions.experiment import Split
from labelspace.reproductions.registry import find
from labelspace.reproductions.results import Results, Row

NAMES = ["toys", "toys > cars", "home", "home > beds", "brand: Acme", "brand: Nova"]
TAXONOMY = Taxonomy.from_names([("toys > cars", "toys"), ("home > beds", "home")], NAMES)
ROWS = [["toys", "toys > cars", "brand: Acme"], ["home", "home > beds"], ["toys", "brand: Nova"]]
TEXTS = ["an acme car", "a bed", "a toy"]


def labels(rows):
    return csr_matrix([[float(name in row) for name in NAMES] for row in rows], dtype=np.float32)


def split(repeat=10):
    Y = labels(ROWS * repeat)
    data = Dataset(Y, texts=TEXTS * repeat, label_names=NAMES, taxonomy=TAXONOMY)
    return Split(Y, Y, Y, Y, data, data, TAXONOMY)


def test_figures_by_level_of_known_sets():
    chosen = labels([ROWS[0], ["toys"], ["toys", "toys > cars", "brand: Acme"]] * 10)
    found = sets_by_level(chosen, split())
    level = found["levels"]["L1"]
    # One of two is right, one is chosen too often; the third example is neither.
    assert level["micro-F1"] == pytest.approx(100 * 2 / 4)
    assert level["with NA"]["micro-F1"] == pytest.approx(100 / 3)
    assert found["exact path"] == pytest.approx(100 / 3)
    assert found["levels"]["L0"]["tail"]["examples"] == 30  # of up to 25 examples


def test_accuracy_of_brands_by_whether_the_text_has_their_name():
    chosen = labels([ROWS[0], [], ["brand: Acme"]] * 10)
    assert seq2seq.brand_accuracy(chosen, split()) == {
        "brand accuracy, in text": 100.0,
        "brand accuracy, not in text": 0.0,
    }


def fitted(name, **params):
    data = split()
    model = method_class(name)(**params)
    return model.fit(data.X, data.Y, taxonomy=TAXONOMY), data


def test_figures_of_spaces_are_what_the_losses_are_about():
    size = {"preset": "paper", "dim": 8, "top_dim": 4, "width": 8, "epochs": 2}
    model, data = fitted("treespace", **size)
    found = treespace.spaces(model, data)
    squares = [(table.weight**2).mean() for table in model.vectors_.node_projections.values()]
    assert len(squares) == 2  # from L0 to L1, and to the brands
    assert found["100 rms of matrices"] == pytest.approx(100 * np.sqrt(np.mean(squares)), rel=1e-5)
    lengths = np.concatenate([np.linalg.norm(t.weight, axis=1) for t in model.vectors_.offsets])
    assert found["offsets"] == pytest.approx(lengths.mean(), rel=1e-5)
    assert 0 < found["dimensions used"] <= 100
    assert len(found["effective dimensions"]) == len(found["dimensions"]) == 3
    close, _ = fitted(
        "treespace", **{**size, "consistency": 500.0, "epochs": 20, "lr": 0.02, "validation": 0.0}
    )
    assert treespace.spaces(close, data)["parent distance"] < 0.5 * found["parent distance"]


def test_figures_of_generated_records_and_of_separate_outputs():
    size = {"preset": "paper", "width": 16, "layers": 1, "heads": 2, "epochs": 3, "beams": 2}
    for form in ("record", "paths"):
        model, data = fitted("seq2seq", **size, format=form)
        found = seq2seq.by_level(model, data)
        wanted = find("seq2seq-levels").columns
        assert [name for name in wanted if name not in found and "L2" not in name
                and "L3" not in name and "L4" not in name] == []  # fmt: skip
        assert 0 <= found["invalid"] <= 100
        assert found["brand without a label"] == pytest.approx(100 / 3)


def test_every_penalty_is_tried_alone_from_none_to_harmful():
    trials = find("treespace-losses").trials(False)
    for data, projections in (("flipkart", "node"), ("wordnet", "node"), ("flipkart", "shared")):
        rows = [
            trial for trial in trials
            if (trial.data.name, trial.row["projections"]) == (data, projections)
            and trial.row["geometry"] == "euclidean"
        ]  # fmt: skip
        for term in treespace.ACTS_ON:
            weights = [trial.params[term] for trial in rows if trial.row["term"] == term]
            assert weights == sorted(weights)
            assert len(weights) >= (2 if projections == "shared" else 4)
        (none,) = [trial for trial in rows if trial.row["term"] == "prediction alone"]
        assert [none.params[term] for term in treespace.ACTS_ON] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["treespace-losses", "seq2seq-levels"])
@pytest.mark.parametrize("quick", [True, False])
def test_a_line_is_drawn_for_each_form(name, quick):
    experiment = find(name)
    keys = [{"data": trial.data.name, **trial.row} for trial in experiment.trials(quick)]
    figures = dict.fromkeys(experiment.columns, 1.0)
    rows = [Row(key, "treespace", {}, runs=[figures]) for key in keys]
    drawn = experiment.plot(Results(experiment, rows))
    forms = {tuple(v for k, v in key.items() if k not in ("term", "weight")) for key in keys}
    assert len(drawn.axes[0].lines) == len(forms)
