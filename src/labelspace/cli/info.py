"""`labelspace info`: the metadata of a saved model."""

from __future__ import annotations

from labelspace.cli import options
from labelspace.cli.output import print_json, print_mapping


def info(model: options.Model, as_json: options.AsJson = False) -> None:
    """Show the metadata of a model and verify its checksums.

    Prints the method, parameters, statistics of the training data, versions and size.

    Example: labelspace info model/
    """
    from labelspace._core.machine import in_words
    from labelspace.model import store

    header = store.load(model).header
    size = store.size_in_bytes(model)
    if as_json:
        print_json({**header, "bytes": size})
        return
    metadata = {}
    for name, value in header.items():
        if isinstance(value, dict):
            metadata.update({f"{name}: {key}": part for key, part in value.items()})
        else:
            metadata[name] = value
    print_mapping({**metadata, "size": in_words(size)}, str(model))
