"""labelspace: extreme multi-label classification by embeddings.

    import labelspace as ls
    tagger = ls.train("train.jsonl.gz")
    tagger.tag("Wireless earbuds with charging case", k=5)

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from labelspace._core import compiled as _compiled
from labelspace._version import __version__

_compiled.choose_folder()

if TYPE_CHECKING:
    from labelspace.data import Columns, Taxonomy, iter_batches, read, read_split, write
    from labelspace.data.dataset import Dataset
    from labelspace.errors import LabelspaceError
    from labelspace.methods.baselines import MostCommon, Random
    from labelspace.methods.dxml import DXML
    from labelspace.methods.fusion import Fusion
    from labelspace.methods.glas import GLaS
    from labelspace.methods.hierarchicalxc import HierarchicalXC
    from labelspace.methods.hyperbolic import Hyperbolic
    from labelspace.methods.knn import KNN
    from labelspace.methods.linear import Linear
    from labelspace.methods.neuralxc import NeuralXC
    from labelspace.methods.seq2seq import Seq2Seq
    from labelspace.methods.treespace import TreeSpace
    from labelspace.metrics.ranking import evaluate
    from labelspace.metrics.thresholds import Threshold
    from labelspace.model.explain import Why
    from labelspace.model.tagger import Tagger, load
    from labelspace.model.tags import Tag, Tags
    from labelspace.model.training import train
    from labelspace.ranking import Ranking

_HOMES = {
    "Columns": "labelspace.data",
    "DXML": "labelspace.methods.dxml",
    "Dataset": "labelspace.data.dataset",
    "Fusion": "labelspace.methods.fusion",
    "GLaS": "labelspace.methods.glas",
    "HierarchicalXC": "labelspace.methods.hierarchicalxc",
    "Hyperbolic": "labelspace.methods.hyperbolic",
    "KNN": "labelspace.methods.knn",
    "LabelspaceError": "labelspace.errors",
    "Linear": "labelspace.methods.linear",
    "MostCommon": "labelspace.methods.baselines",
    "NeuralXC": "labelspace.methods.neuralxc",
    "Random": "labelspace.methods.baselines",
    "Ranking": "labelspace.ranking",
    "Seq2Seq": "labelspace.methods.seq2seq",
    "Tag": "labelspace.model.tags",
    "Tagger": "labelspace.model.tagger",
    "Tags": "labelspace.model.tags",
    "Taxonomy": "labelspace.data",
    "Threshold": "labelspace.metrics.thresholds",
    "TreeSpace": "labelspace.methods.treespace",
    "Why": "labelspace.model.explain",
    "evaluate": "labelspace.metrics.ranking",
    "iter_batches": "labelspace.data",
    "load": "labelspace.model.tagger",
    "read": "labelspace.data",
    "read_split": "labelspace.data",
    "train": "labelspace.model.training",
    "write": "labelspace.data",
}
# Classes that need torch, and the extra that brings it.
_EXTRAS = {
    "DXML": "neural",
    "GLaS": "neural",
    "Hyperbolic": "neural",
    "NeuralXC": "neural",
    "Seq2Seq": "t5",
    "TreeSpace": "neural",
}

__all__ = [
    "DXML",
    "KNN",
    "Columns",
    "Dataset",
    "Fusion",
    "GLaS",
    "HierarchicalXC",
    "Hyperbolic",
    "LabelspaceError",
    "Linear",
    "MostCommon",
    "NeuralXC",
    "Random",
    "Ranking",
    "Seq2Seq",
    "Tag",
    "Tagger",
    "Tags",
    "Taxonomy",
    "Threshold",
    "TreeSpace",
    "Why",
    "__version__",
    "evaluate",
    "iter_batches",
    "load",
    "read",
    "read_split",
    "train",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'labelspace' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if name not in _EXTRAS:
            raise
        from labelspace.errors import MissingExtraError

        raise MissingExtraError(
            f"{name} needs {error.name}, which is not installed: "
            f"pip install 'labelspace[{_EXTRAS[name]}]'"
        ) from None


def __dir__() -> list[str]:
    """All names but those that cannot be imported, so that `help` shows the others."""
    has_torch = find_spec("torch") is not None
    return [name for name in __all__ if has_torch or name not in _EXTRAS]
