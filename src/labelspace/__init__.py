"""labelspace: extreme multi-label classification by embeddings.

    import labelspace as ls
    tagger = ls.train("train.jsonl.gz", method="knn")
    tagger.tag("Wireless earbuds with charging case", k=5)

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from labelspace._version import __version__

if TYPE_CHECKING:
    from labelspace.data import Columns, read, read_split
    from labelspace.data.dataset import Dataset
    from labelspace.evaluation.metrics import evaluate
    from labelspace.methods.baselines import MostCommon, Random
    from labelspace.methods.glas import GLaS
    from labelspace.methods.knn import KNN
    from labelspace.methods.ranking import Ranking
    from labelspace.tagger import Tag, Tagger, load, train

_HOMES = {
    "Columns": "labelspace.data",
    "Dataset": "labelspace.data.dataset",
    "GLaS": "labelspace.methods.glas",
    "KNN": "labelspace.methods.knn",
    "MostCommon": "labelspace.methods.baselines",
    "Random": "labelspace.methods.baselines",
    "Ranking": "labelspace.methods.ranking",
    "Tag": "labelspace.tagger",
    "Tagger": "labelspace.tagger",
    "evaluate": "labelspace.evaluation.metrics",
    "load": "labelspace.tagger",
    "read": "labelspace.data",
    "read_split": "labelspace.data",
    "train": "labelspace.tagger",
}

__all__ = [
    "KNN",
    "Columns",
    "Dataset",
    "GLaS",
    "MostCommon",
    "Random",
    "Ranking",
    "Tag",
    "Tagger",
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
