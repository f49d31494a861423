"""One run of a comparison in its own process: train, save, predict, measure.

Run as `python -m labelspace.comparison.entrant DIRECTORY`, which has `job.json`; the figures are
written there as `result.json`, and the hits of each test example as `hits.safetensors`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import read_arrays, write_arrays
from labelspace._core.peak import peak_bytes
from labelspace._core.sparse import checked_features, unpack_csr
from labelspace.comparison.runs import HITS_FILE
from labelspace.comparison.timing import end_with_input, timed
from labelspace.data.taxonomy import Taxonomy
from labelspace.engine.lifetime import end_with_parent
from labelspace.errors import LabelspaceError
from labelspace.labels.levels import Levels
from labelspace.metrics.levels import RANKED, evaluate_levels
from labelspace.metrics.packed_hits import packed_hits
from labelspace.metrics.ranking import evaluate
from labelspace.metrics.reliability import reliability
from labelspace.model import store
from labelspace.ranking import Ranking


def main(directory: Path) -> None:
    """Run the job and write its result or its error; end early if the calling process does."""
    end_with_parent()
    end_with_input()
    job = json.loads((directory / "job.json").read_text(encoding="utf-8"))
    arrays, metadata = read_arrays(Path(job["data"]))
    try:
        result = measure(job, arrays, metadata, directory)
    except LabelspaceError as error:
        result = {"error": str(error)}
    (directory / "result.json").write_text(json.dumps(result), encoding="utf-8")


def measure(
    job: dict[str, Any], arrays: dict[str, np.ndarray], metadata: dict[str, str], directory: Path
) -> dict[str, Any]:
    """Return accuracy, times, model size and peak memory of the system that the job names.

    The hits of its ranking are written to the directory.
    """
    data = {name: unpack_csr(name, arrays) for name in ("X_train", "Y_train", "X_test", "Y_test")}
    # Single rows are copied arrays; a memory map is another type to compiled loops, and the first
    # batch would wait for their compilation.
    data["X_test"] = data["X_test"].copy()
    if job["kind"] == "peer":
        ranking, ranked, costs = _run_peer(job, data, directory)
    else:
        ranking, ranked, costs = _run_method(job, data, arrays, directory)
    costs.setdefault("peak_mb", peak_bytes() / 1e6)  # peers in other processes have their own
    metrics = evaluate(
        ranking,
        data["Y_test"],
        data["Y_train"],
        propensity=tuple(job["propensity"]),
        propensity_from=job["propensity_from"],
    )
    write_arrays(directory / HITS_FILE, {"hits": packed_hits(ranking, data["Y_test"])})
    if job["kind"] == "method":  # the scores of peers are not meant as probabilities
        metrics["ECE"] = reliability(ranking, data["Y_test"], 5).metadata()["ECE"]
    if "levels" in metadata:
        metrics["by_level"] = _by_level(
            ranked(RANKED), data, arrays, json.loads(metadata["levels"])
        )
    return {**metrics, **costs, "features": data["X_train"].shape[1]}


def _by_level(
    ranking: Ranking,
    data: dict[str, csr_matrix],
    arrays: dict[str, np.ndarray],
    metadata: dict[str, Any],
) -> dict[str, Any]:
    edges = unpack_csr("levels.edges", arrays)
    levels = Levels(tuple(metadata["names"]), arrays["levels.of"], metadata["depth"], edges)
    counts = np.bincount(data["Y_train"].indices, minlength=data["Y_train"].shape[1])
    return evaluate_levels(
        ranking, data["Y_test"], counts, levels, single_path=metadata["single_path"]
    )


def _run_method(
    job: dict[str, Any],
    data: dict[str, csr_matrix],
    arrays: dict[str, np.ndarray],
    directory: Path,
) -> tuple[Ranking, Callable[[int], Ranking], dict[str, Any]]:
    """Return the ranking of the test examples, a function for longer ones, and the costs."""
    from labelspace.features.pipeline import FeaturePipeline
    from labelspace.methods.registry import method_class
    from labelspace.model.tagger import Tagger

    method = method_class(job["method"]).create(**job["params"])
    known: dict[str, Any] = {"taxonomy": _taxonomy(arrays)}
    if method.needs_label_names and "label_names.data" in arrays:
        known["label_names"] = unpack_csr("label_names", arrays)
    if job["label_texts"]:
        texts = unpack_csr("label_texts", arrays)
        known |= {"label_texts": texts} if method.takes_label_texts else {}
        known |= {"name_matches": True} if method.takes_name_matches else {}
    # numba takes a moment to start, in a user's process when files are read. Peers are imported and
    # get their data in their own form before the clock starts, too.
    checked_features(data["X_train"][:1], data["X_train"].shape[1])
    start = time.perf_counter()
    method.fit(data["X_train"], data["Y_train"], **known)
    train_s = time.perf_counter() - start
    names = [str(i) for i in range(data["Y_train"].shape[1])]
    place = directory / "model"
    pipeline = FeaturePipeline(None, n_numeric=data["X_train"].shape[1])
    Tagger(pipeline, method, names).save(place)
    ranking, times = timed(method.predict, data["X_test"], job["k"])
    size = store.size_in_bytes(place) - (place / "labels.json").stat().st_size
    costs = {"params": method.get_params(), "train_s": train_s, "model_mb": size / 1e6, **times}
    return ranking, lambda k: method.predict(data["X_test"], k), costs


def _run_peer(
    job: dict[str, Any], data: dict[str, csr_matrix], directory: Path
) -> tuple[Ranking, Callable[[int], Ranking], dict[str, Any]]:
    from labelspace.comparison.peers import make_peer

    peer = make_peer(job["method"], directory, job["seed"])
    ranking, costs = peer.measure(data["X_train"], data["Y_train"], data["X_test"], job["k"])
    return ranking, peer.rank, {"params": peer.params, **costs}


def _taxonomy(arrays: dict[str, np.ndarray]) -> Taxonomy | None:
    """Return the taxonomy of the training labels, if there is one."""
    if "taxonomy.edges" not in arrays:
        return None
    names = tuple(json.loads(arrays["taxonomy.names"].tobytes()))
    return Taxonomy(names, arrays["taxonomy.edges"], int(arrays["Y_train.shape"][1]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
