"""Bearer tokens: who may read, who may learn, and changes of the file."""

from __future__ import annotations

import os

import pytest

import support.served  # noqa: F401  # skips where the extra is not installed
from labelspace.errors import ParameterError
from labelspace.serve import tokens as module
from labelspace.serve.tokens import Tokens
from support.served import in_process, train_model

READER, TEACHER = "reader-0123456789abcdef", "teacher-0123456789abcdef"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tokens.txt"
    path.write_text(f"# of the shop\n\n{READER}\n  {TEACHER}   learn\n")
    return path


def test_scopes(file):
    tokens = Tokens(file)
    assert tokens.scope(READER) == "read"
    assert tokens.scope(TEACHER) == "learn"
    for wrong in ("", "#", READER[:-1], READER + "x", "\ud800"):
        assert tokens.scope(wrong) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no token"),
        ("# only a comment\n", "has no token"),
        (f"{READER} admin", ":1: expected `token`"),
        (f"{READER} read more", ":1: expected `token`"),
        ("\nshort", ":2: a token has at least 16"),
        (b"\xff" * 20, "not UTF-8"),
    ],
)
def test_files_that_are_refused(tmp_path, content, message):
    path = tmp_path / "tokens.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ParameterError, match=message) as error:
        Tokens(path)
    assert READER not in str(error.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="No such file"):
        Tokens(tmp_path / "none")


def test_a_file_that_others_can_read_is_named(file, caplog):
    file.chmod(0o600)
    Tokens(file)
    assert caplog.text == ""
    file.chmod(0o644)
    Tokens(file)
    assert "other users can read" in caplog.text


def test_a_changed_file_is_read_again(file, monkeypatch):
    monkeypatch.setattr(module, "_EVERY", 0.0)
    tokens = Tokens(file)
    file.write_text(f"{TEACHER} learn\n")
    assert tokens.scope(READER) is None
    file.write_text("short\n")  # a mistake changes nothing
    assert tokens.scope(TEACHER) == "learn"
    os.unlink(file)
    assert tokens.scope(TEACHER) == "learn"
    file.write_text("# all revoked\n")
    assert tokens.scope(TEACHER) is None


def test_requests_need_a_token_and_learning_its_scope(file, tmp_path):
    path = train_model(tmp_path / "named")
    with in_process({"named": path}, token_file=str(file), allow_learn=True) as server:

        def status(path, token=None, body=None, kind="Bearer"):
            headers = {} if token is None else {"authorization": f"{kind} {token}"}
            if body is None:
                return server.get(path, headers=headers).status_code
            return server.post(path, body, headers=headers).status_code

        for open_path in ("/", "/page/page.js", "/health/live", "/health/ready"):
            assert status(open_path) == 200
        for path in ("/v1/models", "/metrics", "/openapi.json", "/v1/projects", "/nothing"):
            assert status(path) == 401
            assert status(path, "wrong-0123456789abcdef") == 401
            assert status(path, READER, kind="Basic") == 401
        assert status("/v1/models", READER) == 200
        assert status("/v1/models", READER, kind="bearer") == 200
        refused = server.get("/v1/models")
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert refused.json()["detail"] == "a bearer token is needed"
        example = {"examples": [{"text": "apple", "labels": ["c1"]}]}
        assert status("/v1/models/named/learn", None, example) == 401
        assert status("/v1/models/named/learn", READER, example) == 403
        assert status("/v1/models/named/learn", TEACHER, example) == 202
        document = [{"text": "apple", "subjects": [{"uri": "c1"}]}]
        assert status("/v1/projects/named/learn", READER, document) == 403
        assert status("/v1/projects/named/learn", TEACHER, document) == 204
