"""Experiments: settings are chosen on training examples, runs are kept, reports are complete."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from labelspace.data import read_split
from labelspace.datasets.products import write_catalogue
from labelspace.errors import CheckpointError, DataError, ParameterError, TrainingError
from labelspace.methods.knn import KNN
from labelspace.methods.registry import _registered, register
from labelspace.metrics.ranking import evaluate
from labelspace.reproductions import registry
from labelspace.reproductions.experiment import Experiment, Sample, Trial, on_test_and_training
from labelspace.reproductions.report import as_json, as_markdown, table, write_report
from labelspace.reproductions.run import held_out, reproduce
from labelspace.reproductions.samples import read_sample

GRID = [{"neighbours": 1}, {"neighbours": 15}]
EXPECTED = (
    {"data": "shop", "voters": "chosen", "P@1": 50.0},
    {"data": "elsewhere", "voters": "chosen", "P@1": 60.0},
)


def trials(quick):
    data = Sample("shop", rows=60 if quick else 150, tested=40)
    return [
        Trial(data, {"voters": "chosen"}, "counting-knn", grid=GRID),
        Trial(data, {"voters": "two"}, "counting-knn", {"neighbours": 2}),
    ]


EXPERIMENT = Experiment(
    "toy-table1", "Voters", "A paper, Table 1", trials, EXPECTED, notes="Nothing differs."
)


class CountingKNN(KNN):
    """Counts how often it is fitted, and on how many rows."""

    name = "counting-knn"
    fits: list = []  # noqa: RUF012  # shared on purpose

    def _fit(self, data):
        self.fits.append((self.params_.neighbours, self.params_.seed, data.X.shape[0]))
        if self.params_.neighbours == 13:
            raise TrainingError("the loss became nan")
        super()._fit(data)


@pytest.fixture
def data(tmp_path, monkeypatch):
    register(CountingKNN)
    monkeypatch.setattr(registry, "experiments", lambda: {"toy-table1": EXPERIMENT})
    CountingKNN.fits.clear()
    write_catalogue(tmp_path / "data" / "shop", train=300, test=100)
    yield tmp_path / "data"
    del _registered["counting-knn"]


def use(monkeypatch, experiment):
    monkeypatch.setattr(registry, "experiments", lambda: {"toy-table1": experiment})


def test_final_parameters_are_those_of_the_tested_runs_alone(data, monkeypatch):
    trial = Trial(Sample("shop", rows=150), {}, "counting-knn", grid=GRID, final={"neighbours": 3})
    use(monkeypatch, replace(EXPERIMENT, trials=lambda _: [trial]))
    results = reproduce("toy-table1", data, seeds=1)
    assert [k for k, _, rows in CountingKNN.fits if rows == 135] == [1, 15]
    assert [k for k, _, rows in CountingKNN.fits if rows == 150] == [3]
    assert results.rows[0].params["neighbours"] == 3


def test_settings_are_compared_on_training_examples_and_the_best_is_tested(data):
    results = reproduce("toy-table1", data)
    chosen, two = results.rows
    tuned = [rows for neighbours, _, rows in CountingKNN.fits if neighbours != 2][:2]
    assert tuned == [135, 135]  # a tenth is held out
    assert [setting for setting, _ in chosen.tried] == GRID
    best = max(chosen.tried, key=lambda each: each[1])[0]
    assert chosen.chosen == best
    tested = [(k, seed) for k, seed, rows in CountingKNN.fits if rows == 150]
    assert tested == [(best["neighbours"], s) for s in range(3)] + [(2, s) for s in range(3)]
    assert two.tried == []


def test_figures_are_those_of_the_method_on_the_test_examples(data):
    row = reproduce("toy-table1", data, seeds=1).rows[1]
    train, test = read_split(data / "shop")
    split = read_sample(Sample("shop", rows=150, tested=40), data, KNN())
    assert set(split.train.ids) < set(train.ids)
    assert set(split.test.ids) < set(test.ids)
    model = KNN(neighbours=2).fit(split.X, split.Y)
    found = evaluate(model.predict(split.X_test, 5), split.Y_test, ks=(1, 3, 5), bands=False)
    assert row.mean("P@3") == pytest.approx(found["P@3"])
    assert np.isnan(row.error("P@3"))


def test_means_and_standard_errors(data):
    row = reproduce("toy-table1", data).rows[1]
    row.runs = [{"P@1": 50.0}, {"P@1": 60.0}, {"P@1": 40.0}]
    assert row.mean("P@1") == 50.0
    assert row.error("P@1") == pytest.approx(10 / 3**0.5)


def test_a_held_out_split_shares_no_example_with_its_training_part(data):
    split = read_sample(Sample("shop", rows=150), data, KNN())
    cut = held_out(split)
    assert not set(cut.train.ids) & set(cut.test.ids)
    assert set(cut.train.ids) | set(cut.test.ids) == set(split.train.ids)


def test_finished_runs_are_not_repeated_and_other_settings_are_run(data, tmp_path, monkeypatch):
    first = reproduce("toy-table1", data, tmp_path / "out", seeds=1)
    CountingKNN.fits.clear()
    again = reproduce("toy-table1", data, tmp_path / "out", seeds=1)
    assert CountingKNN.fits == []
    assert [row.runs for row in again.rows] == [row.runs for row in first.rows]
    more = reproduce("toy-table1", data, tmp_path / "out", seeds=2)
    assert sorted({seed for _, seed, _ in CountingKNN.fits}) == [1]
    assert [len(row.runs) for row in more.rows] == [2, 2]
    CountingKNN.fits.clear()
    use(monkeypatch, replace(EXPERIMENT, trials=lambda quick: [
        replace(trials(quick)[1], params={"neighbours": 3})]))  # fmt: skip
    reproduce("toy-table1", data, tmp_path / "out", seeds=1)
    assert [k for k, _, _ in CountingKNN.fits] == [3]


def test_a_damaged_file_of_runs_is_named_with_its_line(data, tmp_path):
    reproduce("toy-table1", data, tmp_path / "out", seeds=1)
    kept = tmp_path / "out" / "runs.jsonl"
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join([lines[0], "{", *lines[2:]]) + "\n")
    with pytest.raises(CheckpointError, match=r"runs.jsonl:2: .* reproduction: delete the file"):
        reproduce("toy-table1", data, tmp_path / "out", seeds=1)


def test_a_run_that_stops_keeps_what_is_finished(data, tmp_path, monkeypatch):
    def figures(model, split):
        if model.params_.seed == 1:
            raise KeyboardInterrupt
        return on_test_and_training(model, split)

    use(monkeypatch, replace(EXPERIMENT, figures=figures))
    with pytest.raises(KeyboardInterrupt):
        reproduce("toy-table1", data, tmp_path / "out")
    use(monkeypatch, replace(EXPERIMENT, figures=on_test_and_training))
    CountingKNN.fits.clear()
    results = reproduce("toy-table1", data, tmp_path / "out")
    assert len(CountingKNN.fits) == 5  # of 2 settings and 2 x 3 seeds, three were finished
    assert all(row.mean("train P@1") > 0 for row in results.rows)


def test_a_setting_that_diverges_is_not_chosen_and_is_reported(data, monkeypatch):
    grid = [{"neighbours": 13}, {"neighbours": 4}]
    both = [
        replace(trials(True)[0], grid=grid),
        replace(trials(True)[1], params={"neighbours": 13}),
    ]
    use(monkeypatch, replace(EXPERIMENT, trials=lambda _: both))
    results = reproduce("toy-table1", data, seeds=1)
    assert results.rows[0].chosen == {"neighbours": 4}
    columns, rows = table(results)
    assert rows[1][columns.index("P@1")] == "failed"
    assert "neighbours=13: failed" in as_markdown(results)


def test_trials_on_several_splits_are_one_row(data, monkeypatch):
    two = trials(True)[1]
    splits = [replace(two, data=Sample("shop", redrawn=number), seeds=1) for number in range(4)]
    use(monkeypatch, replace(EXPERIMENT, trials=lambda _: splits))
    (row,) = reproduce("toy-table1", data).rows
    assert len({run["P@1"] for run in row.runs}) > 1
    assert len(row.runs) == 4
    use(monkeypatch, replace(EXPERIMENT, trials=lambda _: [*splits, replace(two, row={"a": 1})]))
    assert [len(row.runs) for row in reproduce("toy-table1", data, seeds=1).rows] == [4, 1]


def test_a_redrawn_sample_has_the_same_examples_in_the_same_numbers(data):
    kept, other = (read_sample(Sample("shop", redrawn=seed), data, KNN()) for seed in (None, 1))
    assert (other.X.shape[0], other.X_test.shape[0]) == (300, 100)
    assert set(other.test.ids) != set(kept.test.ids)
    assert {*other.train.ids, *other.test.ids} == {*kept.train.ids, *kept.test.ids}
    both = {
        id_: text for d in (kept.train, kept.test) for id_, text in zip(d.ids, d.texts, strict=True)
    }
    assert all(
        both[id_] == text for id_, text in zip(other.train.ids, other.train.texts, strict=True)
    )
    names = dict(zip(kept.train.ids, kept.train.labels.toarray(), strict=True))
    row = next(place for place, id_ in enumerate(other.train.ids) if id_ in names)
    found = other.train.labels.toarray()[row][: kept.train.n_labels]
    assert np.array_equal(found, names[other.train.ids[row]])


def test_only_the_named_sets_and_an_error_for_others(data, monkeypatch):
    more = Trial(Sample("bibtex", rows=50), {"voters": "two"}, "counting-knn")
    use(monkeypatch, replace(EXPERIMENT, trials=lambda quick: [*trials(quick), more]))
    with pytest.raises(DataError, match="data get bibtex"):
        reproduce("toy-table1", data)
    assert len(reproduce("toy-table1", data, only=["shop"], seeds=1).rows) == 2
    with pytest.raises(ParameterError, match="no trial on nowhere"):
        reproduce("toy-table1", data, only=["nowhere"])
    quick = reproduce("toy-table1", data, quick=True)
    assert quick.replaced == ["bibtex"]
    assert [len(row.runs) for row in quick.rows] == [1, 1, 1]
    assert "in place of bibtex" in as_markdown(quick)


def test_an_unknown_experiment_is_suggested(data):
    with pytest.raises(ParameterError, match="did you mean 'toy-table1'"):
        reproduce("toy-tabel1", data)


def test_the_report_has_the_papers_figures_beside_ours(data, tmp_path):
    results = reproduce("toy-table1", data, quick=True)
    columns, rows = table(results)
    assert columns == ["data", "voters", "P@1", "P@3", "P@5", "paper P@1", "chosen"]
    assert rows[0][5] == "50"
    assert rows[1][5] == ""
    files = write_report(results, tmp_path / "out")
    assert [file.name for file in files] == ["results.json", "report.md", "toy-table1.png"]
    assert files[2].read_bytes().startswith(b"\x89PNG")
    page = files[1].read_text()
    assert "| elsewhere | chosen | 60 |" in page  # quoted apart: no such row was run
    assert "Nothing differs." in page
    document = json.loads(as_json(results))
    assert document["rows"][0]["mean"]["P@1"] == results.rows[0].mean("P@1")
    assert document["rows"][0]["paper"] == {"P@1": 50.0}


def test_each_finished_run_is_announced(data):
    lines: list[str] = []
    reproduce("toy-table1", data, quick=True, on_run=lines.append)
    assert len(lines) == 4
    assert "neighbours 1, held-out: P@1" in lines[0]
    assert "voters two, seed 0: P@1" in lines[3]
