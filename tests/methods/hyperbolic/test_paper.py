"""The loss and the update of the paper, written out in plain torch, and AnnexML's loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from labelspace.errors import ParameterError
from labelspace.methods.hyperbolic.annexml import NeighbourObjective, label_neighbours
from labelspace.methods.hyperbolic.method import Hyperbolic
from labelspace.methods.hyperbolic.objective import BatchObjective
from labelspace.methods.hyperbolic.space import optimiser_of
from labelspace.nn.sampling import CandidateSampler, negatives_per_row
from labelspace.nn.trainer import Batch
from support.fitted import resolved
from support.planted import planted

DIM, DRAWN, ALPHA = 3, 4, 1.7
ROWS = np.arange(20)
LETTER = {"preset": "paper", "dim": DIM, "n_negatives": DRAWN, "alpha": ALPHA, "lr": 0.3}


@pytest.fixture(scope="module")
def data():
    X, Y = planted(60, seed=4)
    empty = Y.toarray()
    empty[5] = 0  # an example without labels has no pairs
    return X, csr_matrix(empty)


def prepared(data, **options):
    """Return a model with resolved parameters, and a space with points all over the ball."""
    X, Y = data
    model = resolved(Hyperbolic(**{**LETTER, **options}), X, Y)
    space = model._fresh_space(X, Y, seed=0)
    rng = np.random.default_rng(1)
    space.labels.weight[:] = rng.uniform(-0.5, 0.5, space.labels.weight.shape)
    space.encoder.input_layer.weight[:] = rng.normal(0, 0.15, (X.shape[1], DIM))
    return model, space


def distance(x, y):
    """Section 2.2."""
    apart = (x - y).square().sum()
    return torch.arccosh(1 + 2 * apart / ((1 - x.square().sum()) * (1 - y.square().sum())))


def flat(x, y):
    return (x - y).norm()


def into_ball(x):
    """The projection p of section 2.3, at the distance from the rim that the package keeps."""
    return x / x.norm() * (1 - 1e-5) if x.norm() >= 1 - 1e-5 else x


def pair_losses(r, labels, own, negatives, d=distance):
    """Section 2.4, for each label of an example."""
    others = sum((torch.exp(-ALPHA * d(r, labels[k])) for k in negatives), torch.zeros(()))
    mine = [torch.exp(-ALPHA * d(r, labels[i])) for i in own]
    return [-torch.log(e / (others + e)) for e in mine]


def leaves(space):
    """Return theta and the label points in float64, as leaves."""
    weights = (space.encoder.input_layer.weight, space.labels.weight)
    return [torch.from_numpy(w.astype(np.float64)).requires_grad_() for w in weights]


def by_the_letter(data, theta, labels, negatives):
    """Return all pair losses of the batch, and the points r."""
    X, Y = data
    points = [into_ball(torch.from_numpy(X[j].toarray()[0]).double() @ theta) for j in ROWS]
    every = [
        loss
        for j, r in zip(ROWS, points, strict=True)
        for loss in pair_losses(r, labels, Y[j].indices, negatives[j])
    ]
    return torch.stack(every), points


def test_loss_and_one_step_of_rsgd_are_those_of_sections_2_4_and_2_5(data):
    X, Y = data
    model, space = prepared(data, optimiser="sgd")
    theta, labels = leaves(space)
    optimiser = optimiser_of(space, model.params_)
    loss = BatchObjective(model, space, X, Y)(Batch(ROWS, np.random.default_rng(7)))
    loss.backward()
    optimiser.step(1.0)

    negatives = negatives_per_row(Y[ROWS], DRAWN, np.random.default_rng(7))
    every, points = by_the_letter(data, theta, labels, negatives)
    assert loss.item() == pytest.approx(every.mean().item(), rel=1e-5)

    on_labels = torch.autograd.grad(every.mean(), labels, retain_graph=True)[0]
    at_points = torch.autograd.grad(every.mean(), points, retain_graph=True, allow_unused=True)
    moved = labels - 0.3 * ((1 - labels.square().sum(1, keepdim=True)) / 2) ** 2 * on_labels
    np.testing.assert_allclose(space.labels.weight, moved.detach().numpy(), atol=1e-6)
    step = torch.zeros_like(theta)
    for r, gradient in zip(points, at_points, strict=True):
        if gradient is None:  # an example without labels
            continue
        scaled = ((1 - r.square().sum()) / 2) ** 2 * gradient
        (raw,) = torch.autograd.grad(r, theta, scaled, retain_graph=True)
        step += raw
    found = space.encoder.input_layer.weight
    assert np.abs(found - theta.detach().numpy()).max() > 0.01
    np.testing.assert_allclose(found, (theta - 0.3 * step).detach().numpy(), atol=1e-5)


def test_the_first_step_of_adam_is_the_rate_times_the_inverse_metric_and_the_ratio(data):
    X, Y = data
    for ratio in (1.0, 20.0):
        model, space = prepared(data, label_lr_ratio=ratio, lr=1e-3)
        before = space.labels.weight.astype(np.float64)
        theta = space.encoder.input_layer.weight.copy()
        optimiser = optimiser_of(space, model.params_)
        BatchObjective(model, space, X, Y)(Batch(ROWS, np.random.default_rng(7))).backward()
        optimiser.step(1.0)
        moved = np.abs(space.labels.weight - before)
        rate = 1e-3 * ratio * ((1 - np.square(before).sum(1)) / 2) ** 2
        used = moved.max(axis=1) > 0
        assert used.sum() > 8
        np.testing.assert_allclose(moved[used] / rate[used, None], 1.0, rtol=0.02)
        turned = np.abs(space.encoder.input_layer.weight - theta).max()
        assert turned == pytest.approx(1e-3, rel=0.05)


def test_weights_of_examples_and_of_pairs(data):
    X, Y = data
    negatives = negatives_per_row(Y[ROWS], DRAWN, np.random.default_rng(7))
    found = {}
    for weighting in ("examples", "pairs"):
        model, space = prepared(data, weighting=weighting)
        objective = BatchObjective(model, space, X, Y)
        found[weighting] = objective(Batch(ROWS, np.random.default_rng(7))).item()
    every, _ = by_the_letter(data, *leaves(space), negatives)
    sizes = np.diff(Y[ROWS].indptr)
    per_pair = np.repeat(1 / np.maximum(sizes, 1), sizes)
    of_examples = (every.detach().numpy() * per_pair).sum() / len(ROWS)
    assert found["pairs"] == pytest.approx(every.mean().item(), rel=1e-5)
    assert found["examples"] == pytest.approx(of_examples, rel=1e-5)
    assert abs(of_examples - every.mean().item()) > 0.01


@pytest.mark.parametrize("kind", ["per-example", "uniform"])
@pytest.mark.parametrize("in_batch", [False, True])
@pytest.mark.parametrize("geometry", ["hyperbolic", "euclidean"])
def test_labels_of_the_batch_are_negatives_only_if_they_are_to_be(data, kind, in_batch, geometry):
    X, Y = data
    model, space = prepared(data, negatives=kind, batch_negatives=in_batch, geometry=geometry)
    loss = BatchObjective(model, space, X, Y)(Batch(ROWS, np.random.default_rng(7))).item()
    batch = Y[ROWS]
    if kind == "uniform":
        shared = CandidateSampler(Y, "uniform", DRAWN).draw(batch, np.random.default_rng(7)).drawn
        drawn = [set(shared) for _ in ROWS]
        drawn = [list(d | set(batch.indices)) if in_batch else list(d) for d in drawn]
    else:
        drawn = [list(d) for d in negatives_per_row(batch, DRAWN, np.random.default_rng(7))]
        if in_batch:
            drawn = [d + list(set(batch.indices)) for d in drawn]
    r, labels = (torch.from_numpy(p).double() for p in (space.embed(X[ROWS]), space.label_points()))
    d = distance if geometry == "hyperbolic" else flat
    expected = [
        each.item()
        for j in ROWS
        for each in pair_losses(
            r[j], labels, batch[j].indices, [k for k in drawn[j] if k not in batch[j].indices], d
        )
    ]
    assert loss == pytest.approx(np.mean(expected), rel=1e-5)


def test_a_constant_rate_does_not_depend_on_the_number_of_epochs(data):
    def losses(schedule, epochs):
        own = {"schedule": schedule, "epochs": epochs, "ensemble": 1, "batch_size": 16}
        model = Hyperbolic(**{**LETTER, **own})
        return [entry["loss"] for entry in model.fit(*data).history_][:2]

    assert losses("constant", 2) == losses("constant", 6)
    assert losses("linear", 2) != losses("linear", 6)


def test_inputs_keep_their_length_if_they_are_to(data):
    X, Y = data
    for unit, same in ((True, True), (False, False)):
        model = Hyperbolic(dim=4, epochs=1, unit_inputs=unit, map_spread=0.01).fit(X, Y)
        assert np.allclose(model.embed(X), model.embed(3 * X), atol=1e-6) is same


@pytest.mark.parametrize("geometry", ["hyperbolic", "euclidean", "spherical"])
def test_huge_inputs_that_are_not_scaled_get_finite_scores(data, geometry):
    X, Y = data
    model = Hyperbolic(dim=4, epochs=2, unit_inputs=False, geometry=geometry, lr=0.1).fit(X, Y)
    huge = csr_matrix((X * np.float32(1e30)).astype(np.float32))
    ranking = model.predict(huge, 5)
    assert np.isfinite(ranking.scores).all()
    alone = model.predict(huge[3], 5)
    assert np.array_equal(alone.scores[0], ranking.scores[3])


def test_neighbours_by_label_cosine_are_those_of_all_cosines(data):
    _, Y = data
    dense = Y.toarray()
    lengths = np.maximum(np.linalg.norm(dense, axis=1), 1e-9)
    cosines = dense @ dense.T / np.outer(lengths, lengths)
    np.fill_diagonal(cosines, -1)
    found = label_neighbours(Y, 6)
    assert found.shape == (60, 6)
    for row, near in enumerate(found):
        kept = near[near >= 0]
        assert row not in kept
        assert len(set(kept)) == len(kept) == min(6, (cosines[row] > 0).sum())
        np.testing.assert_allclose(
            np.sort(cosines[row, kept])[::-1], np.sort(cosines[row])[::-1][: len(kept)], atol=1e-6
        )


def test_annexmls_loss_is_that_of_section_2_4(data):
    X, Y = data
    model, space = prepared(data, loss="annexml", geometry="spherical", label_neighbours=6)
    near = label_neighbours(Y, 6)
    objective = NeighbourObjective(model, space, X, near)
    found = objective(Batch(ROWS, np.random.default_rng(3))).item()
    # The neighbour of each pair is drawn from those of the example, evenly.
    counts = (near[ROWS] >= 0).sum(axis=1)
    places = (np.random.default_rng(3).random(len(ROWS)) * counts).astype(int)
    points = (X @ space.encoder.input_layer.weight).astype(np.float64)
    lengths = np.linalg.norm(points, axis=1)

    def e(i, j):
        return np.exp(ALPHA * points[i] @ points[j] / (lengths[i] * lengths[j]))

    every = []
    for j, place in zip(ROWS, places, strict=True):
        if near[j, 0] < 0:
            continue
        v = near[j, place]
        others = sum(e(j, k) for k in ROWS if k != j and k not in near[j])
        every.append(-np.log(e(j, v) / (others + e(j, v))))
    assert len(every) == len(ROWS) - 1  # one has no labels
    assert found == pytest.approx(np.mean(every), rel=1e-5)


def test_examples_without_neighbours_give_a_loss_of_0(data):
    X, _ = data
    Y = csr_matrix(np.eye(X.shape[0], dtype=np.float32))
    model = Hyperbolic(loss="annexml", geometry="spherical", dim=4, epochs=2).fit(X, Y)
    assert [entry["loss"] for entry in model.history_] == [0.0, 0.0]


def test_with_annexmls_loss_labels_are_the_centroids_of_their_examples(data):
    X, Y = data
    model = Hyperbolic(loss="annexml", geometry="spherical", dim=4, epochs=3, validation=0.0)
    model.fit(X, Y)
    means = Y.T @ model.points_[0]
    has = Y.getnnz(axis=0) > 0
    means = means[has] / np.linalg.norm(means[has], axis=1, keepdims=True)
    np.testing.assert_allclose(model.label_vectors_[has], means, atol=1e-5)


@pytest.mark.parametrize("wrong", [{"geometry": "hyperbolic"}, {"predict_by": "both"}])
def test_annexmls_loss_needs_cosines_and_votes(data, wrong):
    options = {"loss": "annexml", "geometry": "spherical", **wrong}
    with pytest.raises(ParameterError, match="geometry='spherical'"):
        Hyperbolic(**options).fit(*data)
