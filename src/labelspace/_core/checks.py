"""The check of what a schema cannot declare (`schema.py`), before a compiled loop trusts it."""

from __future__ import annotations

from labelspace.errors import ModelFormatError

OFFSETS = "shortlist.offsets"  # the only array of a model that may hold -inf


def expect(holds: bool, what: str) -> None:
    """Raise ModelFormatError, a sentence on what does not fit, unless it holds."""
    if not holds:
        raise ModelFormatError(f"{what}: the model is damaged, restore it from a copy")
