"""The registry of methods by name. CONTRIBUTING.md describes how to add one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from labelspace._core.suggest import unknown
from labelspace.errors import MissingExtraError, UnknownMethodError

if TYPE_CHECKING:
    from labelspace.methods.base import Method

# Module and class of each method; a module is imported when its method is first used.
HOMES = {
    "most-common": "labelspace.methods.baselines:MostCommon",
    "random": "labelspace.methods.baselines:Random",
    "dual-encoder": "labelspace.methods.dual_encoder:DualEncoder",
    "dxml": "labelspace.methods.dxml:DXML",
    "glas": "labelspace.methods.glas:GLaS",
    "hierarchicalxc": "labelspace.methods.hierarchicalxc:HierarchicalXC",
    "hyperbolic": "labelspace.methods.hyperbolic:Hyperbolic",
    "fusion": "labelspace.methods.fusion:Fusion",
    "knn": "labelspace.methods.knn:KNN",
    "labeltext": "labelspace.methods.labeltext:LabelText",
    "lexical": "labelspace.methods.lexical:Lexical",
    "linear": "labelspace.methods.linear:Linear",
    "neuralxc": "labelspace.methods.neuralxc:NeuralXC",
    "seq2seq": "labelspace.methods.seq2seq:Seq2Seq",
    "treespace": "labelspace.methods.treespace:TreeSpace",
}
_registered: dict[str, type[Method]] = {}


def method_names() -> list[str]:
    """Return the names of all methods, sorted."""
    return sorted({*HOMES, *_registered})


def method_class(name: str) -> type[Method]:
    """Return the class of a method.

    Parameters
    ----------
    name : str
        One of `method_names()`.

    Returns
    -------
    type
        A subclass of `Method`.

    Raises
    ------
    UnknownMethodError
        If there is no such method; the message suggests the most similar name.
    MissingExtraError
        If a package that the method needs is not installed.
    """
    if not isinstance(name, str):
        raise UnknownMethodError(
            f"method={name!r}: expected a name; there are: {', '.join(method_names())}"
        )
    if name in _registered:
        return _registered[name]
    if name not in HOMES:
        raise UnknownMethodError(unknown(name, "method", method_names()))
    module, _, cls = HOMES[name].partition(":")
    try:
        found: type[Method] = getattr(import_module(module), cls)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{name} needs {error.name}, which is not installed: pip install 'labelspace[neural]'"
        ) from None
    return found


def register(cls: type[Method]) -> type[Method]:
    """Add a method from outside the package; usable as a class decorator.

    Parameters
    ----------
    cls : type
        A subclass of `Method`. Its `name` may be that of a method of the package, which it then
        replaces.

    Returns
    -------
    type
        The class.

    Examples
    --------
    >>> from labelspace.methods.knn import KNN
    >>> @register
    ... class MyKNN(KNN):
    ...     name = "my-knn"
    >>> method_class("my-knn") is MyKNN
    True
    >>> del _registered["my-knn"]
    """
    _registered[cls.name] = cls
    return cls
