"""labelspace: extreme multi-label classification by embeddings.

    import labelspace as ls
    tagger = ls.train("train.jsonl.gz")
    tagger.tag("Wireless earbuds with charging case", k=5)

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from labelspace import _compiled
from labelspace._version import __version__

_compiled.choose_folder()

if TYPE_CHECKING:
    from labelspace.data import Columns, read, read_split
    from labelspace.data.dataset import Dataset
    from labelspace.evaluation.metrics import evaluate
    from labelspace.methods.baselines import MostCommon, Random
    from labelspace.methods.dxml import DXML
    from labelspace.methods.fusion import Fusion
    from labelspace.methods.glas import GLaS
    from labelspace.methods.hierarchicalxc import HierarchicalXC
    from labelspace.methods.hyperbolic import Hyperbolic
    from labelspace.methods.knn import KNN
    from labelspace.methods.linear import Linear
    from labelspace.methods.neuralxc import NeuralXC
    from labelspace.methods.ranking import Ranking
    from labelspace.methods.seq2seq import Seq2Seq
    from labelspace.methods.treespace import TreeSpace
    from labelspace.tagger import Tag, Tagger, load
    from labelspace.training import train

_HOMES = {
    "Columns": "labelspace.data",
    "DXML": "labelspace.methods.dxml",
    "Dataset": "labelspace.data.dataset",
    "Fusion": "labelspace.methods.fusion",
    "GLaS": "labelspace.methods.glas",
    "HierarchicalXC": "labelspace.methods.hierarchicalxc",
    "Hyperbolic": "labelspace.methods.hyperbolic",
    "KNN": "labelspace.methods.knn",
    "Linear": "labelspace.methods.linear",
    "MostCommon": "labelspace.methods.baselines",
    "NeuralXC": "labelspace.methods.neuralxc",
    "Random": "labelspace.methods.baselines",
    "Ranking": "labelspace.methods.ranking",
    "Seq2Seq": "labelspace.methods.seq2seq",
    "Tag": "labelspace.tagger",
    "Tagger": "labelspace.tagger",
    "TreeSpace": "labelspace.methods.treespace",
    "evaluate": "labelspace.evaluation.metrics",
    "load": "labelspace.tagger",
    "read": "labelspace.data",
    "read_split": "labelspace.data",
    "train": "labelspace.training",
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
    "Linear",
    "MostCommon",
    "NeuralXC",
    "Random",
    "Ranking",
    "Seq2Seq",
    "Tag",
    "Tagger",
    "TreeSpace",
    "__version__",
    "evaluate",
    "load",
    "read",
    "read_split",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'labelspace' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
