"""The labels of a model: their names, search among them, and their places in the taxonomy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from labelspace.data.label_texts import LabelTexts
from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import ParameterError
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.model.label_paths import LabelNode, LabelPaths
from labelspace.model.label_search import FoundLabel, LabelSearch
from labelspace.model.tags import TagMaker

_Derived = TypeVar("_Derived")


class ModelLabels:
    """A fitted method with what is known of its labels; `Tagger` has the parameters."""

    def __init__(
        self,
        method: Method,
        label_names: Sequence[str],
        label_counts: LabelCounts | None,
        taxonomy: Taxonomy | None,
        label_texts: LabelTexts | None,
    ) -> None:
        self.method = method
        self.label_names = list(label_names)
        self.label_counts = label_counts
        self.taxonomy = taxonomy
        self.label_texts = label_texts
        self._derived: tuple[Any, dict[Any, Any]] = ((None, None, None), {})

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
