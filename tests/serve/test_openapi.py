"""Generated requests of both OpenAPI descriptions: all answers are as described, none is a 5xx."""

from __future__ import annotations

import pytest

from support.served import httpx, real_server, train_model

ANNIF = ("/v1/", "/v1/vocabs", "/v1/detect-language")
EXAMPLES = 15  # per operation
KNOWN = {"name": "named", "project_id": "named", "label_id": "c1"}
DOCUMENTS = ("/openapi.json", "/v1/openapi.json")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = train_model(tmp_path_factory.mktemp("models") / "named", "linear", keep_examples=True)
    with real_server(path, "--allow-learn", "--timeout", "20") as (found, _):
        yield found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_server_error_and_no_schema_violation(address, document):
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    import hypothesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    schema = schemathesis.openapi.from_url(address + document)
    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    tested = set()
    for result in schema.get_all_operations():
        operation = result.ok()

        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(), known=hypothesis.strategies.booleans())
        def generated(case, known):
            if known:  # a model that exists, so that more than 404 is answered
                for name in case.path_parameters or {}:
                    case.path_parameters[name] = KNOWN[name]
            case.call_and_validate(checks=checks)

        generated()
        tested.add((operation.method.upper(), operation.path))
    expected = {
        (method.upper(), path)
        for path, methods in httpx.get(address + document).json()["paths"].items()
        for method in methods
    }
    assert tested == expected
    assert len(tested) >= 8


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_operation_is_described_with_its_problems(address, document):
    described = httpx.get(address + document).json()
    for path, methods in described["paths"].items():
        is_annif = path.startswith("/v1/project") or path in ANNIF
        assert is_annif == (document == DOCUMENTS[1])
        for operation in methods.values():
            assert operation["description"]
            for status, answer in operation["responses"].items():
                if status[0] in "45" and not path.startswith("/health"):
                    assert list(answer["content"]) == ["application/problem+json"]
    assert "HTTPValidationError" not in str(described)


def test_requests_have_examples_that_work(address):
    described = httpx.get(address + DOCUMENTS[0]).json()
    examples = described["components"]["schemas"]["TagRequest"]["examples"]
    assert len(examples) >= 3
    for example in examples:
        if "text" in example or "texts" in example:
            answer = httpx.post(f"{address}/v1/models/named/tag", json=example)
            assert answer.status_code == 200, answer.text
