"""A Tagger: a feature pipeline, a fitted method and the names of the labels, as one model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from labelspace.data.columns import Columns
from labelspace.data.dataset import Dataset, Features
from labelspace.data.formats import frames
from labelspace.data.label_texts import LabelTexts
from labelspace.data.options import LabelSource
from labelspace.data.stored_columns import fitting_columns
from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import InputError, ParameterError, UnsupportedError
from labelspace.features.pipeline import FeaturePipeline
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.descriptions import methods_with
from labelspace.methods.parameters import checked_count
from labelspace.metrics import thresholds
from labelspace.model.evaluation import check_labels, evaluate_model
from labelspace.model.explanation import Explanation, NearExample, explain, near_examples
from labelspace.model.label_lookup import LabelList
from labelspace.model.label_paths import LabelNode, LabelPaths
from labelspace.model.label_search import FoundLabel, LabelSearch
from labelspace.model.prediction import predict_file
from labelspace.model.reading import Source, read_labelled, read_unlabelled, texts_or_table
from labelspace.model.saving import load_tagger, save_tagger
from labelspace.model.selection import Selection
from labelspace.model.tags import Tag, TagMaker, Tags
from labelspace.model.updating import update_tagger
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import Callback

__all__ = ["Source", "Tag", "Tagger", "Tags", "load"]

_SHOWN = 3  # label names in a repr

ThresholdLike = float | Literal["auto"]
_Derived = TypeVar("_Derived")


class Tagger:
    """A trained model: takes texts or features, returns label names.

    `labelspace.train` makes one, `labelspace.load` reads a saved one.

    Parameters
    ----------
    pipeline : FeaturePipeline
        Turns texts and numeric features into the rows that the method takes.
    method : Method
        The fitted method.
    label_names : sequence of str
        One name per label of the method, as the data have it; then those of labels that only the
        label texts have, if the method cannot predict them.
    label_counts : LabelCounts, optional
        The number of training examples per label.
    taxonomy : Taxonomy, optional
        Parents and children among the labels.
    label_texts : LabelTexts, optional
        Names, alternative names and descriptions of the labels, in the order of `label_names`.
    metadata : dict, optional
        Statistics of the training data, training time, threshold: as in `model.json`.
    columns : Columns, optional
        The columns of the training data. Methods that read data use them by default.
    example_ids : sequence of str, optional
        The id of each training example, if the method finds near ones.

    Attributes
    ----------
    history : dict or None
        The training curve, if it was recorded; see `labelspace.runs.history`.
    header : dict
        The content of the `model.json` that the model was read from; {} for one that was not.
    digest : str
        The SHA-256 of that file, which identifies the saved model; "" for one that was not read.

    Examples
    --------
    >>> import labelspace as ls
    >>> rows = [
    ...     {"text": "ripe apple", "labels": ["fruit"]},
    ...     {"text": "steel hammer", "labels": ["tool"]},
    ... ] * 4
    >>> tagger = ls.train(rows, method="knn")
    >>> tagger
    Tagger(knn, tfidf features, 2 labels such as 'fruit', 'tool', trained on 8 examples)
    >>> [tag.name for tag in tagger.tag("a ripe apple", k=1)]
    ['fruit']
    """

    def __init__(
        self,
        pipeline: FeaturePipeline,
        method: Method,
        label_names: Sequence[str],
        label_counts: LabelCounts | None = None,
        *,
        taxonomy: Taxonomy | None = None,
        label_texts: LabelTexts | None = None,
        metadata: dict[str, Any] | None = None,
        columns: Columns | None = None,
        example_ids: Sequence[str] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.method = method
        self.label_names = list(label_names)
        self.label_counts = label_counts
        self.taxonomy = taxonomy
        self.label_texts = label_texts
        self.metadata = metadata or {}
        self.columns = columns or Columns()
        self.example_ids = None if example_ids is None else list(example_ids)
        self.history: dict[str, Any] | None = None
        self.header: dict[str, Any] = {}
        self.digest = ""
        self._derived: tuple[Any, dict[Any, Any]] = ((None, None, None), {})

    def __repr__(self) -> str:
        text = self.pipeline.text
        features = "numeric features" if text is None else f"{text.kind} features"
        points = self.metadata.get("data", {}).get("points")
        trained = "" if points is None else f", trained on {points:,} examples"
        return (
            f"Tagger({self.method.name}, {features}, {len(self.label_names):,} labels such as "
            f"{', '.join(repr(name) for name in self.label_names[:_SHOWN])}{trained})"
        )

    def names(self, language: str | None = None) -> list[str]:
        """Return one name per label: of the label texts, or as the data have it.

        Parameters
        ----------
        language : str, optional
            The language of the names, such as "en"; see `LabelTexts.names`.

        Raises
        ------
        ParameterError
            If no label has a name in this language.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> ls.train(rows * 4, method="knn").names()
        ['fruit', 'tool']
        """
        wanted, texts = self._known_language(language), self.label_texts
        return list(self.label_names) if texts is None else texts.names(wanted)

    def _known_language(self, language: str | None) -> str | None:
        """Return the language as the names have it; raise ParameterError if none has.

        A form that they do not have, such as en-nz, becomes en: what is derived per language is
        kept, so there must be few of them.
        """
        if language is None:
            return None
        texts, wanted = self.label_texts, language.lower()
        if texts is None or not texts.has_language(wanted):
            known = () if texts is None else sorted(filter(None, texts.preferred))
            raise ParameterError(
                f"language {language!r}: the model has no names in it; "
                f"it has {', '.join(known) or 'no languages: train it with --labels'}"
            )
        return wanted if wanted in texts.preferred else wanted.split("-")[0]

    def tag_maker(self, language: str | None = None) -> TagMaker:
        """Return what makes tags of label numbers, with names in one language.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> ls.train(rows * 4, method="knn").tag_maker().tag(1, 0.5)
        Tag(name='tool', score=0.5)
        """
        return self.derived(TagMaker, self._known_language(language))

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

    def read(self, source: Source, columns: Columns | None = None) -> Dataset:
        """Read examples with labels; labels and features are numbered as in this model.

        Parameters
        ----------
        source : path, DataFrame, list of dict or Dataset
            The examples. Labels that are not in the model come after those of the model.
        columns : Columns, optional
            The columns of a table. Default: those of the training data.

        Returns
        -------
        Dataset
            The examples.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> tagger.read([{"text": "red rose", "labels": ["flower", "tool"]}]).label_names
        ('fruit', 'tool', 'flower')
        """
        return read_labelled(self, source, columns)

    def read_test(self, source: Source, columns: Columns | None = None) -> Dataset:
        """Read examples as `read` does, and check that the model has their labels.

        A warning is logged if some of them are not in the model.

        Raises
        ------
        DataError
            If none of the labels is in the model.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> len(tagger.read_test([{"text": "pear", "labels": ["fruit"]}]))
        1
        """
        test = self.read(source, columns)
        used = None if isinstance(source, Dataset) else columns or self.columns
        check_labels(self, test, used)
        return test

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

    def evaluate(
        self,
        source: Source,
        *,
        ks: Sequence[int] = (1, 3, 5),
        levels: bool = False,
        threshold: ThresholdLike | None = None,
        propensity: tuple[float, float] = (0.55, 1.5),
        propensity_from: Literal["train", "test"] = "train",
        columns: Columns | None = None,
    ) -> dict[str, Any]:
        """Measure the model on labelled data: what `labelspace evaluate --json` prints.

        A warning is logged if some of the labels are not in the model.

        Parameters
        ----------
        source : path, DataFrame, list of dict or Dataset
            Test examples with labels.
        ks : sequence of int, default (1, 3, 5)
            Cut-offs of the ranking metrics.
        levels : bool, default False
            Also measure each level of the taxonomy.
        threshold : float or "auto", optional
            Also measure F1 of the labels with at least this score; "auto" is the model's own.
        propensity : (float, float), default (0.55, 1.5)
            The constants A and B of the propensity model for PSP.
        propensity_from : "train" or "test", default "train"
            Which label frequencies PSP uses.
        columns : Columns, optional
            The columns of a table. Default: those of the training data.

        Returns
        -------
        dict
            Metrics in percent by name, such as "P@1"; "bands" for head, torso and tail labels;
            "calibration"; "unknown_labels"; "examples"; "by_level" with `levels`.

        Raises
        ------
        DataError
            If none of the labels is in the model.
        ParameterError
            If `levels` is given and there is no taxonomy, or a cut-off is below 1.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> tagger.evaluate([{"text": "saws and a saw", "labels": ["tool"]}], ks=[1])["P@1"]
        100.0
        """
        least = None if threshold is None else self.resolve_threshold(threshold)
        test = self.read_test(source, columns)
        return evaluate_model(
            self,
            test,
            ks=ks,
            propensity=propensity,
            propensity_from=propensity_from,
            threshold=least,
            levels=levels,
        )

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
        if k is None:
            k = 5 if threshold is None else thresholds.RANKED
        return predict_file(
            self,
            self.iter_batches(source, columns=columns, batch_size=batch_size),
            out,
            k=k,
            least=0.0 if threshold is None else self.resolve_threshold(threshold),
            format=format,
            likeliest_path=likeliest_path,
            selection=Selection(self, only, exclude, ancestors=ancestors),
            language=language,
            on_batch=on_batch,
        )

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

    def find_labels(
        self, query: str = "", k: int = 10, *, language: str | None = None, similar: int = 3
    ) -> list[FoundLabel]:
        """Find labels by name, alternative name, id, notation or URI.

        Case, accents and punctuation do not matter. Exact matches come first, then names that begin
        with the query, that hold its words or the beginnings of these, and that hold it anywhere;
        within each kind, frequent labels come first. If nothing matches, labels with a similar name
        are returned.

        Parameters
        ----------
        query : str, default ""
            What to look for; "" finds all labels.
        k : int, default 10
            Maximum number of labels.
        language : str, optional
            The language of the names in the result.
        similar : int, default 3
            Number of similar labels to give for each.

        Returns
        -------
        list of FoundLabel
            The labels with training counts, path in the taxonomy and similar labels.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> [(found.name, found.count) for found in tagger.find_labels("FRU")]
        [('fruit', 4)]
        """
        return self.derived(LabelSearch).find(query, k, language, similar)

    def describe_label(
        self, label: str, *, language: str | None = None, similar: int = 3
    ) -> FoundLabel:
        """Return what is known of one label.

        Parameters
        ----------
        label : str
            Its id, URI, notation or preferred name.
        language : str, optional
            The language of the names in the result.
        similar : int, default 3
            Number of similar labels to give.

        Raises
        ------
        ParameterError
            If no label is called so, or several are.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> ls.train(rows * 4, method="knn").describe_label("tool").count
        4
        """
        return self.derived(LabelSearch).describe(label, language, similar)

    def label_paths(self, language: str | None = None) -> LabelPaths:
        """Return the places of labels in the taxonomy, with names in one language.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> ls.train(rows * 4, method="knn").label_paths().path(1)
        []
        """
        return self.derived(LabelPaths, self._known_language(language))

    def label_children(
        self, parent: str | None = None, *, language: str | None = None
    ) -> list[LabelNode]:
        """Return the nodes of the taxonomy directly below a node, or at the top.

        Parameters
        ----------
        parent : str, optional
            The id of a label or of another node of the taxonomy. Default: the top, which also has
            the labels that are not in the taxonomy.
        language : str, optional
            The language of the names.

        Returns
        -------
        list of LabelNode
            Nodes with others below them first, then by name.

        Raises
        ------
        ParameterError
            If there is no such node.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> [node.name for node in ls.train(rows * 4, method="knn").label_children()]
        ['fruit', 'tool']
        """
        return self.label_paths(language).children(parent)

    def derived(self, make: Callable[..., _Derived], *args: Any) -> _Derived:
        """Return `make(self, *args)`: the same until names, label texts or taxonomy change.

        Examples
        --------
        >>> import labelspace as ls
        >>> from labelspace.model.label_lookup import LabelLookup
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> tagger.derived(LabelLookup) is tagger.derived(LabelLookup)
        True
        """
        made_of, known = self._derived
        now = (self.label_names, self.label_texts, self.taxonomy)
        if any(old is not new for old, new in zip(made_of, now, strict=True)):
            known = {}
            self._derived = now, known
        key = (make, *args)
        if key not in known:
            known[key] = make(self, *args)
        found: _Derived = known[key]
        return found

    def choose_threshold(
        self,
        source: Source,
        goal: str = thresholds.MICRO_F1,
        *,
        columns: Columns | None = None,
    ) -> thresholds.Threshold:
        """Choose the score from which on labels are assigned, on held-out data.

        The model keeps it; `tag(text, k=50, threshold="auto")` uses it.

        Parameters
        ----------
        source : path, DataFrame, list of dict or Dataset
            Labelled examples that were not used for training.
        goal : str, default "micro-f1"
            What the threshold optimises: "micro-f1", "macro-f1", or "precision=0.9" for the
            lowest threshold that reaches this precision.
        columns : Columns, optional
            The columns of a table. Default: those of the training data.

        Returns
        -------
        Threshold
            The threshold with precision, recall and F1 on the held-out data.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> tagger.choose_threshold(rows).micro_f1
        100.0
        >>> tagger.tag("saw", k=50, threshold="auto")
        [Tag(name='tool', score=1.0)]
        """
        thresholds.check_goal(goal)
        # A hold-out cut from a Dataset in training may have rare labels alone.
        read_held_out = self.read if isinstance(source, Dataset) else self.read_test
        held_out = read_held_out(source, columns)
        ranking = self.predict(held_out, thresholds.RANKED)
        found = thresholds.choose_threshold(ranking, held_out.labels, goal)
        self.metadata["threshold"] = found.metadata()
        return found

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

    def explain(
        self, example: str | Dataset | Features, label: str | None = None, k: int = 5
    ) -> Explanation:
        """Explain why an example gets a label.

        Parameters
        ----------
        example : str, Dataset of one example, or its row of features
            The example.
        label : str, optional
            Name of the label to explain. Default: the best label of the example.
        k : int, default 5
            Number of features, labels and training examples to return, the strongest of each.

        Returns
        -------
        Explanation
            The contributions of features, the most similar labels, the closest training examples.

        Raises
        ------
        UnsupportedError
            If the method has no explanations; `labelspace methods` lists those that have.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [
        ...     {"text": "ripe apple", "labels": ["fruit"]},
        ...     {"text": "steel hammer", "labels": ["tool"]},
        ... ]
        >>> tagger = ls.train(rows * 4, method="linear")
        >>> [word for word, contribution in tagger.explain("a ripe apple", "fruit").features]
        ['apple', 'ripe']
        """
        if not self.method.can_explain:
            raise UnsupportedError(
                f"explain is not supported by {self.method.name}; methods that support it: "
                f"{methods_with('explain')}"
            )
        return explain(self, self._row_of(example, "explain"), label, k)

    def neighbours(self, example: str | Dataset | Features, k: int = 5) -> list[NearExample]:
        """Return the training examples that are nearest to an example.

        Parameters
        ----------
        example : str, Dataset of one example, or its row of features
            The example.
        k : int, default 5
            Number of training examples, at most.

        Returns
        -------
        list of NearExample
            The nearest first.

        Raises
        ------
        UnsupportedError
            If the method keeps no training examples: fusion, knn and dxml do.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [
        ...     {"id": "a", "text": "ripe apple", "labels": ["fruit"]},
        ...     {"id": "b", "text": "steel hammer", "labels": ["tool"]},
        ... ]
        >>> tagger = ls.train(rows, method="knn")
        >>> [(near.id, near.labels) for near in tagger.neighbours("a ripe apple")]
        [('a', ['fruit'])]
        """
        if not self.method.can_find_examples:
            raise UnsupportedError(
                f"{self.method.name} keeps no training examples; methods that find near ones: "
                f"{methods_with('neighbours')}"
            )
        row = self._row_of(example, "compare")
        if row.shape[0] != 1:
            raise InputError(f"{row.shape[0]} examples were given: pass one at a time")
        return near_examples(self, self.method.nearest_examples(row, checked_count("k", k)))

    def _row_of(self, example: str | Dataset | Features, purpose: str) -> Features:
        """Return the features of an example; raise InputError for a text without known words."""
        if isinstance(example, str):
            row = self.pipeline.transform_texts([example])
            if not row.nnz:
                raise InputError(f"no known word in this text: there is nothing to {purpose}")
            return row
        return self.pipeline.transform(example) if isinstance(example, Dataset) else example

    def update(
        self,
        source: Source,
        *,
        columns: Columns | None = None,
        labels: LabelSource = "auto",
        keep_threshold: bool = False,
        callbacks: Sequence[Callback] = (),
        on_stage: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Continue training on more examples, whose labels may be new.

        Features stay as they are: words that the first training did not see are not used. A
        Dataset's labels are matched by name, or by number where it has no names. New edges of its
        taxonomy are added to the model's. If training fails, load the model again: what is in
        memory may be partly changed.

        Parameters
        ----------
        source : path, DataFrame, list of dict or Dataset
            More examples with labels.
        columns : Columns, optional
            The columns of a table. Default: those of the training data.
        labels : path, LabelTexts, "auto" or None, default "auto"
            Label texts, as for `train`; they replace the model's for the labels that they have.
            "auto": those beside the data, if the model has label texts.
        keep_threshold : bool, default False
            Keep the threshold of the model, for a few examples. It is dropped otherwise, as scores
            change.
        callbacks : sequence of Callback, optional
            Notified of progress; see `labelspace.runs.callbacks`.
        on_stage : callable, optional
            Called with a few words when a stage begins.

        Raises
        ------
        UnsupportedError
            If the method cannot be updated; `labelspace methods` lists those that can.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="glas", dim=8, epochs=1)
        >>> tagger.update([{"text": "red apple", "labels": ["fruit", "red"]}])
        >>> tagger.label_names
        ['fruit', 'tool', 'red']
        """
        update_tagger(self, source, columns, labels, keep_threshold, callbacks, on_stage)

    def save(self, directory: str | Path) -> None:
        """Write the model as a directory; one that is there already is replaced as a whole.

        Parameters
        ----------
        directory : path
            The model's directory.

        Examples
        --------
        >>> import tempfile
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tagger.save(f"{folder}/model")
        ...     ls.load(f"{folder}/model").tag("apple", k=1)
        [Tag(name='fruit', score=1.0)]
        """
        save_tagger(self, directory)

    @classmethod
    def load(cls, directory: str | Path, *, verify: bool = True) -> Tagger:
        """Read a saved model, as `labelspace.load` does."""
        return load_tagger(cls, directory, verify)


def load(directory: str | Path, *, verify: bool = True) -> Tagger:
    """Read a saved model. Arrays stay on disk until they are used, and no code is run.

    Parameters
    ----------
    directory : path
        The model's directory, as `Tagger.save` or `labelspace train --out` wrote it.
    verify : bool, default True
        Compare checksums and look for numbers that are not finite, which reads every byte.

    Returns
    -------
    Tagger
        The model.

    Raises
    ------
    StoreError
        If the directory is not a complete model.

    Examples
    --------
    >>> import labelspace as ls
    >>> ls.load("no/such/model")
    Traceback (most recent call last):
        ...
    labelspace.errors.ModelFormatError: no/such/model holds no model: there is no such directory
    """
    return Tagger.load(directory, verify=verify)
