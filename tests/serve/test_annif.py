"""Annif's API v1: its shapes and statuses, and its own client against a real server."""

from __future__ import annotations

import io

import pytest

import labelspace as ls
from support.served import in_process, real_server, train_model

TEXT = "a ripe red apple"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return train_model(tmp_path_factory.mktemp("models") / "named")


@pytest.fixture(scope="module")
def server(path, tmp_path_factory):
    plain = tmp_path_factory.mktemp("models") / "plain"
    rows = [{"text": "apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}]
    ls.train(rows * 4, method="knn").save(plain)
    with in_process({"named": path, "plain": plain}) as running:
        yield running


def suggest(server, project="named", **form):
    return server.post(f"/v1/projects/{project}/suggest", data=form)


def test_information_and_vocabularies(server):
    assert sorted(server.get("/v1/").json()) == ["title", "version"]
    vocabs = server.get("/v1/vocabs").json()["vocabs"]
    assert vocabs[0] == {"vocab_id": "named", "languages": ["de", "en"], "size": 4, "loaded": True}
    assert vocabs[1]["languages"] == ["und"]


def test_projects(server, path):
    projects = server.get("/v1/projects").json()["projects"]
    assert projects[0] == {
        "project_id": "named",
        "name": "named",
        "language": "en",
        "backend": {"backend_id": "knn"},
        "vocab": {"vocab_id": "named", "languages": ["de", "en"], "size": 4, "loaded": True},
        "vocab_language": "en",
        "is_trained": True,
        "modification_time": ls.load(path).header["created"],
    }
    assert server.get("/v1/projects/named").json() == projects[0]


def test_suggestions_have_uri_label_notation_and_score(server, path):
    tags = ls.load(path).tag("steel saw", k=2)
    results = suggest(server, text="steel saw", limit=2).json()["results"]
    assert results == [
        {"uri": tag.uri, "label": tag.name, "notation": tag.notation or None, "score": tag.score}
        for tag in tags
    ]
    assert results[0]["uri"] == "http://x.org/c3"
    assert results[0]["notation"] == "7.1"


def test_limit_threshold_and_language(server):
    assert suggest(server, text=TEXT, limit=0).json() == {"results": []}
    assert len(suggest(server, text=TEXT, limit=1).json()["results"]) == 1
    assert len(suggest(server, text=TEXT, limit=10**6).json()["results"]) <= 4
    sure = suggest(server, text=TEXT, threshold=0.9).json()["results"]
    assert all(result["score"] >= 0.9 for result in sure)
    german = suggest(server, text=TEXT, limit=1, language="de").json()["results"]
    assert german[0]["label"] == "Obst"
    # Fields that Annif's http backend sends.
    form = {"text": TEXT, "metadata_title": "x", "project": "y"}
    assert server.post("/v1/projects/named/suggest", data=form).status_code == 200


def test_labels_without_uri_have_their_id(server):
    assert suggest(server, "plain", text="apple", limit=1).json()["results"] == [
        {"uri": "fruit", "label": "fruit", "notation": None, "score": 1.0}
    ]
    assert suggest(server, "plain", text="apple", language="und").status_code == 200


def test_batches_are_a_bare_list_in_the_order_of_the_documents(server):
    documents = [{"text": TEXT, "document_id": "7"}, {"text": "steel saw"}, {"text": ""}]
    answer = server.post(
        "/v1/projects/named/suggest-batch?limit=2&language=en", {"documents": documents}
    )
    found = answer.json()
    assert [each["document_id"] for each in found] == ["7", None, None]
    assert found[0]["results"] == suggest(server, text=TEXT, limit=2).json()["results"]
    assert found[2]["results"] == []
    assert server.post("/v1/projects/named/suggest-batch", {"documents": []}).json() == []


@pytest.mark.parametrize(
    ("route", "options", "status", "detail"),
    [
        ("projects/nope/suggest", {"data": {"text": "a"}}, 404, "nope"),
        ("projects/nope/learn", {"json": []}, 404, "nope"),
        ("projects/named/learn", {"json": []}, 403, "off"),
        ("projects/named/suggest", {"data": {"limit": "3"}}, 400, "text"),
        ("projects/named/suggest", {"data": {"text": "a", "limit": "-1"}}, 400, "limit"),
        ("projects/named/suggest", {"data": {"text": "a", "threshold": "1.5"}}, 400, "threshold"),
        ("projects/named/suggest", {"data": {"text": "a", "language": "fi"}}, 400, "fi"),
        ("projects/named/suggest", {"json": {"text": "a"}}, 400, "x-www-form-urlencoded"),
        ("projects/named/suggest", {"data": {"text": "a" * 1_000_001}}, 413, "characters"),
        ("projects/named/suggest-batch", {"json": {"documents": [{"text": "a"}] * 33}}, 400, "32"),
        ("projects/named/suggest-batch", {"json": {"documents": [{}]}}, 400, "text"),
        ("projects/named/suggest-batch", {"content": b"{"}, 400, ""),
        ("detect-language", {"json": {"text": "a", "languages": []}}, 400, "languages"),
        (
            "detect-language",
            {"json": {"text": "two words", "languages": ["xx"]}},
            400,
            "unsupported",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_have_the_statuses_of_annif(server, route, options, status, detail):
    answer = server.post(f"/v1/{route}", **options)
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "application/problem+json",
    )
    assert detail in answer.json()["detail"]


def test_a_form_that_is_not_utf8_is_refused(server):
    kind = {"content-type": "application/x-www-form-urlencoded"}
    for body in (b"text=%FF%FE", b"text=\xff", b"&".join([b"text=a"] * 2000)):
        answer = server.post("/v1/projects/named/suggest", content=body, headers=kind)
        assert answer.status_code == 400


def test_languages_are_detected(server):
    body = {"text": "The quick brown fox jumped over the lazy dog", "languages": ["sv", "en"]}
    found = server.post("/v1/detect-language", body).json()["results"]
    assert found[0]["language"] == "en"
    assert {each["language"] for each in found} == {"en", "sv", None}
    assert [each["score"] for each in found] == sorted((e["score"] for e in found), reverse=True)


def test_the_client_of_annif_works_unchanged(path, tmp_path):
    annif_client = pytest.importorskip("annif_client", reason="annif-client is not installed")
    requests = pytest.importorskip("requests")
    import shutil

    copy = tmp_path / "named"
    shutil.copytree(path, copy)
    with real_server(copy, "--allow-learn") as (address, _):
        annif = annif_client.AnnifClient(f"{address}/v1/")
        assert annif.api_info["version"] == ls.__version__
        assert [project["project_id"] for project in annif.projects] == ["named"]
        assert annif.get_project("named")["is_trained"] is True
        with pytest.raises(ValueError, match="no model 'nope'"):
            annif.get_project("nope")
        best = annif.suggest("named", text=TEXT, limit=1)[0]
        assert (best["uri"], best["label"]) == ("http://x.org/c1", "fruit")
        assert annif.suggest("named", text=io.StringIO(TEXT), limit=1, threshold=0.1) == [best]
        documents = [{"text": TEXT, "document_id": "d1"}]
        found = annif.suggest_batch("named", documents, limit=1, threshold=0.1)
        assert found == [{"results": [best], "document_id": "d1"}]
        with pytest.raises(ValueError, match="no model 'nope'"):
            annif.suggest("nope", text=TEXT)
        with pytest.raises(requests.HTTPError, match="400"):
            annif.suggest_batch("named", documents * 33)
        learned = annif.learn(
            "named",
            [
                {"text": TEXT, "subjects": [{"uri": "http://x.org/c3"}, {"uri": "http://x.org/n"}]},
                {"text": TEXT, "subjects": [{"uri": "http://x.org/nothing", "label": "x"}]},
            ],
        )
        assert learned.status_code == 204
        languages = annif.detect_language("a text in English", languages=["en"])
        assert languages["results"][0]["language"] == "en"
    tagger = ls.load(copy)
    assert tagger.label_counts.n_points - ls.load(path).label_counts.n_points in (0, 1)
