"""The experiments of NeuralXC: figures 3 to 6 of its paper, and what its text claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from labelspace.reproductions.experiment import (
    KS,
    TEST_AND_TRAINING,
    Experiment,
    Sample,
    Split,
    Trial,
    epoch_curves,
    fitted_with_curves,
    on_test,
    on_test_and_training,
)
from labelspace.runs.callbacks import Callback, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from scipy.sparse import csr_matrix

    from labelspace.methods.base import Method
    from labelspace.methods.neuralxc.network import Network
    from labelspace.reproductions.results import Results

PAPER = "Srinivasan, Rao and Agarwal, Extreme Classification using Autoencoders"
WEIGHTS = (0.01, 1.0, 100.0)  # of alpha and beta
# The paper's form with narrower layers and a larger rate, where many settings are compared.
NARROW: dict[str, Any] = {
    "preset": "bibtex",
    "input_layers": (300, 100),
    "output_layers": (79, 33),
    "regressor_layers": (66,),
    "lr": 0.001,
    "epochs": 20,
}
MEANS = "one loss, means over columns"


def _figures(quick: bool) -> list[Trial]:
    # A sample has few steps per epoch, and bibtex' own layers learn nothing in the first thousand.
    quickly = {"bibtex": {**NARROW, "epochs": 40}, "delicious": {"epochs": 30, "lr": 0.001}}
    trials = []
    for name in ("bibtex", "delicious"):
        data = Sample(name, 2000 if quick else None, 500 if quick else None)
        paper = {"preset": name, **(quickly[name] if quick else {})}
        trials += [
            Trial(data, {"network": "paper"}, "neuralxc", paper),
            Trial(data, {"network": "default"}, "neuralxc"),
            Trial(data, {"network": "none (random labels)"}, "random"),
        ]
    return trials


def _curves(model: Method, split: Split) -> dict[str, Any]:
    """Return the figures on training and test examples, and those after each epoch."""
    if model.name == "random":
        return on_test_and_training(model, split)
    return {**on_test_and_training(model, split), **epoch_curves(model, split)}


def _bibtex(quick: bool) -> tuple[Sample, dict[str, Any]]:
    """Return the data and the narrow network; with few rows, more epochs give as many steps."""
    data = Sample("bibtex", 1500 if quick else None, 500 if quick else None)
    return data, {**NARROW, **({"epochs": 40} if quick else {})}


def _alpha_beta(quick: bool) -> list[Trial]:
    data, network = _bibtex(quick)
    weights = (WEIGHTS[0], WEIGHTS[-1]) if quick else WEIGHTS
    return [
        Trial(data, {"alpha": a, "beta": b}, "neuralxc", {**network, "alpha": a, "beta": b})
        for a in weights
        for b in weights
    ]


def _training(quick: bool) -> list[Trial]:
    data, joint = _bibtex(quick)
    first = {**joint, "pretrain": joint["epochs"], "alpha": 1.0, "beta": 1.0}
    orders = {
        "one loss": joint,
        "one loss, no reconstruction": {**joint, "alpha": 0.0, "beta": 0.0},
        "autoencoders first, then one loss": first,
        "autoencoders first, then the regressor on labels": {
            **first,
            "after_pretraining": "regressor",
        },
        "autoencoders first, then the regressor on codes": {**first, "after_pretraining": "codes"},
    }
    trials = [_trial(data, "narrow", name, params) for name, params in orders.items()]
    data = Sample("delicious", 1000 if quick else 4000, 500 if quick else None)
    wide = {"preset": "delicious", "epochs": 20, **({"lr": 0.001} if quick else {})}
    forms = {
        "one loss": wide,
        "one loss, three networks": {**wide, "ensemble": 3},
        MEANS: {**wide, "reduction": "mean"},
        "one loss, means, no weight decay": {**wide, "reduction": "mean", "weight_decay": 0.0},
    }
    trials += [_trial(data, "paper's", name, params) for name, params in forms.items()]
    if not quick:  # neuralxc-figures3-6 has the same with sums
        params = {"preset": "bibtex", "reduction": "mean"}
        trials.append(_trial(Sample("bibtex"), "paper's", MEANS, params, seeds=1))
    return trials


def _trial(
    data: Sample, layers: str, training: str, params: dict[str, Any], seeds: int | None = None
) -> Trial:
    return Trial(data, {"layers": layers, "training": training}, "neuralxc", params, seeds=seeds)


class _KeptNetworks(Callback):
    """Keeps the trained networks whole: prediction does without two of their parts."""

    def on_trained(self, run: Run) -> None:
        self.networks: list[Network] = run.task.loss.networks  # type: ignore[attr-defined]


def fitted_whole(method: Method, split: Split) -> Method:
    """Fit NeuralXC and keep the parts that predict nothing, as `networks`."""
    kept = _KeptNetworks()
    method.fit(split.X, split.Y, callbacks=[kept], **split.known(method))
    method.networks = kept.networks
    return method


def errors(model: Any, split: Split) -> dict[str, Any]:
    """Return P@k, the classification loss and both reconstruction errors on test examples.

    A reconstruction error is |psi(phi(x)) - x|^2 summed over examples, divided by that of always
    reconstructing the mean training example: 0 is perfect, 1 is as good as the mean. The
    classification loss is divided by that of the labels' training frequencies.
    """
    network = model.networks[0]
    features, labels = network.inputs, network.outputs
    found = {"features": [0.0, 0.0], "labels": [0.0, 0.0], "classification": [0.0, 0.0]}
    means = [np.asarray(part.mean(axis=0)).ravel() for part in (split.X, split.Y)]
    share = np.clip(means[1], 1e-6, 1 - 1e-6)
    for X, Y in _parts(split.X_test, split.Y_test):
        x, y = X.toarray(), Y.toarray()
        again = features.decoder.output.apply(_decoded(features, features.encode(X)))
        codes = network.label_code.apply(labels.encode(Y))
        pairs = {
            "features": (_squares(again, x), _squares(means[0], x)),
            "labels": (_squares(_sigmoid(_decoded(labels, codes)), y), _squares(means[1], y)),
            "classification": (
                _entropy(_sigmoid(_decoded(labels, network.path.codes(X))), y),
                _entropy(share, y),
            ),
        }
        for name, pair in pairs.items():
            found[name] = [total + part for total, part in zip(found[name], pair, strict=True)]
    ratios = {f"error of {name}": ours / base for name, (ours, base) in found.items()}
    return {**on_test(model, split), **ratios}


def _parts(X: csr_matrix, Y: csr_matrix, size: int = 500) -> Iterator[tuple[Any, Any]]:
    for start in range(0, X.shape[0], size):
        yield X[start : start + size], Y[start : start + size]


def _decoded(autoencoder: Any, codes: np.ndarray) -> np.ndarray:
    decoder = autoencoder.decoder
    return np.asarray(decoder.queries(codes) @ decoder.table.weight.T)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-logits.astype(np.float64))))


def _squares(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.square(found - truth).sum())


def _entropy(p: np.ndarray, truth: np.ndarray) -> float:
    p = np.clip(p, 1e-9, 1 - 1e-9)
    return float(-(truth * np.log(p) + (1 - truth) * np.log1p(-p)).sum())


def curves_plot(results: Results) -> Figure:
    """Draw figures 3 to 6: P@k and nDCG@k on training and test examples over the epochs."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row.key["data"] for row in results.rows))
    panels = [(metric, part) for metric in ("P", "nDCG") for part in ("train", "test")]
    figure = Figure(figsize=(3.6 * len(panels), 3.2 * len(names)), layout="constrained")
    grid = figure.subplots(len(names), len(panels), squeeze=False)
    styles = {"paper": "-", "default": ":"}
    for axes_row, name in zip(grid, names, strict=True):
        for number, (axes, (metric, part)) in enumerate(zip(axes_row, panels, strict=True), 3):
            for row in results.where(data=name):
                for color, k in enumerate(KS):
                    _draw(axes, row, f"{part} {metric}@{k}", styles, color)
            where = {"train": "training", "test": "test"}[part]
            axes.set_title(f"Figure {number}: {metric}@k, {where}, {name}", fontsize=9)
            axes.set_xlabel("epoch")
            axes.grid(alpha=0.3)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    if handles:
        grid[0, 0].legend(handles, labels, fontsize=7)
    return figure


def _draw(axes: Any, row: Any, name: str, styles: dict[str, str], color: int) -> None:
    """Draw the mean over seeds of a figure over the epochs that all seeds have."""
    curves = [run["curves"] for run in row.runs if run.get("curves")]
    if not curves:
        return
    epochs = range(1, 1 + min(map(len, curves)))
    means = [np.mean([curve[epoch - 1][name] for curve in curves]) for epoch in epochs]
    network = row.key["network"]
    label = f"@{name.rpartition('@')[2]}, {network}"
    axes.plot(epochs, means, styles[network], color=f"C{color}", label=label)


def heat_maps(results: Results) -> Figure:
    """Draw each error by alpha and beta."""
    from matplotlib.figure import Figure

    names = ("error of classification", "error of features", "error of labels", "P@1")
    alphas, betas = (sorted({row.key[name] for row in results.rows}) for name in ("alpha", "beta"))
    figure = Figure(figsize=(3.3 * len(names), 3.2), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names)), names, strict=True):
        cells = np.array(
            [
                [results.where(alpha=alpha, beta=beta)[0].mean(name) for beta in betas]
                for alpha in alphas
            ]
        )
        axes.imshow(cells, cmap="viridis" if name == "P@1" else "viridis_r", origin="lower")
        for (row, column), value in np.ndenumerate(cells):
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7,
                      bbox={"facecolor": "white", "alpha": 0.7, "pad": 1, "lw": 0})  # fmt: skip
        axes.set_xticks(range(len(betas)), [f"{beta:g}" for beta in betas])
        axes.set_yticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
        axes.set_xlabel("beta")
        axes.set_ylabel("alpha")
        axes.set_title(name, fontsize=9)
    return figure


_OPEN = (
    "The paper gives neither the number of epochs nor the rate for delicious; the reduction over "
    "columns is a sum, as in equation (1), where the authors' code takes means."
)
_NARROW = (
    "The narrow network has layers of 300 and 100 for features, 79 and 33 for labels, 66 in the "
    "regressor, three times the authors' learning rate and 20 epochs, and is otherwise the paper's."
)

EXPERIMENTS = (
    Experiment(
        "neuralxc-figures3-6",
        "P@k and nDCG@k over the epochs, the paper's network and the default",
        f"{PAPER}, Figures 3 to 6",
        _figures,
        figures=_curves,
        columns=TEST_AND_TRAINING,
        fit=fitted_with_curves,
        plot=curves_plot,
        notes=(
            f"{_OPEN} The paper prints its figures as pictures alone. The curves are of the "
            "network alone, without votes, on at most 2,000 examples of each part; the table is "
            "of whole models. The quick form has three times the learning rate and, on bibtex, "
            "narrower layers."
        ),
    ),
    Experiment(
        "neuralxc-alpha-beta",
        "Classification and reconstruction errors by alpha and beta",
        f"{PAPER}, section 3.1",
        _alpha_beta,
        figures=errors,
        columns=(
            "P@1",
            "P@5",
            "error of classification",
            "error of features",
            "error of labels",
        ),
        fit=fitted_whole,
        plot=heat_maps,
        notes=(
            f"{_NARROW} The paper claims that high alpha and beta give better codes and worse "
            "classification, and low ones the reverse. Errors are on test examples: squared "
            "reconstruction errors divided by those of the mean training example, and the "
            "cross-entropy divided by that of the labels' frequencies, so that 1 is reached by a "
            "constant."
        ),
    ),
    Experiment(
        "neuralxc-training",
        "One loss against autoencoders first, one network against three, sums against means",
        f"{PAPER}, sections 3 and 3.1, and the code of section 5.3",
        _training,
        figures=on_test_and_training,
        columns=("P@1", "P@3", "P@5", "nDCG@5", "train P@1", "train P@5"),
        notes=(
            f"{_NARROW} On delicious, 4,000 training examples and the paper's layers. "
            "Section 3 describes three regressions one after another, section 3.1 one "
            "loss for all parts, which is what the authors' code trains. Rows with autoencoders "
            "first have as many epochs of pre-training as of training after it, and alpha and "
            "beta of 1, which scale the losses of parts that share nothing then."
        ),
    ),
)
