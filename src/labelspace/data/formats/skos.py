"""SKOS vocabularies as RDF/XML, Turtle or N-Triples, parsed by rdflib.

Only what describes labels is kept while a file is parsed. Nothing outside of the file is read:
neither external entities of XML nor addresses in the vocabulary.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import feature_external_ges
from xml.sax.xmlreader import InputSource

from labelspace._core.machine import in_words
from labelspace._core.streams import opened
from labelspace.data.cells import shown
from labelspace.data.formats.text import text_lines
from labelspace.data.label_texts import LabelRecord
from labelspace.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from rdflib import Graph

logger = logging.getLogger(__name__)

# Format -> suffixes of its files.
SKOS_FORMATS = {
    "xml": (".rdf", ".xml", ".owl", ".skos"),
    "turtle": (".ttl", ".turtle"),
    "ntriples": (".nt", ".ntriples"),
}

_SKOS = "http://www.w3.org/2004/02/skos/core#"
_XL = "http://www.w3.org/2008/05/skos-xl#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_DEPRECATED = "http://www.w3.org/2002/07/owl#deprecated"
_TURTLE_BYTES = 1 << 31  # Turtle is parsed as one text in memory
_ENTITY_LETTERS = 1000  # of an XML entity's value: entities stand for namespaces
_CHUNK = 1 << 16
# In the order of preference.
_PREFERRED, _ALTERNATIVE = ("prefLabel",), ("altLabel", "hiddenLabel")
_DESCRIPTIONS = ("definition", "scopeNote", "note")
_LITERALS = frozenset((*_PREFERRED, *_ALTERNATIVE, *_DESCRIPTIONS, "notation"))
_NO_LABELS = frozenset(("ConceptScheme", "Collection", "OrderedCollection"))


def skos_records(path: Path, kind: str) -> Iterator[LabelRecord]:
    """Yield the concepts of a vocabulary in the order of the file; their ids are their URIs.

    Deprecated concepts are left out. A second preferred name in a language is an alternative name.
    """
    try:
        concepts = _Concepts()
    except ImportError:
        raise MissingExtraError(
            f"{path}: reading SKOS needs rdflib: pip install 'labelspace[skos]'"
        ) from None
    parse = {"xml": _parse_xml, "turtle": _parse_turtle, "ntriples": _parse_ntriples}[kind]
    with _silent_rdflib():
        parse(path, concepts)
    if not concepts.labels():
        message = "no skos:Concept and no skos:prefLabel in this file; is it a SKOS vocabulary?"
        raise DataError(message, path=path)
    return concepts.records()


class _Concepts:
    """What was read of the concepts, by URI."""

    def __init__(self) -> None:
        from rdflib import BNode, Literal

        self._blank, self._literal = BNode, Literal
        self.order: dict[str, None] = {}  # subjects with a URI, as they appear
        self.texts: dict[str, list[tuple[str, str, str]]] = defaultdict(list)  # property, language
        self.parents: dict[str, dict[str, None]] = defaultdict(dict)
        self.types: dict[str, set[str]] = defaultdict(set)
        self.label_nodes: dict[str, list[tuple[str, str]]] = defaultdict(list)  # SKOS-XL
        self.forms: dict[str, tuple[str, str]] = {}  # language and text of a SKOS-XL label
        self.deprecated: set[str] = set()

    def add(self, subject: Any, predicate: Any, value: Any) -> None:
        """Keep a statement of rdflib, if it is of use."""
        s, p = str(subject), str(predicate)
        if not isinstance(subject, self._blank):
            self.order[s] = None
        is_literal = isinstance(value, self._literal)
        if p.startswith(_SKOS):
            name = p[len(_SKOS) :]
            if name in _LITERALS:
                if is_literal:
                    self.texts[s].append((name, (value.language or "").lower(), str(value)))
            elif name == "broader":
                self.parents[s][str(value)] = None
            elif name == "narrower":
                self.parents[str(value)][s] = None
        elif p.startswith(_XL):
            name = p[len(_XL) :]
            if name == "literalForm" and is_literal:
                self.forms[s] = ((value.language or "").lower(), str(value))
            elif name in _LITERALS:
                self.label_nodes[s].append((name, str(value)))
        elif p == _TYPE and str(value).startswith(_SKOS):
            self.types[s].add(str(value)[len(_SKOS) :])
        elif p == _DEPRECATED and str(value).lower() in ("true", "1"):
            self.deprecated.add(s)

    def labels(self) -> dict[str, None]:
        """Return the URIs of all concepts that are in use."""
        for subject, nodes in self.label_nodes.items():
            for name, node in nodes:
                if node in self.forms:
                    self.texts[subject].append((name, *self.forms[node]))
        self.label_nodes.clear()
        return {s: None for s in self.order if self._is_label(s)}

    def _is_label(self, subject: str) -> bool:
        types = self.types.get(subject, set())
        named = any(name in _PREFERRED for name, _, _ in self.texts.get(subject, ()))
        out_of_use = subject in self.deprecated or types & _NO_LABELS
        return (named or "Concept" in types) and not out_of_use

    def records(self) -> Iterator[LabelRecord]:
        labels = self.labels()
        main = self._main_language(labels)
        for label in labels:
            preferred: dict[str, str] = {}
            alternative: dict[str, dict[str, None]] = defaultdict(dict)
            texts = self.texts.get(label, [])
            for name, language, raw in texts:
                text = " ".join(raw.split())
                if name in _PREFERRED and text and language not in preferred:
                    preferred[language] = text
                elif name in (*_PREFERRED, *_ALTERNATIVE) and text:
                    alternative[language][text] = None
            yield LabelRecord(
                label,
                preferred,
                {of: tuple(names) for of, names in alternative.items()},
                _description(texts, main),
                next((text.strip() for name, _, text in texts if name == "notation"), ""),
                label,
                tuple(parent for parent in self.parents.get(label, ()) if parent in labels),
            )

    def _main_language(self, labels: dict[str, None]) -> str:
        """Return the language of most preferred names, in which descriptions are taken."""
        counts: dict[str, int] = defaultdict(int)
        for label in labels:
            for name, language, _ in self.texts.get(label, ()):
                counts[language] += name in _PREFERRED
        return max(counts, key=counts.__getitem__, default="")


def _description(texts: list[tuple[str, str, str]], main: str) -> str:
    """Return the best description: a definition before a note, and the main language first."""
    candidates = [each for each in texts if each[0] in _DESCRIPTIONS]
    if not candidates:
        return ""
    best = min(candidates, key=lambda each: (each[1] != main, _DESCRIPTIONS.index(each[0])))
    return " ".join(best[2].split())


# Parsing --------------------------------------------------------------------------------------


def _graph(concepts: _Concepts) -> Graph:
    """Return a graph of rdflib that stores nothing, but passes every statement on."""
    from rdflib import Graph

    class Passing(Graph):  # type: ignore[misc]  # rdflib is not checked
        def add(self, triple: Any) -> Graph:
            concepts.add(*triple)
            return self

        def bind(self, *_: Any, **__: Any) -> None:
            """Leave out prefixes: URIs are complete."""

    return Passing(bind_namespaces="none")


def _source(path: Path) -> InputSource:
    """Return a source without content.

    Its address, against which relative ones are resolved, does not hold the file's folder.
    """
    address = Path("/", path.name.removesuffix(".gz")).as_uri()
    source = InputSource(address)
    source.setPublicId(address)
    return source


def _parse_ntriples(path: Path, concepts: _Concepts) -> None:
    from rdflib.exceptions import ParserError
    from rdflib.plugins.parsers.ntriples import NTGraphSink, W3CNTriplesParser

    parser = W3CNTriplesParser(NTGraphSink(_graph(concepts)))
    for line, text in text_lines(path, "utf-8"):
        parser.line = text.strip()
        try:
            parser.parseline()
        except (ParserError, ValueError):
            message = 'not N-Triples; expected <subject> <property> <object> or "text"@en, and " ."'
            raise DataError(message, path=path, line=line) from None


def _parse_turtle(path: Path, concepts: _Concepts) -> None:
    from rdflib.exceptions import ParserError
    from rdflib.plugins.parsers.notation3 import BadSyntax, TurtleParser

    content: list[str] = []
    size = 0
    for _, line in text_lines(path, "utf-8"):
        content.append(line)
        size += len(line)
        if size > _TURTLE_BYTES:
            message = f"more than {in_words(_TURTLE_BYTES)} of Turtle, which is parsed in memory"
            raise DataError(f"{message}; convert it to N-Triples (.nt)", path=path)
    source = _source(path)
    source.setCharacterStream(StringIO("".join(content)))
    del content
    try:
        TurtleParser().parse(source, _graph(concepts))
    except BadSyntax as error:
        message = f"not valid Turtle ({error._why})"
        raise DataError(message, path=path, line=error.lines + 1) from None
    except (ParserError, ValueError, RecursionError, AssertionError, IndexError) as error:
        raise DataError(f"not valid Turtle ({_sentence(error)})", path=path) from None


def _parse_xml(path: Path, concepts: _Concepts) -> None:
    from rdflib.exceptions import ParserError
    from rdflib.plugins.parsers.rdfxml import create_parser

    _refuse_entities(path)
    with opened(path) as stream:
        source = _source(path)
        source.setByteStream(stream)
        reader = create_parser(source, _graph(concepts))
        reader.setFeature(feature_external_ges, False)
        try:
            reader.parse(source)
        except SAXParseException as error:
            message = f"not valid XML ({error.getMessage()})"
            raise DataError(message, path=path, line=error.getLineNumber()) from None
        except (ParserError, SAXException, ValueError, RecursionError, KeyError) as error:
            message = f"not valid RDF/XML ({_sentence(error)})"
            raise DataError(message, path=path, line=reader.getLineNumber()) from None


def _refuse_entities(path: Path) -> None:
    """Raise DataError for entities that are external, nested or long.

    Nested ones can expand to any size, and external ones name other files. Short ones, which stand
    for namespaces, are usual in RDF/XML. Only what comes before the first element is read.
    """
    parser = expat.ParserCreate()
    at_root = False

    def declared(name: str, parameter: bool, value: str | None, *_: Any) -> None:
        if parameter or value is None or "&" in value:
            raise _refused(f"the entity {shown(name)} is external or refers to another one")
        if len(value) > _ENTITY_LETTERS:
            raise _refused(f"the entity {shown(name)} has {len(value)} characters")

    def _refused(what: str) -> DataError:
        message = f"{what}, which is not read; write its value where it is used"
        return DataError(message, path=path, line=parser.CurrentLineNumber)

    def started(*_: Any) -> None:
        nonlocal at_root
        at_root = True

    parser.EntityDeclHandler = declared
    parser.StartElementHandler = started
    with opened(path) as stream:
        try:
            while not at_root and (chunk := stream.read(_CHUNK)):
                parser.Parse(chunk)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            raise DataError(f"not valid XML ({what})", path=path, line=error.lineno) from None


@contextmanager
def _silent_rdflib() -> Iterator[None]:
    """Silence rdflib's log of values that are not of their type, such as dates: none is used."""
    loggers = [logging.getLogger(name) for name in ("rdflib.term", "rdflib")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def _sentence(error: Exception) -> str:
    """Return the first line of an error of rdflib, shortened."""
    text = next(iter(str(error).splitlines()), "") or type(error).__name__
    text = re.sub(r"^\S+:\d+:\d+: ", "", text)
    return text if len(text) <= 120 else f"{text[:119]}…"
