"""Seq2Seq: F1 by level and brand, NA counted and not, one sequence and several, free and not.

The slides' table of results is a picture without text; what they state in words is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.columns import KIND_JOINT
from labelspace.labels.levels import Levels
from labelspace.methods.base import Method
from labelspace.metrics.levels import RANKED, likeliest_paths
from labelspace.reproductions.by_level import levels_of, sets_by_level
from labelspace.reproductions.experiment import Experiment, Sample, Split, Trial, on_test
from labelspace.reproductions.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = ("brand", "L0", "L1", "L2", "L3", "L4")  # the fields of the slides
# A T5 that one core trains to something in a few minutes.
NEW_T5 = {"width": 64, "vocabulary": 2000, "max_tokens": 24, "lr": 0.004, "prompt": "{text}"}
FORMS = (
    ("record", "free"),
    ("record", "whole"),
    ("record", "short"),
    ("paths", "free"),
    ("paths", "short"),
)


def by_level(model: Method, split: Split) -> dict[str, Any]:
    """Return F1 by level and brand of what is generated, with NA counted as a class and without.

    Returns
    -------
    dict
        By level: `F1` and `F1 with NA` (micro), `tail F1` (macro, of labels with at most 25
        training examples). `invalid`: share of first outputs that are no valid ones. `brand
        accuracy, in text` and `not in text`: of the examples whose text has the brand's name, and
        of the others. All in percent.
    """
    chosen, invalid = _chosen(model, split)
    found = sets_by_level(chosen, split)
    figures: dict[str, Any] = {
        **on_test(model, split),
        "invalid": invalid,
        "exact path": found["exact path"],
        "hierarchical F1": found["hierarchical"]["F1"],
    }
    for name, level in found["levels"].items():
        figures[f"{name} F1"] = level["micro-F1"]
        figures[f"{name} F1 with NA"] = level["with NA"]["micro-F1"]
        figures[f"{name} macro-F1"] = level["macro-F1"]
        figures[f"{name} macro-F1 with NA"] = level["with NA"]["macro-F1"]
        figures[f"{name} tail F1"] = level["tail"]["macro-F1"]
        figures[f"{name} without a label"] = 100 * level["NA"]["examples"] / len(split.test)
    return figures | brand_accuracy(chosen, split)


def _chosen(model: Method, split: Split) -> tuple[csr_matrix, float]:
    """Return the labels of each test example, and the share of invalid first outputs.

    A record has them all. Of separate outputs, those of the likeliest path and brand are taken.
    """
    first, valid = model.generate(split.X_test)
    invalid = 100 * float(1 - valid.mean())
    if model.params_.format == "record":
        return first, invalid
    ranking = model.predict(split.X_test, RANKED)
    return likeliest_paths(ranking, levels_of(split)), invalid


def brand_accuracy(chosen: csr_matrix, split: Split) -> dict[str, float]:
    """Return the share of right brands where the text names the brand, and where it does not."""
    levels, names = levels_of(split), split.test.names()
    brands = _columns(levels, "brand")
    right: dict[bool, list[bool]] = {True: [], False: []}
    for row, text in enumerate(split.test.texts or ()):
        true = [label for label in split.Y_test[row].indices.tolist() if label in brands]
        if len(true) != 1:
            continue
        name = names[true[0]].partition(KIND_JOINT)[2].lower()
        given = [label for label in chosen[row].indices.tolist() if label in brands]
        right[name in text.lower()].append(given == true)
    return {
        f"brand accuracy, {'' if named else 'not '}in text": 100 * float(np.mean(each))
        for named, each in right.items()
        if each
    }


def _columns(levels: Levels, kind: str) -> set[int]:
    if kind not in levels.names:
        return set()
    return set(np.flatnonzero(levels.of == levels.names.index(kind)).tolist())


def _trials(quick: bool) -> list[Trial]:
    data = Sample("flipkart", rows=1200 if quick else 5000, tested=200 if quick else 1000)
    size = {**NEW_T5, "epochs": 14 if quick else 10}
    forms = [("record", "free"), ("record", "short"), ("paths", "short")] if quick else FORMS
    return [
        Trial(
            data,
            {"output": form, "decoding": decoding},
            "seq2seq",
            {"preset": "paper", **size, "format": form, "decoding": decoding, "beams": 4},
        )
        for form, decoding in forms
    ]


def _plot(results: Results) -> Figure:
    """Return F1 by level of each row, with NA counted as a class and without."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, end, title in (
        (left, "F1", "NA not counted"),
        (right, "F1 with NA", "NA as a class"),
    ):
        for row in results.rows:
            means = [row.mean(f"{level} {end}") for level in SHOWN]
            axes.plot(SHOWN, means, "o-", ms=4, label=f"{row.key['output']}, {row.key['decoding']}")
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.3)
    left.set_ylabel("micro-F1, percent")
    right.legend(fontsize=8)
    return figure


EXPERIMENTS = (
    Experiment(
        "seq2seq-levels",
        "F1 by level and brand of a T5, as one sequence and as several, free and restricted",
        "Pathak 2024, slides on the results of the T5 baseline",
        _trials,
        figures=by_level,
        columns=(
            *("invalid", "P@1", "exact path"),
            *(f"{level} {end}" for end in ("F1", "F1 with NA", "tail F1") for level in SHOWN),
            *("brand accuracy, in text", "brand accuracy, not in text"),
        ),
        metric="exact path",
        plot=_plot,
        notes=(
            "No pretrained T5 could be had where the figures were made: these are of a new T5 "
            "with 0.4 million weights, trained on 5,000 products of flipkart, with four beams and "
            "without the prompt, which is the same for all examples and of no use to a T5 that "
            "knows no words. They show how the forms differ, not how good a pretrained T5 is. The "
            "slides' figures are a picture; in words they state: tail labels are those with at "
            "most 25 training samples; `the high F1 score for Brand_category is attributed to its "
            "strong correlation with the Manufacturer attribute`, a field that flipkart does not "
            "have: here, the brand's name is or is not in the title; `the elevated F1 score "
            "observed in the L4 category suggests that the model has predominantly learned to "
            "output NA for this label`: L4 F1 with NA beside L4 F1. F1 is micro-F1, of tail "
            "labels macro-F1. record: one sequence with brand and levels; paths: brand and path "
            "as separate outputs, of which the likeliest are taken."
        ),
    ),
)
