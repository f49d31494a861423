"""The server's own routes: labels of texts, and all that is known of a model and its labels."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from fastapi import APIRouter, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from labelspace.errors import ParameterError
from labelspace.maps.label_map import label_map
from labelspace.maps.page import packed_map
from labelspace.methods.base import Method
from labelspace.model.label_lookup import LabelLookup
from labelspace.model.prediction import DIGITS
from labelspace.model.predictor import ThresholdLike
from labelspace.model.tagger import Tagger
from labelspace.ranking import Ranking
from labelspace.serve import schemas
from labelspace.serve.context import Context, json_response, known_labels, languages_of
from labelspace.serve.figures import MEDIA_TYPE
from labelspace.serve.models import Choice, Examples, ServedModel
from labelspace.serve.problems import Failure, responses

_EXPLAINED = 100  # labels per request
_COMMON = (400, 401, 408, 413, 415, 421, 422)
_COMPUTED = (503, 504)

Text = Annotated[str, Query(description="The text.")]
K = Annotated[int, Query(ge=1, le=2**31 - 1, description="Maximum number of results.")]
Language = Annotated[str | None, Query(description="The language of the names, such as en.")]
Similar = Annotated[int, Query(ge=0, le=100, description="Number of similar labels for each.")]


def own_routes(context: Context) -> APIRouter:
    """Return the routes of the server's own API."""
    router = APIRouter(tags=["labelspace"])
    models = context.models
    maps = Maps()

    @router.get("/v1/models", response_model=schemas.ModelList, responses=responses(401, 421))
    async def list_models() -> Response:
        """List the models that are served."""
        return json_response(
            to_json({"models": [summary(each) for each in models.by_name.values()]})
        )

    @router.get(
        "/v1/models/{name}", response_model=schemas.ModelDetails, responses=responses(401, 404, 421)
    )
    async def show_model(name: str) -> Response:
        """Show a model: what `labelspace info` prints, and what it can do."""
        served = models[name]
        info = {**served.tagger.header, "bytes": served.size}
        return json_response(to_json({**summary(served), "info": info}))

    def summary(served: ServedModel) -> dict[str, Any]:
        tagger = served.tagger
        learner = context.learners.get(served.name)
        can_learn = tagger.method.can_update and not tagger.pipeline.n_numeric
        return {
            "name": served.name,
            "version": served.version,
            "method": tagger.method.name,
            "labels": len(tagger.label_names),
            "languages": languages_of(served),
            "taxonomy": tagger.taxonomy is not None,
            "numeric_features": tagger.pipeline.n_numeric,
            "takes_text": tagger.pipeline.text is not None,
            "threshold": tagger.metadata.get("threshold", {}).get("value"),
            "explains": tagger.method.can_explain,
            "neighbours": tagger.method.can_find_examples,
            "map": tagger.method.has_space,
            "learns": learner is not None and can_learn,
            "learning": None if learner is None else learner.state(),
            "error": served.error,
        }

    @router.post(
        "/v1/models/{name}/tag",
        response_model=schemas.TagResponse,
        response_model_exclude_none=True,
        responses=responses(404, *_COMMON, *_COMPUTED),
    )
    async def tag(name: str, wanted: schemas.TagRequest) -> Response:
        """Return the best labels of texts or feature vectors.

        The labels and scores are those of `labelspace predict`. Requests that arrive together are
        computed together.
        """
        served = models[name]
        examples = _examples(wanted, context)
        k = context.checked_k(wanted.k, wanted.threshold)
        if wanted.explain:
            method = served.tagger.method
            if not method.can_explain:
                raise Failure(422, f"explain is not supported by {method.name}")
            context.checked_k(wanted.explain_top)
            if len(examples) * k > _EXPLAINED:
                raise Failure(
                    422, f"{len(examples)} examples with {k} labels each: expected at most "
                    f"{_EXPLAINED} labels in all to explain",
                )  # fmt: skip
        choice = Choice(k, _listed(wanted.only), _listed(wanted.exclude), wanted.ancestors)
        threshold: ThresholdLike = 0.0 if wanted.threshold is None else wanted.threshold

        def finish(tagger: Tagger, ranking: Ranking) -> tuple[Tagger, list[dict[str, Any]]]:
            least = tagger.resolve_threshold(threshold)
            return tagger, tag_records(tagger, ranking, least, wanted.language, wanted.paths)

        def finished(tagger: Tagger, ranking: Ranking) -> bytes:
            return _answer(name, *finish(tagger, ranking))

        if not wanted.explain:
            return json_response(await served.tag(choice, examples, finished))
        tagger, found = await served.tag(choice, examples, finish)
        await context.run(_explain, tagger, examples, found, wanted.explain_top)
        return json_response(_answer(name, tagger, found))

    @router.get(
        "/v1/models/{name}/labels",
        response_model=schemas.LabelList,
        responses=responses(401, 404, 421, 422, *_COMPUTED),
    )
    async def find_labels(
        name: str,
        query: Annotated[
            str, Query(description="Name, part of a name, synonym or id; empty for all labels.")
        ] = "",
        k: K = 10,
        language: Language = None,
        similar: Similar = 3,
    ) -> Response:
        """Find labels by name, with training counts, path in the taxonomy and similar labels."""
        tagger = models[name].tagger
        context.check_texts([query])
        wanted = context.checked_k(k)

        def find() -> bytes:
            found = tagger.find_labels(query, wanted, language=language, similar=similar)
            return to_json({"labels": [asdict(each) for each in found]})

        return json_response(await context.run(find))

    @router.get(
        "/v1/models/{name}/labels/{label_id:path}",
        response_model=schemas.FoundLabel,
        responses=responses(401, 404, 421, 422, *_COMPUTED),
    )
    async def show_label(
        name: str, label_id: str, language: Language = None, similar: Similar = 3
    ) -> Response:
        """Show one label, by its id, URI, notation or name."""
        tagger = models[name].tagger

        def describe() -> bytes:
            try:
                found = tagger.describe_label(label_id, language=language, similar=similar)
            except ParameterError as error:
                if label_id not in tagger.derived(LabelLookup):
                    raise Failure(404, str(error)) from None
                raise
            return to_json(asdict(found))

        return json_response(await context.run(describe))

    @router.get(
        "/v1/models/{name}/tree",
        response_model=schemas.NodeList,
        responses=responses(401, 404, 421, 422, *_COMPUTED),
    )
    async def show_tree(
        name: str,
        parent: Annotated[str | None, Query(description="Id of a node; none for the top.")] = None,
        offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        k: K = 100,
        language: Language = None,
    ) -> Response:
        """Show the nodes of the taxonomy directly below one, from `offset` on."""
        tagger = models[name].tagger
        wanted = context.checked_k(k)

        def children() -> bytes:
            nodes = tagger.label_children(parent, language=language)
            shown = [asdict(node) for node in nodes[offset : offset + wanted]]
            return to_json({"total": len(nodes), "nodes": shown})

        return json_response(await context.run(children))

    async def near(name: str, text: str, k: int) -> Response:
        tagger = models[name].tagger
        context.check_texts([text])
        wanted = context.checked_k(k)

        def neighbours() -> bytes:
            return to_json({"examples": [asdict(each) for each in tagger.neighbours(text, wanted)]})

        return json_response(await context.run(neighbours))

    @router.get(
        "/v1/models/{name}/neighbours",
        response_model=schemas.Neighbours,
        responses=responses(401, 404, 413, 421, 422, *_COMPUTED),
    )
    async def get_neighbours(name: str, text: Text, k: K = 5) -> Response:
        """Return the training examples nearest to a short text, if the model keeps them."""
        return await near(name, text, k)

    @router.post(
        "/v1/models/{name}/neighbours",
        response_model=schemas.Neighbours,
        responses=responses(404, *_COMMON, *_COMPUTED),
    )
    async def post_neighbours(name: str, wanted: schemas.NeighboursRequest) -> Response:
        """Return the training examples nearest to a text of any length."""
        return await near(name, wanted.text, wanted.k)

    @router.get(
        "/v1/models/{name}/map",
        response_model=schemas.LabelMap,
        responses={
            200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}},
            **responses(401, 404, 421, 422, *_COMPUTED),
        },
    )
    async def show_map(
        request: Request,
        name: str,
        format: Annotated[
            Literal["json", "packed"],
            Query(description="JSON, or the gzipped safetensors file of the map page."),
        ] = "json",
        k: Annotated[
            int | None, Query(ge=1, le=2**31 - 1, description="The most frequent labels only.")
        ] = None,
    ) -> Response:
        """Return the labels as points of the Poincare disk; computed once per version."""
        served = models[name]
        content = await context.run(maps.of, served, format, k)
        if format == "packed":
            # "identity" keeps the middleware from compressing it again.
            headers = {"Content-Encoding": "identity"}
            return Response(content, headers=headers, media_type="application/octet-stream")
        if "gzip" in request.headers.get("accept-encoding", ""):
            return json_response(content, {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
        return json_response(await context.run(gzip.decompress, content))

    @router.post(
        "/v1/models/{name}/learn",
        response_model=schemas.Accepted,
        status_code=202,
        responses=responses(403, 404, *_COMMON, *_COMPUTED),
    )
    async def learn(request: Request, name: str, wanted: schemas.LearnRequest) -> Response:
        """Accept examples to learn from, where the server allows it.

        They are on the disk when the answer is sent, and the model is updated in the background.
        """
        learner = context.learner(request, name)
        context.check_texts([example.text for example in wanted.examples])
        tagger = models[name].tagger

        def accept() -> int:
            pairs = [
                (each.text, known_labels(tagger, each.labels, wanted.new_labels))
                for each in wanted.examples
            ]
            return learner.accept(pairs)

        sequence = await context.run(accept)
        content = to_json({"accepted": len(wanted.examples), "sequence": sequence})
        return Response(content, 202, media_type="application/json")

    def health(status: str) -> bytes:
        versions = {name: served.version for name, served in models.by_name.items()}
        return to_json({"status": status, "models": versions})

    @router.get("/health/live", response_model=schemas.Health, responses=responses(421))
    async def live() -> Response:
        """Report that the server runs."""
        return json_response(health("alive"))

    @router.get(
        "/health/ready",
        response_model=schemas.Health,
        responses={503: {"model": schemas.Health, "description": "The server is stopping."},
                   **responses(421)},
    )  # fmt: skip
    async def ready() -> Response:
        """Report whether requests are answered: all models are loaded, and it is not stopping."""
        if context.stopping:
            return Response(health("stopping"), 503, media_type="application/json")
        return json_response(health("ready"))

    @router.get(
        "/metrics",
        response_class=Response,
        responses={
            200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
            **responses(401, 421),
        },
    )
    async def metrics() -> Response:
        """Return figures of the server in the format of Prometheus."""
        return Response(context.figures.text(), media_type=MEDIA_TYPE)

    return router


class Maps:
    """Label maps of models, each computed once."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Method, dict[tuple[str, int | None], bytes]] = (
            WeakKeyDictionary()
        )

    def of(self, served: ServedModel, format: str, k: int | None) -> bytes:
        """Return the map of a model's labels as gzipped bytes."""
        tagger = served.tagger
        known = self._known.setdefault(tagger.method, {})
        key = (format, k)
        if key not in known:
            if len(known) >= _EXPLAINED:
                known.clear()
            found = label_map(tagger, served.name)
            if format == "packed":
                known[key] = packed_map(found)
            else:
                order = np.argsort(-found.weights, kind="stable")[:k]
                place = np.full(len(found), -1)
                place[order] = np.arange(len(order))
                content = {
                    "title": found.title,
                    "notes": found.notes,
                    "ids": [found.ids[label] for label in order],
                    "names": [found.names[label] for label in order],
                    "counts": None if found.counts is None else found.counts[order].tolist(),
                    "x": found.points.real[order].round(6).tolist(),
                    "y": found.points.imag[order].round(6).tolist(),
                    "parent": np.where(
                        found.parent[order] < 0, -1, place[found.parent[order]]
                    ).tolist(),
                    "group": found.group[order].tolist(),
                    "groups": found.titles,
                }
                known[key] = gzip.compress(to_json(content), 6)
        return known[key]


def tag_records(
    tagger: Tagger, ranking: Ranking, least: float, language: str | None, paths: bool
) -> list[dict[str, Any]]:
    """Return the labels of each example as `predict` writes them, with their paths if wanted."""
    maker = tagger.tag_maker(language)
    found = [
        {"labels": [maker.record(tag, DIGITS) for tag in tags]}
        for tags in maker.tags(ranking, least)
    ]
    if paths:
        places = tagger.label_paths(language)
        for result, row in zip(found, ranking.labels.tolist(), strict=True):
            # Labels below the threshold are the last ones.
            for label, record in zip(row, result["labels"], strict=False):
                record["path"] = places.path(label)
    return found


def _answer(name: str, tagger: Tagger, results: Sequence[dict[str, Any]]) -> bytes:
    return to_json({"model": name, "version": tagger.digest[:12], "results": results})


def _examples(wanted: schemas.TagRequest, context: Context) -> Examples:
    """Return what is to be tagged; raise a Failure if it is nothing, or too much."""
    if (wanted.text is not None) + (wanted.texts is not None) > 1:
        raise Failure(422, "text, texts: give one of them")
    texts = wanted.texts if wanted.text is None else [wanted.text]
    features = wanted.features
    given = features if texts is None else texts
    if given is None:
        raise Failure(422, "nothing to tag: give text, texts or features")
    if not given:
        raise Failure(422, "nothing to tag: the list is empty")
    if texts is not None and features is not None and len(texts) != len(features):
        raise Failure(422, f"{len(texts)} texts and {len(features)} feature vectors")
    if len(given) > context.limits.texts:
        raise Failure(422, f"{len(given)} examples: expected at most {context.limits.texts}")
    context.check_texts(texts or ())
    if features is None:
        return Examples(texts)
    if isinstance(features[0], schemas.SparseVector):
        sparse = []
        for vector in features:
            assert isinstance(vector, schemas.SparseVector)  # all are of one kind
            if len(vector.indices) != len(vector.values):
                raise Failure(422, "features: as many indices as values are expected")
            sparse.append((vector.indices, vector.values))
        return Examples(texts, sparse=sparse)
    return Examples(texts, dense=features)


def _listed(labels: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if labels is None else tuple(labels)


def _explain(tagger: Tagger, examples: Examples, found: Sequence[dict[str, Any]], top: int) -> None:
    """Add an explanation to every label."""
    dataset = examples.dataset(tagger)
    for row, result in enumerate(found):
        one = dataset.take(np.array([row]))
        for record in result["labels"]:
            label = record.get("id", record["name"])
            record["explanation"] = asdict(tagger.explain(one, label, top))
