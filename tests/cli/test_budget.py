"""`labelspace train --budget`: times as people write them, and models that fit into them."""

from __future__ import annotations

import pytest

from labelspace.cli.options import seconds
from labelspace.errors import ParameterError


@pytest.mark.parametrize(
    ("text", "found"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1.5m", 90), ("45", 45)]
)
def test_times_as_people_write_them(text, found):
    assert seconds(text) == found


@pytest.mark.parametrize("text", ["", "m", "ten", "-5m", "0", "inf", "nan", "5d"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ParameterError, match=r"90s, 10m or 2h"):
        seconds(text)


def test_a_model_is_trained_within_a_budget(shop, command):
    out = shop / "model"
    code, _, _ = command(
        "train", shop / "train.jsonl", "--method", "fusion", "--budget", "1s", "--out", out
    )
    assert code == 0
    assert '"budget": 1.0' in (out / "model.json").read_text()


def test_a_method_without_a_budget_is_an_error(shop, command):
    code, _, said = command(
        "train", shop / "train.jsonl", "--method", "knn", "--budget", "1m", "--out", shop / "m"
    )
    assert code != 0
    assert "--method fusion" in said
