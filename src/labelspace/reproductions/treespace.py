"""TreeSpace: its losses at weights at which they act, and the preset beside the default.

The source proposes the method without figures, so there are none to stand beside ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from labelspace.methods.base import Method
from labelspace.reproductions.by_level import ranked_by_level
from labelspace.reproductions.experiment import Experiment, Sample, Split, Trial, on_test
from labelspace.reproductions.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SOURCE = "Pathak 2024, slides on hierarchical embedding and cluster search"
NO_PENALTY = {"consistency": 0.0, "regularisation": 0.0, "dimensionality": 0.0}
# So that the grid of weights fits into half an hour.
SMALL = {"dim": 64, "top_dim": 16, "width": 256}
# From weights that do nothing to weights that harm.
GRID = {
    "consistency": (0.1, 1.0, 10.0, 100.0),
    "regularisation": (0.001, 1.0, 100.0, 10_000.0),
    "dimensionality": (0.03, 0.1, 0.3, 1.0),
}
FEW = {"consistency": (1.0, 10.0), "regularisation": (10.0, 100.0), "dimensionality": (0.1, 0.3)}
ONE = {"consistency": (10.0,), "regularisation": (100.0,), "dimensionality": (0.3,)}
# What each term is about, for the plot.
ACTS_ON = {
    "consistency": "parent distance",
    "regularisation": "100 rms of matrices",
    "dimensionality": "dimensions used",
}
FORMS: dict[str, dict[str, Any]] = {
    "default": {},
    "default, spaces alone": {"linear_tree": False, "neighbours": 0, "tail_bias": 0.0},
    "paper": {"preset": "paper"},
    "paper-hyperbolic": {"preset": "paper-hyperbolic"},
}


def spaces(model: Method, split: Split) -> dict[str, Any]:
    """Return accuracy by ranking and by path, and what the losses are to change.

    Returns
    -------
    dict
        `parent distance`: mean distance of a node to the projection of its parent, 1 - cos or, in
        a ball, the distance. `100 rms of matrices`: of the entries of the projections. `offsets`:
        mean length of the nodes' own parts. `dimensions used`: the sum of effective dimensions in
        percent of all; `effective dimensions` has them by level.
    """
    import torch

    by_level = ranked_by_level(model, split)
    vectors = model.vectors_
    with torch.no_grad():
        steps = vectors.steps(np.arange(1, len(vectors.nodes)))
        points, projected, offsets, squares = vectors.batch(steps)
        away = [
            vectors.geometry.parent_distance(point, wanted)
            for point, wanted in zip(points, projected, strict=True)
            if wanted is not None
        ]
        lengths = torch.cat([part.norm(dim=1) for part in offsets])
    tree = model.metadata()["tree"]
    pairs = max(1, len(vectors.projected_nodes))
    return {
        **on_test(model, split),
        "exact path": by_level["exact path"],
        "hierarchical F1": by_level["hierarchical"]["F1"],
        "parent distance": float(torch.cat(away).mean()) if away else 0.0,
        "100 rms of matrices": 100 * (float(squares) / pairs) ** 0.5,
        "offsets": float(lengths.mean()),
        "dimensions used": 100 * sum(tree["effective dimensions"]) / sum(tree["dimensions"]),
        "dimensions": tree["dimensions"],
        "effective dimensions": tree["effective dimensions"],
    }


def _losses(quick: bool) -> list[Trial]:
    flipkart = Sample("flipkart", rows=1000 if quick else 3000, tested=500 if quick else None)
    wordnet = Sample("wordnet", rows=3000, tested=2000)
    few: dict[str, Any] = {"epochs": 3} if quick else {}
    grid = FEW if quick else GRID
    trials = list(_terms(flipkart, "euclidean", "node", grid, few))
    trials += _terms(flipkart, "hyperbolic", "node", ONE if quick else FEW, few)
    if not quick:
        for kind in ("low-rank", "shared"):
            trials += _terms(flipkart, "euclidean", kind, FEW, few)
        trials += _terms(wordnet, "euclidean", "node", GRID, few)
    return trials


def _terms(
    data: Sample, geometry: str, projections: str, grid: Any, few: dict[str, Any]
) -> Iterator[Trial]:
    """Yield trials of no penalty, of each penalty alone at each weight, of all, and of these only.

    All are at the weights of the preset.
    """
    base = {"preset": "paper", **SMALL, **few, "geometry": geometry, "projections": projections}
    key = {"geometry": geometry, "projections": projections}

    def trial(term: str, weight: float | str, params: dict[str, Any]) -> Trial:
        return Trial(data, {**key, "term": term, "weight": weight}, "treespace", {**base, **params})

    yield trial("prediction alone", 0.0, NO_PENALTY)
    for term, weights in grid.items():
        for weight in weights:
            yield trial(term, weight, {**NO_PENALTY, term: weight})
    yield trial("all", "preset", {})
    yield trial("all but prediction", "preset", {"prediction": 0.0})


def _weights_plot(results: Results) -> Figure:
    """Return a panel per penalty: accuracy and what the penalty acts on, by its weight."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 6.2), layout="constrained")
    panels = figure.subplots(2, len(ACTS_ON))
    for column, (term, acted) in enumerate(ACTS_ON.items()):
        for axes, name in zip(panels[:, column], ("P@5", acted), strict=True):
            _weights_panel(axes, results, term, name)
    panels[0, -1].legend(fontsize=7)
    return figure


def _weights_panel(axes: Axes, results: Results, term: str, name: str) -> None:
    names = ("data", "geometry", "projections")
    zero = min(row.key["weight"] for row in results.where(term=term)) / 10  # a log axis has no 0
    for kind in dict.fromkeys(tuple(row.key[each] for each in names) for row in results.rows):
        key = dict(zip(names, kind, strict=True))
        without = results.where(**key, term="prediction alone")[0]
        rows = results.where(**key, term=term)
        weights = [zero, *(row.key["weight"] for row in rows)]
        means = [row.mean(name) for row in (without, *rows)]
        if name == "P@5":
            shown = [mean - means[0] for mean in means]
        else:
            shown = [100 * mean / (means[0] or 1.0) for mean in means]
        axes.plot(weights, shown, "o-", ms=3, label=", ".join(kind))
    axes.set_xscale("log")
    axes.set_xlabel(f"weight of {term} (left end: 0)", fontsize=8)
    more = "less that at 0" if name == "P@5" else "in percent of that at 0"
    axes.set_ylabel(f"{name} {more}", fontsize=8)
    axes.grid(alpha=0.3)


def _forms(quick: bool) -> list[Trial]:
    flipkart = Sample("flipkart", rows=1500 if quick else None, tested=500 if quick else None)
    wordnet = Sample("wordnet", rows=1500 if quick else 5000, tested=500 if quick else None)
    few: dict[str, Any] = {"epochs": 3, "dim": 64, "top_dim": 16, "width": 128} if quick else {}
    return [
        Trial(data, {"form": form}, "treespace", {**params, **few})
        for data in (flipkart, wordnet)
        for form, params in FORMS.items()
    ]


EXPERIMENTS = (
    Experiment(
        "treespace-losses",
        "Prediction, consistency, regularisation and dimensionality at weights where they act",
        f"{SOURCE}: loss function",
        _losses,
        figures=spaces,
        columns=(
            *("P@1", "P@5", "exact path", "hierarchical F1"),
            *("parent distance", "100 rms of matrices", "offsets", "dimensions used"),
        ),
        plot=_weights_plot,
        notes=(
            "The slides name the losses and give neither weights nor figures. 3,000 products of "
            "flipkart and 3,000 rows of wordnet, spaces of 16 to 64 dimensions, the spaces alone, "
            "at most 8 epochs with a patience of 2. "
            "A term that leaves the quantity that it penalises as it is does not act, and then its "
            "effect on accuracy is no statement about the term. parent distance: 1 - cos, in a "
            "ball the distance, of a node to the projection of its parent. 100 rms of matrices: "
            "of the entries of the projections. offsets: mean length of what a node adds to the "
            "projection. dimensions used: effective dimensions, (sum of norms)^2 / sum of squared "
            "norms of the columns of a level, in percent of all dimensions."
        ),
    ),
    Experiment(
        "treespace-preset",
        "The slides' form beside the default, on a tree and on a DAG",
        f"{SOURCE}: parameters and loss function",
        _forms,
        figures=spaces,
        columns=("P@1", "P@3", "P@5", "exact path", "hierarchical F1", "dimensions used"),
        notes=(
            "The slides give no figures. flipkart is the whole training file; of wordnet, whose "
            "labels form a DAG, 5,000 rows drawn at random. `default, spaces alone` leaves out the "
            "linear classifiers, the votes of near examples and the bias of rare labels, which the "
            "slides do not have either."
        ),
    ),
)
