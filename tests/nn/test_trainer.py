"""The training loop: same bits, early stopping, schedules, divergence, checkpoints."""

from __future__ import annotations

import math
import signal

import numpy as np
import pytest
import torch

from labelspace.components.holdout import split_rows
from labelspace.errors import CheckpointError, TrainingError
from labelspace.nn.optimisers import TorchOptimiser
from labelspace.nn.trainer import Trainer, TrainingTask
from labelspace.runs.callbacks import Callback, Checkpoint
from labelspace.runs.checkpoint_files import read_checkpoint, write_checkpoint


def quadratic(target=3.0, lr=0.1, score=None):
    """Minimise (w - target)^2; the batch's rows and noise enter the loss, so both matter."""
    w = torch.zeros(1, requires_grad=True)

    def loss(batch):
        noise = float(batch.rng.standard_normal())
        return ((w - target) ** 2 + 0.1 * noise * w + 1e-3 * float(batch.rows[0]) * w).sum()

    return w, TrainingTask({"w": w}, loss, TorchOptimiser(torch.optim.Adam([w], lr=lr)), score)


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

        learner = TrainingTask({"w": w}, loss, TorchOptimiser(torch.optim.SGD([w], lr=0.1)))
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


def test_a_loss_that_is_no_number_raises():
    w = torch.zeros(1, requires_grad=True)
    learner = TrainingTask(
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
    ],
)
def test_schedules(schedule, expected):
    rates = []

    class Spy(TorchOptimiser):
        def step(self, scale):
            rates.append(scale)
            super().step(scale)

    w = torch.zeros(1, requires_grad=True)
    learner = TrainingTask({"w": w}, lambda _: (w**2).sum(), Spy(torch.optim.SGD([w], lr=0.1)))
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
    train, valid = split_rows(1000, 0.05, seed=1)
    assert len(valid) == 50
    assert sorted([*train, *valid]) == list(range(1000))
    assert np.array_equal(valid, split_rows(1000, 0.05, seed=1)[1])
    assert not np.array_equal(valid, split_rows(1000, 0.05, seed=2)[1])
    assert len(split_rows(1, 0.5, seed=0)[0]) == 1


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


def changed(path, change):
    """Write the checkpoint with other arrays or metadata and a matching checksum."""
    arrays, metadata = read_checkpoint(path)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(arrays, metadata)
    write_checkpoint(path, arrays, metadata)


def rename(arrays, metadata):  # noqa: ARG001
    arrays["parameter/v"] = arrays.pop("parameter/w")


def no_group(arrays, metadata):  # noqa: ARG001
    arrays["weights/w"] = arrays.pop("parameter/w")


def other_shape(arrays, metadata):  # noqa: ARG001
    arrays["parameter/w"] = np.zeros((1, 1), np.float32)


def other_type(arrays, metadata):  # noqa: ARG001
    arrays["parameter/w"] = arrays["parameter/w"].astype(np.float64)


@pytest.mark.parametrize(
    "change",
    [
        *(rename, no_group, other_shape, other_type),
        lambda _, metadata: metadata.update(epoch="2"),
        lambda _, metadata: metadata.update(step=-1),
        lambda _, metadata: metadata.update(seconds=None),
        lambda _, metadata: metadata.update(over=1),
        lambda _, metadata: metadata.update(history=3),
        lambda _, metadata: metadata.update(history=[[]]),
        lambda _, metadata: metadata.update(history=[{"epoch": "x"}]),
        lambda _, metadata: metadata.update(unknown=1),
        lambda _, metadata: metadata.pop("identity"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path, change):
    class Stop(Callback):
        def on_batch(self, run):
            if run.progress.epoch == 1:
                signal.raise_signal(signal.SIGINT)

    _, learner = quadratic()
    callbacks = [Checkpoint(tmp_path), Stop()]
    trainer = Trainer(epochs=3, batch_size=4, callbacks=callbacks, identity="one")
    with pytest.raises(KeyboardInterrupt):
        trainer.run(learner, 16)
    changed(tmp_path / "checkpoint.safetensors", change)
    with pytest.raises(CheckpointError):
        run_with_checkpoint(tmp_path, "one", resume=True)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("epoch", [0, 2])
def test_a_signal_during_validation_is_not_lost(tmp_path, how, epoch):
    """Also in the last epoch, after which there is no batch any more."""

    class Stopped(KeyboardInterrupt):
        pass

    def handle(signum, frame):  # noqa: ARG001
        raise Stopped(signum)

    def trained(*callbacks, stop_in=None):
        w, learner = quadratic()
        trainer = Trainer(epochs=3, batch_size=4, callbacks=callbacks)

        def score():
            if trainer.progress.epoch == stop_in:
                signal.raise_signal(how)
            return float(trainer.progress.epoch)

        learner.score = score
        trainer.run(learner, 16)
        return w.item()

    before = signal.signal(how, handle)
    try:
        with pytest.raises(Stopped, match=str(int(how))):
            trained(Checkpoint(tmp_path), stop_in=epoch)
        assert signal.getsignal(how) is handle
    finally:
        signal.signal(how, before)
    assert trained(Checkpoint(tmp_path, resume=True)) == trained()


def test_a_run_interrupted_after_its_last_epoch_is_kept(tmp_path):
    class Stop(Callback):
        def on_end(self, run):  # noqa: ARG002
            raise KeyboardInterrupt

    scores = [1.0, 3.0, 2.0, 2.5]
    for score in (None, lambda: scores.pop(0)):
        w, learner = quadratic(score=score)
        checkpoint = Checkpoint(tmp_path)
        with pytest.raises(KeyboardInterrupt):
            Trainer(epochs=4, batch_size=4, callbacks=[checkpoint, Stop()]).run(learner, 16)
        done = w.item()
        with torch.no_grad():
            w += 1.0  # what a method makes of its weights afterwards
        checkpoint.keep()
        again, learner = quadratic(score=None if score is None else lambda: 1 / 0)
        learner.loss = lambda _: 1 / 0  # nothing is trained
        history = Trainer(
            epochs=4, batch_size=4, callbacks=[Checkpoint(tmp_path, resume=True)]
        ).run(learner, 16)
        assert again.item() == done
        assert len(history) == 4


def test_a_disk_that_fails_is_a_warning_and_an_error_at_the_end(tmp_path, caplog):
    (tmp_path / "checkpoint.safetensors" / "in the way").mkdir(parents=True)

    class Stop(Callback):
        def on_batch(self, run):
            if run.progress.epoch == 1:
                signal.raise_signal(signal.SIGINT)

    checkpoint = Checkpoint(tmp_path, minutes=0)
    _, learner = quadratic()
    with pytest.raises(KeyboardInterrupt):
        Trainer(epochs=3, batch_size=4, callbacks=[checkpoint, Stop()]).run(learner, 16)
    assert "cannot be written" in caplog.text
    with pytest.raises(CheckpointError, match=r"safetensors cannot be written: .*directory"):
        checkpoint.keep()
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


def test_a_finished_run_resumes_to_itself(tmp_path):
    done = run_with_checkpoint(tmp_path, "one", minutes=0)
    again = run_with_checkpoint(tmp_path, "one", resume=True)
    assert again.item() == done.item()
