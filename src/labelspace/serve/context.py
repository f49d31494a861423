"""What the routes share: models, learners, threads and limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from labelspace.metrics.thresholds import RANKED
from labelspace.model.label_lookup import LabelLookup
from labelspace.model.tagger import Tagger
from labelspace.serve.batching import Threads
from labelspace.serve.figures import Figures
from labelspace.serve.gate import SCOPE
from labelspace.serve.learning import Learner
from labelspace.serve.models import Models, ServedModel
from labelspace.serve.problems import Failure
from labelspace.serve.settings import Settings
from labelspace.serve.tokens import LEARN

Result = TypeVar("Result")

_THREADS, _CALLS = 2, 64  # for all but tagging


class Context:
    """The state of a running server.

    Attributes
    ----------
    stopping : bool
        Whether the server has begun to stop; it then is not ready.
    """

    def __init__(self, settings: Settings, figures: Figures) -> None:
        self.settings, self.limits, self.figures = settings, settings.limits, figures
        self.models = Models(settings, figures)
        self.learners = (
            {name: Learner(served) for name, served in self.models.by_name.items()}
            if settings.allow_learn
            else {}
        )
        self.threads = Threads(_THREADS, _CALLS)
        self.stopping = False

    async def run(self, work: Callable[..., Result], *args: Any) -> Result:
        """Return work(*args), computed in a thread."""
        return await self.threads.run(self.limits.seconds, work, *args)

    def learner(self, request: Request, name: str) -> Learner:
        """Return what learns for a model; raise a Failure (404 or 403) if nothing may."""
        self.models[name]
        if name not in self.learners:
            raise Failure(403, "learning is off: start the server with --allow-learn")
        if request.scope[SCOPE] != LEARN:
            raise Failure(403, "the token allows to read only; learning needs the scope learn")
        self.learners[name].check()
        return self.learners[name]

    def check_texts(self, texts: Sequence[str], most: int | None = None) -> None:
        """Raise a Failure if there are too many texts, or one is too long."""
        most = self.limits.texts if most is None else most
        if len(texts) > most:
            raise Failure(422, f"{len(texts)} texts: expected at most {most} per request")
        longest = max(map(len, texts), default=0)
        if longest > self.limits.text:
            raise Failure(
                413, f"a text has {longest:,} characters: expected at most {self.limits.text:,}"
            )

    def checked_k(self, k: int | None, threshold: object = None) -> int:
        """Return the number of labels: 5, or 50 with a threshold, unless one is given."""
        if k is None:
            return min(5 if threshold is None else RANKED, self.limits.k)
        if k > self.limits.k:
            raise Failure(422, f"k={k}: expected at most {self.limits.k}")
        return k

    async def close(self) -> None:
        """Answer what waits, and end all threads."""
        self.stopping = True
        await self.models.close()
        for learner in self.learners.values():
            learner.stop(self.limits.seconds)
        self.threads.close()


def known_labels(tagger: Tagger, labels: Sequence[str], new: bool) -> list[str]:
    """Return the ids of labels; raise ParameterError for one that is not known, unless `new`."""
    lookup = tagger.derived(LabelLookup)
    return [
        label if new and label not in lookup else tagger.label_names[lookup.number(label)]
        for label in labels
    ]


def json_response(content: bytes, headers: dict[str, str] | None = None) -> Response:
    """Return an answer of JSON that is encoded already."""
    return Response(content, 200, headers, "application/json")


def languages_of(served: ServedModel) -> list[str]:
    """Return the languages of a model's label names, the default one first."""
    texts = served.tagger.label_texts
    return [] if texts is None else [language for language in texts.preferred if language]
