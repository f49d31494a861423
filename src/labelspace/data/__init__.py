"""Reads data files and tables into a `Dataset`, and writes them."""

# Not lazy: `read` is also the name of a module here, and importing that module must not hide the
# function. What is heavy (numba, pyarrow) is imported by the readers when they run.
from labelspace.data.columns import Columns
from labelspace.data.dataset import Dataset
from labelspace.data.label_files import read_label_texts
from labelspace.data.label_texts import LabelTexts
from labelspace.data.read import iter_batches, read
from labelspace.data.splits import read_split
from labelspace.data.stats import label_bands, statistics
from labelspace.data.taxonomy import Taxonomy, read_taxonomy, write_taxonomy
from labelspace.data.writing import write

__all__ = [
    "Columns",
    "Dataset",
    "LabelTexts",
    "Taxonomy",
    "iter_batches",
    "label_bands",
    "read",
    "read_label_texts",
    "read_split",
    "read_taxonomy",
    "statistics",
    "write",
    "write_taxonomy",
]
