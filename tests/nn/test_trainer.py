"""The training loop: same bits, early stopping, schedules, budgets, divergence, checkpoints."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from labelspace.errors import CheckpointError, TrainingError
from labelspace.methods.validation import cut_validation
from labelspace.nn.callbacks import Callback, Checkpoint
from labelspace.nn.trainer import Learner, TorchOptimiser, Trainer


def quadratic(target=3.0, lr=0.1, score=None):
    """Minimise (w - target)^2; the batch's rows and noise enter the loss, so both matter."""
    w = torch.zeros(1, requires_grad=True)

    def loss(batch):
        noise = torch.randn(1, generator=batch.torch_generator())
        return ((w - target) ** 2 + 0.1 * noise * w + 1e-3 * float(batch.rows[0]) * w).sum()

    return w, Learner({"w": w}, loss, TorchOptimiser(torch.optim.Adam([w], lr=lr)), score)


def test_it_minimises():
    w, learner = quadratic()
    history = Trainer(epochs=60, batch_size=4).run(learner, 16)
    assert w.item() == pytest.approx(3.0, abs=0.2)
    assert history[-1]["loss"] < history[0]["loss"]
    assert [entry["epoch"] for entry in history] == list(range(1, 61))


def test_every_row_is_seen_once_an_epoch_in_a_seeded_order():
    def orders(seed):
        seen = []
        w = torch.zeros(1, requires_grad=True)

        def loss(batch):
            seen.append(batch.rows)
            return (w**2).sum()

        learner = Learner({"w": w}, loss, TorchOptimiser(torch.optim.SGD([w], lr=0.1)))
        Trainer(epochs=2, batch_size=3, seed=seed).run(learner, 10)
        return np.concatenate(seen[:4]), np.concatenate(seen[4:])

    first, second = orders(0)
    assert sorted(first) == sorted(second) == list(range(10))
    assert not np.array_equal(first, second)
    assert np.array_equal(orders(0)[0], first)
    assert not np.array_equal(orders(1)[0], first)


def test_early_stopping_keeps_the_best_weights():
    scores = iter([1.0, 3.0, 2.0, 2.5, 9.0])
    snapshots = []
    w, learner = quadratic()

    def score():
        snapshots.append(w.item())
        return next(scores)

    learner.score = score
    history = Trainer(epochs=10, batch_size=4, patience=2).run(learner, 16)
    assert len(history) == 4  # two epochs without a better score than the second
    assert w.item() == snapshots[1]


def test_a_time_budget_ends_the_run_early():
    _, learner = quadratic()
    history = Trainer(epochs=10**6, batch_size=4, time_budget=0.2).run(learner, 16)
    assert 0 < len(history) < 10**6


def test_a_loss_that_is_no_number_raises():
    w = torch.zeros(1, requires_grad=True)
    learner = Learner(
        {"w": w},
        lambda _: (w * math.nan).sum(),
        TorchOptimiser(torch.optim.SGD([w], lr=0.1)),
    )
    with pytest.raises(TrainingError, match=r"epoch 1, batch 1"):
        Trainer().run(learner, 8)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1.0, 1.0, 1.0, 1.0]),
        ("linear", [1.0, 0.75, 0.5, 0.25]),
        ("cosine", [1.0, 0.8535534, 0.5, 0.1464466]),
    ],
)
def test_schedules(schedule, expected):
    rates = []

    class Spy(TorchOptimiser):
        def step(self, scale):
            rates.append(scale)
            super().step(scale)

    w = torch.zeros(1, requires_grad=True)
    learner = Learner({"w": w}, lambda _: (w**2).sum(), Spy(torch.optim.SGD([w], lr=0.1)))
    Trainer(epochs=2, batch_size=4, schedule=schedule).run(learner, 8)
    assert rates == pytest.approx(expected)


def test_warm_up_rises_to_the_full_rate():
    _, learner = quadratic()
    trainer = Trainer(epochs=1, batch_size=1, schedule="linear", warmup=0.5)
    rates = []

    class Spy(Callback):
        def on_batch(self, run):
            rates.append(run._rate())

    trainer.callbacks = [Spy()]
    trainer.run(learner, 10)
    assert max(rates) == 1.0
    assert rates[:4] == sorted(rates[:4])


def test_validation_cut_is_seeded_disjoint_and_of_the_right_size():
    train, valid = cut_validation(1000, 0.05, seed=1)
    assert len(valid) == 50
    assert sorted([*train, *valid]) == list(range(1000))
    assert np.array_equal(valid, cut_validation(1000, 0.05, seed=1)[1])
    assert not np.array_equal(valid, cut_validation(1000, 0.05, seed=2)[1])
    assert len(cut_validation(1, 0.5, seed=0)[0]) == 1


def run_with_checkpoint(tmp_path, identity, **kwargs):
    w, learner = quadratic()
    trainer = Trainer(epochs=3, batch_size=4, callbacks=[Checkpoint(tmp_path, **kwargs)])
    trainer.identity = identity
    trainer.run(learner, 16)
    return w


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    run_with_checkpoint(tmp_path, "one", minutes=0)
    with pytest.raises(CheckpointError, match="other data or parameters"):
        run_with_checkpoint(tmp_path, "two", resume=True)


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\x10" + b"\x00" * 7 + b"{}"])
def test_a_damaged_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "checkpoint.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        run_with_checkpoint(tmp_path, "one", resume=True)


def test_a_finished_run_resumes_to_itself(tmp_path):
    done = run_with_checkpoint(tmp_path, "one", minutes=0)
    again = run_with_checkpoint(tmp_path, "one", resume=True)
    assert again.item() == done.item()
