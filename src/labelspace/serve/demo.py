"""The model of `labelspace serve --demo`: the generated product catalogue."""

from __future__ import annotations

from pathlib import Path

from labelspace.datasets.products import product_records
from labelspace.model.store import HEADER
from labelspace.model.training import train

PLACE = Path("demo") / "model"
_PRODUCTS = 8000


def demo_model(place: Path = PLACE) -> bool:
    """Train the model of the demo unless it is there; return whether it was trained."""
    if (place / HEADER).exists():
        return False
    train(list(product_records(_PRODUCTS))).save(place)
    return True
