"""Summary, extra and capabilities of each method, without importing the method's module."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from labelspace.methods.registry import HOMES, method_class, method_names

if TYPE_CHECKING:
    from labelspace.methods.base import Method


@dataclass(frozen=True)
class Description:
    """One row of the list of methods.

    Attributes
    ----------
    summary : str
        What the method is, in one line.
    extra : str or None
        Extra of labelspace that the method needs.
    package : str or None
        A package that this extra installs.
    update, explain, map, neighbours : bool
        Whether the commands of these names work on models of the method.
    """

    summary: str
    extra: str | None = None
    package: str | None = None
    update: bool = False
    explain: bool = False
    map: bool = False
    neighbours: bool = False

    @classmethod
    def of(cls, method: type[Method]) -> Description:
        """Return the description of a class; the extra that it needs is not known."""
        return cls(
            method.summary,
            update=method.can_update,
            explain=method.can_explain,
            map=method.has_space,
            neighbours=method.can_find_examples,
        )


_NEURAL, _T5 = ("neural", "torch"), ("t5", "transformers")
# Importing the classes takes seconds. A test compares these descriptions with the classes.
_DECLARED = {
    "fusion": Description(
        "linear classifiers, neighbours and an embedding, combined by stacking",
        update=True,
        explain=True,
        map=True,
        neighbours=True,
    ),
    "hierarchicalxc": Description(
        "classifiers along a label tree, ranked by path probability", update=True
    ),
    "knn": Description(
        "cosine neighbours on the raw features vote for their labels",
        update=True,
        neighbours=True,
    ),
    "labeltext": Description(
        "labels whose text, with the mean of their examples, is closest", update=True, explain=True
    ),
    "lexical": Description("label names found in the text, scored by boosted trees", explain=True),
    "linear": Description(
        "one-vs-all linear classifiers, hard negatives where labels are many",
        update=True,
        explain=True,
    ),
    "most-common": Description("the most frequent labels, the same for every example"),
    "random": Description("labels drawn at random, as a baseline"),
    "dxml": Description(
        "deep embedding of examples, whose nearest neighbours vote",
        *_NEURAL,
        update=True,
        map=True,
        neighbours=True,
    ),
    "dual-encoder": Description(
        "one neural embedding of texts and label texts, inner-product search",
        *_NEURAL,
        update=True,
        explain=True,
        map=True,
    ),
    "glas": Description(
        "neural embedding with a label-graph regulariser, inner-product search",
        *_NEURAL,
        update=True,
        explain=True,
        map=True,
    ),
    "hyperbolic": Description(
        "examples and labels in the Poincare ball, near examples vote", *_NEURAL, map=True
    ),
    "neuralxc": Description(
        "autoencoders of features and labels, a regressor between their codes", *_NEURAL
    ),
    "seq2seq": Description("a T5 that generates the path of a label, token by token", *_T5),
    "treespace": Description(
        "a label tree with an embedding space per level, best-first search", *_NEURAL
    ),
}


def describe(name: str) -> Description:
    """Return the description of a method; only a method from outside the package is imported."""
    return _DECLARED.get(name) or Description.of(method_class(name))


def methods_with(capability: Literal["update", "explain", "map", "neighbours"]) -> str:
    """Return the names of the installed methods with a capability, separated by commas."""
    return ", ".join(
        name
        for name in method_names()
        if getattr(describe(name), capability) and is_installed(describe(name))
    )


def is_installed(method: Description) -> bool:
    """Return whether the extra that the method needs is installed; every extra installs torch."""
    needed = () if method.package is None else (method.package, "torch")
    return all(find_spec(package) is not None for package in needed)


def is_available(class_name: str) -> bool:
    """Return whether a public class can be imported; True for a class that is not a method."""
    name = _method_of(class_name)
    return name is None or is_installed(describe(name))


def extra_of(class_name: str) -> str | None:
    """Return the extra that a public class needs; None for a class that is not a method."""
    name = _method_of(class_name)
    return None if name is None else describe(name).extra


def _method_of(class_name: str) -> str | None:
    """Return the name of the method that a public class implements; None if it is no method."""
    return next((name for name, home in HOMES.items() if home.endswith(f":{class_name}")), None)
