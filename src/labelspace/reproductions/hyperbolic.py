"""Experiments of Gerald & Baskiotis 2019: the ball against flat space, and the labels in it."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from labelspace.reproductions.experiment import Experiment, Sample, Split, Trial, on_test

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from labelspace.methods.base import Method
    from labelspace.methods.hyperbolic.method import Hyperbolic
    from labelspace.reproductions.results import Results, Row

PAPER = "Gerald & Baskiotis 2019"
SETS = ("bibtex", "delicious", "wordnet")
# The paper's form, one learner; shorter than its 25 epochs of patience, alike for all sides.
ONE = {"preset": "paper", "ensemble": 1, "n_negatives": 50, "epochs": 50, "patience": 10}
# As many epochs as given, without choosing one of them by validation.
SHAPED = {"preset": "paper", "ensemble": 1, "n_negatives": 50, "validation": 0.0}
FAST_LABELS = {"alpha": 1.0, "lr": 0.0001, "label_lr_ratio": 500.0}

COMPARED_EXAMPLES = 500  # to which the mean distance of labels is computed
DRAWN_LABELS = 500  # in a picture, at most
LEAST = (1, 5, 20)  # examples of the labels whose rank correlations are computed
FREQUENT = 6  # labels in the paper's Table 6


def _samples(quick: bool, rows: int) -> list[Sample]:
    return [Sample(name, 2500, 500) if quick else Sample(name, rows, 3000) for name in SETS]


def _tuned_samples(quick: bool) -> list[Sample]:
    if quick:
        return [Sample("bibtex", 1500, 500)]
    return [Sample(name, 3000 if name == "wordnet" else 4000, 3000) for name in SETS]


# --- Figure 2 and Table 6: where labels are -------------------------------------------------------


def label_shape(model: Method, split: Split) -> dict[str, Any]:
    """Return how the norms of labels and their distances to examples go with frequency.

    "norm 5+" is the Spearman correlation of norm and frequency over labels with five training
    examples or more, "distance 5+" that of the mean distance to training examples. `frequent` has
    the labels with the most examples, `profile` medians by frequency and `points` some labels of a
    plane, for the pictures.
    """
    from scipy.stats import spearmanr

    space = cast("Hyperbolic", model)
    points, counts = space.label_vectors_, np.asarray(split.Y.sum(axis=0)).ravel().astype(int)
    norms, distances = np.linalg.norm(points, axis=1), mean_distances(space)
    found = on_test(model, split)
    for name, values in (("norm", norms), ("distance", distances)):
        for least in LEAST:
            kept = counts >= least
            if kept.sum() > 2:
                found[f"{name} {least}+"] = float(spearmanr(values[kept], counts[kept]).statistic)
    order = np.argsort(-counts, kind="stable")
    found["norm, frequent"] = float(norms[order[:FREQUENT]].mean())
    found["norm, median"] = float(np.median(norms[counts > 0]))
    found["frequent"] = [
        {
            "label": str(split.train.label_names[i]) if split.train.label_names else int(i),
            "norm": float(norms[i]),
            "distance": float(distances[i]),
            "frequency": 100.0 * counts[i] / split.Y.shape[0],
        }
        for i in order[:FREQUENT].tolist()
    ]
    found["profile"] = _profile(counts, norms, distances)
    if points.shape[1] == 2 and space.params_.seed == 0:
        some = order[: int((counts > 0).sum())]
        some = some[:: math.ceil(len(some) / DRAWN_LABELS)]
        found["points"] = [
            [round(float(x), 3), round(float(y), 3), int(n)]
            for (x, y), n in zip(points[some], counts[some], strict=True)
        ]
    return found


def _profile(
    counts: np.ndarray, norms: np.ndarray, distances: np.ndarray
) -> list[dict[str, float]]:
    """Return medians of the labels whose number of examples is between two powers of two."""
    exponents = np.floor(np.log2(np.maximum(counts, 1))).astype(int)
    groups = (np.flatnonzero((exponents == each) & (counts > 0)) for each in np.unique(exponents))
    return [
        {
            name: float(np.median(values[group]))
            for name, values in (("examples", counts), ("norm", norms), ("distance", distances))
        }
        for group in groups
        if len(group)
    ]


def mean_distances(model: Hyperbolic) -> np.ndarray:
    """Return the mean distance of each label to training examples, which no isometry changes."""
    import torch

    space, examples = model.spaces_[0], model.points_[0]
    step = math.ceil(len(examples) / COMPARED_EXAMPLES)
    some = torch.from_numpy(np.ascontiguousarray(examples[::step])).double()
    labels = torch.from_numpy(np.array(model.label_vectors_)).double()
    parts = (labels[start : start + 2048] for start in range(0, len(labels), 2048))
    means = [space.distances(part, some).mean(dim=1).numpy() for part in parts]
    return np.asarray(np.concatenate(means))


def _figure2(quick: bool) -> list[Trial]:
    rows: dict[str, Mapping[str, Any]] = {
        "ball, fast labels": {},
        "flat, fast labels": {"geometry": "euclidean"},
        "ball, one rate": {"lr": 0.005, "label_lr_ratio": 1.0},
        "ball, fast labels, batch negatives": {"batch_negatives": True},
    }
    base = {**SHAPED, **FAST_LABELS, "dim": 2, "epochs": 30}
    return [
        Trial(data, {"form": form}, "hyperbolic", {**base, **own})
        for data in _samples(quick, 6000)
        for form, own in rows.items()
    ]


def _figure2_plot(results: Results) -> Figure:
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(row.key["data"] for row in results.rows))
    forms = list(dict.fromkeys(row.key["form"] for row in results.rows))
    figure = Figure(figsize=(3.1 * len(forms), 3.4 * len(sets)), layout="constrained")
    axes = figure.subplots(len(sets), len(forms), squeeze=False)
    for row in results.rows:
        place = axes[sets.index(row.key["data"]), forms.index(row.key["form"])]
        if "points" in row.runs[0]:  # not where training failed
            _draw_labels(place, row)
    figure.suptitle(
        "Labels in two dimensions, yellow rare, red frequent; Spearman correlations with "
        "frequency, labels with 1/5/20 examples or more",
        fontsize=9,
    )
    return figure


def _draw_labels(axes: Axes, row: Row) -> None:
    x, y, counts = np.array(row.runs[0]["points"], float).reshape(-1, 3)[::-1].T  # frequent on top
    if "flat" not in row.key["form"]:
        angles = np.linspace(0.0, 2.0 * np.pi, 200)
        axes.plot(np.cos(angles), np.sin(angles), color="black", linewidth=0.8)
    shades = np.log(counts)
    lowest = shades.min() - 0.15 * np.ptp(shades)  # the palest shade is hardly seen on white
    axes.scatter(x, y, c=shades, cmap="YlOrRd", s=7, vmin=lowest)
    axes.set_aspect("equal")
    axes.tick_params(labelsize=6)
    norm, distance = (
        "/".join(f"{row.mean(f'{name} {least}+'):.2f}" for least in LEAST)
        for name in ("norm", "distance")
    )
    title = f"{row.key['data']}: {row.key['form']}\nnorm {norm}\ndistance to examples {distance}"
    axes.set_title(title, fontsize=7)


def _table6(quick: bool) -> list[Trial]:
    rows: dict[str, Mapping[str, Any] | None] = {
        "ball, default": None,
        "ball, preset": {},
        "ball, preset, alpha 1": {"alpha": 1.0},
        "ball, alpha 1, fast labels": FAST_LABELS,
        "flat, alpha 1, fast labels": {**FAST_LABELS, "geometry": "euclidean"},
    }
    paper = {**SHAPED, "epochs": 15}
    default = {"validation": 0.0}
    return [
        Trial(data, {"form": form}, "hyperbolic", default if own is None else {**paper, **own})
        for data in _samples(quick, 4000)
        for form, own in rows.items()
    ]


def _table6_plot(results: Results) -> Figure:
    """Draw norms and mean distances by frequency, each relative to its largest median."""
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(row.key["data"] for row in results.rows))
    figure = Figure(figsize=(3.6 * len(sets), 6.4), layout="constrained")
    axes = figure.subplots(2, len(sets), squeeze=False)
    for row in results.rows:
        groups = row.runs[0].get("profile", [])
        examples = [group["examples"] for group in groups]
        for above, name in enumerate(("norm", "distance")):
            place = axes[above, sets.index(row.key["data"])]
            values = np.array([group[name] for group in groups])
            place.plot(examples, values / values.max(initial=1e-9), "o-", label=row.key["form"])
            place.set_xscale("log")
            place.tick_params(axis="x", which="minor", labelbottom=False)
            place.set_xlabel("training examples of a label")
            place.set_ylabel("norm" if name == "norm" else "mean distance to examples")
            place.set_title(row.key["data"], fontsize=9)
    axes[0, 0].legend(fontsize=7)
    figure.suptitle("Medians of labels by number of examples, the largest as 1", fontsize=10)
    return figure


# --- Table 4: the ball against flat space ---------------------------------------------------------

ALPHAS = (0.5, 2.0, 6.0, 20.0, 60.0, 160.0)
RATES = ((0.0006, 1.0), (0.0002, 100.0), (0.002, 10.0))  # of the map, and of labels against it
SPACES: dict[str, dict[str, Any]] = {
    "ball": {},
    "flat, same loss": {"geometry": "euclidean"},
    "flat, AnnexML's loss": {"geometry": "spherical", "loss": "annexml"},
}


def _table4(quick: bool) -> list[Trial]:
    alphas, rates = ((2.0, 20.0), RATES[1:2]) if quick else (ALPHAS, RATES)
    grid = [
        {"alpha": alpha, "lr": lr, "label_lr_ratio": ratio}
        for alpha in alphas
        for lr, ratio in rates
    ]
    return [
        Trial(
            data,
            {"dimension": dim, "space": space},
            "hyperbolic",
            {**ONE, **own, "dim": dim},
            grid,
            final=_learners(data, dim, quick),
        )
        for data in _tuned_samples(quick)
        for dim in ((5, 50) if quick else (2, 5, 10, 50))
        for space, own in SPACES.items()
    ]


def _learners(data: Sample, dim: int, quick: bool) -> dict[str, Any]:
    """Return the size of ensembles: six where the paper finds a difference and it is cheap."""
    return {"ensemble": 6} if dim in (5, 10) and data.name != "wordnet" and not quick else {}


def by_learners(model: Method, split: Split) -> dict[str, Any]:
    """Return figures of the first learner and, as "6: P@1" and so on, of an ensemble."""
    learners = len(cast("Hyperbolic", model).spaces_)
    found = on_test(_first(model, 1), split)
    if learners > 1:
        found |= {f"{learners}: {name}": value for name, value in on_test(model, split).items()}
    return found


def _first(model: Method, learners: int) -> Method:
    """Return the ensemble of the first learners alone."""
    part = copy.copy(cast("Hyperbolic", model))
    for name in ("spaces_", "points_", "indexes_", "label_indexes_"):
        setattr(part, name, getattr(part, name)[:learners])
    return part


def _table4_plot(results: Results) -> Figure:
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(row.key["data"] for row in results.rows))
    figure = Figure(figsize=(3.6 * len(sets), 3.4), layout="constrained")
    axes = figure.subplots(1, len(sets), squeeze=False)[0]
    for place, data in zip(axes, sets, strict=True):
        for space in SPACES:
            rows = results.where(data=data, space=space)
            errors = [0.0 if math.isnan(row.error("P@5")) else row.error("P@5") for row in rows]
            place.errorbar([row.key["dimension"] for row in rows],
                           [row.mean("P@5") for row in rows],
                           yerr=errors, fmt="o-", capsize=3, label=space)  # fmt: skip
        dims = sorted({row.key["dimension"] for row in results.where(data=data)})
        place.set_xscale("log")
        place.set_xticks(dims, [str(dim) for dim in dims])
        place.minorticks_off()
        place.set_xlabel("dimension")
        place.set_ylabel("P@5, one learner")
        place.set_title(data, fontsize=9)
    axes[0].legend(fontsize=7)
    return figure


WIKI10 = (  # learners, dimension, ball P@1/3/5, Euclidean P@1/3/5 in Table 4
    (1, 5, (78.9, 54.1, 43.1), (77.02, 53.5, 42.5)),
    (6, 5, (81.1, 61.5, 52.0), (81.3, 60.3, 50.4)),
    (15, 5, (81.2, 61.6, 53.1), (81.2, 60.6, 50.9)),
    (1, 10, (81.5, 61.6, 50.9), (79.1, 61.4, 50.4)),
    (6, 10, (82.6, 67.4, 57.5), (83.2, 67.3, 56.9)),
    (15, 10, (82.6, 67.6, 58.0), (83.1, 67.5, 57.5)),
    (1, 25, (82.9, 67.7, 57.1), (82.5, 67.8, 57.5)),
    (6, 25, (84.6, 71.0, 60.3), (85.6, 71.7, 61.5)),
    (15, 25, (84.6, 71.3, 60.7), (85.8, 72.0, 67.9)),
)


def _wiki10() -> list[dict[str, Any]]:
    return [
        {
            "data": "wiki10",
            "learners": learners,
            "dimension": dim,
            "space": space,
            **dict(zip(("P@1", "P@3", "P@5"), figures, strict=True)),
        }
        for learners, dim, *both in WIKI10
        for space, figures in zip(("ball", "flat, AnnexML's loss"), both, strict=True)
    ]


# --- Table 5: the number of learners --------------------------------------------------------------

LEARNERS = (1, 3, 6, 9, 12, 15)


def _table5(quick: bool) -> list[Trial]:
    learners = 3 if quick else LEARNERS[-1]
    forms: dict[str, dict[str, Any]] = {
        "preset paper": {**ONE, "n_negatives": 100},
        "default": {},
    }
    return [
        Trial(data, {"form": form}, "hyperbolic", {**params, "ensemble": learners})
        for data in _tuned_samples(quick)
        for form, params in forms.items()
    ]


def of_ensembles(model: Method, split: Split) -> dict[str, Any]:
    """Return, as "6: P@1" and so on, figures of the ensembles of the first learners."""
    trained = len(cast("Hyperbolic", model).spaces_)
    return {
        f"{learners}: {name}": value
        for learners in LEARNERS
        if learners <= trained
        for name, value in on_test(_first(model, learners), split).items()
    }


def _quoted_ensembles() -> list[dict[str, Any]]:
    return [
        {"data": name, "form": "preset paper"}
        | {f"{learners}: P@5": value for learners, value in zip(LEARNERS, values, strict=True)}
        for name, values in (
            ("Wiki10-31K", (59.7, 61.6, 62.1, 62.4, 62.5, 62.4)),
            ("Delicious-200K", (32.5, 36.1, 37.2, 37.6, 37.8, 37.8)),
            ("WikiLSHTC-325K", (14.5, 17.3, 18.5, 19.1, 19.4, 19.4)),
            ("Amazon-670K", (17.1, 20.3, 23.04, 24.5, 25.4, 26.0)),
        )
    ]


# --- Claims of the text: optimiser, linear map, random clusters -----------------------------------

ADAM_RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03)
DESCENT_RATES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def _optimisers(quick: bool) -> list[Trial]:
    rows: dict[tuple[str, str], tuple[dict[str, Any], Sequence[float]]] = {
        ("Adam", "linear"): ({}, ADAM_RATES),
        ("projected RSGD", "linear"): ({"optimiser": "sgd"}, DESCENT_RATES),
        ("Riemannian Adam", "linear"): ({"optimiser": "riemannian-adam"}, ADAM_RATES),
        ("Adam", "one hidden layer of 128"): ({"hidden": (128,)}, ADAM_RATES),
    }
    alphas = (20.0,) if quick else (2.0, 20.0)
    return [
        Trial(
            data,
            {"optimiser": optimiser, "map": form},
            "hyperbolic",
            {**ONE, **own, "dim": 10},
            [{"alpha": a, "lr": lr} for a in alphas for lr in (rates[::2] if quick else rates)],
        )
        for data in _tuned_samples(quick)
        for (optimiser, form), (own, rates) in rows.items()
    ]


def _search(quick: bool) -> list[Trial]:
    rows: dict[str, dict[str, Any]] = {
        "exact": {"search": "exact"},
        **{
            f"N/3000 random clusters, recall {recall:g}": {"search": "cells", "recall": recall}
            for recall in (0.99, 0.9, 0.5)
        },
    }
    samples = [
        Sample("delicious", 7000 if quick else None, 1000 if quick else None),
        Sample("wordnet", 7000 if quick else 30_000, 1000 if quick else 5000),
    ]
    base = {"epochs": 2 if quick else 5, "sharpness": 0.0, "dim": 50}
    return [
        Trial(data, {"search": search}, "hyperbolic", {**base, **own})
        for data in samples
        for search, own in rows.items()
    ]


def searched(model: Method, split: Split) -> dict[str, Any]:
    """Return P@k, the recall of the index, and the share of the points that a query is compared to.

    Recall is that of training examples, by which the number of clusters is chosen.
    """
    fitted = cast("Hyperbolic", model)
    index = fitted.indexes_[0]
    share = 1.0
    if index.kind == "cells":
        cells: Any = index
        probed, _ = cells.around.search(fitted.embed(split.X_test), cells.probes)
        share = float(np.diff(cells.starts)[probed].sum(axis=1).mean() / len(index.points))
    return {**on_test(model, split), "recall": 100.0 * index.recall, "searched": 100.0 * share}


EXPERIMENTS = (
    Experiment(
        "hyperbolic-figure2",
        "Labels in the plane: norm, distance to examples and frequency",
        f"{PAPER}, Figure 2",
        _figure2,
        figures=label_shape,
        columns=(
            *(f"{name} {least}+" for name in ("norm", "distance") for least in LEAST),
            "norm, frequent",
            "norm, median",
            "P@1",
        ),
        metric="P@5",
        plot=_figure2_plot,
        notes=(
            "Columns are Spearman correlations with the frequency of labels that have 1, 5 or 20 "
            "training examples or more: of the norm, and of the mean distance to training "
            "examples. Norms depend on where the centre is, which the loss does not know: an "
            "isometry of the ball changes norms and no distance. The paper gives neither alpha "
            "nor learning rates. Fast labels: alpha 1, label steps 500 times those of the map. "
            "One rate: alpha 1, the same rate for both. All epochs are run, on samples of 6,000 "
            "training examples at most."
        ),
    ),
    Experiment(
        "hyperbolic-table6",
        "Norm and frequency of labels in 50 dimensions",
        f"{PAPER}, Table 6",
        _table6,
        expected=tuple(
            {"data": "wiki10", "label": label, "norm": norm, "frequency": frequency}
            for label, norm, frequency in (
                ("wikipedia", 0.6, 80.7),
                ("wiki", 6.8, 41.9),
                ("reference", 10.7, 28.3),
                ("history", 14.6, 18.7),
                ("science", 21.5, 12.3),
                ("research", 23.0, 14.5),
            )
        ),
        figures=label_shape,
        columns=(
            *(f"{name} {least}+" for name in ("norm", "distance") for least in LEAST),
            "norm, frequent",
            "norm, median",
        ),
        metric="P@5",
        plot=_table6_plot,
        notes=(
            'Columns as in hyperbolic-figure2; "norm, frequent" is the mean norm of the six most '
            "frequent labels, which results.json lists with their norms and distances. Samples of "
            "4,000 training examples at most, 15 epochs."
        ),
    ),
    Experiment(
        "hyperbolic-table4",
        "Ball against flat space, by dimension and number of learners",
        f"{PAPER}, Table 4",
        _table4,
        expected=_wiki10(),
        figures=by_learners,
        columns=("P@1", "P@3", "P@5", "6: P@1", "6: P@3", "6: P@5"),
        metric="P@5",
        plot=_table4_plot,
        notes=(
            "Each row is tuned alike: six alphas from 0.5 to 160 and three pairs of learning "
            "rates, with one learner. Columns with 6 are of an ensemble of six at the same "
            "setting, in 5 and 10 dimensions. Samples of 4,000 training examples (wordnet: 3,000), "
            "at most 50 epochs with a patience of 10, 50 negatives per example. The paper compares "
            "with AnnexML's loss; flat space with the paper's own loss separates the effect of the "
            "space from that of the loss."
        ),
    ),
    Experiment(
        "hyperbolic-table5",
        "Precision by the number of learners",
        f"{PAPER}, Table 5",
        _table5,
        expected=_quoted_ensembles(),
        figures=of_ensembles,
        columns=("1: P@1", "6: P@1", "15: P@1", *(f"{count}: P@5" for count in LEARNERS)),
        metric="1: P@5",
        notes=(
            "Ensembles are the first learners of one that has 15, so that they differ in nothing "
            "else. Samples of 4,000 training examples (wordnet: 3,000), 50 dimensions, at most 50 "
            "epochs with a patience of 10. The paper finds a plateau at about six learners."
        ),
    ),
    Experiment(
        "hyperbolic-optimisers",
        "Adam against RSGD, and a linear against a deep map",
        f"{PAPER}, sections 2.3 and 2.5",
        _optimisers,
        metric="P@5",
        notes=(
            "Each row is tuned alike: two alphas and six learning rates, the same for labels and "
            "map. Dimension 10, one learner, samples of 4,000 training examples (wordnet: 3,000). "
            "The paper claims that Adam is better than RSGD and that a linear map suffices, "
            "without figures."
        ),
    ),
    Experiment(
        "hyperbolic-search",
        "Random clusters against exact search",
        f"{PAPER}, section 2.6",
        _search,
        figures=searched,
        columns=("P@1", "P@3", "P@5", "recall", "searched"),
        metric="P@5",
        notes=(
            "As many of the N/3000 clusters are searched as reach the recall. `searched` is the "
            "percentage of the training examples that a test example is compared with. The paper "
            "claims that clusters do not lower precision, without figures. Default training; the "
            "labels of the 50 nearest examples are counted."
        ),
    ),
)
