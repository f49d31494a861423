"""Fusion: what each member is worth, what a time budget buys, and what other features do.

    python benchmarks/fusion.py ablation FOLDER... [--rows N] [--seeds 1,3,5]
    python benchmarks/fusion.py budget FOLDER... [--times 1,2,4]
    python benchmarks/fusion.py features FOLDER... --features tfidf+sentences:DIR

`ablation` trains every member that suits the set once a seed, learns a combination of each subset
on the same held-out examples and measures all on the test file. Unlike `fusion` itself it does not
train members again on what was held out. `budget` trains fusion within so many times what omikuji's
three trees take in the same run. `features` trains it on other features of the texts; peers have
tf-idf, as in the overview. All write benchmarks/results/fusion-*.json and .md.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from kept import keep
from labelspace.data import read_split
from labelspace.evaluation.compare import compare, entrants
from labelspace.evaluation.metrics import evaluate
from labelspace.evaluation.peers import make_peer
from labelspace.evaluation.reliability import reliability
from labelspace.features.pipeline import pipeline_for
from labelspace.methods.base import Shape, as_csr
from labelspace.methods.fusion import Fusion
from labelspace.methods.fusion_combiner import Combiner
from labelspace.methods.fusion_members import Step, steps
from labelspace.methods.ranking import Ranking
from labelspace.methods.registry import method_class
from labelspace.methods.validation import cut_apart

METRICS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
LISTED = 30
Said = tuple[Ranking, Ranking]  # of the held-out examples, of the test examples


def matrices(folder: Path, rows: int | None = None) -> tuple[Any, Any, Any, Any]:
    train, test = read_split(folder)
    if rows is not None and rows < len(train):
        train = train.take(np.sort(np.random.default_rng(0).permutation(len(train))[:rows]))
    pipeline = pipeline_for(train, "tfidf")
    X, X_test = as_csr(pipeline.fit_transform(train)), as_csr(pipeline.transform(test))
    return X, train.labels, X_test, test.labels


def ablation(folder: Path, rows: int | None, seeds: list[int]) -> None:
    X, Y, X_test, Y_test = matrices(folder, rows)
    kept_rows, cut = cut_apart(X, min(0.1, 4000 / X.shape[0]), 0)
    train, held = (X[kept_rows], Y[kept_rows]), (X[cut], Y[cut])
    plan = steps("auto", Shape.of(*train), None)
    said: dict[tuple[str, int], Said] = {}

    def ask(step: Step, seed: int) -> Said:
        model = method_class(step.name)(**{**step.settings, "seed": seed})
        model.fit(*train, valid=held)
        k = min(LISTED, Y.shape[1])
        return model.predict(held[0], k), model.predict(X_test, k)

    def row(setting: str, chosen: list[Said]) -> dict[str, Any]:
        combiner = Combiner.fit([one for one, _ in chosen], held[1], train[1])
        ranking = combiner.rank([other for _, other in chosen], 5)
        found = evaluate(ranking, Y_test, Y, bands=False)
        own = {"set": folder.name, "rows": X.shape[0], "setting": setting}
        ece = 100 * reliability(ranking, Y_test, 5).ece
        return {**own, **{name: found[name] for name in METRICS}, "ECE": ece}

    def note(setting: str, chosen: list[Said]) -> None:
        keep("fusion-ablation", [row(setting, chosen)], ("set", "rows", "setting"))

    for seed in range(max(seeds)):
        for step in plan:
            said[step.name, seed] = ask(step, seed)
        if seed == 0:
            one_seed(note, {step.name: said[step.name, 0] for step in plan}, ask)
        if seed + 1 in seeds:
            everybody = [said[step.name, s] for s in range(seed + 1) for step in plan]
            note(f"{seed + 1} seeds" if seed else "all members", everybody)


def one_seed(note: Any, members: dict[str, Said], ask: Any) -> None:
    """Each alone, each left out, and the linear ranker with the other kind of negatives."""
    for name, own in members.items():
        note(f"{name} alone", [own])
        if len(members) > 1:
            note(f"without {name}", [said for other, said in members.items() if other != name])
    for kind in ("all", "hard"):
        changed = {**members, "linear": ask(Step("linear", {"negatives": kind}), 0)}
        note(f"linear with {kind} negatives", list(changed.values()))


def budget(folder: Path, times: list[float]) -> None:
    X, Y, X_test, Y_test = matrices(folder)
    with tempfile.TemporaryDirectory() as scratch:
        peer = make_peer("omikuji", Path(scratch))
        peer.prepare(X, Y)
        start = time.perf_counter()
        peer.fit()
        unit = time.perf_counter() - start
    for factor in times:
        model = Fusion(budget=factor * unit)
        start = time.perf_counter()
        model.fit(X, Y)
        taken = time.perf_counter() - start
        found = evaluate(model.predict(X_test, 5), Y_test, Y, bands=False)
        row = {
            "set": folder.name,
            "times omikuji": factor,
            "omikuji_s": unit,
            "taken_s": taken,
            "members": " ".join(name for name, *_ in model.settings_),
            **{name: found[name] for name in METRICS},
        }
        keep("fusion-budget", [row], ("set", "times omikuji"))


def features(folder: Path, spec: str) -> None:
    train, test = read_split(folder)
    report = compare(train, test, entrants(["fusion"], [], {}), features=spec)
    found = report["entrants"][0]
    kinds = "+".join(part.partition(":")[0] for part in spec.split("+"))
    own = {"set": folder.name, "features": kinds}
    figures = {name: found[name] for name in (*METRICS, "ECE", "train_s", "one_ms_p50")}
    keep("fusion-features", [{**own, **figures}], tuple(own))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("ablation", help="what each member is worth")
    two = commands.add_parser("budget", help="accuracy against time")
    three = commands.add_parser("features", help="other features than tf-idf")
    for command in (one, two, three):
        command.add_argument("folders", nargs="+", type=Path)
    one.add_argument("--rows", type=int, help="training examples at most")
    one.add_argument("--seeds", default="1,3,5")
    two.add_argument("--times", default="1,2,4")
    three.add_argument("--features", required=True, help="as of `labelspace train`")
    options = parser.parse_args()
    for folder in options.folders:
        if options.command == "ablation":
            ablation(folder, options.rows, [int(count) for count in options.seeds.split(",")])
        elif options.command == "features":
            features(folder, options.features)
        else:
            budget(folder, [float(factor) for factor in options.times.split(",")])


if __name__ == "__main__":
    main()
