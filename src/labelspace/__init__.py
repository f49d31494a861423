"""labelspace: extreme multi-label classification.

    import labelspace as ls
    tagger = ls.train("train.jsonl.gz")
    tagger.tag("Wireless earbuds with charging case", k=5)

The public names and their modules are listed once, in `__init__.pyi`, which type checkers and
editors read too. A name is imported when it is first used, so that importing the package is quick.
"""

import ast as _ast
from importlib import import_module as _import_module
from pathlib import Path as _Path

from labelspace._core import compiled as _compiled
from labelspace._version import __version__ as __version__

_compiled.choose_folder()
_compiled.remove_outdated(str(_Path(__file__).parent))


def _public_names() -> dict[str, str]:
    """Return the module of each public name, as the import statements of the stub list them."""
    stub = _ast.parse(_Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {
        alias.name: statement.module or ""
        for statement in stub.body
        if isinstance(statement, _ast.ImportFrom)
        for alias in statement.names
    }


_MODULES = _public_names()
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'labelspace' has no attribute {name!r}")
    try:
        return getattr(_import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        from labelspace.errors import MissingExtraError
        from labelspace.methods.descriptions import extra_of

        extra = extra_of(name)
        if extra is None:
            raise
        raise MissingExtraError(
            f"{name} needs {error.name}, which is not installed: pip install 'labelspace[{extra}]'"
        ) from None


def __dir__() -> list[str]:
    """List the public names, without methods whose extra is not installed: `help` imports all."""
    from labelspace.methods.descriptions import is_available

    return [name for name in __all__ if is_available(name)]
