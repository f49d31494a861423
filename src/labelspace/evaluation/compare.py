"""Methods and peers side by side: the same features, one process each, in turn, one report."""

from __future__ import annotations

import json
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from labelspace.arrays import write_arrays
from labelspace.data.dataset import Dataset
from labelspace.data.levels import Levels
from labelspace.data.stats import statistics
from labelspace.data.taxonomy import joined
from labelspace.errors import LabelspaceError
from labelspace.evaluation.peers import check_peer_name
from labelspace.features.pipeline import FeaturePipeline, TextFeatures, pipeline_for
from labelspace.features.tfidf import Tfidf
from labelspace.memory import total_bytes
from labelspace.methods.base import as_csr
from labelspace.methods.registry import method_class
from labelspace.parallel import cores
from labelspace.sparse import pack_csr

METRICS = tuple(f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG") for k in (1, 3, 5))
COSTS = ("train_s", "batch_ms", "one_ms_p50", "one_ms_p99", "model_mb", "peak_mb")


@dataclass(frozen=True)
class Entrant:
    """A method or a peer, with its parameters."""

    name: str
    kind: Literal["method", "peer"]
    params: Mapping[str, Any] = field(default_factory=dict)


def entrants(
    methods: Sequence[str], peers: Sequence[str], settings: Mapping[str, str]
) -> list[Entrant]:
    """Entrants by name; settings are texts such as {"knn.neighbours": "10"}, checked here."""
    chosen: dict[str, dict[str, str]] = {name: {} for name in methods}
    for key, text in settings.items():
        name, _, parameter = key.partition(".")
        if name not in chosen:
            raise LabelspaceError(f"--set {key}={text}: {name!r} is not among the methods compared")
        chosen[name][parameter] = text
    for name in peers:
        check_peer_name(name)
    ours = [
        Entrant(name, "method", method_class(name).parse_parameters(texts))
        for name, texts in chosen.items()
    ]
    return ours + [Entrant(name, "peer") for name in peers]


def compare(
    train: Dataset,
    test: Dataset,
    field_of: Sequence[Entrant],
    *,
    features: str | None = None,
    repeat: int = 1,
    propensity: tuple[float, float] = (0.55, 1.5),
    propensity_from: Literal["train", "test"] = "train",
    on_result: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Run each entrant `repeat` times (seeds 0, 1, ...) and report; metrics in percent.

    features  how texts become rows, for all; None is each method's own way, and tf-idf for peers
    """
    report: dict[str, Any] = {
        "data": {**statistics(train), "test_points": len(test)},
        "machine": machine(),
        "entrants": [],
    }
    with tempfile.TemporaryDirectory(prefix="labelspace-compare-") as scratch:
        written: dict[str, Path] = {}
        for entrant in field_of:
            chosen = _own_features(entrant, train) if features is None else features
            if repr(chosen) not in written:
                place = Path(scratch) / f"data-{len(written)}.safetensors"
                width = _write_data(place, train, test, pipeline_for(train, chosen))
                if report["data"]["features"] is None:  # texts: those of the first entrant
                    report["data"]["features"] = width
                written[repr(chosen)] = place
            data = written[repr(chosen)]
            runs = [
                _run(entrant, seed, data, propensity, propensity_from) for seed in range(repeat)
            ]
            result = _summary(entrant, runs)
            report["entrants"].append(result)
            on_result(result)
    return report


def _own_features(entrant: Entrant, train: Dataset) -> TextFeatures:
    """How the entrant reads texts; where there are none, it is all the same."""
    if entrant.kind == "peer" or train.texts is None:
        return Tfidf()
    return method_class(entrant.name).create(**entrant.params).text_features()


def _write_data(path: Path, train: Dataset, test: Dataset, pipeline: FeaturePipeline) -> int:
    """All that an entrant reads, as one file; returns the number of features."""
    X_train = as_csr(pipeline.fit_transform(train))
    matrices = {
        "X_train": X_train,
        "Y_train": train.labels,
        "X_test": as_csr(pipeline.transform(test)),
        "Y_test": test.labels,
    }
    names = pipeline.label_names(train)
    if names is not None:
        matrices["label_names"] = names
    arrays = {k: v for name, m in matrices.items() for k, v in pack_csr(name, m).items()}
    if train.taxonomy is not None:
        arrays["taxonomy.edges"] = train.taxonomy.edges
        arrays["taxonomy.nodes"] = np.array(len(train.taxonomy))
    levels = _levels(train, test)
    if levels is not None:
        arrays |= {"levels.of": levels.of, **pack_csr("levels.edges", levels.edges)}
    write_arrays(path, arrays, None if levels is None else _level_facts(levels, train))
    return int(X_train.shape[1])


def _levels(train: Dataset, test: Dataset) -> Levels | None:
    """Those of the test labels, the training labels first among them; None without a taxonomy."""
    taxonomy = joined([train.taxonomy, test.taxonomy], test.names())
    return None if taxonomy is None else Levels.build(taxonomy, test.names())


def _level_facts(levels: Levels, train: Dataset) -> dict[str, str]:
    """What an entrant must know of the levels beside their arrays."""
    facts = {
        "names": levels.names,
        "depth": levels.depth,
        "single_path": levels.one_label_each(train.labels),
    }
    return {"levels": json.dumps(facts)}


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for package in ("labelspace", "numpy", "scipy", "torch", "omikuji", "napkinxc"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "cores": cores(),
        "memory_gb": round(total_bytes() / 1e9, 1),
        "processor": _processor(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _run(
    entrant: Entrant,
    seed: int,
    data: Path,
    propensity: tuple[float, float],
    propensity_from: str,
) -> dict[str, Any]:
    params = dict(entrant.params)
    if entrant.kind == "method":
        params.setdefault("seed", seed)
    job = {
        "name": entrant.name,
        "kind": entrant.kind,
        "params": params,
        "data": str(data),
        "k": 5,
        "propensity": propensity,
        "propensity_from": propensity_from,
    }
    with tempfile.TemporaryDirectory(dir=data.parent) as room:
        (Path(room) / "job.json").write_text(json.dumps(job), encoding="utf-8")
        _in_own_process(entrant.name, Path(room))
        result: dict[str, Any] = json.loads((Path(room) / "result.json").read_text("utf-8"))
    if "error" in result:
        raise LabelspaceError(f"{entrant.name}: {result['error']}")
    return result


def _in_own_process(name: str, room: Path) -> None:
    command = [sys.executable, "-m", "labelspace.evaluation.entrant", str(room)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode == -signal.SIGINT:
        raise KeyboardInterrupt
    if ended.returncode != 0 or not (room / "result.json").exists():
        said = (ended.stderr or ended.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        cause = (
            f"was ended by signal {-ended.returncode} (out of memory?)"
            if ended.returncode < 0
            else f"failed with exit code {ended.returncode}"
        )
        raise LabelspaceError(f"{name} {cause}: {said[0]}")


def _summary(entrant: Entrant, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the runs; with several, the spread of the metrics and each run beside them."""
    result: dict[str, Any] = {
        "name": entrant.name,
        "kind": entrant.kind,
        "params": runs[0]["params"],
    }
    for key in (*METRICS, *COSTS):
        result[key] = float(np.mean([run[key] for run in runs]))
    if all("ECE" in run for run in runs):
        result["ECE"] = float(np.mean([run["ECE"] for run in runs]))
    result["bands"] = runs[0].get("bands", {})
    if "by_level" in runs[0]:
        result["by_level"] = runs[0]["by_level"]
    if len(runs) > 1:
        result["spread"] = {key: float(np.std([run[key] for run in runs])) for key in METRICS}
        result["runs"] = [{key: run[key] for key in (*METRICS, *COSTS)} for run in runs]
    return result
