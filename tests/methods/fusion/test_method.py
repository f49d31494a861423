"""Fusion: the combination, its objectives, and how members are fitted, stored and restored."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import labelspace
from labelspace.classifiers.one_vs_rest import LinearRanker
from labelspace.components.candidates import COLUMNS, gather, listed_by_any
from labelspace.components.near_duplicates import cut_by_group
from labelspace.components.stacking import Combiner
from labelspace.components.tail_objective import MAX_P1_LOSS, choose_tail_offset, largest_loss
from labelspace.components.training_data import Shape
from labelspace.errors import ParameterError
from labelspace.methods.fusion import fitting
from labelspace.methods.fusion import method as fusion
from labelspace.methods.fusion.float16 import as_float32
from labelspace.methods.fusion.members import stored_arrays
from labelspace.methods.fusion.method import Fusion, _members_memory
from labelspace.methods.fusion.plan import Member, plan_members
from labelspace.methods.hyperbolic.method import Hyperbolic
from labelspace.methods.knn import KNN
from labelspace.methods.linear import Linear
from labelspace.methods.registry import method_class
from labelspace.metrics.ranking import evaluate, measure
from labelspace.metrics.reliability import reliability
from labelspace.metrics.thresholds import choose_threshold
from labelspace.nn.encoder import unit_array
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import Checkpoint
from support.fitted import restored
from support.planted import planted


def ranking(labels, scores):
    return Ranking(np.array(labels), np.array(scores, np.float32))


def test_candidates_are_the_union_with_the_log_odds_of_each_member():
    one = ranking([[2, 0], [1, -1]], [[0.9, 0.5], [0.7, 0.0]])
    other = ranking([[0, 3], [-1, -1]], [[0.6, 0.2], [0.0, 0.0]])
    found = gather([one, other], np.arange(4, dtype=np.float32))
    assert list(zip(found.rows, found.labels, strict=True)) == [(0, 0), (0, 2), (0, 3), (1, 1)]

    def odds(p):
        return np.log(p / (1 - p))

    expected = [
        [odds(0.5), 1, odds(0.6), 1, 0],
        [odds(0.9), 1, odds(0.2), 0, 2],  # a label not on its list has the log odds of its last one
        [odds(0.5), 0, odds(0.2), 1, 3],
        [odds(0.7), 1, 0.0, 0, 1],  # a member without any label has log odds 0
    ]
    columns = [0, 1, COLUMNS, COLUMNS + 1, -1]
    np.testing.assert_allclose(found.features[:, columns], expected, atol=1e-5)
    above = odds(0.9) - np.array([0, 2, 4])
    np.testing.assert_allclose(found.features[1, 2:5], np.maximum(above, 0), atol=1e-5)


def drawn(n=3000, n_labels=40, seed=0):
    """Return two members, the sum of whose log odds labels are drawn by, and the labels."""
    rng = np.random.default_rng(seed)
    parts = rng.normal(-0.5, 1.5, (2, n, n_labels))
    truth = rng.random((n, n_labels)) < 1 / (1 + np.exp(-(parts[0] + 2 * parts[1])))
    members = []
    for part in parts:
        order = np.argsort(-part, axis=1)
        chances = 1 / (1 + np.exp(-np.take_along_axis(part, order, 1)))
        members.append(Ranking(order, chances.astype(np.float32)))
    return members, csr_matrix(truth.astype(np.float32))


def test_fitted_weights_are_those_labels_were_drawn_by_and_scores_are_calibrated():
    members, Y = drawn()
    combiner = Combiner.fit(members, Y, Y)
    frequent = combiner.weights[combiner.band[0]]
    steps = frequent[:-2].reshape(2, COLUMNS)[:, [0, 2]]  # below 0, and what is added above it
    np.testing.assert_allclose(steps[:, 0], [1.0, 2.0], atol=0.2)
    np.testing.assert_allclose(steps.sum(axis=1), [1.0, 2.0], atol=0.2)
    again, Y_new = drawn(20_000, seed=1)
    best = combiner.rank(again, 10)
    hits = np.take_along_axis(Y_new.toarray(), best.labels, 1)
    for low in (0.5, 0.8, 0.95):
        near = (best.scores >= low) & (best.scores < low + 0.05)
        assert abs(best.scores[near].mean() - hits[near].mean()) < 0.03
    alone = measure("P@3", again[1], Y_new, Y)
    assert measure("P@3", best, Y_new, Y) > alone + 3


def test_a_sample_weight_of_two_is_an_example_that_occurs_twice():
    rankings, Y = drawn(600)
    twice = np.r_[np.arange(600), np.arange(0, 600, 3)]
    sample_weight = np.where(np.arange(600) % 3 == 0, 2.0, 1.0)
    weighted = Combiner.fit(rankings, Y, Y, sample_weight)
    repeated = [Ranking(r.labels[twice], r.scores[twice]) for r in rankings]
    expected = Combiner.fit(repeated, Y[twice], Y)
    np.testing.assert_allclose(weighted.weights, expected.weights, atol=0.01)
    assert not np.allclose(weighted.weights, Combiner.fit(rankings, Y, Y).weights, atol=0.01)


def test_a_loss_among_near_duplicates_counts_once():
    right, then = np.ones(1000), np.where(np.arange(1000) < 100, 0.0, 1.0)
    plain, tail = (right, np.full(1000, 0.9)), (then, np.full(1000, 0.899))
    assert largest_loss(plain, tail, np.ones(1000)) > MAX_P1_LOSS
    weights = np.where(np.arange(1000) < 100, 0.01, 1.0)
    assert largest_loss(plain, tail, weights) <= MAX_P1_LOSS


@pytest.mark.parametrize("n", [100, 1000, 10_000])
def test_few_examples_without_a_loss_do_not_prove_that_there_is_none(n):
    right, chance = np.ones(n), np.full(n, 0.9)
    # Probabilities expect a loss of 0.2 points, and none is measured.
    largest = largest_loss((right, chance), (right, chance - 0.002), np.ones(n))
    assert (largest <= MAX_P1_LOSS) == (n > 100)
    assert largest_loss((right, chance), (right, chance), np.ones(n)) == 0.0


def test_a_loss_that_many_examples_show_counts_more_than_the_expected_one():
    n = 20_000
    right, chance = np.ones(n), np.full(n, 0.9)
    then = np.where(np.arange(n) < 0.03 * n, 0.0, 1.0)
    assert largest_loss((right, chance), (then, chance - 0.001), np.ones(n)) > 0.02
    few = largest_loss(
        (right[:100], chance[:100]), (right[:100], chance[:100] - 0.03), np.ones(100)
    )
    assert few > 0.01


def test_scores_fall_and_no_label_occurs_twice():
    members, Y = drawn(n=200)
    best = Combiner.fit(members, Y, Y).rank(members, 7)
    assert (np.diff(best.scores, axis=1) <= 0).all()
    assert all(len(set(row)) == 7 for row in best.labels)


@pytest.fixture(scope="module")
def data():
    X, Y = planted(900, seed=3)
    return (X[:700], Y[:700]), (X[700:], Y[700:])


def test_it_ranks_as_well_as_its_members(data):
    train, (X, Y) = data
    model = Fusion(members="knn,linear", validation=0.2).fit(*train)
    found = measure("nDCG@5", model.predict(X, 5), Y, train[1])
    alone = [measure("nDCG@5", m.predict(X, 5), Y, train[1]) for m in model.members_]
    assert found >= max(alone) - 1.0
    assert [member["name"] for member in model.metadata()["members"]] == ["knn", "linear"]


def thinned(members, Y):
    """Return labels that differ in how often they occur."""
    rng = np.random.default_rng(5)
    kept = rng.random(Y.shape[1]) ** 3
    return members, csr_matrix(Y.multiply(rng.random(Y.shape) < kept))


def test_the_tail_objective_ranks_rare_labels_higher():
    members, Y = thinned(*drawn())
    combiner = Combiner.fit(members, Y, Y)
    plain = evaluate(combiner.rank(members, 5), Y, Y)
    choose_tail_offset(combiner, "psp", members, Y, Y)
    assert combiner.tail_offset[1] <= combiner.tail_offset[0] < np.inf
    best = combiner.rank(members, 5)
    tail = evaluate(best, Y, Y)
    assert tail["PSP@1"] > plain["PSP@1"]
    assert sum(tail[f"PSP@{k}"] - plain[f"PSP@{k}"] for k in (1, 3, 5)) > 0
    assert tail["P@1"] >= plain["P@1"] - 1.0
    sets = choose_threshold(combiner.rank(members, 20), Y, "macro-f1")
    choose_tail_offset(combiner, "f1", members, Y, Y)
    assert choose_threshold(combiner.rank(members, 20), Y, "macro-f1").macro_f1 >= sets.macro_f1


def informed(seed):
    """Return a member informed on frequent labels (0 to 9), another on 300 rare ones (band 0)."""
    rng = np.random.default_rng(seed)
    n, frequent, rare = 2000, 10, 300
    base = np.r_[np.full(frequent, 0.4), np.full(rare, 0.003)]
    Y = rng.random((n, frequent + rare)) < base
    members = []
    for knows in (np.arange(frequent + rare) < frequent, np.arange(frequent + rare) >= frequent):
        odds = np.where(knows & Y, 2.0, -1.0) + rng.normal(0, 1.5, Y.shape)
        order = np.argsort(-odds, axis=1)[:, :30]
        scores = 1 / (1 + np.exp(-np.take_along_axis(odds, order, 1)))
        members.append(Ranking(order, scores.astype(np.float32)))
    return members, csr_matrix(Y.astype(np.float32))


def test_weights_for_the_tail_objective_have_a_higher_psp():
    members, Y = informed(0)
    again, Y_new = informed(1)
    psp = {}
    for tail in (False, True):
        combiner = Combiner.fit(members, Y, Y, tail=tail)
        combiner.set_tail_offset(0.0, 0.0)
        psp[tail] = measure("PSP@5", combiner.rank(again, 5), Y_new, Y)
    assert psp[True] > psp[False]


def test_the_tail_objective_loses_little_precision_on_new_examples():
    members, Y = informed(0)
    again, Y_new = informed(1)
    combiner = Combiner.fit(members, Y, Y, tail=True)
    plain = evaluate(combiner.rank(again, 5), Y_new, Y)
    half = np.arange(2000) < 1000
    folds = [
        (np.flatnonzero(own), Combiner.fit([m.take(~own) for m in members], Y[~own], Y, tail=True))
        for own in (half, ~half)
    ]
    choose_tail_offset(combiner, "psp", members, Y, Y, folds=folds)
    best = combiner.rank(again, 5)
    tail = evaluate(best, Y_new, Y)
    assert tail["P@1"] >= plain["P@1"] - 1.0
    assert tail["PSP@3"] > plain["PSP@3"]
    assert tail["PSP@5"] > plain["PSP@5"]


def test_scores_of_the_tail_objective_are_probabilities():
    members, Y = thinned(*drawn())
    again, Y_new = thinned(*drawn(seed=1))
    combiner = Combiner.fit(members, Y, Y, tail=True)
    choose_tail_offset(combiner, "psp", members, Y, Y)
    best = combiner.rank(again, 5)
    assert (np.diff(best.scores, axis=1) > 0).any()  # a rare label before a likelier one
    assert reliability(best, Y_new).ece < 0.03
    plain = Combiner.fit(members, Y, Y).rank(again, 40)
    for row in range(5):  # the order of two labels' scores is that of their probabilities
        chance = dict(zip(plain.labels[row].tolist(), plain.scores[row].tolist(), strict=True))
        own = [chance[label] for label in best.labels[row].tolist()]
        assert np.argsort(own).tolist() == np.argsort(best.scores[row]).tolist()
    stored = Combiner.restore(combiner.state())
    np.testing.assert_array_equal(stored.rank(again, 5).scores, best.scores)
    np.testing.assert_array_equal(stored.rank(again, 5).labels, best.labels)


def test_a_combiner_of_an_earlier_version_ranks_and_scores_as_it_did():
    members, Y = drawn(200)
    combiner = Combiner.fit(members, Y, Y)
    combiner.set_tail_offset(3.0, 3.0)
    arrays = combiner.state()
    arrays["combiner.numbers"] = arrays["combiner.numbers"][:3]
    best = Combiner.restore(arrays).rank(members, 5)
    assert (np.diff(best.scores, axis=1) <= 0).all()  # they were P (w + e)


def test_members_are_fitted_to_held_out_examples_in_the_end():
    X, Y = planted(300, seed=3)
    model = Fusion(members="knn,dxml,linear", validation=0.3).fit(X, Y)
    knn, dxml, linear = model.members_
    assert knn.Y_.shape[0] == 300
    assert dxml.vote_.Y.shape[0] == np.count_nonzero(np.diff(Y.indptr))
    everything = LinearRanker.fit(X, Y, C=0.5).weights
    np.testing.assert_allclose(linear.ranker_.weights.toarray(), everything.toarray(), atol=1e-6)


@pytest.mark.parametrize("members", ["knn,nosuch", "fusion", ""])
def test_the_error_names_a_member_that_is_not_a_method(members):
    with pytest.raises(ParameterError, match=r"fusion\.members"):
        Fusion(members=members).fit(np.eye(3), np.eye(3))


def test_the_compiled_ranking_is_that_of_the_gathered_candidates():
    members, Y = drawn(n=150, n_labels=25)
    rng = np.random.default_rng(0)
    for member in members:  # lists of different lengths
        short = rng.random(150) < 0.3
        member.labels[short, 9:], member.scores[short, 9:] = -1, 0.0
    members = [Ranking(m.labels[:, :12], m.scores[:, :12]) for m in members]
    combiner = Combiner.fit(members, Y, Y)
    combiner.set_tail_offset(np.inf, 3.0)
    combiner.weighted = True
    found = gather(members, combiner.log_counts)
    own = combiner.weights[combiner.band[found.labels]]
    line = (found.features * own[:, :-1]).sum(axis=1) + own[:, -1]
    line = np.where(line > combiner.certain, combiner.certain + 0.1 * found.features[:, -1], line)
    chances = csr_matrix((1 / (1 + np.exp(-line)), (found.rows, found.labels)), Y.shape).toarray()
    best = combiner.rank(members, 6)
    factor = (combiner.inverse + 3.0) / (combiner.inverse.max() + 3.0)
    tail = chances * factor
    for row in range(150):
        first = np.argmax(chances[row])
        others = [label for label in np.argsort(-tail[row], kind="stable") if label != first]
        assert best.labels[row].tolist() == [first, *others[:5]]
        expected = [chances[row, first], *tail[row, others[:5]]]
        np.testing.assert_allclose(best.scores[row], expected, rtol=1e-5)


def test_members_that_an_interrupted_run_finished_are_not_trained_again(tmp_path, monkeypatch):
    X, Y = planted(300, seed=3)
    whole = Fusion(members="linear,knn").fit(X, Y)
    fitted = []

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(KNN, "_fit", stopped)
        with pytest.raises(KeyboardInterrupt):
            Fusion(members="linear,knn").fit(X, Y, callbacks=[Checkpoint(tmp_path)])
    fit = Linear._fit
    monkeypatch.setattr(Linear, "_fit", lambda self, data: (fitted.append(1), fit(self, data)))
    again = [Checkpoint(tmp_path, resume=True)]
    resumed = Fusion(members="linear,knn").fit(X, Y, callbacks=again)
    assert not fitted
    np.testing.assert_array_equal(resumed.predict(X, 5).labels, whole.predict(X, 5).labels)
    Fusion(members="linear,knn").fit(X, Y, callbacks=[Checkpoint(tmp_path / "new")])
    assert fitted


def test_a_member_that_was_finished_with_other_parameters_is_trained_again(tmp_path, monkeypatch):
    X, Y = planted(300, seed=3)

    def fitted(C, **given):
        plan = [Member("linear", {"C": C}), Member("knn", {})]
        for module in (fusion, fitting):
            monkeypatch.setattr(module, "candidate_plans", lambda *_: [plan])
        return Fusion(budget=1e6).fit(X, Y, **given)

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(KNN, "_fit", stopped)
        with pytest.raises(KeyboardInterrupt):
            fitted(0.01, callbacks=[Checkpoint(tmp_path)])
    resumed = fitted(1.0, callbacks=[Checkpoint(tmp_path, resume=True)])
    assert resumed.members_[0].C == 1.0
    np.testing.assert_array_equal(resumed.predict(X, 5).scores, fitted(1.0).predict(X, 5).scores)


def test_copies_that_are_fitted_in_parallel_equal_those_fitted_alone():
    X, Y = planted(300, seed=3)
    model = Fusion(members="linear,knn", ensemble=2, seed=5).fit(X, Y)
    assert [member.parameters["seed"] for member in model.plan_] == [5, 5, 5 + 7919, 5 + 7919]
    rows, cut = cut_by_group(X, 30, 5)
    for fitted, member in zip(model.members_, model.plan_, strict=True):
        alone = method_class(member.method)(**member.parameters)
        alone.fit(X[rows], Y[rows], valid=(X[cut], Y[cut]))
        alone.refit(X, Y, None)
        np.testing.assert_array_equal(fitted.predict(X, 5).labels, alone.predict(X, 5).labels)


def fusion_of(monkeypatch, *plan):
    """Return a fusion of these members."""
    monkeypatch.setattr(fusion, "candidate_plans", lambda *_: [list(plan)])
    return Fusion(shortlist=6)


def test_a_member_that_reranks_scores_the_candidates_of_the_others_alone(monkeypatch):
    X, Y = planted(400, seed=3)
    hard = {"negatives": "hard", "shortlist": 8}
    tree, linear = Member("hierarchicalxc", {"ensemble": 1}), Member("linear", hard, reranks=True)
    model = fusion_of(monkeypatch, tree, Member("knn", {}), linear).fit(X, Y)
    by_tree, by_knn, by_linear = model.rankings(X)[0]
    for row in range(len(by_linear)):
        named = {*by_tree.labels[row], *by_knn.labels[row]} - {-1}
        own = [label for label in by_linear.labels[row] if label >= 0]
        assert len(own) == len(named)
        assert set(own) == named
    linear = model.members_[2]
    raw = linear.margins(X, by_linear.labels)
    listed = by_linear.labels >= 0
    slope, offset = linear.calibration_.state()
    expected = 1 / (1 + np.exp(-(slope * raw[listed] + offset)))
    np.testing.assert_allclose(by_linear.scores[listed], expected, rtol=1e-5)


def test_a_member_that_reranks_stores_nothing_to_find_candidates_with(monkeypatch):
    X, Y = planted(400, seed=3)
    hard = {"negatives": "hard", "shortlist": 8}
    plan = [Member("linear", hard, reranks=True), Member("knn", {})]
    model = fusion_of(monkeypatch, *plan).fit(X, Y)
    assert [member.method for member in model.plan_] == ["knn", "linear"]
    arrays = model.state()
    assert not any("shortlist" in name for name in arrays)
    again = restored(model, arrays)
    best = model.predict(X, 5)
    np.testing.assert_array_equal(again.predict(X, 5).labels, best.labels)
    for row in range(20):
        alone = model.predict(X[row], 5)
        np.testing.assert_array_equal(alone.labels[0], best.labels[row])
        np.testing.assert_array_equal(alone.scores[0], best.scores[row])


def test_candidates_are_joined_without_repeats():
    lists = [np.array([[3, 1, -1], [2, 5, 4]]), np.array([[1, 7], [-1, -1]])]
    found = listed_by_any([Ranking(one, np.zeros(one.shape, np.float32)) for one in lists])
    assert found.tolist() == [[3, 1, 7], [2, 5, 4]]


@pytest.mark.parametrize("objective", ["precision", "psp", "f1"])
def test_members_are_combined_without_held_out_examples(objective):
    X, Y = planted()
    model = Fusion(members="knn,linear", objective=objective)
    for n in (1, 3, 5):  # a tenth of five is none
        assert model.fit(X[:n], Y[:n]).predict(X[:9], 3).labels.shape == (9, 3)
    for held in ((X[:0], Y[:0]), (X[:4], 0 * Y[:4])):
        best = model.fit(X, Y, valid=held).predict(X, 5)
        assert measure("P@1", best, Y) > 90


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_file_of_a_few_lines_is_enough_to_train(n, tmp_path):
    lines = ["0 0:1 3:1", "1 1:1", "2 2:1 3:1", "0 0:1", "1,2 1:1 2:1"]
    file = tmp_path / "few.txt"
    file.write_text("\n".join([f"{n} 4 3", *lines[:n], ""]))
    method = labelspace.train(file).method
    assert method.name == "fusion"
    assert method.predict([[1, 0, 0, 0]], 1).labels.tolist() == [[0]]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("auto,knn", "cannot be combined"),
        ("knn, auto", "cannot be combined"),
        ("knn,,linear", "'' is not a method"),
    ],
)
def test_invalid_members_are_refused_before_training(members, message):
    with pytest.raises(ParameterError, match=message):
        Fusion(members=members).check_parameters()


def test_nothing_is_held_out_where_that_would_take_all_labels():
    X, _ = planted()
    for seed in range(4):
        for row in range(6):
            alone = np.zeros((6, 12), np.float32)
            alone[row, 3] = 1
            model = Fusion(members="knn,linear", validation=0.5, seed=seed).fit(X[:6], alone)
            assert model.predict(X[row], 1).labels[0, 0] == 3


def test_points_of_a_hyperbolic_member_stay_within_the_ball():
    X, Y = planted(200, seed=1)
    small = {"dim": 8, "epochs": 2, "neighbours": 5, "ensemble": 1}
    member = Hyperbolic(**small).fit(X, Y)
    rim = np.float32(1 - 1e-5) * unit_array(member.points_[0])
    member.points_[0][:] = rim
    stored = as_float32(stored_arrays(member))
    np.testing.assert_array_equal(stored["0.points"], rim)
    assert (np.linalg.norm(stored["0.points"].astype(np.float64), axis=1) < 1).all()


def test_estimates_count_every_copy_of_a_member_and_the_largest_plan():
    shape = Shape(33_000, 20_000, 11_000, 400_000, 200_000)

    def needs(given=shape, **params):
        return Fusion.memory(given, Fusion.resolve(Fusion(**params).get_params(), given))

    alone, twice = needs(members="linear"), needs(members="linear,linear")
    copies = needs(members="linear", ensemble=3)
    for purpose in alone:
        times = (2, 3) if purpose.startswith("linear: ") else (1, 1)
        assert (twice[purpose], copies[purpose]) == tuple(t * alone[purpose] for t in times)
    plan = [member.to_json() for member in plan_members("auto", shape)]
    assert sum(needs().values()) > sum(_members_memory(plan, shape).values())
    assert sum(needs(budget=60.0).values()) > sum(needs().values())


def test_members_are_those_that_the_memory_estimate_was_made_for():
    X, Y = planted(200)
    model = Fusion()
    planned = model.resolve(model.get_params(), Shape.of(X, Y))["members"]
    model.fit(X, Y)
    assert model.params_.members == planned
    assert sorted(member.method for member in model.plan_) == sorted(m["method"] for m in planned)
