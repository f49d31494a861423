"""All routes but tagging: models, labels, tree, neighbours, map, health, figures, page."""

from __future__ import annotations

import gc
import json
import logging
import re
from dataclasses import asdict

import pytest

import labelspace as ls
import support.served  # noqa: F401  # skips where the extra is not installed
from labelspace.model import store
from labelspace.serve.settings import Limits
from support.served import in_process, train_model


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {"named": train_model(folder / "named"), "linear": train_model(folder / "l", "linear")}


@pytest.fixture(scope="module")
def server(paths):
    with in_process(paths) as running:
        yield running


def found(server, path, **query):
    answer = server.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_models_are_listed_with_what_they_can_do(server):
    models = {model["name"]: model for model in found(server, "/v1/models")["models"]}
    assert list(models) == ["named", "linear"]
    assert models["named"]["method"] == "knn"
    assert models["named"]["languages"] == ["en", "de"]
    assert (models["named"]["neighbours"], models["named"]["explains"]) == (True, False)
    assert (models["linear"]["neighbours"], models["linear"]["explains"]) == (False, True)
    assert models["named"]["threshold"] > 0
    assert models["named"]["learns"] is False


def test_a_model_shows_what_info_prints(server, paths):
    shown = found(server, "/v1/models/named")
    header = store.load(paths["named"]).header
    assert shown["info"] == {**header, "bytes": store.size_in_bytes(paths["named"])}


@pytest.mark.parametrize("query", ["", "apfel", "fru", "7.1", "aple", "zzzz"])
def test_labels_are_those_of_find_labels(server, paths, query):
    expected = ls.load(paths["linear"]).find_labels(query, 3, language="en", similar=2)
    answer = found(server, "/v1/models/linear/labels", query=query, k=3, language="en", similar=2)
    assert answer["labels"] == json.loads(json.dumps([asdict(each) for each in expected]))
    assert bool(answer["labels"]) == (query != "zzzz")


@pytest.mark.parametrize("label", ["c4", "saw/hand", "http://x.org/c4", "S%C3%A4ge"])
def test_a_label_by_any_of_its_names(server, label):
    shown = found(server, f"/v1/models/named/labels/{label}", language="en")
    assert (shown["id"], shown["name"], shown["count"]) == ("c4", "saw/hand", 5)
    assert shown["path"] == ["tool", "saw/hand"]


def test_the_taxonomy_as_a_tree(server):
    top = found(server, "/v1/models/named/tree", language="en")
    assert top["total"] == 2
    assert [(node["id"], node["is_label"], node["children"]) for node in top["nodes"]] == [
        ("food", False, 1),
        ("c3", True, 1),
    ]
    second = found(server, "/v1/models/named/tree", offset=1, k=5)
    assert [node["id"] for node in second["nodes"]] == ["c3"]
    below = found(server, "/v1/models/named/tree", parent="c1", language="de")
    assert [node["name"] for node in below["nodes"]] == ["Apfel"]


def test_neighbours_by_get_and_by_post(server, paths):
    expected = [asdict(near) for near in ls.load(paths["named"]).neighbours("red apple", 3)]
    assert expected[0]["id"] == "a"
    got = found(server, "/v1/models/named/neighbours", text="red apple", k=3)
    posted = server.post("/v1/models/named/neighbours", {"text": "red apple", "k": 3}).json()
    assert got == posted == {"examples": expected}


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/v1/models/nope", 404, "no model 'nope'"),
        ("/v1/models/nope/labels", 404, "no model 'nope'"),
        ("/v1/models/named/labels/c9", 404, "no label 'c9'"),
        ("/v1/models/named/labels?k=0", 422, "k"),
        ("/v1/models/named/labels?k=1001", 422, "at most 1000"),
        ("/v1/models/named/labels?language=fi", 422, "no names in it"),
        ("/v1/models/named/tree?parent=fod", 422, "did you mean 'food'"),
        ("/v1/models/named/neighbours", 422, "text"),
        ("/v1/models/named/neighbours?text=qqqq", 422, "no known word"),
        ("/v1/models/linear/neighbours?text=apple", 422, "linear keeps no training examples"),
        ("/v1/models/named/map", 422, "knn has no label vectors"),
        ("/v1/models/named/map?format=png", 422, "format"),
        ("/v1/nothing", 404, "nothing at this address"),
        ("/page/nothing.js", 404, "nothing at this address"),
        ("/page/..%2fapp.py", 404, "nothing at this address"),
        ("/v1/models/named/tag", 405, "not allowed"),
    ],
)
def test_errors_are_problems_with_a_detail(server, path, status, detail):
    answer = server.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "application/problem+json",
    )
    assert detail in answer.json()["detail"]


def test_learning_is_off_unless_allowed(server):
    answer = server.post("/v1/models/named/learn", {"examples": [{"text": "a", "labels": ["c1"]}]})
    assert answer.status_code == 403
    assert "--allow-learn" in answer.json()["detail"]


def test_the_map_of_the_labels(tmp_path):
    pytest.importorskip("torch")
    path = train_model(tmp_path / "space", "glas", dim=8, epochs=1)
    with in_process({"space": path}) as server:
        answer = server.get("/v1/models/space/map")
        whole = answer.json()
        assert answer.headers["content-encoding"] == "gzip"
        assert whole["ids"] == ["c1", "c3", "c2", "c4"]
        assert whole["counts"] == [10, 10, 5, 5]
        assert all(x * x + y * y < 1 for x, y in zip(whole["x"], whole["y"], strict=True))
        assert whole["parent"] == [-1, -1, 0, 1]
        assert len(whole["group"]) == 4
        plain = server.get("/v1/models/space/map", headers={"accept-encoding": "identity"})
        assert plain.json() == whole
        few = found(server, "/v1/models/space/map", k=2)
        assert (few["ids"], few["parent"]) == (["c1", "c3"], [-1, -1])
        packed = server.get("/v1/models/space/map", params={"format": "packed"})
        assert packed.content[:2] == b"\x1f\x8b"  # gzipped once
        assert packed.headers["content-encoding"] == "identity"


def test_health_and_figures(server):
    assert found(server, "/health/live")["status"] == "alive"
    versions = found(server, "/health/ready")["models"]
    assert list(versions) == ["named", "linear"]
    server.post("/v1/models/named/tag", {"texts": ["apple", "saw"]})
    answer = server.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert any(re.match(r'labelspace_requests_total{method="POST",route="/v1/models/{name}/tag",'
                        r'status="200"} \d', line) for line in lines)  # fmt: skip
    assert any(line.startswith("labelspace_request_seconds_bucket") for line in lines)
    assert 'labelspace_queue_length{model="named"} 0.0' in lines
    assert 'labelspace_batch_size_bucket{le="1.0",model="named"} 0.0' in lines
    version = versions["named"]
    assert (
        f'labelspace_model_version{{method="knn",model="named",version="{version}"}} 1.0' in lines
    )


def test_the_collection_of_garbage_leaves_models_out(paths):
    with in_process({"named": paths["named"]}) as server:
        frozen = gc.get_freeze_count()
        assert frozen > 10_000
        names = server.app.context.models["named"].tagger.label_names
        assert not any(each is names for each in gc.get_objects())
    assert gc.get_freeze_count() == 0


def test_addresses_that_do_not_exist_are_one_figure(server):
    for number in range(3):
        server.get(f"/v1/nothing{number}")
    assert "nothing1" not in server.get("/metrics").text


def test_the_page_loads_nothing_from_other_hosts(server):
    page = server.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<html" in page.text
    files = set(re.findall(r'(?:src|href)="([^"]+)"', page.text))
    assert len(files) > 5
    for file in files - {"data:,", "#content"}:  # an empty icon, and a place on the page
        part = server.get(file)
        assert (part.status_code, file[:6]) == (200, "/page/")
        assert "default-src 'none'" in part.headers["content-security-policy"]
        assert not re.search(r"https?://(?!www\.w3\.org)", part.text)


def test_answers_are_not_cached_and_not_guessed(server):
    answer = server.get("/v1/models")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_line_per_request_without_content(server, caplog):
    with caplog.at_level(logging.INFO, "labelspace.serve.access"):
        server.post("/v1/models/named/tag?note=private", {"text": "a very private text"})
        server.get("/v1/models/a%0Ab%1b[31m")
    lines = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r"POST /v1/models/named/tag 200 \d+\.\d ms", lines[0])
    assert re.fullmatch(r"GET /v1/models/a\\nb\\x1b\[31m 404 \d+\.\d ms", lines[1])


def test_other_origins_may_read_answers_only_if_allowed(server, paths):
    origin = {"origin": "https://shop.example"}
    assert "access-control-allow-origin" not in server.get("/v1/models", headers=origin).headers
    with in_process({"named": paths["named"]}, origins=("https://shop.example",)) as other:
        allowed = other.get("/v1/models", headers=origin)
        assert allowed.headers["access-control-allow-origin"] == "https://shop.example"
        asked = {**origin, "access-control-request-method": "POST"}
        preflight = other.wait(other.client.options("/v1/models/named/tag", headers=asked))
        assert preflight.status_code == 200
        elsewhere = other.get("/v1/models", headers={"origin": "https://other.example"})
        assert "access-control-allow-origin" not in elsewhere.headers


def test_other_host_names_are_refused(paths):
    with in_process({"named": paths["named"]}, hosts=("localhost", "[::1]")) as server:
        for host, status in (
            ("localhost", 200),
            ("LOCALHOST:8000", 200),
            ("[::1]:8000", 200),
            ("[::1]", 200),
            ("evil.example", 421),
            ("evil.example:8000", 421),
            ("", 421),
        ):
            assert server.get("/health/live", headers={"host": host}).status_code == status, host


def test_a_queue_that_is_full_and_a_computation_that_takes_too_long(paths, monkeypatch):
    import threading

    go = threading.Event()
    with in_process({"named": paths["named"]}, Limits(queue=2, batch=1, seconds=0.3)) as server:
        served = server.app.context.models["named"]
        predict = served.tagger.predict

        def slow(*args, **options):
            assert go.wait(10)
            return predict(*args, **options)

        monkeypatch.setattr(served.tagger, "predict", slow)
        answers = server.together("/v1/models/named/tag", [{"text": "apple"}] * 6)
        go.set()
        statuses = [answer.status_code for answer in answers]
        assert set(statuses) == {503, 504}
        refused = answers[statuses.index(503)]
        assert refused.headers["retry-after"] == "1"
        assert "waiting" in refused.json()["detail"]
        assert server.post("/v1/models/named/tag", {"text": "apple"}).status_code == 200
        assert 'labelspace_refused_total{model="named"}' in server.get("/metrics").text


def test_an_unexpected_error_is_a_problem_without_details(paths, monkeypatch, caplog):
    with in_process({"named": paths["named"]}) as server:
        served = server.app.context.models["named"]
        monkeypatch.setattr(served.tagger, "predict", lambda *_, **__: 1 / 0)
        answer = server.post("/v1/models/named/tag", {"text": "apple"})
        assert answer.status_code == 500
        assert answer.json()["detail"] == "internal error"
        assert "ZeroDivisionError" in caplog.text
