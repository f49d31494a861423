"""The faults of the authors' code of HierarchicalXC, and its measures, on examples by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.labels.tree import LabelTree
from labelspace.methods.baselines import Random
from labelspace.methods.hierarchicalxc.method import HierarchicalXC
from labelspace.reproductions.authors_tree import AuthorsTree, node_tasks
from labelspace.reproductions.hierarchicalxc import EXPERIMENTS, of_sets, predicted_sets
from labelspace.reproductions.results import paper_figures
from support.planted import planted

# The root has a node with labels 0 and 1, and label 2.
TREE = LabelTree.from_parents(np.array([-1, 0, 0, 1, 1]), np.array([-1, -1, 2, 0, 1]), 3)
Y = csr_matrix(np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1], [0, 0, 1]], np.float32))


def listed(tasks, task):
    part = slice(tasks.indptr[task], tasks.indptr[task + 1])
    return list(zip(tasks.rows[part].tolist(), tasks.positive[part].tolist(), strict=True))


def test_targets_as_they_are_meant():
    tasks = node_tasks(Y, TREE, published=False, repeated=False)
    assert len(tasks) == 4
    # Rows 0 and 1 are of the first child alone, 2 and 4 of the second, 3 of both.
    assert listed(tasks, 0) == [(0, True), (1, True), (2, False), (4, False), (3, True)]
    assert listed(tasks, 1) == [(0, False), (1, False), (2, True), (4, True), (3, True)]
    assert listed(tasks, 2) == [(0, True), (3, False), (1, True)]


def test_published_slices_write_targets_to_the_wrong_rows():
    tasks = node_tasks(Y, TREE, published=True, repeated=False)
    # l_0 = l_1 = 2: rows 2 to 2 for the second child, and all from 2 on for both.
    assert listed(tasks, 0) == [(0, True), (1, True), (2, True), (4, True), (3, True)]
    assert listed(tasks, 1) == [(0, False), (1, False), (2, True), (4, True), (3, True)]


def test_repeated_rows_count_as_examples_of_both_children():
    tasks = node_tasks(Y, TREE, published=False, repeated=True)
    rows = [row for row, _ in listed(tasks, 0)]
    # Row 1 has both labels of the first child: it is listed twice there, and once as of both.
    assert sorted(rows) == [0, 1, 1, 1, 2, 3, 4]
    assert listed(tasks, 1)[-2:] == [(1, True), (3, True)]


def test_without_faults_it_is_the_method_itself():
    X, labels = planted(300, seed=1)
    options = {"inputs": "raw", "join": "centroids"}
    right = AuthorsTree(preset="paper", slices="intended", repeated=False, shuffled=False,
                        **options).fit(X, labels)  # fmt: skip
    ours = HierarchicalXC(preset="paper", **options).fit(X, labels)
    agreement = (predicted_sets(right, X) == predicted_sets(ours, X)).mean()
    assert agreement > 0.99  # the order of examples and the tolerance of the solver differ
    shuffled = AuthorsTree(preset="paper", **options).fit(X, labels)
    assert (predicted_sets(shuffled, X) == predicted_sets(ours, X)).mean() < 0.9


def test_measures_of_the_authors_code():
    sets = np.zeros((2, 7), np.bool_)
    sets[0, [0, 6]] = True  # then 5, 4, 3 follow, though they are not predicted
    truth = csr_matrix(np.array([[1, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1]], np.float32))
    found = of_sets(sets, truth)
    # Row 0: order 6, 0, 5, 4, 3 has hits in places 2 and 5 of 2 labels; row 1: 6, 5, ... in 1 of 1.
    assert found["authors' P@5"] == pytest.approx(100.0)
    ideal = 1 + 1 / np.log2(3)
    first = (1 / np.log2(3) + 1 / np.log2(6)) / ideal
    assert found["authors' nDCG@5"] == pytest.approx(100 * (first + 1) / 2)
    assert found["labels"] == 1.0
    assert found["precision of sets"] == 50.0


def test_examples_without_labels_are_left_out_of_the_measures():
    truth = csr_matrix(np.array([[0, 0, 1], [0, 0, 0]], np.float32))
    assert of_sets(np.ones((2, 3), np.bool_), truth)["authors' P@5"] == 100.0


def test_random_sets_have_each_label_by_half():
    X, labels = planted(50)
    sets = predicted_sets(Random().fit(X, labels), X)
    assert sets.shape == (50, 12)
    assert (sets.sum(axis=1) == 6).all()
    assert 0.3 < sets[:, 3].mean() < 0.7


@pytest.mark.parametrize("experiment", EXPERIMENTS[:2], ids=lambda each: each.name)
def test_the_papers_figures_of_bibtex_stand_beside_one_row(experiment):
    rows = [{"data": trial.data.name, **trial.row} for trial in experiment.trials(False)]
    quoted = [figures for row in rows if (figures := paper_figures(experiment.expected, row))]
    assert len(quoted) == 1
    assert 4.10 in quoted[0].values()  # Table 2: bibtex, P@5 on test examples 0.0410
    assert 2.69 in quoted[0].values()  # nDCG@5 0.0269
