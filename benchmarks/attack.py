"""Kills, failing disks, threads, processes and numbers at the edge: what breaks, and how often.

    python benchmarks/attack.py [--parts kills,disks,numerics,determinism,concurrency]
        [--only NAME,NAME] [--times 100] [--seed 0] [--again]

The tests in tests/failures try a few of the same. `kills`: every operation is killed `--times`
times, half of them instead of a call that changes files and half after a random time; then its
outputs must be the old or the new ones, and the next run must end with the bits and the files of an
undisturbed one. `disks`: full, over quota, read-only and failing disks, from random calls on; the
error must be one sentence. `numerics`: degenerate data, and parameters at the ends of their ranges,
for every method. `determinism`: every method in new processes with other seeds of hashes and
numbers of threads. `concurrency`: readers during saves, several commands on one output, eight
threads on one model. What this commit has been tried on before is skipped, unless `--again`.
Failing disks and kills at calls need gcc. Ends with exit code 1 if anything is wrong. Writes
benchmarks/results/attack.json and .md.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import numpy as np

from kept import keep, kept, provenance
from labelspace.methods.registry import method_class, method_names
from support.attacks import Attack, listing
from support.bits import in_own_process
from support.degenerate import data_sets, parameter_sets, wrong_with
from support.failing_disk import REFUSED, full, refusing
from support.nursery import Done, Nursery
from support.operations import model_digest, operations, prepare
from support.planted import planted
from support.small import SMALL

SLOW = {"compare": 10, "tune": 3, "train seq2seq": 4}  # so many times fewer attempts
CHANGE_WITH_THREADS = {"seq2seq"}
THREADS = 8
Found = tuple[int, list[str]]  # how often it was tried, and what was wrong


@dataclass(frozen=True)
class Bench:
    """What the parts share."""

    nursery: Nursery
    template: Path
    scratch: Path
    times: int
    seed: int

    def attack(self, name: str) -> Attack:
        """Return an attack on an operation, after an undisturbed run."""
        place = Path(tempfile.mkdtemp(dir=self.scratch))
        return Attack(self.nursery, self.template, place, operations()[name])

    def attempts(self, name: str) -> int:
        return max(1, self.times // SLOW.get(name, 1))


def kills(bench: Bench) -> Iterator[tuple[str, Callable[[], Found]]]:
    """Kill every operation, at calls and at moments."""
    for name in operations():

        def run(name: str = name) -> Found:
            attack, dice = bench.attack(name), random.Random(f"{bench.seed} kill {name}")
            wrong: list[str] = []
            for number in range(bench.attempts(name)):
                if number % 2 and bench.nursery.can_fail:
                    wrong += attack.kill_at(dice.randrange(attack.reference.calls))
                else:
                    wrong += attack.kill_after(dice.uniform(0.0, attack.reference.seconds))
            return bench.attempts(name), wrong

        yield name, run
    yield "serve, learning", lambda: _kill_servers(bench)


def _kill_servers(bench: Bench) -> Found:
    """Kill servers that learn; every accepted example is in the model or in the journal, once."""
    from serve import kill

    rows = [f"red shoes number {number}" for number in range(200)]
    times = max(1, bench.times // 5)
    try:
        kill(bench.template / "model", rows, times)
    except AssertionError as error:
        return times, [str(error)]
    return times, []


def disks(bench: Bench) -> Iterator[tuple[str, Callable[[], Found]]]:
    """Let every operation meet disks that fail."""
    for name in operations() if bench.nursery.can_fail else ():

        def run(name: str = name) -> Found:
            attack, dice = bench.attack(name), random.Random(f"{bench.seed} disk {name}")
            wrong: list[str] = []
            calls, size = attack.reference.calls, max(1, attack.reference.bytes)
            for _ in range(bench.attempts(name)):
                error = dice.choice(sorted(REFUSED))
                faults = [
                    full(dice.randrange(size)),
                    refusing(error, dice.randrange(calls)),
                    refusing(error, dice.randrange(calls), once=True),
                ]
                wrong += attack.meet(dice.choice(faults))
            return bench.attempts(name), wrong

        yield name, run


def numerics(bench: Bench) -> Iterator[tuple[str, Callable[[], Found]]]:
    """Fit every method to degenerate data, and with numbers at the ends of their ranges."""
    for name in method_names():

        def run(name: str = name) -> Found:
            wrong = {what: wrong_with(name, X, Y) for what, (X, Y) in data_sets().items()}
            if name == "fusion":
                own = {"members": "auto"}
                wrong |= {
                    f"{what}, all members": wrong_with(name, X, Y, own)
                    for what, (X, Y) in data_sets().items()
                }
            X, Y = planted(70, seed=bench.seed)
            wrong |= {what: wrong_with(name, X, Y, given) for what, given in parameter_sets(name)}
            return len(wrong), [f"{what}: {found}" for what, found in wrong.items() if found]

        yield name, run


def determinism(bench: Bench) -> Iterator[tuple[str, Callable[[], Found]]]:
    """Train in new processes, with one and with two threads."""
    for name in method_names():

        def run(name: str = name) -> Found:
            found = {
                (threads, seed): in_own_process(threads, [name], seed)[name]
                for threads in (1, 2)
                for seed in (1, 2, 3)
            }
            wrong = [
                f"other bits in other processes, {threads} threads"
                for threads in (1, 2)
                if len({bits for (own, _), bits in found.items() if own == threads}) > 1
            ]
            if len(set(found.values())) > 1 and name not in CHANGE_WITH_THREADS:
                wrong.append("other bits with another number of threads")
            return len(found), wrong

        yield name, run
    for threads in (1, 2):
        yield f"resumed, {threads} threads", lambda threads=threads: _resumed(bench, threads)


def _resumed(bench: Bench, threads: int) -> Found:
    """Kill trainings and resume them, in processes with so many threads."""
    wrong: list[str] = []
    count = 0
    with Nursery(bench.scratch / f"nursery-{threads}", threads) as nursery:
        other = Bench(nursery, bench.template, bench.scratch, bench.times, bench.seed)
        for name in operations():
            if name.startswith("train "):
                attack = other.attack(name)
                for share in (0.3, 0.6, 0.9):
                    wrong += attack.kill_after(share * attack.reference.seconds)
                    count += 1
    return count, wrong


def concurrency(bench: Bench) -> Iterator[tuple[str, Callable[[], Found]]]:
    """Let several commands write to one place, readers read during saves, threads share a model."""
    for name in ("predict jsonl", "convert out.txt", "save", "synth", "cache", "train glas"):
        yield f"several: {name}", lambda name=name: _several(bench, name)
    yield "loads during saves", lambda: _readers(bench)
    for name in method_names():
        yield f"{THREADS} threads: {name}", lambda name=name: _threads(bench, name)


def _several(bench: Bench, name: str) -> Found:
    """Run a command several times at once; all but those that are refused have to succeed."""
    attack, wrong = bench.attack(name), []
    times = max(1, bench.times // 5)
    for _ in range(times):
        folder = attack._fresh()
        children = [bench.nursery.start(attack.operation.arguments, folder) for _ in range(3)]
        ended = [child.wait() for child in children]
        wrong += [done.err[-500:] for done in ended if "Traceback" in done.err or _failed(done)]
        if not any(done.code == 0 for done in ended):
            wrong.append(f"{name}: all were refused")
        found = attack.operation.outcome(folder)
        if attack.operation.data not in ("", *found) or (
            not attack.operation.data and found != attack.reference.new
        ):
            wrong.append(f"{name}: other outputs")
        if listing(folder) != attack.reference.after:
            wrong.append(f"{name}: {sorted(listing(folder) ^ attack.reference.after)}")
        shutil.rmtree(folder)
    return times, wrong


def _failed(done: Done) -> bool:
    """Return whether a command failed, other than by being refused beside another one."""
    refused = "in progress" in done.err or "holds an unfinished run" in done.err
    return done.code != 0 and not refused


def _readers(bench: Bench) -> Found:
    folder = Path(tempfile.mkdtemp(dir=bench.scratch)) / "work"
    shutil.copytree(bench.template, folder)
    shutil.copytree(folder / "model", folder / "first")
    known = {model_digest(folder / name) for name in ("first", "other")}
    saves = str(20 * bench.times)
    saver = bench.nursery.start([":save_in_turn", "first", "other", "model", saves], folder)
    wrong, count = [], 0
    while _runs(saver.pid):
        try:
            if model_digest(folder / "model") not in known:
                wrong.append("a mixture of two models")
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")
        count += 1
    done = saver.wait()
    return count, [*wrong, *([done.err] if done.code else [])]


def _runs(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "zombie" not in status.read_text()


def _threads(bench: Bench, name: str) -> Found:
    """Predict in eight threads that share a model; all answers are those of one thread."""
    X, Y = planted()
    model = method_class(name)(**SMALL.get(name, {})).fit(X, Y)
    expected = [model.predict(X[row : row + 2], 5) for row in range(100)]
    times = 5 * bench.times

    def work(seed: int) -> int:
        rows = np.random.default_rng(seed).integers(100, size=times).tolist()
        found = ((row, model.predict(X[row : row + 2], 5)) for row in rows)
        return sum(
            not (
                np.array_equal(ranking.labels, expected[row].labels)
                and np.array_equal(ranking.scores, expected[row].scores)
            )
            for row, ranking in found
        )

    with ThreadPoolExecutor(THREADS) as pool:
        others = sum(pool.map(work, range(THREADS)))
    return THREADS * times, [f"{others} other answers"] if others else []


PARTS = {
    "kills": kills,
    "disks": disks,
    "numerics": numerics,
    "determinism": determinism,
    "concurrency": concurrency,
}


def attack(bench: Bench, parts: Sequence[str], only: str, again: bool) -> list[str]:
    """Try everything, store a row for each, and return what was wrong."""
    commit = provenance().get("commit")
    tried = {
        (row["part"], row["what"])
        for row in kept("attack")
        if row.get("commit") == commit and row["tried"] >= min(bench.times, row["wanted"])
    }
    wrong: list[str] = []
    for part in parts:
        for what, run in PARTS[part](bench):
            if not any(name in what for name in only.split(",")) or (
                (part, what) in tried and not again
            ):
                continue
            start = time.monotonic()
            count, found = run()
            wrong += found
            for each in found[:5]:
                print(f"  {each}", flush=True)
            row = {"part": part, "what": what, "tried": count, "wrong": len(found)}
            more = {"seconds": time.monotonic() - start, "wanted": bench.times}
            keep("attack", [{**row, **more}], ("part", "what"))
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--only", default="")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        template = scratch / "template"
        template.mkdir()
        prepare(template)
        with Nursery(scratch / "nursery") as nursery:
            bench = Bench(nursery, template, scratch, given.times, given.seed)
            wrong = attack(bench, given.parts.split(","), given.only, given.again)
    sys.exit(f"{len(wrong)} findings" if wrong else 0)


if __name__ == "__main__":
    main()
