"""A Tagger: a feature pipeline, a fitted method and the names of the labels, as one model.

What it does with labels is in `model_labels.py`, what it does to predict in `predictor.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from labelspace.data.columns import Columns
from labelspace.data.dataset import Dataset, Features
from labelspace.data.label_texts import LabelTexts
from labelspace.data.options import LabelSource
from labelspace.data.taxonomy import Taxonomy
from labelspace.features.pipeline import FeaturePipeline
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.metrics import thresholds
from labelspace.model.evaluation import check_labels, evaluate_model
from labelspace.model.explanation import Explanation, NearExample, explain, nearest_examples
from labelspace.model.figures import check_loaded_from, figures_of_test, name_of, store_figures
from labelspace.model.predictor import Predictor, ThresholdLike
from labelspace.model.reading import Source, read_labelled
from labelspace.model.saving import load_tagger, save_tagger
from labelspace.model.tags import Tag, Tags
from labelspace.model.updating import update_tagger
from labelspace.runs.callbacks import Callback

__all__ = ["Source", "Tag", "Tagger", "Tags", "load"]

_SHOWN = 3  # label names in a repr


class Tagger(Predictor):
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
        super().__init__(method, label_names, label_counts, taxonomy, label_texts)
        self.pipeline = pipeline
        self.metadata = metadata or {}
        self.columns = columns or Columns()
        self.example_ids = None if example_ids is None else list(example_ids)
        self.history: dict[str, Any] | None = None
        self.header: dict[str, Any] = {}
        self.digest = ""

    def __repr__(self) -> str:
        text = self.pipeline.text
        features = "numeric features" if text is None else f"{text.kind} features"
        points = self.metadata.get("data", {}).get("points")
        trained = "" if points is None else f", trained on {points:,} examples"
        return (
            f"Tagger({self.method.name}, {features}, {len(self.label_names):,} labels such as "
            f"{', '.join(repr(name) for name in self.label_names[:_SHOWN])}{trained})"
        )

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
        save_to: str | Path | None = None,
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
        save_to : path, optional
            The directory that the model was loaded from: the figures are added to its card, beside
            those of training, with the name of the test file and the date.

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
        StoreError
            If the model in `save_to` is not the one that was loaded.

        Examples
        --------
        >>> import labelspace as ls
        >>> rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
        >>> tagger = ls.train(rows * 4, method="knn")
        >>> tagger.evaluate([{"text": "saws and a saw", "labels": ["tool"]}], ks=[1])["P@1"]
        100.0
        """
        least = None if threshold is None else self.resolve_threshold(threshold)
        if save_to is not None:
            check_loaded_from(self, save_to)
        test = self.read_test(source, columns)
        found = evaluate_model(
            self,
            test,
            ks=ks,
            propensity=propensity,
            propensity_from=propensity_from,
            threshold=least,
            levels=levels,
        )
        if save_to is not None:
            figures = figures_of_test(found, name_of(source), propensity, propensity_from)
            store_figures(self, figures, save_to)
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
        return explain(self, example, label, k)

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
        return nearest_examples(self, example, k)

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
        Compare checksums, and read all numbers. Without it, the weights of `glas` are not
        read before they are used; what else the arrays hold is checked in any case.

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
