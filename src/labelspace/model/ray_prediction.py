"""Predictions for a file on a Ray cluster, by Ray Data.

The file is read, and the results are written, on this machine; the nodes need neither. Ray Data
hands batches to one actor per node, which has the model's arrays from Ray's object store without a
copy, and keeps a checkpoint of the batches that are done. They are then joined in their order.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import re
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from labelspace import errors
from labelspace._core.files import Busy, lock_file
from labelspace._core.scratch import scratch_folder
from labelspace._core.streams import Spooled, at_rest
from labelspace._version import __version__
from labelspace.data.columns import Columns
from labelspace.data.dataset import Dataset
from labelspace.data.formats import frames
from labelspace.engine.ray import RayEngine
from labelspace.engine.ray_nodes import node_cores, threads_for, use_cores
from labelspace.engine.tasks import begin_worker
from labelspace.errors import CheckpointError, LabelspaceError
from labelspace.model.prediction import BatchPredictor, Wanted, writer
from labelspace.model.reading import Source, unlabelled_reader
from labelspace.model.sending import SentModel, received_model, sent_model

if TYPE_CHECKING:
    from labelspace.model.predictor import Predictor
    from labelspace.model.tagger import Tagger

logger = logging.getLogger(__name__)

_JOB = "job.json"
_ADVICE = "\nFailed to apply UDF"  # which Ray Data adds to errors
_LOOK_EVERY = 0.5  # seconds between two counts of what is done


def predict_on_cluster(
    engine: RayEngine,
    tagger: Predictor,
    source: Source,
    out: str | Path | None,
    wanted: Wanted,
    columns: Columns | None,
    batch_size: int,
    on_batch: Callable[[int], None],
) -> int:
    """Write the predictions for all examples of a source, and return their number.

    What is done is kept in the folder `.OUT.parts` until the file is complete, if the source is a
    file and the model was loaded from a directory.
    """
    predictor = BatchPredictor(tagger, wanted)  # errors are raised before the cluster is used
    allowed = predictor.selection.allowed
    if allowed is not None:  # nodes may not have the files with the labels
        names = [tagger.label_names[label] for label in np.flatnonzero(allowed).tolist()]
        wanted = replace(wanted, only=names, exclude=None)
    place = _file_of(source)
    source = source if place is None else place
    columns = columns or tagger.columns_for(source)
    reader = unlabelled_reader(tagger, source, columns, batch_size)
    job = _job(cast("Tagger", tagger), place, wanted, columns, batch_size)
    with _kept(out, job) as folder:
        parts = folder / "parts"
        with _counting(parts, batch_size, on_batch):
            _run(engine, cast("Tagger", tagger), reader, wanted, folder)
        done = 0
        with writer(out, predictor) as write:
            for n_examples, part in _in_order(parts):
                write(part)
                done += n_examples
                on_batch(done)
    return done


def _file_of(source: Source) -> Path | None:
    """Return the file as a worker on this machine finds it; None for what is in memory."""
    if isinstance(source, Dataset) or not frames.is_path(source):
        return None
    found = at_rest(cast(Path, source))
    return found if isinstance(found, Spooled) else found.absolute()


def _run(
    engine: RayEngine,
    tagger: Tagger,
    reader: Callable[[], Iterator[Dataset]],
    wanted: Wanted,
    folder: Path,
) -> None:
    """Predict all batches that the checkpoint in the folder does not have."""
    ray = engine.connect()
    from ray import data
    from ray.data.checkpoint import CheckpointConfig

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what it logs is raised as well
    nodes = node_cores() or [1]
    n_cores = min(nodes)
    here = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
    with warnings.catch_warnings():  # Ray sets its own deprecated options when it copies them
        warnings.simplefilter("ignore", DeprecationWarning)
        context = data.DataContext.get_current().copy()
    context.checkpoint_config = CheckpointConfig(
        "number", str(folder / "checkpoint"), delete_checkpoint_on_success=False
    )
    context.checkpoint_config.checkpoint_actor_pool_max_size = 1  # a batch is one number to look up
    context.enable_progress_bars = False
    context.target_max_block_size = context.target_min_block_size = 1  # a block is one batch
    with data.DataContext.current(context):
        model = ray.put(sent_model(tagger))
        batches = data.read_datasource(
            _source(reader), override_num_blocks=1, num_cpus=0, label_selector=here
        )
        predicted = batches.map_batches(
            Worker,
            fn_constructor_args=([model], wanted, n_cores, threads_for(n_cores)),
            batch_size=1,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(
                min_size=1, max_size=sum(count // n_cores for count in nodes)
            ),
            num_cpus=n_cores,
        )
        try:
            predicted.write_parquet(
                str(folder / "parts"),
                ray_remote_args={"num_cpus": 0, "label_selector": here},
                concurrency=1,  # as many processes as batches otherwise, for they need no core
            )
        except ray.exceptions.RayError as error:
            raise _cause(error) from None


def _cause(error: Exception) -> LabelspaceError:
    """Return the error of a worker, of its class if that is one of this package.

    Ray Data sends it as the text of tracebacks, the first of which ends with the error itself.
    """
    found = getattr(error, "cause", None)
    if isinstance(found, LabelspaceError):
        return type(found)(str(found).split(_ADVICE)[0])
    first = re.split(r"\n\nThe above exception|\n\nDuring handling", str(error))[0]
    message = re.findall(r"^(?!\s)(?:([\w.]+): )?(.*)$", first.strip(), re.MULTILINE)[-1]
    kind = getattr(errors, message[0].removeprefix("labelspace.errors."), None)
    if isinstance(kind, type) and issubclass(kind, LabelspaceError):
        return kind(message[1])
    return LabelspaceError(f"prediction on the cluster failed: {': '.join(filter(None, message))}")


def _source(reader: Callable[[], Iterator[Dataset]]) -> Any:
    """Return a source of Ray Data that reads all batches in one task, on demand."""
    import pyarrow as pa
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    class Batches(Datasource):  # type: ignore[misc]  # ray has no types here
        def estimate_inmemory_data_size(self) -> None:
            return None

        def get_read_tasks(self, *_: object, **__: object) -> list[ReadTask]:
            return [ReadTask(read, BlockMetadata(None, None, None, None))]

    def read() -> Iterator[Any]:
        first = 1
        for number, batch in enumerate(reader()):
            yield pa.table(
                {
                    "number": pa.array([number], pa.int64()),
                    "first": pa.array([first], pa.int64()),
                    "batch": pa.array([pickle.dumps(batch, protocol=5)], pa.large_binary()),
                }
            )
            first += len(batch)

    return Batches()


class Worker:
    """Predicts batches, in an actor of Ray Data."""

    def __init__(self, model: list[Any], wanted: Wanted, n_cores: int, threads: str) -> None:
        import ray

        begin_worker()
        use_cores(n_cores, threads)
        sent: SentModel = ray.get(model[0])
        self.predictor = BatchPredictor(received_model(sent), wanted)

    def __call__(self, table: Any) -> Any:
        import pyarrow as pa

        batch = pickle.loads(table["batch"][0].as_py())
        part = self.predictor.part(batch, table["first"][0].as_py())
        return pa.table(
            {
                "number": table["number"],
                "examples": pa.array([len(batch)], pa.int64()),
                "part": pa.array([part], pa.large_binary()),
            }
        )


def _in_order(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number of examples and the part of each batch, in the order of the batches."""
    import pyarrow.parquet as pq

    files: dict[int, Path] = {}
    for path in folder.glob("*.parquet"):
        for number in pq.read_table(path, columns=["number"])["number"].to_pylist():
            files[number] = path
    if sorted(files) != list(range(len(files))):
        raise CheckpointError(f"{folder} lacks a batch that was predicted: delete this folder")
    for number in range(len(files)):
        table = pq.read_table(files[number], filters=[("number", "=", number)])
        yield table["examples"][0].as_py(), table["part"][0].as_py()


def _job(
    tagger: Tagger, place: Path | None, wanted: Wanted, columns: Columns, batch_size: int
) -> str | None:
    """Return what must be equal for a run to continue an earlier one; None if that is not known."""
    if place is None or isinstance(place, Spooled) or not place.is_file() or not tagger.digest:
        return None
    state = place.stat()
    return json.dumps(
        {
            "labelspace": __version__,
            "model": [tagger.digest, tagger.metadata],
            "data": [str(place), state.st_size, state.st_mtime_ns],
            "columns": columns.to_json(),
            "wanted": asdict(wanted),
            "batch_size": batch_size,
        }
    )


@contextmanager
def _kept(out: str | Path | None, job: str | None) -> Iterator[Path]:
    """Yield the folder for what is done; it stays after an error if the job can be continued."""
    target = None if out is None else Path(os.path.realpath(out))
    if target is None or job is None or (target.exists() and not target.is_file()):
        with scratch_folder("predict") as temporary:
            yield temporary
        return
    folder = target.with_name(f".{target.name}.parts")
    try:
        with lock_file(target.with_name(f".{target.name}.predicting"), wait=False):
            _begin(folder, job)
            yield folder
            shutil.rmtree(folder)
    except Busy:
        raise CheckpointError(
            f"another process predicts and writes {out}: wait for it, or choose another file"
        ) from None


def _begin(folder: Path, job: str) -> None:
    """Make the folder, or keep the one of the same job; that of another one is replaced."""
    note = folder / _JOB
    if note.is_file() and note.read_text("utf-8") == job:
        n_done = len(list((folder / "parts").glob("*.parquet")))
        logger.info("continuing with %d batches that are done (%s)", n_done, folder)
        return
    if folder.exists() and not note.is_file():
        raise CheckpointError(f"{folder} is in the way: delete or rename it")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    note.write_text(job, "utf-8")


@contextmanager
def _counting(folder: Path, batch_size: int, on_batch: Callable[[int], None]) -> Iterator[None]:
    """Report from a thread about how many examples are done."""
    ended = threading.Event()

    def count() -> None:
        while not ended.wait(_LOOK_EVERY):
            done = sum(1 for _ in folder.glob("*.parquet")) if folder.is_dir() else 0
            if done:
                on_batch(done * batch_size)

    thread = threading.Thread(target=count, name="labelspace-predicted", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
