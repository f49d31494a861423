"""`labelspace info`: the metadata of a saved model."""

from __future__ import annotations

from typing import Any

from labelspace.cli import options
from labelspace.cli.output import print_json, print_mapping, print_message, print_table


def info(model: options.Model, as_json: options.AsJson = False) -> None:
    """Show the metadata of a model and verify its checksums.

    Prints the method, parameters, statistics of the training data, versions and size, and the
    figures that were measured in training and by `labelspace evaluate --save`.

    Example: labelspace info model/
    """
    from labelspace._core.machine import in_words
    from labelspace.model import store
    from labelspace.model.figures import FIGURES, check_figures

    header = store.load(model).header
    figures = header.get(FIGURES, [])
    check_figures(figures, f"{model}: ")
    size = store.size_in_bytes(model)
    if as_json:
        print_json({**header, "bytes": size})
        return
    metadata = {}
    for name, value in header.items():
        if name == FIGURES:
            continue
        if isinstance(value, dict):
            metadata.update({f"{name}: {key}": part for key, part in value.items()})
        else:
            metadata[name] = value
    print_mapping({**metadata, "size": in_words(size)}, str(model))
    if not figures:
        print_message("no figures: labelspace evaluate MODEL TEST --save measures and saves them")
    for each in figures:
        _print_figures(each)


def _print_figures(found: dict[str, Any]) -> None:
    """Print the figures of one set of examples, the calibration, and how they were measured."""
    from labelspace.model.figures import described

    values, calibration = found["figures"], found["calibration"]
    parts = [name.partition("@") for name in values]
    ks = dict.fromkeys(k for _, _, k in parts)
    rows = [
        (family, *(values.get(f"{family}@{k}") for k in ks))
        for family in dict.fromkeys(family for family, _, _ in parts)
    ]
    print_table(("percent", *(f"@{k}" for k in ks)), rows, f"figures: {described(found)}")
    error = "-" if calibration["ECE"] is None else f"{calibration['ECE']:.2f} percent"
    print_table(
        ("score", "mean", "share true", "labels"),
        [
            (f"{part['from']:g} to {part['to']:g}", part["score"], part["true"], part["pairs"])
            for part in calibration["bins"]
        ],
        f"calibration of the first {calibration['k']} labels: expected error {error}",
    )
    print_message(found["note"])
