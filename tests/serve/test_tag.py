"""Labels over HTTP: those of `predict`, for every option, and errors that say what is wrong."""

from __future__ import annotations

import asyncio
import gzip
import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import labelspace as ls
import support.served  # noqa: F401  # skips where the extra is not installed
from labelspace.data.dataset import Dataset
from labelspace.serve.settings import Limits
from support.served import ROWS, in_process, train_model

NEW = ["a red apple", "the steel saw and a sweet pear", "nothing of it", ""]
SMALL = Limits(body=20_000, text=2000, k=50, texts=8)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    rows = np.array([[1.0, 0.0, 0.5], [0.0, 2.0, 0.0], [0.0, 1.0, 1.0]] * 4, np.float32)
    labels = csr_matrix(np.array([[1, 0], [0, 1], [0, 1]] * 4, np.float32))
    numeric = ls.train(
        Dataset(labels, features=csr_matrix(rows), label_names=("x", "y")), method="knn"
    )
    numeric.save(folder / "numeric")
    prices = [
        {"text": row["text"], "price": 1.0 + i, "labels": row["labels"]}
        for i, row in enumerate(ROWS)
    ]
    ls.train(prices, method="knn", columns=ls.Columns(numbers=("price",))).save(folder / "prices")
    return {
        "named": train_model(folder / "named"),
        "linear": train_model(folder / "linear", "linear"),
        "numeric": folder / "numeric",
        "prices": folder / "prices",
    }


@pytest.fixture(scope="module")
def server(paths):
    with in_process(paths, SMALL) as running:
        yield running


def tagged(server, model="named", **body):
    answer = server.post(f"/v1/models/{model}/tag", body)
    assert answer.status_code == 200, answer.text
    return [result["labels"] for result in answer.json()["results"]]


def predicted(path, tmp_path, texts, **options):
    """Return the labels as `labelspace predict` writes them to a file."""
    out = tmp_path / "tags.jsonl"
    ls.load(path).predict_file([{"text": text} for text in texts], out, **options)
    return [json.loads(line)["labels"] for line in out.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("model", ["named", "linear"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k": 2},
        {"threshold": 0.3},
        {"threshold": "auto"},
        {"k": 3, "language": "de"},
        {"k": 3, "only": ["fruit", "7.1"]},
        {"k": 3, "exclude": ["c1", "http://x.org/c3"]},
        {"k": 1, "ancestors": True},
    ],
    ids=str,
)
def test_labels_are_those_of_predict(server, paths, tmp_path, model, options):
    expected = predicted(paths[model], tmp_path, NEW, **options)
    assert any(expected)
    assert tagged(server, model, texts=NEW, **options) == expected
    assert [tagged(server, model, text=text, **options)[0] for text in NEW] == expected


def test_requests_at_once_have_the_labels_of_each_alone(server):
    bodies = [{"text": text, "k": k} for text in NEW for k in (1, 3)] * 5
    answers = server.together("/v1/models/named/tag", bodies)
    assert [answer.json() for answer in answers] == [
        server.post("/v1/models/named/tag", body).json() for body in bodies
    ]


def test_the_answer_names_model_and_version(server, paths):
    answer = server.post("/v1/models/named/tag", {"text": "apple"}).json()
    assert answer["model"] == "named"
    assert ls.load(paths["named"]).digest.startswith(answer["version"])


def test_paths_of_the_taxonomy(server):
    labels = tagged(server, text="red apple", k=4, paths=True, language="en", threshold=0.1)[0]
    assert {label["name"]: label["path"] for label in labels} == {
        "fruit": ["food", "fruit"],
        "apple": ["food", "fruit", "apple"],
    }
    first = tagged(server, text="red apple", k=1, paths=True, ancestors=True, language="de")[0]
    assert first[0]["path"][0] == "food"


def test_explanations_are_those_of_explain(server, paths):
    text = "steel hammer and a ripe apple"
    labels = tagged(server, "linear", text=text, k=2, explain=True, explain_top=2)[0]
    tagger = ls.load(paths["linear"])
    for label in labels:
        expected = tagger.explain(text, label["id"], 2)
        found = label["explanation"]
        assert found["label"] == expected.label
        assert found["features"] == [list(pair) for pair in expected.features]
        assert found["labels"] == [list(pair) for pair in expected.labels]


def test_feature_vectors_sparse_and_dense(server, paths):
    rows = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], np.float32)
    data = Dataset(csr_matrix((2, 0), dtype=np.float32), features=csr_matrix(rows))
    tagger = ls.load(paths["numeric"])
    expected = [[tag.name for tag in tags] for tags in tagger.to_tags(tagger.predict(data, 5))]
    assert expected[0][0] == "y"
    sparse = [{"indices": [1], "values": [1.0]}, {"indices": [0], "values": [1.0]}]
    for vectors in (rows.tolist(), sparse):
        found = tagged(server, "numeric", features=vectors)
        assert [[label["name"] for label in labels] for labels in found] == expected


def test_texts_with_numbers_and_a_missing_one(server, paths):
    tagger = ls.load(paths["prices"])
    rows = [{"text": "red apple", "price": 3.0}, {"text": "steel saw", "price": None}]
    expected = [[tag.name for tag in tags] for tags in tagger.tag_many(rows, k=3)]
    texts = [row["text"] for row in rows]
    found = tagged(server, "prices", texts=texts, features=[[3.0], [None]], k=3)
    assert [[label["name"] for label in labels] for labels in found] == expected


@pytest.mark.parametrize(
    ("model", "body", "status", "detail"),
    [
        ("nope", {"text": "x"}, 404, "no model 'nope'; there are: named"),
        ("named", {}, 422, "nothing to tag"),
        ("named", {"texts": []}, 422, "the list is empty"),
        ("named", {"text": "a", "texts": ["b"]}, 422, "give one of them"),
        ("named", {"text": "a", "treshold": 0.5}, 422, "treshold"),
        ("named", {"text": 3}, 422, "text"),
        ("named", {"text": "a", "k": 0}, 422, "k"),
        ("named", {"text": "a", "k": 51}, 422, "expected at most 50"),
        ("named", {"texts": ["a"] * 9}, 422, "expected at most 8"),
        ("named", {"text": "a" * 2001}, 413, "2,001 characters"),
        ("named", {"text": "a" * 20_001}, 413, "more than 20,000 bytes"),
        ("named", {"text": "a", "threshold": 2}, 422, "threshold"),
        ("named", {"text": "a", "only": ["aple"]}, 422, "did you mean 'apple'"),
        ("named", {"text": "a", "only": []}, 422, "no label is left"),
        ("named", {"text": "a", "language": "fi"}, 422, "no names in it"),
        ("named", {"text": "a", "explain": True}, 422, "explain is not supported by knn"),
        ("linear", {"texts": ["a"] * 8, "k": 20, "explain": True}, 422, "at most 100 labels"),
        ("named", {"features": [[1.0]]}, 422, ""),
        ("numeric", {"text": "a"}, 422, ""),
        ("numeric", {"features": [[1.0]]}, 422, "1 numbers; the model takes 3"),
        ("numeric", {"features": [[1.0, None, 2.0]]}, 422, ""),
        ("numeric", {"features": [{"indices": [3], "values": [1.0]}]}, 422, "model's 3 features"),
        ("numeric", {"features": [{"indices": [1], "values": []}]}, 422, "as many indices"),
        ("numeric", {"features": [[1.0, 1e39, 2.0]]}, 422, ""),
        ("prices", {"texts": ["a", "b"], "features": [[1.0]]}, 422, "2 texts and 1 feature"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_errors_are_problems_with_a_detail(server, model, body, status, detail):
    answer = server.post(f"/v1/models/{model}/tag", body)
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "application/problem+json",
    )
    assert answer.json()["status"] == status
    assert detail in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"{" * 1000,
        b"[" * 100_0 + b"]" * 100_0,
        b'{"text": "\xff"}',
        b'{"text": "a", "k": ' + b"9" * 5000 + b"}",
        rb'{"text": "\ud800"}',
        b'{"text": "a", "threshold": NaN}',
        b"",
        b'"text"',
    ],
    ids=lambda body: str(body[:20]),
)
def test_broken_bodies_are_refused(server, body):
    kind = {"content-type": "application/json"}
    answer = server.post("/v1/models/named/tag", content=body, headers=kind)
    assert answer.status_code in (400, 422)
    assert answer.json()["detail"]


def test_a_forgotten_content_type_is_named(server):
    answer = server.post("/v1/models/named/tag", content=b'{"text": "a"}')
    assert answer.status_code == 422
    assert "Content-Type: application/json" in answer.json()["detail"]


def test_a_body_that_does_not_arrive_in_time(paths):
    async def slow():
        yield b'{"text": '
        await asyncio.sleep(5)
        yield b'"a"}'

    kind = {"content-type": "application/json"}
    with in_process({"named": paths["named"]}, Limits(seconds=0.2)) as server:
        answer = server.post("/v1/models/named/tag", content=slow(), headers=kind)
        assert answer.status_code == 408
        assert "did not arrive within 0.2 seconds" in answer.json()["detail"]


def test_forms_of_a_language_do_not_fill_the_memory(server):
    named = server.app.context.models["named"].tagger
    tagged(server, text="apple", language="en", paths=True)
    before = len(named._derived[1])
    for number in range(5):
        found = tagged(server, text="red apple", k=1, language=f"EN-x{number}", paths=True)
        assert found[0][0]["name"] == "fruit"
    assert len(named._derived[1]) == before


def test_large_bodies_at_once_are_bounded(server, monkeypatch):
    gate = server.app._app
    monkeypatch.setattr(gate, "_held", 32 * SMALL.body - 10)
    refused = server.post("/v1/models/named/tag", {"text": "ripe red apple"})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert gate._held == 32 * SMALL.body - 10  # what was refused is not held


def test_one_bad_request_does_not_fail_those_beside_it(server):
    bodies = [{"text": "red apple", "only": ["c2"]}, {"text": "red apple", "only": ["c9"]}] * 10
    answers = server.together("/v1/models/named/tag", bodies)
    assert [answer.status_code for answer in answers] == [200, 422] * 10


def test_a_body_and_an_answer_can_be_gzipped(server):
    body = gzip.compress(json.dumps({"texts": NEW * 2, "k": 4, "paths": True}).encode())
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    packed = server.post("/v1/models/named/tag", content=body, headers=headers)
    assert packed.headers["content-encoding"] == "gzip"
    plain = server.post(
        "/v1/models/named/tag",
        {"texts": NEW * 2, "k": 4, "paths": True},
        headers={"accept-encoding": "identity"},
    )
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (gzip.compress(b" " * 30_000), "gzip", 413),
        (gzip.compress(b"{}")[:-6], "gzip", 400),
        (b"{}", "gzip", 400),
        (b"{}", "br", 415),
    ],
    # The bytes of a gzip header hold the time; every worker must collect the same names.
    ids=["unpacks beyond the limit", "cut short", "not gzip", "unknown encoding"],
)
def test_encodings_that_are_refused(server, body, encoding, status):
    headers = {"content-type": "application/json", "content-encoding": encoding}
    answer = server.post("/v1/models/named/tag", content=body, headers=headers)
    assert answer.status_code == status
    assert answer.json()["detail"]
