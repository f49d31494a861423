"""What tests share: where the real data lie, and small random data sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """Return the folder of a real data set; skip the test where there is none."""

    def find(name: str) -> Path:
        folder = SHARED / name
        if not folder.is_dir():
            pytest.skip(f"real data set {name!r} is not at hand ({folder})")
        return folder

    return find
