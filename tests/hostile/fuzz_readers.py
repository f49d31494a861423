"""`python -m hostile.fuzz_readers`: every reader under atheris for a time, each in a process.

Coverage of the branches of Python leads the mutations. Without atheris, seeded mutations are tried.
Inputs that break a reader are kept in the folder `found`; put them into `test_readers.py`.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

# Of the targets of `readers.py`, which is imported where they run: atheris instruments it.
NAMES = (
    "jsonl", "csv", "tsv", "parquet", "gzip", "xc", "svmlight", "xc-labels", "names", "taxonomy",
    "labels-tsv", "labels-csv", "labels-jsonl", "turtle", "ntriples", "rdf-xml", "safetensors",
    "cache", "json", "journal", "http",
)  # fmt: skip
_SLICE = 500  # seeded mutations between two looks at the clock


def fuzz(name: str, seconds: int, out: Path) -> str:
    """Fuzz one target in a process of its own; return its last line."""
    corpus = out / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    (out / "found").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "hostile.fuzz_readers", "--one", name]
    command += ["--seconds", str(seconds), "--out", str(out)]
    log = out / f"{name}.log"
    with log.open("w") as lines:
        done = subprocess.run(command, stdout=lines, stderr=subprocess.STDOUT)
    last = log.read_text(errors="replace").strip().splitlines()[-1:]
    return f"{name}: {'ok' if done.returncode == 0 else f'BROKEN, see {log}'}: {' '.join(last)}"


def one(name: str, seconds: int, out: Path) -> None:
    """Fuzz one target in this process."""
    try:
        import atheris
    except ModuleNotFoundError:
        _without_coverage(name, seconds, out)
        return
    with atheris.instrument_imports(include=["labelspace"], exclude=_compiled()):
        from hostile import readers
    folder = Path(tempfile.mkdtemp(dir=out)) / "files"
    folder.mkdir()
    corpus = out / "corpus" / name
    for number, seed in enumerate(readers.TARGETS[name][1]):
        (corpus / f"seed-{number}").write_bytes(seed)
        readers.run(name, folder, seed)  # imports and compiles what it needs
    atheris.Setup(
        [
            name, str(corpus), f"-max_total_time={seconds}", f"-timeout={readers.MOST_SECONDS}",
            f"-rss_limit_mb={readers.MOST_MEGABYTES}", f"-artifact_prefix={out / 'found'}/{name}-",
            "-max_len=4096", "-verbosity=1", "-print_final_stats=1",
        ],
        lambda content: readers.run(name, folder, content),
    )  # fmt: skip
    atheris.Fuzz()


def _compiled() -> list[str]:
    """Return the modules with compiled loops: numba cannot read what atheris writes into them."""
    package = Path(importlib.util.find_spec("labelspace").submodule_search_locations[0])
    marks = ("@loop", "@kernel", "njit")
    return [
        ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for path in package.rglob("*.py")
        if any(mark in path.read_text(encoding="utf-8") for mark in marks)
    ]


def _without_coverage(name: str, seconds: int, out: Path) -> None:
    from hostile import readers

    folder = Path(tempfile.mkdtemp(dir=out)) / "files"
    folder.mkdir()
    end, tried = time.monotonic() + seconds, 0
    for start in count(0, _SLICE):
        for content in readers.mutated(readers.TARGETS[name][1], range(start, start + _SLICE)):
            (out / "found" / f"{name}-running").write_bytes(content)
            before = time.process_time()
            readers.run(name, folder, content)
            if time.process_time() - before > readers.MOST_SECONDS:
                raise RuntimeError(f"more than {readers.MOST_SECONDS} s")
            tried += 1
        if time.monotonic() > end:
            break
    (out / "found" / f"{name}-running").unlink()
    print(f"{tried} inputs without coverage")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="per target")
    parser.add_argument("--targets", default=",".join(NAMES), help="their names, by commas")
    parser.add_argument("--out", type=Path, default=Path("fuzz/readers"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.one:
        one(options.one, options.seconds, options.out)
        return
    broken = 0
    for name in options.targets.split(","):
        line = fuzz(name, options.seconds, options.out)
        broken += "BROKEN" in line
        print(line, flush=True)
    raise SystemExit(broken > 0)


if __name__ == "__main__":
    main()
