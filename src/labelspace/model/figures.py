"""The figures of a model, as its card shows them, and how they are checked when they are read.

They are measured on examples that the model did not learn from: those that a method held out, those
that training was given to validate on, or a test file (`labelspace evaluate MODEL FILE --save`).
The metadata hold a list of them: those of training first, then those of test files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelspace._core.checks import expect
from labelspace.errors import ParameterError, StoreError
from labelspace.labels.propensity import LabelCounts
from labelspace.metrics import ranking as metrics
from labelspace.metrics.reliability import reliability
from labelspace.model import store

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from labelspace.components.held_out_ranking import HeldOutRanking
    from labelspace.model.tagger import Tagger
    from labelspace.ranking import Ranking

FIGURES = "evaluation"  # the key of the metadata
KS = (1, 3, 5)
LEAST_EXAMPLES = 30  # figures of fewer are noise
MOST_KEPT = 20  # the oldest test files give way to new ones
HOLD_OUT, VALIDATION, TEST = "hold-out", "validation", "test"  # where examples come from
USUAL_PROPENSITY = 0.55, 1.5
IN_MEMORY = "data in memory"
_FAMILIES = ("P", "nDCG", "PSP")
_NAME = re.compile(rf"({'|'.join(_FAMILIES)})@[1-9][0-9]{{0,8}}")
_LONGEST, _MOST = 2000, 100  # characters of a text; figures, and bins of the calibration
_KEYS = {
    *("examples_from", "source", "examples", "measured", "note", "figures", "calibration"),
    "added_since",
}


def hold_out_figures(
    held: HeldOutRanking, counts: LabelCounts, source: str = "", grouped: bool = False
) -> dict[str, Any] | None:
    """Return the figures of what a method held out; None if these are too few examples.

    Parameters
    ----------
    held : HeldOutRanking
        The examples.
    counts : LabelCounts
        Of the training labels.
    source : str
        The name of the file, if the examples were given to training and not cut from its data.
    grouped : bool
        Whether half of the examples have no near duplicates in training.
    """
    if held.Y.shape[0] < LEAST_EXAMPLES or held.Y.nnz == 0:
        return None
    note = (
        f"{held.fitted} was fitted on other parts of these examples than each was measured on; "
        "settings such as the number of epochs may have been chosen on them"
    )
    if not source:
        note += (
            ". They were cut from the training data"
            + (", half of them without near duplicates in the rest" if grouped else "")
            + "; the final model may have learned from them after the measurement"
        )
    # Labels of which only texts are known have counts, but may have no column of Y.
    own = LabelCounts(counts.counts[: held.Y.shape[1]], counts.n_points)
    return _document(
        metrics.evaluate(held.ranking, held.Y, own, ks=KS, bands=False),
        calibration_figures(held.ranking, held.Y),
        held.Y.shape[0],
        VALIDATION if source else HOLD_OUT,
        source,
        note[:1].upper() + note[1:] + ".",
    )


def calibration_figures(ranking: Ranking, Y: csr_matrix) -> dict[str, Any]:
    """Return ECE and the points of the reliability curve of the first labels."""
    return {"k": max(KS), **reliability(ranking, Y, k=max(KS)).metadata()}


def figures_of_test(
    found: Mapping[str, Any], source: str, propensity: tuple[float, float], propensity_from: str
) -> dict[str, Any]:
    """Return the figures of what `Tagger.evaluate` returned for a test set of this name."""
    note = "Measured by evaluate."
    if (*propensity, propensity_from) != (*USUAL_PROPENSITY, "train"):
        a, b = propensity
        note += f" PSP is of the label frequencies in the {propensity_from} data, A = {a}, B = {b}."
    return _document(found, found["calibration"], found["examples"], TEST, source[:_LONGEST], note)


def _document(
    found: Mapping[str, Any],
    calibration: Mapping[str, Any],
    examples: int,
    kind: str,
    source: str,
    note: str,
) -> dict[str, Any]:
    families = [(name, name.partition("@")[0]) for name in found]
    return {
        "examples_from": kind,
        "source": source,
        "examples": examples,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "note": note,
        "figures": {name: round(found[name], 4) for name, own in families if own in _FAMILIES},
        "calibration": dict(calibration),
        "added_since": 0,
    }


def name_of(source: Any) -> str:
    """Return the name of a file, or what stands for one."""
    path = getattr(source, "source", source)
    return Path(path).name if isinstance(path, str | Path) and str(path) else IN_MEMORY


def with_figures(
    kept: Sequence[Mapping[str, Any]], figures: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Return the list with these figures: they replace earlier ones of the same test file."""
    key = figures["examples_from"], figures["source"]
    others = [each for each in kept if (each["examples_from"], each["source"]) != key]
    training = [each for each in others if each["examples_from"] != TEST]
    tests = [each for each in others if each["examples_from"] == TEST]
    room = MOST_KEPT - len(training) - 1
    return [*training, *tests[max(0, len(tests) - room) :], figures]


def with_added(kept: Sequence[Mapping[str, Any]], examples: int) -> list[dict[str, Any]]:
    """Return the figures of a model that has learned from so many more examples since."""
    return [{**each, "added_since": each["added_since"] + examples} for each in kept]


def check_loaded_from(tagger: Tagger, directory: str | Path) -> None:
    """Raise an error if figures of this model could not be written there; cheap, for the start."""
    store.check_target(directory)
    if not tagger.digest:
        raise ParameterError(
            f"save_to={directory}: this model was not loaded from there: save and load it first"
        )


def store_figures(tagger: Tagger, figures: Mapping[str, Any], directory: str | Path) -> None:
    """Write figures into the directory of a loaded model.

    Nothing else in it changes, nor does its date. If another model was saved there since, this
    raises StoreError.
    """
    with store.locked(directory):
        bundle = store.load(directory)
        if bundle.digest != tagger.digest:
            raise StoreError(
                f"{directory} was changed since it was loaded: evaluate it again to save figures"
            )
        kept = with_figures(tagger.metadata.get(FIGURES, []), figures)
        bundle.header[FIGURES] = tagger.metadata[FIGURES] = kept
        store.save(bundle, directory)
        tagger.header, tagger.digest = bundle.header, store.digest(directory)


def described(figures: Mapping[str, Any]) -> str:
    """Return on which examples figures were measured, in words."""
    count, source = f"{figures['examples']:,} examples", figures["source"]
    what = {
        HOLD_OUT: f"{count} held out of the training data",
        VALIDATION: f"{count} of {source}, given to training to validate on",
        TEST: f"{count} of {source}",
    }[figures["examples_from"]]
    since = figures["added_since"]
    later = f", before an update with {since:,} more examples" if since else ""
    return f"{what}, {figures['measured'][:10]}{later}"


def check_figures(kept: Any, place: str = "") -> None:
    """Raise ModelFormatError unless this is a list of what the functions above return.

    `place` begins the error, if the caller does not name the model's directory itself.
    """
    listed = isinstance(kept, list) and len(kept) <= MOST_KEPT
    expect(listed, f"{place}{FIGURES} of model.json is not a list of figures")
    for number, document in enumerate(kept, start=1):
        _check(document, f"{place}{FIGURES} {number} of model.json")


def _check(document: Any, where: str) -> None:
    expect(isinstance(document, dict) and document.keys() == _KEYS, f"{where} has other fields")
    for name in ("examples_from", "source", "measured", "note"):
        expect(_is_text(document[name]), f"{where}: {name} is not a text")
    known = document["examples_from"] in (HOLD_OUT, VALIDATION, TEST)
    expect(known, f"{where}: examples_from is unknown")
    expect(_is_date(document["measured"]), f"{where}: measured is not a date")
    for name in ("examples", "added_since"):
        expect(_is_count(document[name]), f"{where}: {name} is not a count")
    figures, calibration = document["figures"], document["calibration"]
    fits = isinstance(figures, dict) and len(figures) <= _MOST
    expect(fits and all(map(_NAME.fullmatch, figures)), f"{where}: a figure has another name")
    within = all(_is_within(value, 100.0) for value in figures.values())
    expect(within, f"{where}: a figure is not a percentage")
    _check_calibration(calibration, f"{where}: calibration")


def _check_calibration(calibration: Any, where: str) -> None:
    fields = {"k", "ECE", "pairs", "bins"}
    fits = isinstance(calibration, dict) and calibration.keys() == fields
    expect(fits, f"{where} has other fields")
    error, bins = calibration["ECE"], calibration["bins"]
    expect(error is None or _is_within(error, 100.0), f"{where}: ECE is not a percentage")
    counted = _is_count(calibration["k"]) and _is_count(calibration["pairs"])
    expect(counted, f"{where}: k or pairs is not a count")
    expect(isinstance(bins, list) and len(bins) <= _MOST, f"{where}: bins is not a list")
    for each in bins:
        expect(
            isinstance(each, dict)
            and each.keys() == {"from", "to", "pairs", "score", "true"}
            and _is_count(each["pairs"])
            and all(_is_within(each[name], 1.0) for name in ("from", "to", "score", "true")),
            f"{where}: a bin is not one",
        )
    total = sum(each["pairs"] for each in bins)
    expect(total == calibration["pairs"], f"{where}: the bins do not add up to pairs")


def _is_text(value: Any) -> bool:
    """Return whether this is a text that can be printed: a lone surrogate cannot."""
    if not isinstance(value, str) or len(value) > _LONGEST:
        return False
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _is_within(value: Any, most: float) -> bool:
    """Return whether this is a number from 0 to `most`; sums of float32 may round above it."""
    return type(value) in (int, float) and math.isfinite(value) and 0.0 <= value <= most + 1e-3
