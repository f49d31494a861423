"""Explanations and near training examples with names for numbers, as a Tagger returns them."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from labelspace.data.dataset import Dataset, Features
from labelspace.errors import InputError, ParameterError, UnsupportedError
from labelspace.methods.base import Neighbour
from labelspace.methods.descriptions import methods_with
from labelspace.methods.parameters import checked_count
from labelspace.model.label_lookup import LabelLookup

if TYPE_CHECKING:
    from labelspace.methods.explanation import LabelExplanation
    from labelspace.model.tagger import Tagger

RANKED = 100  # labels that are ranked to find the score of the explained one


@dataclass(frozen=True)
class NearExample:
    """A training example that is close to another example.

    Attributes
    ----------
    row : int
        Its row in the training data, counted from 1; rows of updates follow those of training.
    cosine : float
        Its cosine similarity, by its features or in the space of the model.
    labels : list of str
        Its labels.
    id : str or None
        Its id; None if the training data had none, or the method does not keep them.
    """

    row: int
    cosine: float
    labels: list[str]
    id: str | None = None

    @property
    def name(self) -> str:
        """The id, or the number of the row."""
        return f"row {self.row}" if self.id is None else self.id


@dataclass(frozen=True)
class Explanation:
    """The strongest features, labels and training examples for a label of one example.

    Attributes
    ----------
    label : str
        The name of the explained label; with label texts, its preferred name.
    score : float or None
        The model's score of the label; None if the label is not among the best 100.
    features : list of (str, float)
        Input features, and by how much the label's raw score falls without each; a feature with a
        negative number lowers the score.
    labels : list of (str, float)
        The most similar labels, and their cosine similarities with the explained one.
    examples : list of NearExample
        The closest training examples; empty for methods that keep none.

    Examples
    --------
    >>> import labelspace as ls
    >>> rows = [
    ...     {"text": "ripe apple", "labels": ["fruit"]},
    ...     {"text": "steel hammer", "labels": ["tool"]},
    ... ] * 4
    >>> found = ls.train(rows, method="linear").explain("ripe hammer", "fruit", k=1)
    >>> found.label, found.features[0][0]
    ('fruit', 'ripe')
    """

    label: str
    score: float | None
    features: list[tuple[str, float]]
    labels: list[tuple[str, float]]
    examples: list[NearExample]

    def _repr_html_(self) -> str:
        score = "not among the best 100" if self.score is None else f"score {self.score:.3f}"
        near = [(f"{each.name}: {', '.join(each.labels)}", each.cosine) for each in self.examples]
        parts = (("feature", "contribution", self.features),
                 ("similar label", "cosine", self.labels),
                 ("training example", "cosine", near))  # fmt: skip
        return f"<b>{escape(self.label)}</b>: {score}" + "".join(
            f"<table><tr><th>{what}</th><th>{number}</th></tr>"
            + "".join(f"<tr><td>{escape(name)}</td><td>{n:.3f}</td></tr>" for name, n in rows)
            + "</table>"
            for what, number, rows in parts
            if rows
        )


def explain(
    tagger: Tagger, example: str | Dataset | Features, label: str | None, k: int
) -> Explanation:
    """Explain a label of an example, its best label if None; see `Tagger.explain`."""
    if not tagger.method.can_explain:
        raise UnsupportedError(
            f"explain is not supported by {tagger.method.name}; methods that support it: "
            f"{methods_with('explain')}"
        )
    X = _row_of(tagger, example, "explain")
    if X.shape[0] != 1:
        raise InputError(f"{X.shape[0]} examples were given: one is explained at a time")
    if k < 1:
        raise ParameterError(f"k={k}: expected an integer of at least 1")
    best = tagger.method.predict(X, RANKED)
    number = int(best.labels[0, 0]) if label is None else _number(label, tagger)
    if number < 0:
        raise InputError("the model predicts no label for this example: name the one to explain")
    places = np.flatnonzero(best.labels[0] == number)
    score = float(best.scores[0, places[0]]) if len(places) else None
    return _named(tagger, tagger.method.explain(X, number, k), score)


def nearest_examples(
    tagger: Tagger, example: str | Dataset | Features, k: int
) -> list[NearExample]:
    """Return the training examples that are nearest to an example; see `Tagger.neighbours`."""
    if not tagger.method.can_find_examples:
        raise UnsupportedError(
            f"{tagger.method.name} keeps no training examples; methods that find near ones: "
            f"{methods_with('neighbours')}"
        )
    row = _row_of(tagger, example, "compare")
    if row.shape[0] != 1:
        raise InputError(f"{row.shape[0]} examples were given: pass one at a time")
    return _near(tagger, tagger.method.nearest_examples(row, checked_count("k", k)))


def _row_of(tagger: Tagger, example: str | Dataset | Features, purpose: str) -> Features:
    """Return the features of an example; raise InputError for a text without known words."""
    if isinstance(example, str):
        row = tagger.pipeline.transform_texts([example])
        if not row.nnz:
            raise InputError(f"no known word in this text: there is nothing to {purpose}")
        return row
    return tagger.pipeline.transform(example) if isinstance(example, Dataset) else example


def _named(tagger: Tagger, found: LabelExplanation, score: float | None) -> Explanation:
    labels = tagger.names()
    features = tagger.pipeline.feature_names(labels)
    near = [
        Neighbour(row, cosine, carried)
        for (row, cosine), carried in zip(found.examples, found.labelled, strict=True)
    ]
    return Explanation(
        labels[found.label],
        score,
        [(features[number], weight) for number, weight in found.features],
        [(labels[number], cosine) for number, cosine in found.labels],
        _near(tagger, near),
    )


def _near(tagger: Tagger, near: list[Neighbour]) -> list[NearExample]:
    """Return training examples with names for the numbers of their labels, and their ids."""
    labels, ids = tagger.names(), tagger.example_ids
    return [
        NearExample(
            each.row + 1,
            each.similarity,
            [labels[number] for number in each.labels],
            ids[each.row] if ids is not None and each.row < len(ids) else None,
        )
        for each in near
    ]


def _number(label: str, tagger: Tagger) -> int:
    number = tagger.derived(LabelLookup).number(label)
    if number >= tagger.method.n_labels_:
        raise ParameterError(f"{label!r} has no training examples: {tagger.method.name} never "
            "predicts it")  # fmt: skip
    return number
