"""Commands in forked processes of one that has everything imported, so that each starts at once.

Run as a script it is that process: it reads requests as lines of JSON from standard input, and
forks. A child runs `labelspace` with the given arguments, or a function of `support.operations`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.failing_disk import Fault, compiled, counts
from support.small import SMALL

TESTS = Path(__file__).resolve().parents[1]
MODULES = (
    "labelspace.cli.app", "labelspace.model.training", "labelspace.model.prediction",
    "labelspace.comparison.compare", "labelspace.data.writing", "labelspace.datasets.products",
    "labelspace.methods.fusion", "labelspace.methods.glas", "labelspace.methods.dxml",
    "labelspace.methods.hyperbolic", "labelspace.methods.neuralxc", "labelspace.methods.treespace",
    "labelspace.methods.seq2seq", "labelspace.methods.hierarchicalxc", "labelspace.methods.linear",
    "labelspace.methods.lexical", "labelspace.methods.labeltext", "labelspace.methods.knn",
    "labelspace.methods.baselines", "labelspace.tuning", "labelspace.serve.app",
    "pyarrow.parquet", "optuna", "sqlalchemy", "gensim.models",
)  # fmt: skip

WARMED = ("knn", "linear", "hierarchicalxc", "glas")


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit code or minus the signal, output, and calls on the disk."""

    code: int
    out: str
    err: str
    calls: int = 0
    bytes: int = 0
    failures: int = 0


class Child:
    """A command that runs."""

    def __init__(self, nursery: Nursery, pid: int, place: Path) -> None:
        self.nursery, self.pid, self.place = nursery, pid, place

    def kill(self) -> None:
        """Kill this process alone, as the kernel does where memory runs out."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Done:
        """Return how it ended; a process that it started and that is still there is an error."""
        code = self.nursery.ask({"wait": self.pid})["code"]
        out, err = ((self.place / name).read_text("utf-8", "replace") for name in ("out", "err"))
        counted = self.place / "counts.json"
        found = json.loads(counted.read_text()) if counted.exists() else {}
        return Done(code, out, err, **found)


class Nursery:
    """The process that forks, from the side of a test.

    Parameters
    ----------
    folder : Path
        For the output of the commands, the library of failing disks and temporary files.
    threads : int
        Threads of each command.
    """

    def __init__(self, folder: Path, threads: int = 1) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.number = folder, 0
        library = compiled(folder)
        self.can_fail = library is not None
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "LOKY_MAX_CPU_COUNT": str(threads),
            "LABELSPACE_CACHE": str(folder / "cache"),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            **({} if library is None else {"LD_PRELOAD": str(library)}),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__)), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait(60)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def start(self, arguments: Sequence[Any], folder: Path, fault: Fault | None = None) -> Child:
        """Begin `labelspace ARGUMENTS`, or the function `:NAME` of `support.operations`, there.

        The folder holds a folder `tmp` for temporary files. A fault concerns the whole folder.
        """
        self.number += 1
        place = self.folder / f"run-{self.number}"
        place.mkdir()
        (folder / "tmp").mkdir(exist_ok=True)
        request = {
            "arguments": [str(each) for each in arguments],
            "folder": str(folder),
            "place": str(place),
            "fault": None if fault is None or not self.can_fail else asdict(fault),
        }
        return Child(self, self.ask(request)["pid"], place)

    def run(self, arguments: Sequence[Any], folder: Path, fault: Fault | None = None) -> Done:
        """Do what `start` does, and wait for the end."""
        return self.start(arguments, folder, fault).wait()


def _serve() -> None:
    """Fork a child for each request."""
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if os.environ["OMP_NUM_THREADS"] == "1":  # threads of OpenMP do not survive a fork
        _compile()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            answer = {"code": os.waitstatus_to_exitcode(status)}
        else:
            pid = os.fork()
            if pid == 0:
                _live(request)
            answer = {"pid": pid}
        print(json.dumps(answer), file=answers, flush=True)


def _compile() -> None:
    """Run small models once: forked processes then have their compiled loops."""
    import labelspace as ls
    from labelspace.datasets.products import product_records

    rows = list(product_records(60))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(None):
        for method in WARMED:
            tagger = ls.train(rows, method=method, progress=False, **SMALL.get(method, {}))
            tagger.tag("red shoes")
            tagger.save(Path(folder) / method)


def _live(request: dict[str, Any]) -> None:
    """Run one command in this forked process, and end it."""
    code = 1
    place = Path(request["place"])
    try:
        os.setpgid(0, 0)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        for descriptor, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(place / name, os.O_WRONLY | os.O_CREAT, 0o666), descriptor)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.chdir(request["folder"])
        os.environ["TMPDIR"] = str(Path(request["folder"]) / "tmp")
        tempfile.tempdir = None
        if request["fault"] is not None:
            Fault(**request["fault"]).begin(request["folder"])
        code = _run(request["arguments"])
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        if request["fault"] is not None:
            (place / "counts.json").write_text(json.dumps(counts()))
        os._exit(code)


def _run(arguments: list[str]) -> int:
    try:
        if arguments[0].startswith(":"):
            from support import operations

            getattr(operations, arguments[0][1:])(*arguments[1:])
        else:
            from labelspace.cli import main

            sys.argv = ["labelspace", *arguments]
            main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    _serve()
