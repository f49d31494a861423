"""Predictions of a model, with label names, for texts, tables, datasets and files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from labelspace.data.columns import Columns
from labelspace.data.dataset import Dataset, Features
from labelspace.data.formats import frames
from labelspace.data.stored_columns import fitting_columns
from labelspace.engine import current
from labelspace.engine.ray import RayEngine
from labelspace.errors import InputError, ParameterError
from labelspace.features.pipeline import FeaturePipeline
from labelspace.metrics import thresholds
from labelspace.model.label_lookup import LabelList
from labelspace.model.model_labels import ModelLabels
from labelspace.model.prediction import Wanted, checked_format, predict_file
from labelspace.model.reading import Source, read_unlabelled, texts_or_table
from labelspace.model.selection import Selection
from labelspace.model.tags import Tags
from labelspace.ranking import Ranking

ThresholdLike = float | Literal["auto"]


class Predictor(ModelLabels):
    """A model that predicts; `Tagger`, which sets these attributes, documents them."""

    pipeline: FeaturePipeline
    columns: Columns
    metadata: dict[str, Any]

    def tag(
        self,
        text: str,
        k: int = 5,
        threshold: ThresholdLike = 0.0,
        *,
        only: LabelList | None = None,
        exclude: LabelList | None = None,
        ancestors: bool = False,
        language: str | None = None,
    ) -> Tags:
        """Return the best labels of one text.

        Parameters
        ----------
        text : str
            The text.
        k : int, default 5
            Maximum number of labels.
        threshold : float or "auto", default 0.0
            Leave out labels with a lower score; "auto" is the one that `choose_threshold` set.
        only, exclude : list of str or Path, optional
            The labels that may be predicted, and those that may not: ids or names, or a file with
            one per line.
        ancestors : bool, default False
            Add the ancestors of every label in the taxonomy, which may give more than `k` labels.
        language : str, optional
            The language of the names, if the model has label texts.

        Returns
        -------
        Tags
            At most `k` labels with scores, best first.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> ls.train(rows * 4, method="knn").tag("apple", k=1)
        [Tag(name='fruit', score=1.0)]
        """
        if not isinstance(text, str):
            raise InputError(f"tag takes one text, not {type(text).__name__}; use tag_many")
        return self.tag_many(
            [text],
            k,
            threshold,
            only=only,
            exclude=exclude,
            ancestors=ancestors,
            language=language,
        )[0]

    def tag_many(
        self,
        texts: Iterable[str] | frames.Source,
        k: int = 5,
        threshold: ThresholdLike = 0.0,
        *,
        only: LabelList | None = None,
        exclude: LabelList | None = None,
        ancestors: bool = False,
        language: str | None = None,
    ) -> list[Tags]:
        """Return the best labels of each of several texts.

        Parameters
        ----------
        texts : iterable of str, DataFrame or iterable of dict
            Texts, or a table in memory with the columns of the training data.
        k : int, default 5
            Maximum number of labels per text.
        threshold : float or "auto", default 0.0
            Leave out labels with a lower score; "auto" is the one that `choose_threshold` set.
        only, exclude, ancestors, language
            As for `tag`.

        Returns
        -------
        list of Tags
            The labels of each text, best first.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> [tags[0].name for tags in tagger.tag_many(["a saw", "an apple"])]
        ['tool', 'fruit']
        """
        if isinstance(texts, str):
            raise InputError("tag_many takes several texts; use tag for one")
        least, maker = self.resolve_threshold(threshold), self.tag_maker(language)
        selection = Selection(self, only, exclude, ancestors=ancestors)
        given, is_table = texts_or_table(texts)
        rows: Iterable[Features] = (
            (self.pipeline.transform(batch) for batch in self.iter_batches(given))
            if is_table
            else [self.pipeline.transform_texts(given)]
        )
        rankings = (selection.closed(selection.rank(self.method, X, k)) for X in rows)
        return [tags for ranking in rankings for tags in maker.tags(ranking, least)]

    def columns_for(self, source: Source) -> Columns:
        """Return the model's columns for reading `source`, which may lack some of them.

        At least one text column must be there, and one label column if labels are read.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> tagger.columns_for([{"text": "pear", "labels": ["fruit"]}]).labels
        ('labels',)
        """
        return fitting_columns(self.columns, source)

    def iter_batches(
        self, source: Source, *, columns: Columns | None = None, batch_size: int = 1024
    ) -> Iterator[Dataset]:
        """Yield examples without labels in batches, for `predict`.

        Parameters
        ----------
        source : path, DataFrame, list of dict or Dataset
            The examples; also a .txt file that is one document, or a folder of such files.
        columns : Columns, optional
            The columns of a table. Default: those of the training data.
        batch_size : int, default 1024
            Number of examples per batch.

        Yields
        ------
        Dataset
            Up to `batch_size` examples.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> new = [{"text": "saw"}, {"text": "apple"}, {"text": "a ripe apple"}]
        >>> [len(batch) for batch in tagger.iter_batches(new, batch_size=2)]
        [2, 1]
        """
        return read_unlabelled(self, source, columns, batch_size)

    def predict(
        self,
        dataset: Dataset,
        k: int = 5,
        *,
        only: LabelList | None = None,
        exclude: LabelList | None = None,
        ancestors: bool = False,
    ) -> Ranking:
        """Rank labels for the examples of a Dataset.

        Parameters
        ----------
        dataset : Dataset
            The examples; their labels, if any, are not used.
        k : int, default 5
            Number of labels per example.
        only, exclude, ancestors
            As for `tag`.

        Returns
        -------
        Ranking
            Label numbers and scores; `to_tags` gives them names.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> tagger.predict(tagger.read(rows), k=1).labels.tolist()
        [[0], [1]]
        """
        selection = Selection(self, only, exclude, ancestors=ancestors)
        X = self.pipeline.transform(dataset)
        return selection.closed(selection.rank(self.method, X, k))

    def to_tags(
        self, ranking: Ranking, threshold: float = 0.0, language: str | None = None
    ) -> list[Tags]:
        """Return a ranking with label names for numbers.

        Parameters
        ----------
        ranking : Ranking
            What `predict` returned.
        threshold : float, default 0.0
            Leave out labels with a lower score.
        language : str, optional
            The language of the names, if the model has label texts.

        Returns
        -------
        list of Tags
            The labels of each example, best first.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> tagger.to_tags(tagger.predict(tagger.read(rows[:1]), k=1))
        [[Tag(name='fruit', score=1.0)]]
        """
        return self.tag_maker(language).tags(ranking, threshold)

    def predict_file(
        self,
        source: Source,
        out: str | Path | None = None,
        *,
        k: int | None = None,
        threshold: ThresholdLike | None = None,
        format: str | None = None,
        likeliest_path: bool = False,
        only: LabelList | None = None,
        exclude: LabelList | None = None,
        ancestors: bool = False,
        language: str | None = None,
        columns: Columns | None = None,
        batch_size: int = 1024,
        on_batch: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Predict labels for a whole file in constant memory and write them to a file.

        On a cluster (`labelspace.engine.engine_of`) batches are predicted by its nodes, and the
        file is the same. Batches that are done are kept beside the file until it is complete; a
        call that is repeated after a crash predicts the others only.

        Parameters
        ----------
        source : path, DataFrame, list of dict or Dataset
            The examples; also a .txt file that is one document, or a folder of such files.
        out : path, optional
            The file to write, which is replaced as a whole or not at all. Default: standard output.
        k : int, optional
            Maximum number of labels per example. Default: 5, or 50 with a threshold.
        threshold : float or "auto", optional
            Leave out labels with a lower score; "auto" is the one that `choose_threshold` set.
        format : "jsonl", "csv" or "parquet", optional
            The format to write. Default: by the suffix of `out`, else JSON lines.
        likeliest_path : bool, default False
            Also write the likeliest path in the taxonomy, and the likeliest label of every other
            kind.
        only, exclude, ancestors, language
            As for `tag`.
        columns : Columns, optional
            The columns of a table. Default: those of the training data.
        batch_size : int, default 1024
            Number of examples in memory at a time.
        on_batch : callable, optional
            Called after each batch with the number of examples done.

        Returns
        -------
        int
            Number of examples.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> tagger.predict_file([{"text": "apple"}], k=1)
        {"id": "1", "labels": [{"name": "fruit", "score": 1.0}]}
        1
        """
        terminal = out is None and sys.stdout.isatty()
        if terminal and format == "parquet":
            raise ParameterError("format='parquet': a terminal cannot show it; give a file")
        if k is None:
            k = 5 if threshold is None else thresholds.RANKED
        wanted = Wanted(
            k=k,
            least=0.0 if threshold is None else self.resolve_threshold(threshold),
            format=checked_format(out, format),
            likeliest_path=likeliest_path,
            only=only,
            exclude=exclude,
            ancestors=ancestors,
            language=language,
            terminal=terminal,
        )
        engine = current()
        if isinstance(engine, RayEngine):
            from labelspace.model.ray_prediction import predict_on_cluster

            return predict_on_cluster(
                engine, self, source, out, wanted, columns, batch_size, on_batch
            )
        batches = self.iter_batches(source, columns=columns, batch_size=batch_size)
        return predict_file(self, batches, out, wanted, on_batch)

    def resolve_threshold(self, threshold: ThresholdLike) -> float:
        """Return the threshold as a number: "auto" is the one that was chosen for this model.

        Raises
        ------
        ParameterError
            If it is "auto" and none was chosen.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> tagger.resolve_threshold(0.5)
        0.5
        """
        if threshold != "auto":
            return threshold
        if "threshold" not in self.metadata:
            raise ParameterError(
                "threshold 'auto': the model has none; give held-out data to choose it on "
                "(predict --valid FILE, or train --threshold-for micro-f1)"
            )
        return float(self.metadata["threshold"]["value"])
