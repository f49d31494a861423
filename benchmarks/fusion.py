"""Fusion: what each member is worth, what a time budget buys, and what other features do.

    python benchmarks/fusion.py ablation FOLDER... [--rows N] [--seeds 1,3,5]
    python benchmarks/fusion.py budget FOLDER... [--times 1,2,4]
    python benchmarks/fusion.py features FOLDER... --features tfidf+sentences:DIR

`ablation` trains every member that suits the set once a seed, learns a combination of each subset
on the same held-out examples and measures all on the test file; the linear classifiers are also
trained against negatives drawn at random, 100 labels for each example. Unlike `fusion` itself it
does not train members again on what was held out. `budget` trains fusion within so many times what
omikuji's three trees take in the same run. `features` trains it on other features of the texts;
peers have tf-idf, as in the overview. All write benchmarks/results/fusion-*.json and .md.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from kept import keep
from labelspace._core.sparse import as_csr
from labelspace.classifiers.one_vs_rest import LinearRanker, candidate_matrix
from labelspace.comparison.compare import compare, entrants, raise_if_failed
from labelspace.comparison.peers import make_peer
from labelspace.components.near_duplicates import cut_by_group, group_sizes
from labelspace.components.stacking import Combiner
from labelspace.components.training_data import Shape
from labelspace.data import read_split
from labelspace.features.pipeline import pipeline_for
from labelspace.methods.base import Method
from labelspace.methods.fusion.method import Fusion
from labelspace.methods.fusion.plan import Step, steps
from labelspace.methods.registry import method_class
from labelspace.metrics.ranking import evaluate
from labelspace.metrics.reliability import reliability

METRICS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
Member = tuple[Method, bool]  # and whether it judges what others find


def matrices(folder: Path, rows: int | None = None) -> tuple[Any, Any, Any, Any]:
    train, test = read_split(folder)
    if rows is not None and rows < len(train):
        train = train.take(np.sort(np.random.default_rng(0).permutation(len(train))[:rows]))
    pipeline = pipeline_for(train, "tfidf")
    X, X_test = as_csr(pipeline.fit_transform(train)), as_csr(pipeline.transform(test))
    return X, train.labels, X_test, test.labels


def ablation(folder: Path, rows: int | None, seeds: list[int]) -> None:
    X, Y, X_test, Y_test = matrices(folder, rows)
    kept_rows, cut = cut_by_group(X, min(X.shape[0] // 10, 4000), 0)
    train, held = (X[kept_rows], Y[kept_rows]), (X[cut], Y[cut])
    plan = steps("auto", Shape.of(*train))

    def taught(step: Step, seed: int) -> Member:
        model = method_class(step.name)(**{**step.settings, "seed": seed})
        return model.fit(*train, valid=held), step.can_rerank

    def note(setting: str, chosen: list[Member]) -> None:
        """Learn a combination of these on the examples held out, and measure it on the others."""
        fusion = Fusion(members="")
        fusion.members_ = [model for model, _ in chosen]
        # Who judges needs somebody who finds; alone it finds labels itself.
        finds = not all(can_rerank for _, can_rerank in chosen)
        fusion.settings_ = [(model.name, {}, can_rerank and finds) for model, can_rerank in chosen]
        said = fusion._rankings(held[0])
        fusion.combiner_ = Combiner.fit(said, held[1], train[1], 1.0 / group_sizes(held[0]))
        ranking = fusion._predict(X_test, 5)
        found = evaluate(ranking, Y_test, Y, bands=False)
        ece = 100 * reliability(ranking, Y_test, 5).ece
        own = {"set": folder.name, "rows": X.shape[0], "setting": setting}
        figures = {**{name: found[name] for name in METRICS}, "ECE": ece}
        keep("fusion-ablation", [{**own, **figures}], ("set", "rows", "setting"))

    everybody: list[Member] = []
    for seed in range(max(seeds)):
        everybody += [taught(step, seed) for step in plan]
        if seed == 0:
            one_seed(note, everybody, train, held)
        if seed + 1 in seeds:
            finders_first = sorted(everybody, key=lambda member: member[1])
            note(f"{seed + 1} seeds" if seed else "all members", finders_first)


def one_seed(note: Any, members: list[Member], train: Any, held: Any) -> None:
    """Each alone, each left out, and the linear classifiers with other negatives."""
    for place, member in enumerate(members):
        note(f"{member[0].name} alone", [member])
        if len(members) > 1:
            note(f"without {member[0].name}", [*members[:place], *members[place + 1 :]])
    others = [member for member in members if member[0].name != "linear"]
    linear, can_rerank = next(member for member in members if member[0].name == "linear")
    kind = linear.metadata()["negatives"]
    note(f"linear against {kind}", [*others, (linear, can_rerank)])
    changed = copy.copy(linear)
    drawn = np.random.default_rng(0).integers(0, train[1].shape[1], (train[0].shape[0], 100))
    C = {"all": 0.5, "hard": 1.0}[kind]
    changed.ranker_ = LinearRanker.fit(*train, candidate_matrix(drawn, train[1].shape[1]), C=C)
    changed._calibrate(*held, train[1])
    note("linear against negatives at random", [*others, (changed, can_rerank)])


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
    field = entrants(["fusion"], [], {})
    report = compare(train, test, field, features=spec, on_result=raise_if_failed)
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
