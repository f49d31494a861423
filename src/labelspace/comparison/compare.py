"""Comparison of methods and other packages: same features, one process per run, one report."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from labelspace._core.arrays import write_arrays
from labelspace._core.machine import total_bytes
from labelspace._core.scratch import scratch_folder
from labelspace._core.sparse import as_csr, checked_labels, pack_csr
from labelspace._core.threads import cores
from labelspace._version import __version__
from labelspace.comparison.elsewhere import run_elsewhere
from labelspace.comparison.finished_runs import FinishedRuns, data_digest, finished_runs
from labelspace.comparison.peers import check_peer_name
from labelspace.comparison.runs import run
from labelspace.comparison.significance import hits_of_text, significance
from labelspace.data.dataset import Dataset
from labelspace.data.stats import statistics
from labelspace.data.taxonomy import joined
from labelspace.engine import Engine, current
from labelspace.errors import LabelspaceError, ParameterError
from labelspace.features.name_matcher import NameMatcher
from labelspace.features.pipeline import FeaturePipeline, TextFeatures, pipeline_for
from labelspace.features.tfidf import Tfidf
from labelspace.labels.levels import Levels
from labelspace.methods.registry import method_class
from labelspace.model.reading import label_text_figures, uses_label_texts, without_label_texts

NO_LABELS = "no-labels"  # after the name of a method that is not to read label texts
METRICS = tuple(f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG") for k in (1, 3, 5))
COSTS = ("train_s", "batch_ms", "one_ms_p50", "one_ms_p99", "model_mb", "peak_mb")


@dataclass(frozen=True)
class Entrant:
    """A system under comparison: a method or a peer, with its parameters.

    Attributes
    ----------
    name : str
        Its name in the report.
    kind : "method" or "peer"
        Whether it belongs to labelspace or is another package.
    params : mapping
        Parameters of the method that are not its defaults.
    method : str
        Name of a registered method, or of a peer. Default: `name`.
    label_texts : bool, default True
        Whether it reads the label texts of the data, if it can.
    """

    name: str
    kind: Literal["method", "peer"]
    params: Mapping[str, Any] = field(default_factory=dict)
    method: str = ""
    label_texts: bool = True

    def __post_init__(self) -> None:
        if not self.method:
            object.__setattr__(self, "method", self.name)

    def reads_label_texts(self, train: Dataset) -> bool:
        """Return whether it is given the label texts of these training data."""
        if self.kind == "peer" or not self.label_texts or train.label_texts is None:
            return False
        return uses_label_texts(train, method_class(self.method).create(**self.params))


def entrants(
    methods: Sequence[str], peers: Sequence[str], settings: Mapping[str, str]
) -> list[Entrant]:
    """Return the systems to compare, with checked parameters.

    Parameters
    ----------
    methods : sequence of str
        Names of methods, or "method:preset" for a method with its parameter `preset` set, or
        "method:no-labels" for one that does not read the label texts.
    peers : sequence of str
        Names of other packages: "omikuji", "omikuji-one-tree", "omikuji-bonsai", "napkinxc",
        "pecos", "sklearn-ovr".
    settings : mapping of str to str
        Parameters of methods as texts, such as {"knn.neighbours": "10"}, by name as in `methods`.

    Returns
    -------
    list of Entrant
        The methods, then the peers.

    Raises
    ------
    ParameterError
        If a name or a value is not valid.

    Examples
    --------
    >>> from labelspace.comparison.compare import entrants
    >>> entrants(["knn"], [], {"knn.neighbours": "10"})
    [Entrant(name='knn', kind='method', params={'neighbours': 10}, method='knn', label_texts=True)]
    """
    chosen: dict[str, dict[str, str]] = {name: {} for name in methods}
    for key, text in settings.items():
        # A preset may have a dot in its name.
        name = max((name for name in chosen if key.startswith(f"{name}.")), key=len, default=None)
        if name is None:
            given = key.partition(".")[0]
            raise ParameterError(f"--set {key}={text}: {given!r} is not among the methods compared")
        chosen[name][key.removeprefix(f"{name}.")] = text
    for name in peers:
        check_peer_name(name)
    ours = [_method(name, texts) for name, texts in chosen.items()]
    return ours + [Entrant(name, "peer") for name in peers]


def _method(name: str, texts: Mapping[str, str]) -> Entrant:
    """Return a method of a name such as "glas" or "glas:paper", with parameters as texts."""
    method, colon, preset = name.partition(":")
    kind = method_class(method)
    if preset == NO_LABELS:
        if not kind.uses_label_texts:
            raise ParameterError(f"{name}: {method} never reads label texts")
        return Entrant(name, "method", kind.parse_parameters(texts), method, label_texts=False)
    if colon:
        if "preset" not in kind.parameters:
            raise ParameterError(f"{name}: {method} has no presets")
        if "preset" in texts:
            raise ParameterError(f"--set {name}.preset={texts['preset']}: its name has the preset")
        texts = {"preset": preset, **texts}
    return Entrant(name, "method", kind.parse_parameters(texts), method)


def compare(
    train: Dataset,
    test: Dataset,
    entrants: Sequence[Entrant],
    *,
    name: str | None = None,
    features: str | None = None,
    repeat: int = 1,
    propensity: tuple[float, float] = (0.55, 1.5),
    propensity_from: Literal["train", "test"] = "train",
    on_start: Callable[[str, int], None] = lambda *_: None,
    on_result: Callable[[dict[str, Any]], None] = lambda _: None,
    state: Path | None = None,
    resume: bool = False,
) -> dict[str, Any]:
    """Train and test each system in its own process and return a report.

    On a cluster (`labelspace.engine.use`) each run has a node for itself.

    Parameters
    ----------
    train, test : Dataset
        Training and test data, as `labelspace.read_split` returns them. Label texts of the training
        data are for methods that use them; other methods and peers get neither the texts nor the
        labels that only the texts have.
    entrants : sequence of Entrant
        The systems to compare.
    name : str, optional
        Name of the data set, for the report.
    features : str, optional
        Text features of all systems. Default: chosen by each method, and tf-idf for peers.
    repeat : int, default 1
        Number of runs per system, with seeds 0, 1, ...
    propensity : (float, float), default (0.55, 1.5)
        The constants A and B of the propensity model for PSP.
    propensity_from : "train" or "test", default "train"
        Which label frequencies PSP uses.
    on_start : callable, optional
        Called with the name of a system and the seed before a run begins.
    on_result : callable, optional
        Called with the result of each system; it has a key "error" if the system failed.
    state : Path, optional
        File that keeps finished runs of a comparison that is stopped. The caller removes it once
        the report is written.
    resume : bool, default False
        Use the runs in `state`, which must be of the same data and settings.

    Returns
    -------
    dict
        "data", "settings", "machine", "date", "entrants": metrics in percent, times, model size
        and peak memory of each system, with label texts also whether it read them
        ("label_texts"), and, for two or more systems, "significance": the tests of their
        differences.

    Examples
    --------
    >>> import labelspace as ls
    >>> from labelspace.comparison.compare import compare, entrants
    >>> rows = [
    ...     {"text": "ripe apple", "labels": ["fruit"]},
    ...     {"text": "steel hammer", "labels": ["tool"]},
    ... ]
    >>> data = ls.read(rows * 6)
    >>> report = compare(data, data, entrants(["most-common"], [], {}))
    >>> report["entrants"][0]["P@1"]
    50.0
    """
    texts = train.label_texts
    settings = {
        "features": features,
        "propensity": list(propensity),
        "propensity_from": propensity_from,
    }
    report: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": {
            **({} if name is None else {"name": name}),
            **statistics(without_label_texts(train)),
            "test_points": len(test),
            **({} if texts is None else {"label_texts": label_text_figures(texts)}),
        },
        "settings": {**settings, "seeds": list(range(repeat))},
        "machine": machine(),
        "entrants": [],
    }
    compared = {
        "data": None if state is None else data_digest(train, test),
        **settings,
        "version of labelspace": __version__,
    }
    with (
        finished_runs(
            state,
            compared,
            (*METRICS, *COSTS),
            resume=resume,
            check=lambda figures: hits_of_text(figures["hits"], len(test)),
        ) as finished,
        scratch_folder("compare") as scratch,
    ):
        files = DataFiles(scratch, train, test)
        hits: dict[int, list[str]] = {}
        engine = current()
        failed: dict[tuple[int, int], Exception] = {}
        if engine.shards > 1:
            failed = _run_by(engine, files, entrants, repeat, settings, finished, on_start)
        for place, entrant in enumerate(entrants):
            runs: list[dict[str, Any]] = []
            try:
                for seed in range(repeat):
                    wanted = {**asdict(entrant), "seed": seed}
                    figures = finished.find(wanted)
                    if (place, seed) in failed:
                        raise failed[place, seed]
                    if figures is None:
                        on_start(entrant.name, seed)
                        figures = run(files.job(entrant, seed, settings), scratch)
                        finished.add(wanted, figures)
                    runs.append(figures)
                    report["machine"]["versions"] |= figures.get("versions", {})
                result = _summary(entrant, runs)
                if texts is not None:
                    result["label_texts"] = entrant.reads_label_texts(train)
                hits[place] = [figures["hits"] for figures in runs]
            except Exception as error:  # one that fails does not cost the results of the others
                result = _failure(entrant, error, runs)
            if report["data"]["features"] is None and runs:  # texts: those of the first system
                report["data"]["features"] = runs[0].get("features")
            report["entrants"].append(result)
            on_result(result)
    if len(hits) > 1:
        n_true = np.diff(checked_labels(test.labels, len(test)).indptr)
        report["significance"] = significance(hits, [each.name for each in entrants], n_true)
    return report


def _run_by(
    engine: Engine,
    files: DataFiles,
    entrants: Sequence[Entrant],
    repeat: int,
    settings: Mapping[str, Any],
    finished: FinishedRuns,
    on_start: Callable[[str, int], None],
) -> dict[tuple[int, int], Exception]:
    """Run all that is not finished by an engine; return the errors by system and seed."""
    failed: dict[tuple[int, int], Exception] = {}
    places, jobs = [], []
    for place, entrant in enumerate(entrants):
        for seed in range(repeat):
            if finished.find({**asdict(entrant), "seed": seed}) is None:
                try:
                    jobs.append(files.job(entrant, seed, settings))
                except Exception as error:  # as in `compare`
                    failed[place, seed] = error
                    continue
                places.append((place, seed))
                on_start(entrant.name, seed)

    def keep(number: int, figures: dict[str, Any]) -> None:
        place, seed = places[number]
        if "error" in figures:
            failed[place, seed] = LabelspaceError(figures["error"])
        else:
            finished.add({**asdict(entrants[place]), "seed": seed}, figures)

    run_elsewhere(engine, jobs, keep)
    return failed


def data_set_name(train: Path) -> str:
    """Return the name of a data set: its folder's, or that of a file which is not just train.*."""
    place = train.resolve()
    own = place.name.partition(".")[0]
    return place.name if place.is_dir() else place.parent.name if own == "train" else own


def raise_if_failed(result: Mapping[str, Any]) -> None:
    """Raise the error of a system; as `on_result` it ends a comparison at the first failure."""
    if "error" in result:
        raise LabelspaceError(f"{result['name']}: {result['error']}")


class DataFiles:
    """The data as files that the processes read, one per kind of features, written when needed."""

    def __init__(self, folder: Path, train: Dataset, test: Dataset) -> None:
        self.folder, self.train, self.test = folder, train, test
        self.plain = without_label_texts(train)
        self.written: dict[tuple[str, bool, bool], Path] = {}

    def job(self, entrant: Entrant, seed: int, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the job of a run, for `comparison.runs.run`.

        The settings are "features", which may be None, "propensity" and "propensity_from".
        """
        params, features = dict(entrant.params), settings["features"]
        if entrant.kind == "method":
            params.setdefault("seed", seed)
        if features is None:
            features = _own_features(entrant, self.train)
        with_texts = entrant.reads_label_texts(self.train)
        matched = with_texts and method_class(entrant.method).takes_name_matches
        return {
            "method": entrant.method,
            "kind": entrant.kind,
            "params": params,
            "seed": seed,
            "data": str(self._of(features, with_texts, matched)),
            "label_texts": with_texts,
            "k": 5,
            "propensity": settings["propensity"],
            "propensity_from": settings["propensity_from"],
        }

    def _of(self, features: str | TextFeatures, with_texts: bool, matched: bool) -> Path:
        """Return the file with these features, with label texts and with match columns."""
        name = repr(features), with_texts, matched
        if name not in self.written:
            path = self.folder / f"data-{len(self.written)}.safetensors"
            train = self.train if with_texts else self.plain
            pipeline = pipeline_for(train, features)
            if matched and train.label_texts is not None:
                pipeline.matcher = NameMatcher.of(train.label_texts)
            _write_data(path, train, self.test, pipeline)
            self.written[name] = path
        return self.written[name]


def _own_features(entrant: Entrant, train: Dataset) -> TextFeatures:
    """Return the text features of a system; without texts, they do not matter."""
    if entrant.kind == "peer" or train.texts is None:
        return Tfidf()
    return method_class(entrant.method).create(**entrant.params).text_features()


def _write_data(path: Path, train: Dataset, test: Dataset, pipeline: FeaturePipeline) -> None:
    """Write all that a process reads as one file."""
    matrices = {
        "X_train": as_csr(pipeline.fit_transform(train)),
        "Y_train": train.labels,
        "X_test": as_csr(pipeline.transform(test)),
        "Y_test": test.labels,
    }
    texts = pipeline.label_texts(train)
    if texts is not None:
        matrices["label_texts"] = texts
    written = pipeline.label_names(train)
    if written is not None:
        matrices["label_names"] = written
    arrays = {k: v for name, m in matrices.items() for k, v in pack_csr(name, m).items()}
    if train.taxonomy is not None:
        arrays["taxonomy.edges"] = train.taxonomy.edges
        names = json.dumps(train.taxonomy.node_names).encode()
        arrays["taxonomy.names"] = np.frombuffer(names, np.uint8)
    levels = _levels(train, test)
    if levels is not None:
        arrays |= {"levels.of": levels.of, **pack_csr("levels.edges", levels.edges)}
    write_arrays(path, arrays, None if levels is None else _level_metadata(levels, train))


def _levels(train: Dataset, test: Dataset) -> Levels | None:
    """Return the levels of the test labels, which begin with the training labels, if any."""
    taxonomy = joined([train.taxonomy, test.taxonomy], test.names())
    return None if taxonomy is None else Levels.build(taxonomy, test.names())


def _level_metadata(levels: Levels, train: Dataset) -> dict[str, str]:
    """Return what a process needs of the levels beside their arrays."""
    metadata = {
        "names": levels.names,
        "depth": levels.depth,
        "single_path": levels.one_label_each(train.labels),
    }
    return {"levels": json.dumps(metadata)}


def machine() -> dict[str, Any]:
    """Return the processor, memory and versions that the figures were measured with."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for package in ("labelspace", "numpy", "scipy", "scikit-learn", "torch", "omikuji", "napkinxc"):
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


def _summary(entrant: Entrant, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over the runs; with several, also their sample deviation and each run."""
    flat = [key for key in (*METRICS, *COSTS, "ECE") if key in runs[0]]
    nested = [key for key in ("bands", "by_level") if key in runs[0]]
    result: dict[str, Any] = {
        "name": entrant.name,
        "kind": entrant.kind,
        "method": entrant.method,
        "params": runs[0]["params"],
        **{key: over_runs([run[key] for run in runs], np.mean) for key in (*flat, *nested)},
    }
    if len(runs) > 1:
        result["std"] = {
            key: over_runs([_without_counts(run[key]) for run in runs], _sample_deviation)
            for key in (*flat, *nested)
        }
        result["runs"] = [
            {"seed": seed, **{key: run[key] for key in flat}} for seed, run in enumerate(runs)
        ]
    return result


def _failure(entrant: Entrant, error: Exception, finished: list[dict[str, Any]]) -> dict[str, Any]:
    kind = "" if isinstance(error, LabelspaceError) else f"{type(error).__name__}: "
    after = f"seed {len(finished)}: " if finished else ""
    return {
        "name": entrant.name,
        "kind": entrant.kind,
        "method": entrant.method,
        "params": dict(entrant.params),
        "error": f"{after}{kind}{error}",
    }


def over_runs(values: Sequence[Any], combine: Callable[[Any], Any]) -> Any:
    """Combine figures of several runs, nested or not; None where one is missing.

    Whole numbers and texts are counts and names, the same in every run: the first is taken.
    """
    first = values[0]
    if isinstance(first, Mapping):
        return {name: over_runs([value.get(name) for value in values], combine) for name in first}
    if any(value is None for value in values):
        return None
    return float(combine(values)) if isinstance(first, float) else first


def _without_counts(figures: Any) -> Any:
    """Return figures without the whole numbers and texts, which do not vary between runs."""
    if not isinstance(figures, Mapping):
        return figures
    return {
        name: _without_counts(value)
        for name, value in figures.items()
        if not isinstance(value, int | str)
    }


def _sample_deviation(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1))
