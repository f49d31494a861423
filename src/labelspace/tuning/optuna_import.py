"""Optuna, or the error that names the extra which installs it."""

from __future__ import annotations

from typing import Any

from labelspace.errors import MissingExtraError


def load_optuna() -> Any:
    """Return the module `optuna`; it is imported when tuning begins, and not with the package."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"tuning needs {error.name}, which is not installed: pip install 'labelspace[tune]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # progress is ours to show
    return optuna
