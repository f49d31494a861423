"""Reading data for a model: labels and features are numbered as in its training data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data import Columns, iter_batches, read
from labelspace.data.beside import with_chosen_texts
from labelspace.data.dataset import Dataset
from labelspace.data.formats import frames
from labelspace.data.formats.documents import are_documents, iter_documents
from labelspace.data.label_texts import LabelTexts
from labelspace.data.options import LabelSource
from labelspace.data.taxonomy import joined

if TYPE_CHECKING:
    from labelspace.methods.base import Method
    from labelspace.model.predictor import Predictor

Source = frames.Source | Dataset  # a file, a table in memory, or a Dataset


def read_labelled(
    tagger: Predictor, source: Source, columns: Columns | None, labels: LabelSource = None
) -> Dataset:
    """Read examples with labels, the model's labels first and unknown ones after them.

    `labels` are label texts; those of a model are not repeated.
    """
    if isinstance(source, Dataset):
        dataset = with_labels_first(source, tagger.label_names)
        return dataset if labels in (None, "auto") else with_chosen_texts(dataset, labels)
    return read(
        source,
        columns=columns or tagger.columns_for(source),
        label_names=tagger.label_names,
        unknown_labels="extend",
        n_features=tagger.pipeline.n_numeric or None,
        zero_based=_zero_based(tagger),
        label_texts=labels,
    )


def read_unlabelled(
    tagger: Predictor, source: Source, columns: Columns | None, batch_size: int
) -> Iterator[Dataset]:
    """Yield examples without labels, `batch_size` at a time."""
    return unlabelled_reader(tagger, source, columns, batch_size)()


def unlabelled_reader(
    tagger: Predictor, source: Source, columns: Columns | None, batch_size: int
) -> Callable[[], Iterator[Dataset]]:
    """Return what yields the batches, without the model: it can be sent to another process."""
    if isinstance(source, Dataset):
        return partial(source.batches, batch_size)
    columns = columns or tagger.columns_for(source)
    if frames.is_path(source) and are_documents(Path(source), columns):  # type: ignore[arg-type]
        return partial(iter_documents, Path(source), batch_size, columns.encoding)  # type: ignore[arg-type]
    return partial(
        iter_batches,
        source,
        batch_size=batch_size,
        columns=replace(columns, labels=(), path=()),
        require_labels=False,
        n_features=tagger.pipeline.n_numeric or None,
        zero_based=_zero_based(tagger),
    )


def _zero_based(tagger: Predictor) -> bool | Literal["auto"]:
    """Return whether svmlight files count features from 0: as the training file did."""
    base = tagger.metadata.get("index_base")
    return "auto" if base is None else base == 0


def with_labels_first(dataset: Dataset, known: list[str]) -> Dataset:
    """Return the dataset with the known labels first, in their order, and its other ones after."""
    names = dataset.names()
    if names[: len(known)] == known and dataset.label_names is not None:
        return dataset
    if dataset.label_names is None:  # numbers are the model's own
        names[: len(known)] = known[: len(names)]
    numbers = {name: number for number, name in enumerate(known)}
    for name in names:
        numbers.setdefault(name, len(numbers))
    new_id = np.array([numbers[name] for name in names], np.int32)
    old = dataset.labels
    labels = csr_matrix(
        (old.data, new_id[old.indices], old.indptr), shape=(len(dataset), len(numbers))
    )
    labels.sort_indices()
    ordered = tuple(numbers)
    texts = dataset.label_texts
    return replace(
        dataset,
        labels=labels,
        label_names=ordered,
        taxonomy=joined([dataset.taxonomy], ordered),
        label_texts=None if texts is None else texts.aligned(ordered),
    )


def with_labels_to(dataset: Dataset, n_labels: int) -> Dataset:
    """Return the dataset without the labels after the first `n_labels`, and without label texts."""
    if n_labels == dataset.n_labels:
        return replace(dataset, label_texts=None)
    names = dataset.names()[:n_labels]
    return replace(
        dataset,
        labels=dataset.labels[:, :n_labels],
        label_names=names,
        taxonomy=joined([dataset.taxonomy], names),
        label_texts=None,
    )


def without_label_texts(dataset: Dataset) -> Dataset:
    """Return the dataset without label texts and without the labels that only these have."""
    if dataset.label_texts is None:
        return dataset
    # Labels that only the label texts have come last.
    return with_labels_to(dataset, int(dataset.labels.indices.max(initial=-1)) + 1)


def uses_label_texts(dataset: Dataset, model: Method) -> bool:
    """Return whether the method is given what it needs of the label texts of these data."""
    has_both = dataset.label_texts is not None and dataset.texts is not None
    return has_both and model.reads_label_texts()


def label_text_figures(texts: LabelTexts) -> dict[str, Any]:
    """Return what `model.json` has on label texts."""
    return {
        "named": texts.n_named,
        "languages": sorted(filter(None, texts.languages)),
        "names": sum(1 for _ in texts.forms()),
    }


def texts_or_table(given: Any) -> tuple[Any, bool]:
    """Return what was given, and whether it is a table in memory instead of texts."""
    marks = ("columns", "column_names", "schema")  # of DataFrames and Arrow tables
    if not isinstance(given, Iterable) or any(hasattr(given, name) for name in marks):
        return given, True
    items = iter(given)
    first = list(islice(items, 1))
    return chain(first, items), bool(first) and isinstance(first[0], Mapping)


def kept_ids(method: Method, dataset: Dataset) -> list[str] | None:
    """Return the ids of examples where the method finds near ones; None if they have none."""
    if dataset.ids is None or not method.can_find_examples:
        return None
    return [str(each) for each in dataset.ids]
