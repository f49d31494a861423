"""What a reproduction is made of: an experiment, its trials, and the figures of each.

A module of this package defines the experiments of one method, such as `hyperbolic.py`::

    def _trials(quick: bool) -> list[Trial]:
        data = Sample("bibtex", rows=1000 if quick else None)
        grid = [{"alpha": alpha} for alpha in (1.0, 5.0, 20.0)]
        return [
            Trial(data, {"geometry": geometry}, "hyperbolic",
                  {"preset": "paper", "geometry": geometry}, grid)
            for geometry in ("hyperbolic", "euclidean")
        ]

    EXPERIMENTS = (
        Experiment("hyperbolic-table4", "Ball against flat space", "Gerald & Baskiotis, Table 4",
                   _trials, expected=({"data": "wiki10", "geometry": "ball", "P@1": 84.6},)),
    )

`run.py` runs them: it chooses from `grid` on held-out training examples, trains with each seed,
keeps finished runs, and writes a report (`report.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from labelspace.metrics.ranking import evaluate
from labelspace.runs.history import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from scipy.sparse import csr_matrix

    from labelspace.data.dataset import Dataset
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.methods.base import Method
    from labelspace.reproductions.results import Results

KS = (1, 3, 5)
RANKING = tuple(f"{metric}@{k}" for metric in ("P", "nDCG") for k in KS)
# Columns of `on_test_and_training`.
TEST_AND_TRAINING = (
    *("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5"),
    *("train P@1", "train P@5", "train nDCG@5"),
)
SEEDS = 3


@dataclass(frozen=True)
class Sample:
    """A data set, or a sample of it.

    Attributes
    ----------
    name : str
        Name of the folder with the training and test data.
    rows, tested : int or None
        Number of training and of test examples, drawn at random once; None: all.
    split : int or None
        Which of the splits that the folder has, from 0; None: its training and test files.
    redrawn : int or None
        Seed by which training and test examples are drawn anew from all, in the same numbers;
        None: they are not.
    features : str or None
        Features of texts; None: those that suit the method.
    """

    name: str
    rows: int | None = None
    tested: int | None = None
    split: int | None = None
    redrawn: int | None = None
    features: str | None = None


@dataclass(frozen=True, eq=False)
class Split:
    """The data of a run.

    Attributes
    ----------
    X, Y, X_test, Y_test : csr_matrix
        Features and labels.
    train, test : Dataset
        The same examples with texts and names.
    taxonomy : Taxonomy or None
    label_names : csr_matrix or None
        Names as tokens, for methods that generate them.
    """

    X: csr_matrix
    Y: csr_matrix
    X_test: csr_matrix
    Y_test: csr_matrix
    train: Dataset
    test: Dataset
    taxonomy: Taxonomy | None = None
    label_names: csr_matrix | None = None

    def known(self, method: Method) -> dict[str, Any]:
        """Return what `fit` takes beside X and Y."""
        known: dict[str, Any] = {"taxonomy": self.taxonomy}
        if method.needs_label_names and self.label_names is not None:
            known["label_names"] = self.label_names
        return known


@dataclass(frozen=True)
class Trial:
    """One row of a table: a method with parameters on a data set.

    Trials that differ only in the split of the data are one row, with a mean over all their runs.

    Attributes
    ----------
    data : Sample
    row : mapping
        What distinguishes the row, by column; the name of the data set is added.
    method : str
        Name of a method, or "module:Class" for one that belongs to an experiment alone.
    params : mapping
        Parameters that are not defaults, without the seed.
    grid : sequence of mapping
        Further parameters to choose from, by the experiment's `metric` on held-out training
        examples; empty if nothing is chosen.
    seeds : int or None
        Number of runs with seeds 0, 1, ...; None: as many as the experiment has.
    final : mapping
        Parameters of the tested runs alone, such as the size of an ensemble whose settings are
        chosen with one member.
    """

    data: Sample
    row: Mapping[str, Any]
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    grid: Sequence[Mapping[str, Any]] = ()
    seeds: int | None = None
    final: Mapping[str, Any] = field(default_factory=dict)


def fitted(method: Method, split: Split) -> Method:
    """Fit a method on the training examples of a split."""
    return method.fit(split.X, split.Y, **split.known(method))


def fitted_with_curves(method: Method, split: Split) -> Method:
    """Fit a method and measure it after each epoch; `epoch_curves` returns the figures.

    The test examples are measured beside training and held-out ones. They decide nothing.
    """
    history = History(further={"test": (split.X_test, split.Y_test)})
    return method.fit(split.X, split.Y, callbacks=[history], **split.known(method))


def on_test(model: Method, split: Split) -> dict[str, Any]:
    """Return P@k and nDCG@k on the test examples."""
    found = evaluate(model.predict(split.X_test, max(KS)), split.Y_test, ks=KS, bands=False)
    return {name: float(found[name]) for name in RANKING}


def on_test_and_training(model: Method, split: Split) -> dict[str, Any]:
    """Return P@k and nDCG@k on the test examples and, as "train P@1" and so on, on training."""
    found = evaluate(model.predict(split.X, max(KS)), split.Y, ks=KS, bands=False)
    return {**on_test(model, split), **{f"train {name}": float(found[name]) for name in RANKING}}


def epoch_curves(model: Method, split: Split) -> dict[str, Any]:
    """Return P@k and nDCG@k on the test examples, and as `curves` those after each epoch."""
    return {**on_test(model, split), "curves": model.history_ or []}


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper, or a claim in its text.

    Attributes
    ----------
    name : str
        For `labelspace reproduce`: the method, a hyphen, and the table, figure or topic.
    title : str
        What is compared, in one line.
    source : str
        Paper, and table, figure or section.
    trials : callable
        Takes whether to be quick; returns the trials. A quick form takes minutes.
    expected : sequence of mapping
        The paper's figures. A mapping with the `data` and the columns of a trial's row stands
        beside that row; others are listed apart, as those of data sets that are not at hand.
    figures : callable
        Returns the figures of a fitted model. Numbers are averaged over seeds; other JSON values
        are kept for the plot.
    columns : sequence of str
        The numbers that the table shows.
    metric : str
        Figure by which a setting is chosen from a grid: the highest.
    fit : callable
        Trains the method on the split.
    plot : callable or None
        Returns a matplotlib figure of the results; None: the first column of the table.
    notes : str
        What the paper leaves open and what differs, in sentences.
    seeds : int
        Number of runs per trial.
    """

    name: str
    title: str
    source: str
    trials: Callable[[bool], Sequence[Trial]]
    expected: Sequence[Mapping[str, Any]] = ()
    figures: Callable[[Method, Split], Mapping[str, Any]] = on_test
    columns: Sequence[str] = ("P@1", "P@3", "P@5")
    metric: str = "P@1"
    fit: Callable[[Method, Split], Method] = fitted
    plot: Callable[[Results], Figure] | None = None
    notes: str = ""
    seeds: int = SEEDS
