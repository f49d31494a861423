"""Why a tag was given, in names: a method's explanation as a person reads it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from labelspace._core.suggest import did_you_mean
from labelspace.data.dataset import Features
from labelspace.errors import InputError, ParameterError

if TYPE_CHECKING:
    from labelspace.methods.explanation import Explanation
    from labelspace.model.tagger import Tagger

RANKED = 100  # labels among which the score of the explained one is looked for


@dataclass(frozen=True)
class NearExample:
    """A training example close to the one explained; rows are counted from 1."""

    row: int
    cosine: float
    labels: list[str]


@dataclass(frozen=True)
class Why:
    """What speaks for a label and against it, strongest first.

    score     the model's score of the label; None if it is not among the best 100
    features  input features, and by how much the label's raw score falls without each
    labels    the labels closest to it in the space, and their cosines
    examples  the training examples closest to the one explained
    """

    label: str
    score: float | None
    features: list[tuple[str, float]]
    labels: list[tuple[str, float]]
    examples: list[NearExample]

    def _repr_html_(self) -> str:
        score = "not among the best 100" if self.score is None else f"score {self.score:.3f}"
        near = [
            (f"row {each.row}: {', '.join(each.labels)}", each.cosine) for each in self.examples
        ]
        parts = (("feature", "push", self.features), ("label like it", "cosine", self.labels),
                 ("training example", "cosine", near))  # fmt: skip
        return f"<b>{escape(self.label)}</b>: {score}" + "".join(
            f"<table><tr><th>{what}</th><th>{number}</th></tr>"
            + "".join(f"<tr><td>{escape(name)}</td><td>{n:.3f}</td></tr>" for name, n in rows)
            + "</table>"
            for what, number, rows in parts
            if rows
        )


def explain(tagger: Tagger, X: Features, label: str | None, k: int) -> Why:
    """Explain a label of the one example X, its best label if None."""
    if X.shape[0] != 1:
        raise InputError(f"{X.shape[0]} examples were given: one is explained at a time")
    if k < 1:
        raise ParameterError(f"k={k}: expected an integer of at least 1")
    best = tagger.method.predict(X, RANKED)
    number = int(best.labels[0, 0]) if label is None else _number(label, tagger.label_names)
    if number < 0:
        raise InputError("the model gives no label to this example: name the one to explain")
    places = np.flatnonzero(best.labels[0] == number)
    score = float(best.scores[0, places[0]]) if len(places) else None
    # Only called for methods that have `explain`, which is no part of the contract.
    found: Explanation = tagger.method.explain(X, number, k)
    return _named(tagger, found, score)


def _named(tagger: Tagger, found: Explanation, score: float | None) -> Why:
    labels, features = tagger.label_names, tagger.pipeline.feature_names()
    examples = zip(found.examples, found.labelled, strict=True)
    return Why(
        labels[found.label],
        score,
        [(features[number], push) for number, push in found.features],
        [(labels[number], cosine) for number, cosine in found.labels],
        [
            NearExample(row + 1, cosine, [labels[number] for number in carried])
            for (row, cosine), carried in examples
        ],
    )


def _number(label: str, names: list[str]) -> int:
    if label not in names:
        raise ParameterError(f"the model has no label {label!r}{did_you_mean(label, names)}")
    return names.index(label)
