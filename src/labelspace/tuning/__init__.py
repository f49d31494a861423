"""Tuning of a method's parameters on validation cuts of the training data."""

from __future__ import annotations

from labelspace.tuning.tune import Tuned, tune

__all__ = ["Tuned", "tune"]
