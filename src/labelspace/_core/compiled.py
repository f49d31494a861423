"""Compiled loops: how functions are marked for numba, and where it keeps what it compiled.

That is beside the sources, or else where this user may write, or else nowhere: then every process
compiles anew.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable
from typing import Any

_uncached: set[str] = set()  # names of loops that no folder could be found for


def keeps_loops() -> bool:
    """Return whether loops are kept on disk for later runs."""
    return not _uncached


def loop(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function that Python calls: at its first call, to run without the GIL.

    What takes long to compile, and how to do without: the first run of a user waits for it.

    - numpy's sort, argsort and searchsorted: a loop, or `_core.sorting`.
    - Slices of arrays that are assigned to slices: a loop. numba compiles the text of its error.
    - Products, sums and other expressions of whole arrays: a loop.
    - A further type of an argument, such as a read-only array or int32 beside int64.

    Parameters
    ----------
    function : callable
    **options
        Of `numba.njit`; `fastmath` changes the bits of results.
    """
    if function is None:
        return lambda function: loop(function, **options)
    from numba import njit

    _pause_collection()
    options = {"nogil": True, "no_cfunc_wrapper": True, **options}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # there is no folder to write to
        _uncached.add(function.__qualname__)
        return njit(**options)(function)


def loop_part(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Mark a function that loops call; from Python, it runs as it is written, in Python.

    Unlike `loop` it is compiled with its callers alone, and without what calls from Python need,
    which takes a third of the time less.
    """
    from numba.extending import register_jitable

    return register_jitable(**options) if function is None else register_jitable(function)


@functools.cache
def _pause_collection() -> None:
    """Have Python's garbage collector pause while numba compiles: an eighth of the time is its."""
    from numba.core import event

    class Pause(event.Listener):  # type: ignore[misc]  # numba has no types
        depth, enabled = 0, False  # numba compiles, and reports it, under a global lock

        def on_start(self, _: Any) -> None:
            if self.depth == 0:
                self.enabled = gc.isenabled()
                gc.disable()
            self.depth += 1

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            if self.depth == 0 and self.enabled:
                gc.enable()

    event.register("numba:compile", Pause())


def choose_folder() -> None:
    """Set NUMBA_CACHE_DIR where numba would find no folder to write to and refuse the import.

    That is so where the package is read-only and its user has no home, as in containers. It has to
    run before numba is imported, and costs next to nothing where there is a folder.
    """
    if "NUMBA_CACHE_DIR" in os.environ or os.name == "nt":
        return
    if os.access(os.path.dirname(__file__), os.W_OK) or _can_be_made(_user_cache()):
        return
    from labelspace._core.files import private_folder

    try:
        folder = str(private_folder("labelspace-compiled"))
    except OSError:
        return  # numba reports what is missing
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba.core.config" in sys.modules:  # it has read the environment already
        sys.modules["numba.core.config"].CACHE_DIR = folder  # type: ignore[attr-defined]


def remove_outdated(package: str) -> None:
    """Delete compiled loops below a package that are older than their sources, once per upgrade.

    numba would compile them again, but first it unpickles their signatures, which fails if these
    name a class that an upgrade has removed.
    """
    marker = os.path.join(package, "__pycache__", "compiled-loops-checked")
    try:
        if os.stat(marker).st_mtime >= os.stat(os.path.join(package, "_version.py")).st_mtime:
            return
    except FileNotFoundError:
        pass
    try:
        _remove_outdated(package)
        with open(marker, "w"):
            pass
    except OSError:
        return  # read-only, or another process does the same: numba reports what matters


def _remove_outdated(package: str) -> None:
    for folder, folders, _ in os.walk(package):
        if "__pycache__" not in folders:
            continue
        folders.remove("__pycache__")
        for entry in os.scandir(os.path.join(folder, "__pycache__")):
            source = os.path.join(folder, entry.name.partition(".")[0] + ".py")
            if not (entry.name.endswith(".nbi") and os.path.exists(source)):
                continue
            if os.stat(source).st_mtime > entry.stat().st_mtime:
                os.unlink(entry.path)


def _user_cache() -> str:
    """Return the folder that numba takes in the user's home."""
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches/numba")
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(caches, "numba")


def _can_be_made(folder: str) -> bool:
    if not os.path.isabs(folder):  # without a home, "~" stays as it is
        return False
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return os.access(folder, os.W_OK | os.X_OK)
