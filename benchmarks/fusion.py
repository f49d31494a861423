"""Fusion: ablation of its members, accuracy by training time, and other features than tf-idf.

    python benchmarks/fusion.py ablation FOLDER... [--rows N] [--seeds 1,3,5]
    python benchmarks/fusion.py budget FOLDER... [--times 1,2,4]
    python benchmarks/fusion.py features FOLDER... --features tfidf+sentences:DIR

`ablation` fits every member that `auto` chooses, once per seed, fits a combination of each subset
on the same held-out examples and evaluates all on the test file. The linear classifiers are also
fitted against random negatives, 100 labels per example. Unlike `fusion` itself, it does not refit
members on the held-out examples. `budget` fits fusion with a time limit of so many times the
training time of omikuji's three trees in the same run. `features` fits it on other features of the
texts; peers have tf-idf, as in the overview. All write benchmarks/results/fusion-*.json and .md.
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
from labelspace.components.stacking import Combiner, listed_by_any
from labelspace.components.training_data import Shape
from labelspace.data import read_split
from labelspace.features.pipeline import pipeline_for
from labelspace.methods.base import Method
from labelspace.methods.fusion.method import Fusion
from labelspace.methods.fusion.plan import Member, plan_members
from labelspace.methods.registry import method_class
from labelspace.metrics.ranking import evaluate
from labelspace.metrics.reliability import reliability
from labelspace.ranking import Ranking

SHORTLIST = 20  # candidates per member, as in `fusion`
METRICS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
Fitted = tuple[Method, bool]  # and whether it only reranks


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
    plan = plan_members("auto", Shape.of(*train))

    def fitted(member: Member, seed: int) -> Fitted:
        model = method_class(member.method)(**{**member.parameters, "seed": seed})
        return model.fit(*train, valid=held), member.reranks

    def record(setting: str, chosen: list[Fitted]) -> None:
        """Fit a combination of these on the held-out examples, and evaluate it on the test file."""
        # A member cannot rerank alone: it then finds candidates itself.
        some_find = not all(reranks for _, reranks in chosen)

        def rankings(X: Any) -> list[Ranking]:
            found: list[Ranking] = []
            for model, reranks in chosen:
                if reranks and some_find:
                    found.append(model.rerank(X, listed_by_any(found)))
                else:
                    found.append(model.rank(X, min(SHORTLIST, model.n_labels_)))
            return found

        weights = 1.0 / group_sizes(held[0])
        combiner = Combiner.fit(rankings(held[0]), held[1], train[1], weights)
        ranking = combiner.rank(rankings(X_test), 5)
        found = evaluate(ranking, Y_test, Y, bands=False)
        ece = 100 * reliability(ranking, Y_test, 5).ece
        own = {"set": folder.name, "rows": X.shape[0], "setting": setting}
        figures = {**{name: found[name] for name in METRICS}, "ECE": ece}
        keep("fusion-ablation", [{**own, **figures}], ("set", "rows", "setting"))

    members: list[Fitted] = []
    for seed in range(max(seeds)):
        members += [fitted(member, seed) for member in plan]
        if seed == 0:
            one_seed(record, members, train, held)
        if seed + 1 in seeds:
            reranking_last = sorted(members, key=lambda member: member[1])
            record(f"{seed + 1} seeds" if seed else "all members", reranking_last)


def one_seed(record: Any, members: list[Fitted], train: Any, held: Any) -> None:
    """Record each member alone, all others, and the linear classifiers with other negatives."""
    for place, member in enumerate(members):
        record(f"{member[0].name} alone", [member])
        if len(members) > 1:
            record(f"without {member[0].name}", [*members[:place], *members[place + 1 :]])
    others = [member for member in members if member[0].name != "linear"]
    linear, reranks = next(member for member in members if member[0].name == "linear")
    kind = linear.metadata()["negatives"]
    record(f"linear against {kind}", [*others, (linear, reranks)])
    changed = copy.copy(linear)
    drawn = np.random.default_rng(0).integers(0, train[1].shape[1], (train[0].shape[0], 100))
    C = {"all": 0.5, "hard": 1.0}[kind]
    changed.ranker_ = LinearRanker.fit(*train, candidate_matrix(drawn, train[1].shape[1]), C=C)
    changed._calibrate(*held, train[1])
    record("linear against negatives at random", [*others, (changed, reranks)])


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
            "members": " ".join(member.method for member in model.plan_),
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
    one = commands.add_parser("ablation", help="each member alone and left out")
    two = commands.add_parser("budget", help="accuracy against time")
    three = commands.add_parser("features", help="other features than tf-idf")
    for command in (one, two, three):
        command.add_argument("folders", nargs="+", type=Path)
    one.add_argument("--rows", type=int, help="most training examples to use")
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
