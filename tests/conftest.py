"""What tests share: where the real data lie, and small random data sets."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

# A shell starts background jobs with SIGINT ignored, and processes that tests start inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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


# Ray reads it when it is imported: nodes listen on 127.0.0.1 only.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"


@pytest.fixture(scope="session")
def ray_cluster():
    """A Ray cluster of two nodes; tests that use it are of the xdist group "ray"."""
    pytest.importorskip("ray", reason="ray is not installed")
    from support.ray_cluster import cluster_of

    with cluster_of(2) as cluster:
        yield cluster
