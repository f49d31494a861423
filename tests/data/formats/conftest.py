"""Files that the tests of several formats write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write text or bytes to a file and return its path."""

    def write(content: str | bytes, name: str = "data.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
