"""Workers of Ray Data that note what they predict, and fail or wait."""

from __future__ import annotations

import time

from labelspace.model.ray_prediction import Worker


def failing_worker(folder, parts):
    """Return a worker that fails at batch 4, once parts are written, while there is a file fail."""

    class FailingWorker(Worker):
        def __call__(self, table):
            number = table["number"][0].as_py()
            if number == 4 and (folder / "fail").exists():
                deadline = time.monotonic() + 60
                while not list(parts.glob("*.parquet")) and time.monotonic() < deadline:
                    time.sleep(0.02)
                raise ValueError("batch 4 is not wanted")
            with (folder / f"predicted-{number}").open("a") as file:
                file.write(".")
            return super().__call__(table)

    return FailingWorker


def slow_worker(folder):
    """Return a worker that notes its node before each batch, and waits."""

    class SlowWorker(Worker):
        def __call__(self, table):
            import ray

            node = ray.get_runtime_context().get_node_id()
            (folder / f"{node} {table['number'][0].as_py()}").touch()
            time.sleep(0.3)
            return super().__call__(table)

    return SlowWorker
