"""Each loss and its gradient against plain loops in float64 that autograd differentiates."""

from __future__ import annotations

import itertools

import pytest
import torch

from labelspace.nn import losses
from labelspace.nn.losses import binary_loss, margin_loss, mined_margin_loss, softmax_loss

ROWS, CANDIDATES, MARGIN = 6, 9, 0.7


class Case:
    """Random logits and positives, as tensors for the code and as sets for the loops."""

    def __init__(self, name: str, seed: int = 0, scale: float = 2.0) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.logits = scale * torch.randn(ROWS, CANDIDATES, generator=draw, dtype=torch.float64)
        chance = {"none": 0.0, "all": 1.0}.get(name, 0.35)
        marked = torch.rand(ROWS, CANDIDATES, generator=draw) < chance
        if name == "mixed":
            marked[1], marked[2] = False, True
        pairs = marked.nonzero()
        pairs = pairs[torch.randperm(len(pairs), generator=draw)]
        self.rows, self.columns = pairs[:, 0].clone(), pairs[:, 1].clone()
        self.positives = [set(row.nonzero()[:, 0].tolist()) for row in marked]
        self.sampled = torch.tensor([max(found, default=-1) for found in self.positives])
        self.weights = 0.5 + torch.rand(len(pairs), generator=draw, dtype=torch.float64)
        self.by_candidate = 0.1 + torch.rand(CANDIDATES, generator=draw, dtype=torch.float64)
        self.weight_of = dict(
            zip(map(tuple, pairs.tolist()), self.weights.tolist(), strict=True)
        )  # fmt: skip


def loop_margin(case, z, hardest=CANDIDATES):
    total = z.sum() * 0.0
    for i, positives in enumerate(case.positives):
        negatives = [z[i, c] for c in range(CANDIDATES) if c not in positives]
        negatives.sort(key=lambda s: s.item(), reverse=True)
        for s in negatives[:hardest] if positives else ():
            total = total + (s - z[i, max(positives)] + MARGIN).clamp(min=0)
    return total / ROWS


def loop_softmax(case, z, log_q=None, weighted=False, exclude=False):
    total = z.sum() * 0.0
    z = z if log_q is None else z - log_q
    for i, positives in enumerate(case.positives):
        for p in positives:
            rivals = [c for c in range(CANDIDATES) if not (exclude and c in positives and c != p)]
            loss = torch.logsumexp(torch.stack([z[i, c] for c in rivals]), 0) - z[i, p]
            total = total + (case.weight_of[i, p] if weighted else 1.0) * loss
    return total / ROWS


def loop_binary(case, z, weighted=False, negative_weights=None):
    total = z.sum() * 0.0
    zero = torch.zeros((), dtype=z.dtype)
    for i, c in itertools.product(range(ROWS), range(CANDIDATES)):
        if c in case.positives[i]:
            weight, sign = case.weight_of[i, c] if weighted else 1.0, -1.0
        else:
            weight, sign = 1.0 if negative_weights is None else negative_weights[c], 1.0
        total = total + weight * torch.logaddexp(zero, sign * z[i, c])
    return total / ROWS


def pairs_of(case):
    return case.rows, case.columns


# name -> (the loss, the loops), both functions of a case and its logits
LOSSES = {
    "margin": (lambda k, z: margin_loss(z, *pairs_of(k), k.sampled, MARGIN), loop_margin),
    "mined": (
        lambda k, z: mined_margin_loss(z, *pairs_of(k), k.sampled, MARGIN, hardest=3),
        lambda k, z: loop_margin(k, z, hardest=3),
    ),
    "softmax": (lambda k, z: softmax_loss(z, *pairs_of(k)), loop_softmax),
    "softmax, sampled and weighted": (
        lambda k, z: softmax_loss(
            z, *pairs_of(k), log_q=k.by_candidate.log().to(z), weights=k.weights.to(z)
        ),
        lambda k, z: loop_softmax(k, z, log_q=k.by_candidate.log(), weighted=True),
    ),
    "decoupled softmax": (
        lambda k, z: softmax_loss(z, *pairs_of(k), exclude_positives=True),
        lambda k, z: loop_softmax(k, z, exclude=True),
    ),
    "decoupled softmax, sampled and weighted": (
        lambda k, z: softmax_loss(
            *(z, *pairs_of(k)), log_q=k.by_candidate.log().to(z), weights=k.weights.to(z),
            exclude_positives=True,
        ),
        lambda k, z: loop_softmax(k, z, k.by_candidate.log(), weighted=True, exclude=True),
    ),
    "binary": (lambda k, z: binary_loss(z, *pairs_of(k)), loop_binary),
    "binary, weighted": (
        lambda k, z: binary_loss(
            z, *pairs_of(k), weights=k.weights.to(z), negative_weights=k.by_candidate.to(z)
        ),
        lambda k, z: loop_binary(k, z, weighted=True, negative_weights=k.by_candidate),
    ),
}  # fmt: skip
every_loss = pytest.mark.parametrize("name", LOSSES)


def value_and_gradient(function, case, logits):
    z = logits.clone().requires_grad_()
    value = function(case, z)
    (gradient,) = torch.autograd.grad(value, z)
    return value.detach(), gradient


@every_loss
@pytest.mark.parametrize("positives", ["mixed", "some", "none", "all"])
@pytest.mark.parametrize("seed", range(3))
def test_matches_the_loops(name, positives, seed) -> None:
    case = Case(positives, seed)
    ours, loops = (value_and_gradient(f, case, case.logits) for f in LOSSES[name])
    torch.testing.assert_close(ours[0], loops[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours[1], loops[1], rtol=1e-12, atol=1e-12)


@every_loss
@pytest.mark.parametrize("scale", [2.0, 100.0, 1e4])
def test_single_precision_is_stable_for_large_logits(name, scale) -> None:
    case = Case("mixed", seed=5, scale=scale)
    case.logits = case.logits.float().double()  # the same numbers for both
    value, gradient = value_and_gradient(LOSSES[name][0], case, case.logits.float())
    assert value.dtype == gradient.dtype == torch.float32
    expected = value_and_gradient(LOSSES[name][1], case, case.logits)
    torch.testing.assert_close(value.double(), expected[0], rtol=1e-5, atol=1e-6)
    # Logits of 1e4 are known to 1e-3 in float32, and so is a softmax to 1e-3 of itself.
    torch.testing.assert_close(gradient.double(), expected[1], rtol=1e-5 + scale * 2e-7, atol=1e-6)


@every_loss
def test_gradients_are_those_of_small_differences(name) -> None:
    case = Case("mixed", seed=7)
    logits = case.logits.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: LOSSES[name][0](case, z), (logits,), eps=1e-6)


@every_loss
def test_a_scaled_loss_scales_its_gradient_and_can_be_asked_twice(name) -> None:
    case = Case("some")
    _, once = value_and_gradient(LOSSES[name][0], case, case.logits)
    z = case.logits.clone().requires_grad_()
    value = 3.0 * LOSSES[name][0](case, z) + 2.0
    for _ in range(2):
        (thrice,) = torch.autograd.grad(value, z, retain_graph=True)
        torch.testing.assert_close(thrice, 3.0 * once)


@every_loss
def test_the_order_of_pairs_is_free_and_logits_stay_as_they_were(name) -> None:
    case = Case("mixed")
    before = case.logits.clone()
    value, gradient = value_and_gradient(LOSSES[name][0], case, case.logits)
    order = torch.arange(len(case.rows)).flip(0)
    case.rows, case.columns, case.weights = (
        part[order] for part in (case.rows, case.columns, case.weights)
    )
    LOSSES[name][0](case, case.logits)
    assert torch.equal(case.logits, before)
    turned = value_and_gradient(LOSSES[name][0], case, case.logits)
    torch.testing.assert_close(turned, (value, gradient))


def test_mining_all_negatives_is_the_margin_loss() -> None:
    case = Case("mixed", seed=2)
    plain = value_and_gradient(LOSSES["margin"][0], case, case.logits)
    for hardest in (CANDIDATES, CANDIDATES + 5):
        mined = value_and_gradient(
            lambda k, z, n=hardest: mined_margin_loss(z, *pairs_of(k), k.sampled, MARGIN, n),
            case,
            case.logits,
        )
        torch.testing.assert_close(mined, plain)


def test_binary_loss_does_not_depend_on_its_blocks(monkeypatch) -> None:
    case = Case("mixed", seed=3)
    whole = value_and_gradient(LOSSES["binary, weighted"][0], case, case.logits)
    monkeypatch.setattr(losses, "BLOCK_CELLS", 2 * CANDIDATES + 1)
    blocks = value_and_gradient(LOSSES["binary, weighted"][0], case, case.logits)
    torch.testing.assert_close(blocks, whole)


def test_sampled_negatives_stand_for_all_on_average() -> None:
    """Every draw of 3 of the negatives, each as likely: the weighted losses average to the full."""
    logits = Case("none").logits
    positives = torch.arange(ROWS), torch.zeros(ROWS, dtype=torch.int64)  # all carry label 0
    full = binary_loss(logits, *positives)
    drawn = []
    for negatives in itertools.combinations(range(1, CANDIDATES), 3):
        one_over_q = torch.full((4,), (CANDIDATES - 1) / 3, dtype=torch.float64)
        candidates = logits[:, [0, *negatives]]
        drawn.append(binary_loss(candidates, *positives, negative_weights=one_over_q))
    torch.testing.assert_close(torch.stack(drawn).mean(), full)


def test_softmax_correction_undoes_the_sampling_in_expectation() -> None:
    """exp(s - log q) over candidates drawn with chance q sums to the full partition on average."""
    scores = Case("none").logits[:1]
    q = 3 / CANDIDATES
    totals = []
    for drawn in itertools.combinations(range(CANDIDATES), 3):
        log_q = torch.full((3,), q, dtype=torch.float64).log()
        first = torch.tensor([0])
        loss = softmax_loss(scores[:, list(drawn)], first, first, log_q=log_q)
        totals.append((loss + scores[0, drawn[0]] - log_q[0]).exp())
    torch.testing.assert_close(torch.stack(totals).mean(), scores.exp().sum())


def test_a_batch_without_candidates_has_no_loss() -> None:
    none, sampled = torch.empty(0, dtype=torch.int64), torch.full((3,), -1)
    logits = torch.zeros(3, 0, requires_grad=True)
    for loss in (
        binary_loss(logits, none, none),
        softmax_loss(logits, none, none),
        margin_loss(logits, none, none, sampled, 1.0),
        mined_margin_loss(logits, none, none, sampled, 1.0, 5),
    ):
        assert float(loss.detach()) == 0.0
        loss.backward()


@pytest.mark.parametrize("n", [losses.THREADED + 777, 7 * losses.THREADED + 777])
@pytest.mark.parametrize("function", [losses.softplus_of, losses.sigmoid_of, torch.exp])
def test_functions_in_pieces_are_the_same_on_any_number_of_threads(function, n) -> None:
    values = torch.linspace(-20.0, 5.0, n)
    if function is torch.exp:
        function = lambda cells: losses.in_pieces(torch.exp_, cells.clone())  # noqa: E731
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(function(values))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_the_sigmoid_has_its_gradient() -> None:
    values = torch.linspace(-3.0, 3.0, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
    assert torch.autograd.gradcheck(losses.sigmoid_of, values)
    assert torch.allclose(losses.sigmoid_of(values), torch.sigmoid(values))
