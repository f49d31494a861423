"""Workers end with the sums, rows and decisions of all, and send no table whole."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import random

torch = pytest.importorskip("torch", reason="torch is not installed")

from labelspace.engine.tasks import WorkerLostError  # noqa: E402
from labelspace.errors import TrainingError  # noqa: E402
from labelspace.nn.exchange import SPARSE_CELLS, Exchange, GroupExchange, current  # noqa: E402
from labelspace.nn.optimisers import TorchOptimiser  # noqa: E402
from labelspace.nn.sampling import drop_features, own_features  # noqa: E402
from labelspace.nn.trainer import Trainer, TrainingTask  # noqa: E402
from support.workers import together  # noqa: E402

SIZES = (1, 2, 3)


@pytest.mark.parametrize("n", [1, 2, 3, 10])
@pytest.mark.parametrize("size", SIZES)
def test_parts_make_up_the_whole_and_weights_its_mean(n, size):
    rows, mean = np.arange(float(n)), 0.0
    counted = []
    for rank in range(size):
        exchange = Exchange()
        exchange.rank, exchange.size = rank, size
        own = exchange.own(rows)
        assert len(own) >= 1
        counted.extend(own[: exchange.counted(n)])
        mean += float(exchange.weighted(torch.tensor(own).mean(), n))
    assert counted == rows.tolist()
    assert mean == pytest.approx(rows.mean())


def test_rows_of_a_table_are_summed_over_the_union_of_their_numbers():
    used = [np.array([1, 4, 7]), np.array([4, 9])]

    def run(exchange):
        ids = used[exchange.rank]
        gradient = torch.full((len(ids), 2), 1.0 + exchange.rank)
        return exchange.sum_rows(ids, gradient), exchange.sum_rows(np.array([3]), gradient[:1])

    for (ids, sums), (same, twice) in together(2, run):
        assert ids.tolist() == [1, 4, 7, 9]
        assert sums.tolist() == [[1.0, 1.0], [3.0, 3.0], [1.0, 1.0], [2.0, 2.0]]
        assert (same.tolist(), twice.tolist()) == ([3], [[3.0, 3.0]])


def test_inputs_and_gradients_of_a_sparse_layer_come_in_the_order_of_the_batch():
    X = random(7, 30, 0.3, format="csr", random_state=0, dtype=np.float32)
    gradient = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))

    def run(exchange):
        return exchange.joined_batch(exchange.own(X), exchange.own(gradient))

    for whole, gradients in together(3, run):
        assert (whole != X).nnz == 0
        assert torch.equal(gradients, gradient)


def test_dense_gradients_are_summed_and_large_sparse_ones_by_their_non_zeros(monkeypatch):
    def run(exchange):
        small, large = torch.zeros(3), torch.zeros(4 * SPARSE_CELLS)
        small.grad, large.grad = torch.full((3,), 1.0 + exchange.rank), torch.zeros_like(large)
        large.grad[5 + exchange.rank] = 2.0
        large.grad[9] = 1.0
        exchange.sum_gradients([small, large, torch.zeros(2)])
        return small.grad, large.grad

    sent = []
    was = GroupExchange._run

    def watched(self, operation, *tensors):
        sent.extend(each.numel() for each in tensors[-1])
        was(self, operation, *tensors)

    monkeypatch.setattr(GroupExchange, "_run", watched)
    for small, large in together(2, run):
        assert small.tolist() == [3.0] * 3
        assert large.nonzero()[:, 0].tolist() == [5, 6, 9]
        assert large[[5, 6, 9]].tolist() == [2.0, 2.0, 2.0]
    assert max(sent) < 100


@pytest.mark.parametrize("n", [1, 5])
def test_gathered_rows_have_the_gradient_of_the_whole(n):
    values = torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    weights = torch.arange(float(n))[:, None]
    whole = values.clone().requires_grad_()
    ((weights * whole).sum() ** 2).backward()

    def run(exchange):
        own = exchange.own(values).clone().requires_grad_()
        rows = exchange.gathered(own, n)
        loss = exchange.weighted((weights * rows).sum() ** 2, n)
        loss.backward()
        return own.grad[: exchange.counted(n)]

    found = torch.cat(together(3, run))
    torch.testing.assert_close(found, whole.grad)


@pytest.mark.parametrize("keep", [1.0, 0.5])
def test_dropout_of_a_part_is_that_of_the_batch(keep):
    X = random(20, 30, 0.3, format="csr", random_state=0, dtype=np.float32)
    rows = np.random.default_rng(1).permutation(20)[:11]
    whole = drop_features(X[rows], keep, np.random.default_rng(2))
    for own in (slice(0, 4), slice(4, 11), np.array([0, 3, 9])):
        rng = np.random.default_rng(2)
        part = own_features(X, rows, own, keep, rng)
        assert (part != whole[own]).nnz == 0
    after = np.random.default_rng(2)
    drop_features(X[rows], keep, after)
    assert rng.random() == after.random()  # what is drawn next is the same as well


def test_the_worker_that_leads_decides_when_training_ends():
    def run(exchange):
        w = torch.tensor([4.0], requires_grad=True)
        scores = iter([0.5, 0.4, 0.3, 0.2, 0.1])

        def score():
            assert exchange.leads
            return next(scores)

        adam = TorchOptimiser(torch.optim.SGD([w], lr=0.1))
        task = TrainingTask(
            {"w": w}, lambda _: current().weighted(w.square().sum(), 6), adam, score
        )
        trainer = Trainer(epochs=5, batch_size=3, patience=2)
        return trainer.run(task, 6), w.item(), trainer.progress.seconds

    (first, w, seconds), *others = together(3, run)
    assert len(first) == 3
    assert first[0]["loss"] == pytest.approx((16.0 + 10.24) / 2)
    assert all(other == (first, w, seconds) for other in others)


def test_a_loss_that_is_infinite_anywhere_ends_the_training_everywhere():
    def run(exchange):
        w = torch.tensor([1.0], requires_grad=True)
        task = TrainingTask(
            *({"w": w}, lambda _: w.sum() / exchange.rank),
            TorchOptimiser(torch.optim.SGD([w], lr=0.1)),
        )
        with pytest.raises(TrainingError, match="the loss became inf"):
            Trainer(epochs=1).run(task, 4)
        return True

    assert together(2, run) == [True, True]


def test_a_worker_whose_partner_has_gone_can_tell_it_from_an_error_of_its_own():
    def run(exchange):
        exchange.total(1.0)
        if exchange.rank == 1:
            return None
        with pytest.raises(WorkerLostError):
            exchange.total(1.0)
        return True

    assert together(2, run, seconds=2)[0]
