"""geoopt without the deprecation warnings of its import, which our settings make errors."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import geoopt

__all__ = ["geoopt"]
