"""A model as plain values and arrays, for workers of a cluster, which hold the arrays uncopied."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from labelspace.model.saving import bundle_of, restored
from labelspace.model.store import Bundle

if TYPE_CHECKING:
    from labelspace.model.tagger import Tagger


class SentModel(TypedDict):
    """What is sent: JSON of all that is no array, the arrays, and a name that no other has."""

    token: str
    text: str
    arrays: dict[str, dict[str, np.ndarray]]


_received: dict[str, Tagger] = {}  # the model of this worker's tasks: at most one


def sent_model(tagger: Tagger) -> SentModel:
    """Return a model as values that can be sent; arrays are not copied."""
    bundle = bundle_of(tagger)
    return {
        "token": secrets.token_hex(16),
        "text": json.dumps([bundle.header, bundle.documents]),
        "arrays": {
            stem: {name: np.asarray(array) for name, array in arrays.items()}
            for stem, arrays in bundle.arrays.items()
        },
    }


def received_model(sent: SentModel) -> Tagger:
    """Return the model that was sent, with the arrays as they are; a worker restores it once."""
    from labelspace.model.tagger import Tagger

    if sent["token"] not in _received:
        _received.clear()
        header, documents = json.loads(sent["text"])
        arrays: dict[str, Any] = sent["arrays"]
        bundle = Bundle(header, arrays, documents)
        _received[sent["token"]] = restored(Tagger, bundle, "the model")
    return _received[sent["token"]]
