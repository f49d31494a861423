"""The model of `labelspace serve --demo`: the generated product catalogue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from labelspace.datasets.products import product_records
from labelspace.model.store import HEADER
from labelspace.model.training import train

PLACE = Path("demo") / "model"
_PRODUCTS = 8000


def demo_model(place: Path = PLACE, on_train: Callable[[], None] = lambda: None) -> bool:
    """Train the model of the demo unless it is there; return whether it was trained.

    `on_train` is called before a training begins.
    """
    if (place / HEADER).exists():
        return False
    on_train()
    train(list(product_records(_PRODUCTS))).save(place)
    return True
