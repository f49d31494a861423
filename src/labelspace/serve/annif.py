"""Annif's REST API v1, so that its clients and its `http` backend work unchanged."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError
from pydantic_core import to_json
from starlette.responses import Response

from labelspace._version import __version__
from labelspace.model.label_lookup import LabelLookup
from labelspace.model.tagger import Tagger
from labelspace.ranking import Ranking
from labelspace.serve.context import Context, json_response, languages_of
from labelspace.serve.models import Choice, Examples, ServedModel
from labelspace.serve.problems import Failure, responses
from labelspace.serve.schemas import Text

logger = logging.getLogger(__name__)

TAG = "Annif"
DOCUMENTS = 32  # per request
_UNKNOWN = "und"  # BCP 47 for a language that is not known
_FIELDS = 1000  # of a form
_ERRORS = (400, 401, 408, 413, 415, 421, 503, 504)

Limit = Annotated[int, Field(ge=0, le=2**31 - 1, description="maximum number of results")]
Threshold = Annotated[FiniteFloat, Field(ge=0, le=1, description="minimum score")]


class ApiInfo(BaseModel):
    """REST API information."""

    title: str
    version: str


class Vocabulary(BaseModel):
    """A subject vocabulary."""

    vocab_id: str
    languages: list[str]
    size: int | None
    loaded: bool


class VocabularyList(BaseModel):
    """A list of subject vocabularies."""

    vocabs: list[Vocabulary]


class Backend(BaseModel):
    """A backend of a project."""

    backend_id: str


class Project(BaseModel):
    """A project: one of the served models."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "project_id": "shop",
                    "name": "shop",
                    "language": "en",
                    "backend": {"backend_id": "fusion"},
                    "vocab": {"vocab_id": "shop", "languages": ["en"], "size": 9, "loaded": True},
                    "vocab_language": "en",
                    "is_trained": True,
                    "modification_time": "2026-11-18T10:00:00+00:00",
                }
            ]
        }
    )

    project_id: str
    name: str
    language: str
    backend: Backend
    vocab: Vocabulary | None
    vocab_language: str | None
    is_trained: bool | None
    modification_time: str | None


class ProjectList(BaseModel):
    """A list of projects."""

    projects: list[Project]


class SuggestForm(BaseModel):
    """The form of `suggest`; further fields, such as metadata, are not used."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "additionalProperties": {"type": "string"},
            "examples": [{"text": "A quick brown fox jumped over the lazy dog.", "limit": 5}],
        },
    )

    text: Text = Field(description="input text")
    limit: Limit = 10
    threshold: Threshold = 0.0
    language: Text | None = Field(None, description="language of subject labels")


class Suggestion(BaseModel):
    """A suggested subject."""

    uri: str
    label: str
    notation: str | None
    score: float


class Suggestions(BaseModel):
    """The suggestions for a document, best first."""

    results: list[Suggestion]


class Document(BaseModel):
    """A document with an optional identifier and metadata, which is not used."""

    text: Text
    document_id: Text | None = None
    metadata: dict[str, str] | None = None


class Documents(BaseModel):
    """The documents of `suggest-batch`."""

    documents: list[Document] = Field(max_length=DOCUMENTS)


class DocumentSuggestions(Suggestions):
    """The suggestions for one document of several."""

    document_id: str | None


class Subject(BaseModel):
    """A subject of a document."""

    uri: str
    label: str | None = None


class IndexedDocument(BaseModel):
    """A document with its known subjects."""

    text: Text | None = None
    subjects: list[Subject] | None = None
    metadata: dict[str, str] | None = None


class LanguageRequest(BaseModel):
    """A text, and the languages it may be in."""

    text: Text
    languages: list[Annotated[Text, Field(min_length=2, max_length=3)]] = Field(
        min_length=1, max_length=5
    )


class DetectedLanguage(BaseModel):
    """A language, null for an unknown one, and the share of the text that is in it."""

    language: str | None
    score: float


class DetectedLanguages(BaseModel):
    """Candidate languages with their scores, best first."""

    results: list[DetectedLanguage]


def annif_routes(context: Context) -> APIRouter:
    """Return the routes of Annif's API; every model is a project, and its labels a vocabulary."""
    router = APIRouter(prefix="/v1", tags=[TAG])
    models = context.models

    @router.get("/", response_model=ApiInfo, responses=responses(401, 421))
    async def show_info() -> Response:
        """Get basic information about the API service."""
        return json_response(to_json({"title": "labelspace REST API", "version": __version__}))

    @router.get("/vocabs", response_model=VocabularyList, responses=responses(401, 421))
    async def list_vocabs() -> Response:
        """Get a list of vocabularies."""
        return json_response(
            to_json({"vocabs": [_vocab(each) for each in models.by_name.values()]})
        )

    @router.get("/projects", response_model=ProjectList, responses=responses(401, 421))
    async def list_projects() -> Response:
        """Get a list of projects."""
        found = [_project(each) for each in models.by_name.values()]
        return json_response(to_json({"projects": found}))

    @router.get(
        "/projects/{project_id}", response_model=Project, responses=responses(401, 404, 421)
    )
    async def show_project(project_id: str) -> Response:
        """Show project information."""
        return json_response(to_json(_project(models[project_id])))

    async def suggestions(
        served: ServedModel,
        texts: Sequence[str],
        limit: int,
        threshold: float,
        language: str | None,
    ) -> list[list[dict[str, Any]]]:
        context.check_texts(texts)
        if language == _UNKNOWN and not languages_of(served):
            language = None
        if not limit or not texts:
            return [[] for _ in texts]

        def finish(tagger: Tagger, ranking: Ranking) -> list[list[dict[str, Any]]]:
            return _suggested(tagger, ranking, threshold, language or None)

        # A larger limit is none that Annif has, so it is lowered and not refused.
        choice = Choice(min(limit, context.limits.k))
        return await served.tag(choice, Examples(texts), finish)

    @router.post(
        "/projects/{project_id}/suggest",
        response_model=Suggestions,
        responses=responses(404, *_ERRORS),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/x-www-form-urlencoded": {
                        "schema": SuggestForm.model_json_schema(mode="validation")
                    }
                },
            }
        },
    )
    async def suggest(project_id: str, request: Request) -> Response:
        """Suggest subjects for a given text."""
        served = models[project_id]
        form = _form(request.headers.get("content-type", ""), await request.body())
        found = await suggestions(served, [form.text], form.limit, form.threshold, form.language)
        return json_response(to_json({"results": found[0]}))

    @router.post(
        "/projects/{project_id}/suggest-batch",
        response_model=list[DocumentSuggestions],
        responses=responses(404, *_ERRORS),
    )
    async def suggest_batch(
        project_id: str,
        body: Documents,
        limit: Annotated[int, Query(ge=0, le=2**31 - 1)] = 10,
        threshold: Annotated[FiniteFloat, Query(ge=0, le=1)] = 0.0,
        language: Annotated[str | None, Query(description="language of subject labels")] = None,
    ) -> Response:
        """Suggest subjects for up to 32 documents."""
        texts = [document.text for document in body.documents]
        found = await suggestions(models[project_id], texts, limit, threshold, language)
        return json_response(
            to_json(
                [
                    {"results": results, "document_id": document.document_id}
                    for results, document in zip(found, body.documents, strict=True)
                ]
            )
        )

    @router.post(
        "/projects/{project_id}/learn", status_code=204, responses=responses(403, 404, *_ERRORS)
    )
    async def learn(
        request: Request, project_id: str, documents: list[IndexedDocument]
    ) -> Response:
        """Learn from manually indexed documents; subjects that are not known are left out."""
        learner = context.learner(request, project_id)
        given = [each for each in documents if each.text and each.subjects]
        context.check_texts([each.text or "" for each in given])
        tagger = models[project_id].tagger

        def accept() -> None:
            lookup, pairs = tagger.derived(LabelLookup), []
            for each in given:
                labels = [
                    tagger.label_names[lookup.number(subject.uri)]
                    for subject in each.subjects or ()
                    if subject.uri in lookup
                ]
                if labels:
                    pairs.append((each.text or "", labels))
            if len(pairs) < len(documents):
                logger.warning("%s: %d of %d documents have no text or no subject that is known",
                    project_id, len(documents) - len(pairs), len(documents))  # fmt: skip
            if pairs:
                learner.accept(pairs)

        await context.run(accept)
        return Response(status_code=204)

    @router.post(
        "/detect-language", response_model=DetectedLanguages, responses=responses(*_ERRORS)
    )
    async def detect_language(body: LanguageRequest) -> Response:
        """Detect the language of a text given a list of candidate languages."""
        context.check_texts([body.text])
        found = await context.run(_languages, body.text, tuple(dict.fromkeys(body.languages)))
        return json_response(to_json({"results": found}))

    return router


def _vocab(served: ServedModel) -> dict[str, Any]:
    return {
        "vocab_id": served.name,
        "languages": sorted(languages_of(served)) or [_UNKNOWN],
        "size": len(served.tagger.label_names),
        "loaded": True,
    }


def _project(served: ServedModel) -> dict[str, Any]:
    languages = languages_of(served)
    language = languages[0] if languages else None
    return {
        "project_id": served.name,
        "name": served.name,
        "language": language or _UNKNOWN,
        "backend": {"backend_id": served.tagger.method.name},
        "vocab": _vocab(served),
        "vocab_language": language,
        "is_trained": True,
        "modification_time": served.tagger.header.get("created"),
    }


def _suggested(
    tagger: Tagger, ranking: Ranking, threshold: float, language: str | None
) -> list[list[dict[str, Any]]]:
    """Return the suggestions for each text; a label without a URI has its id instead."""
    return [
        [
            {
                "uri": tag.uri or tag.id,
                "label": tag.name,
                "notation": tag.notation or None,
                "score": tag.score,
            }
            for tag in tags
        ]
        for tags in tagger.tag_maker(language).tags(ranking, threshold)
    ]


def _form(kind: str, body: bytes) -> SuggestForm:
    """Return the fields of a form."""
    if kind.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise Failure(400, "expected a body of type application/x-www-form-urlencoded")
    try:
        fields = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS
        )
    except ValueError:  # also of text that is not UTF-8
        raise Failure(400, "the form is not valid") from None
    given = {name: value for name, value in fields if value or name == "text"}
    try:
        return SuggestForm.model_validate(given)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_input=False)) from None


@cache
def _strategy() -> Any:
    """Return simplemma's dictionaries, of which those of five languages are held."""
    from simplemma.strategies import DefaultStrategy
    from simplemma.strategies.dictionaries import DefaultDictionaryFactory

    return DefaultStrategy(dictionary_factory=DefaultDictionaryFactory(cache_max_size=5))


def _languages(text: str, languages: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the share of the words that each language has, as Annif computes it."""
    from simplemma import LanguageDetector

    try:
        detector = LanguageDetector(languages, lemmatization_strategy=_strategy())
        shares = detector.proportion_in_each_language(text)
    except ValueError:
        raise Failure(400, "unsupported candidate languages") from None
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return [
        {"language": None if language == "unk" else language, "score": share}
        for language, share in ordered
    ]
