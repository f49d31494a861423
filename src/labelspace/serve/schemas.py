"""The JSON of requests and answers, from which the OpenAPI description is made."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

_TEXT = "Wireless earbuds with charging case, black"


def _encodable(text: str) -> str:
    """Refuse half a surrogate pair, which no file and no answer can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text has half a surrogate pair, which is not a character") from None
    return text


Text = Annotated[str, AfterValidator(_encodable)]
Number = Annotated[FiniteFloat, Field(ge=-3e38, le=3e38)]  # as the models' numbers have 32 bits
Weighted = Annotated[list[str | float], Field(min_length=2, max_length=2)]  # a name and a number
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Request(BaseModel):
    """A body; keys that are not known are refused, as they are likely misspelt."""

    model_config = ConfigDict(extra="forbid")


class SparseVector(Request):
    """The features that are not 0: their numbers, from 0, and values."""

    indices: list[Annotated[int, Field(ge=0, le=2**31 - 1)]]
    values: list[Number]


class TagRequest(Request):
    """Texts, feature vectors, or both, and how labels are chosen."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"text": _TEXT},
                {"texts": [_TEXT, "Stainless steel frying pan 28 cm"], "k": 3, "paths": True},
                {"text": _TEXT, "threshold": "auto", "explain": True},
                {"features": [{"indices": [3, 17], "values": [0.5, 1.2]}]},
            ]
        },
    )

    text: Text | None = Field(None, description="One text.")
    texts: list[Text] | None = Field(None, description="Several texts.")
    features: list[list[Number | None]] | list[SparseVector] | None = Field(
        None,
        description="One vector per example, for a model of numeric features; all dense, with null "
        "for a missing number, or all sparse.",
    )
    k: Count | None = Field(
        None,
        description="Maximum number of labels per example. Default: 5, or 50 with a threshold.",
    )
    threshold: Annotated[FiniteFloat, Field(ge=0, le=1)] | Literal["auto"] | None = Field(
        None, description='Leave out labels with a lower score; "auto" is the model\'s own.'
    )
    only: list[Text] | None = Field(
        None, description="The only labels that may be predicted: ids, URIs, notations or names."
    )
    exclude: list[Text] | None = Field(None, description="Labels that may not be predicted.")
    ancestors: bool = Field(False, description="Add the ancestors of every label in the taxonomy.")
    paths: bool = Field(False, description="Give the path of every label in the taxonomy.")
    explain: bool = Field(False, description="Explain every label.")
    explain_top: Count = Field(
        5, description="Number of features, similar labels and examples of an explanation."
    )
    language: Text | None = Field(None, description="The language of the names, such as en.")


class NearExample(BaseModel):
    """A training example that is near to a text."""

    row: int
    cosine: float
    labels: list[str]
    id: str | None = None


class Explanation(BaseModel):
    """Why an example gets a label: what `labelspace explain --json` prints."""

    label: str
    score: float | None
    features: list[Weighted]
    labels: list[Weighted]
    examples: list[NearExample]


class Label(BaseModel):
    """A predicted label, as `labelspace predict` writes it."""

    id: str | None = Field(None, description="If the model has label texts.")
    name: str
    uri: str | None = None
    notation: str | None = None
    score: float
    path: list[str] | None = Field(None, description="From the top of the taxonomy to the label.")
    explanation: Explanation | None = None


class Tagged(BaseModel):
    """The labels of one example, best first."""

    labels: list[Label]


class TagResponse(BaseModel):
    """The labels of all examples, in their order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "shop",
                    "version": "4fd1c09a7e21",
                    "results": [{"labels": [{"name": "Electronics > Audio", "score": 0.980408}]}],
                }
            ]
        },
    )

    model: str
    version: str
    results: list[Tagged]


class Learning(BaseModel):
    """Examples that wait to be learned, and why the last update failed."""

    pending: int
    error: str | None


class ModelSummary(BaseModel):
    """A served model."""

    name: str
    version: str
    method: str
    labels: int
    languages: list[str]
    taxonomy: bool
    numeric_features: int
    takes_text: bool
    threshold: float | None = Field(description='What "auto" is; null if none was chosen.')
    explains: bool
    neighbours: bool
    map: bool
    learns: bool
    learning: Learning | None
    error: str | None = Field(description="Why the newest version in the directory is refused.")


class ModelList(BaseModel):
    """All served models."""

    models: list[ModelSummary]


class ModelDetails(ModelSummary):
    """A served model, and what `labelspace info --json` prints of it."""

    info: dict[str, Any]


class FoundLabel(BaseModel):
    """A label: what `labelspace labels --json` prints."""

    id: str
    name: str
    matched: str
    count: int | None
    path: list[str]
    alternative: list[str]
    description: str
    notation: str
    uri: str
    similar: list[Weighted]


class LabelList(BaseModel):
    """The labels that a search found, best first."""

    labels: list[FoundLabel]


class Node(BaseModel):
    """A node of the taxonomy; one that is not a label only groups labels."""

    id: str
    name: str
    is_label: bool
    count: int | None
    children: int


class NodeList(BaseModel):
    """Nodes of the taxonomy, and how many there are in all."""

    total: int
    nodes: list[Node]


class NeighboursRequest(Request):
    """A text, and how many near training examples are wanted."""

    text: Text
    k: Count = 5


class Neighbours(BaseModel):
    """The training examples that are nearest to a text."""

    examples: list[NearExample]


class LabelMap(BaseModel):
    """Labels as points of the Poincare disk, frequent ones first; lists of equal length."""

    title: str
    notes: list[str]
    ids: list[str]
    names: list[str]
    counts: list[int] | None
    x: list[float]
    y: list[float]
    parent: list[int] = Field(description="Place of each label's parent in these lists; -1: none.")
    group: list[int] = Field(description="Number of each label's group; -1: none.")
    groups: list[str] = Field(description="Names of the groups.")


class Example(Request):
    """A text with all its labels: ids, URIs, notations or names."""

    text: Text = Field(min_length=1)
    labels: list[Annotated[Text, Field(min_length=1)]] = Field(min_length=1)


class LearnRequest(Request):
    """Examples to learn from."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"examples": [{"text": _TEXT, "labels": ["Earbuds"]}]}]},
    )

    examples: list[Example] = Field(min_length=1)
    new_labels: bool = Field(False, description="Accept labels that the model does not have.")


class Accepted(BaseModel):
    """Examples that are on the disk, and will be learned."""

    accepted: int
    sequence: int = Field(description="The number of the last example in the journal.")


class Health(BaseModel):
    """Whether the server runs, and what it serves."""

    status: Literal["alive", "ready", "stopping"]
    models: dict[str, str] = Field(description="The version of each model.")
