"""One training by several workers of a Ray cluster, through Ray Train's TorchTrainer.

Ray Train starts the workers, connects them by torch.distributed (gloo), keeps checkpoints in its
storage, and after the loss of a worker starts as many as the cluster has place for from the last
checkpoint. What is added here: arrays that each node has once, errors that end the run at once and
not after retries, progress, and an end of everything with the caller.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from labelspace.engine.ray_nodes import node_cores, threads_for, use_cores
from labelspace.engine.tasks import WorkerLostError, begin_worker, run_task
from labelspace.errors import LabelspaceError
from labelspace.runs.callbacks import WORTH_WRITING, Callback, Checkpoint, Run

if TYPE_CHECKING:
    from labelspace.engine.ray import RayEngine

Result = TypeVar("Result")

RUN = "run"  # Ray Train's name of a run, which continues the one of this name in its storage
POLL_SECONDS = 0.5


class RayTraining:
    """Workers that train one model together.

    Parameters
    ----------
    engine : RayEngine
    workers : int
        Their greatest number. There are fewer where the cluster has fewer free cores.
    """

    def __init__(self, engine: RayEngine, workers: int) -> None:
        self.engine, self.workers = engine, workers

    def run(
        self,
        function: Callable[..., Result],
        shared: Mapping[str, Any],
        *,
        storage: str | None = None,
        minutes: float = 5.0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """Return what ``function(callbacks, **shared)`` returns in the first of the workers.

        All workers call it, connected by torch.distributed; the callbacks belong to its Trainer.
        In workers other than the first it ends with the training.

        Parameters
        ----------
        function : callable
        shared : mapping
            Arrays and CSR matrices among the values are read-only; each node has them once.
        storage : str, optional
            Folder or URI of checkpoints, which all nodes can write to; a run that was stopped is
            continued from it. Default: a temporary folder of this machine.
        minutes : float
            Time between checkpoints.
        progress : callable, optional
            Called with (batches done, number of batches) in the caller's thread.

        Raises
        ------
        Exception
            The first error of a worker, with a note that names it.
        LabelspaceError
            If workers were lost more often than the engine's `max_retries`.
        """
        ray = self.engine.connect()
        own = None if storage else tempfile.mkdtemp(prefix="labelspace-")
        board = ray.remote(_Board).options(num_cpus=0, **_here(ray)).remote()
        settings = {
            "common": [ray.put((function, dict(shared)))],
            "board": board,
            "cores": self._cores_per_worker(),
            "threads": threads_for(self._cores_per_worker()),
            "storage": storage or own,
            "minutes": minutes,
        }
        # Or Ray Train looks for its controller in the newest cluster of this machine, and stops its
        # own workers if it is not there.
        where = {"env_vars": {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}}
        supervise = ray.remote(_supervise).options(
            num_cpus=0,
            max_retries=self.engine.max_retries,
            name="labelspace.train",
            runtime_env=where,
            **_here(ray),
        )
        run = supervise.remote(settings, self.workers, self.engine.max_retries)
        try:
            while True:
                done, _ = ray.wait([run], timeout=POLL_SECONDS, fetch_local=False)
                batches, error = ray.get(board.read.remote())
                if error is not None:
                    raise error
                if progress is not None and batches[1]:
                    progress(*batches)
                if done:
                    return cast(Result, self.engine.fetched(ray, run))
        finally:
            with suppress(Exception):
                ray.cancel(run, force=True)  # and with it what belongs to it, the workers too
            ray.kill(board)
            if own is not None:
                shutil.rmtree(own, ignore_errors=True)

    def _cores_per_worker(self) -> int:
        nodes = node_cores() or [1]
        return max(1, min(nodes) // math.ceil(self.workers / len(nodes)))


class _Board:
    """An actor in which the caller reads how far its workers are."""

    def __init__(self) -> None:
        self.batches: tuple[int, int] = (0, 0)
        self.error: Exception | None = None

    def report(self, done: int, total: int) -> None:
        self.batches = done, total

    def fail(self, error: Exception) -> None:
        self.error = self.error or error

    def read(self) -> tuple[tuple[int, int], Exception | None]:
        return self.batches, self.error


def _here(ray: Any) -> dict[str, Any]:
    """Return the options of a task or actor that is to run on the caller's node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node = ray.get_runtime_context().get_node_id()
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


def _supervise(
    settings: dict[str, Any], workers: int, retries: int
) -> tuple[Any, LabelspaceError | None]:
    """Run Ray Train in a task of its own, which owns the workers and can be cancelled."""
    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", str(POLL_SECONDS))
    from ray import train
    from ray.train.torch import TorchTrainer

    trainer = TorchTrainer(
        _work,
        train_loop_config=settings,
        # Any number of workers finds the same model: after the loss of a node fewer go on.
        scaling_config=train.ScalingConfig(
            num_workers=(1, workers),
            resources_per_worker={"CPU": settings["cores"]},
            placement_strategy="SPREAD",
        ),
        run_config=train.RunConfig(
            name=RUN,
            storage_path=settings["storage"],
            failure_config=train.FailureConfig(max_failures=retries),
            checkpoint_config=train.CheckpointConfig(num_to_keep=1),
        ),
    )
    try:
        return trainer.fit().return_value, None
    except train.TrainingFailedError as failure:
        return None, LabelspaceError(
            f"workers were lost {retries + 1} times; if their nodes were out of memory, use fewer "
            f"or larger ones: {str(failure).strip().splitlines()[-1]}"
        )


def _work(settings: dict[str, Any]) -> Any:
    """Train in one worker."""
    import ray
    from ray import train

    begin_worker()
    use_cores(settings["cores"], settings["threads"])
    place, board = train.get_context(), settings["board"]
    rank, size = place.get_world_rank(), place.get_world_size()
    checkpoints = _Checkpoints(rank, settings["minutes"])
    callbacks = [checkpoints, _Reporter(board) if rank == 0 else _EndOfTraining()]
    try:
        _check_storage(settings["storage"])
        function, shared = ray.get(settings["common"][0])
        return run_task(function, rank, size, callbacks, shared)[1]
    except _TrainedException:
        return None
    except WorkerLostError:
        raise  # Ray Train starts the workers again
    except Exception as error:
        ray.get(board.fail.remote(error))
        raise


def _check_storage(storage: str) -> None:
    """Raise LabelspaceError if a folder of checkpoints is not this node's, too."""
    if "://" not in storage and not (Path(storage) / RUN).is_dir():
        raise LabelspaceError(
            f"a worker does not find {storage}, where checkpoints are to be kept: with workers on "
            "several machines it must be in a folder that all of them share"
        )


class _Checkpoints(Callback):
    """Writes checkpoints to the storage of Ray Train, and continues from the last one there."""

    def __init__(self, rank: int, minutes: float) -> None:
        self.rank, self.minutes = rank, minutes
        self._last = 0.0

    def on_start(self, run: Run) -> None:
        from ray import train

        found = train.get_checkpoint()
        if found is not None:
            with found.as_directory() as folder:
                Checkpoint(folder, resume=True).on_start(run)
        self._last = run.progress.seconds

    def on_batch(self, run: Run) -> None:
        # All workers agree on the seconds, and must report together.
        seconds = run.progress.seconds
        if seconds < self._last:  # the next model of an ensemble
            self._last = 0.0
        if seconds - self._last >= 60 * self.minutes:
            self._last = seconds
            self._write(run.state)

    def on_trained(self, run: Run) -> None:
        if run.progress.seconds >= WORTH_WRITING:
            self._write(run.final_state)

    def _write(self, state: Callable[[], tuple[dict[str, Any], dict[str, Any]]]) -> None:
        from ray import train

        from labelspace.runs.checkpoint_files import write_checkpoint

        if self.rank:
            train.report({})
            return
        with tempfile.TemporaryDirectory(prefix="labelspace-") as folder:
            write_checkpoint(Checkpoint(folder).path, *state())
            train.report({}, checkpoint=train.Checkpoint.from_directory(folder))


class _Reporter(Callback):
    """Reports the batches that are done, at most twice per second."""

    def __init__(self, board: Any) -> None:
        self.board, self._last = board, -math.inf

    def on_batch(self, run: Run) -> None:
        if time.monotonic() - self._last >= POLL_SECONDS:
            self._last, at = time.monotonic(), run.progress
            done = at.epoch * run.steps_per_epoch + at.step
            self.board.report.remote(done, run.epochs * run.steps_per_epoch)


class _TrainedException(BaseException):
    """Ends the work of a worker whose part is done."""


class _EndOfTraining(Callback):
    def on_end(self, run: Run) -> None:
        del run
        raise _TrainedException
