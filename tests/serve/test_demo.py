"""The model of `labelspace serve --demo` is trained once."""

from __future__ import annotations

import pytest

import labelspace as ls
import support.served  # noqa: F401  # skips where the extra is not installed
from labelspace.serve import demo
from support.served import in_process, train_model


def test_the_catalogue_is_trained_if_there_is_no_model(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_PRODUCTS", 60)
    place = tmp_path / "demo" / "model"
    said = []
    assert demo.demo_model(place, lambda: said.append("training"))
    assert said == ["training"]
    assert ls.load(place).label_counts.n_points == 60
    with in_process({"demo": place}) as server:
        found = server.post("/v1/models/demo/tag", {"text": "steel pan", "explain": True, "k": 2})
        assert found.json()["results"][0]["labels"][0]["explanation"]["features"]


def test_a_model_that_is_there_is_served_as_it_is(tmp_path):
    place = train_model(tmp_path / "model")
    assert not demo.demo_model(place, lambda: pytest.fail("there is a model"))
    assert len(ls.load(place).label_names) == 4
